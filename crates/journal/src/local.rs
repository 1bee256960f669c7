//! The driver of one node: a segment log on the local disk.
//!
//! One owner, one thread, no cluster: the epoch never changes, an entry commits when a sync returns. Byte layout and
//! the rules of recovery are in `docs/formats/segment.md`. Nothing here starts a thread: preparing segments and
//! writing snapshots are handed out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Instant;

use types::{LogIndex, Term};

use crate::contract::{
    Counters, Epoch, Event, Journal, Kept, Place, ProposeError, Replay, SnapshotReceipt, SnapshotSink,
    Source, Ticket,
};
use crate::disk::{Disk, File, Lock, LockError, Space};
use crate::error::{JournalError, is_full};
use crate::io::{PartialWrite, write_all_at, write_zeros};
use crate::options::{Fsync, LocalOptions};
use crate::preparation::{Order, Preparation, Prepared};
use crate::record::{
    self, ENTRY_BYTES_MAX, Fields, HEADER_BYTES, Kind, START_RECORD_BYTES, Start, record_bytes,
};
use crate::recovery::{Recovered, RecoveryReport, Span, recover};
use crate::segment::{IDENTITY_BYTES, Segment, number, sync};
use crate::snapshot;

/// The only reign that a single node ever has.
const EPOCH: Epoch = Epoch(1);
/// Segments kept for reuse besides the one that is prepared.
const SPARE_SEGMENTS_MAX: usize = 2;
/// A buffer that grew beyond this for one large entry is given back.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// A segment before the active one.
#[derive(Debug)]
struct Closed {
    segment: Segment,
    base: u64,
    index_before: u64,
    is_synced: bool,
}

/// The segment that is written to.
#[derive(Debug)]
struct Active {
    segment: Segment,
    base: u64,
    index_before: u64,
    /// Where the next record goes, in the file.
    end: u64,
    /// Whether its start record is written.
    is_started: bool,
}

/// The journal of a single node.
#[derive(Debug)]
pub struct LocalJournal {
    disk: Arc<dyn Disk>,
    options: LocalOptions,
    _lock: Box<dyn Lock>,
    active: Active,
    closed: VecDeque<Closed>,
    /// Segments before the log that hold contents which the last snapshot needs.
    kept: BTreeMap<u32, Segment>,
    /// The segments that the last snapshot names.
    named: BTreeSet<u32>,
    /// Segments that nothing needs, but for readers that may still hold them.
    retired: Vec<Segment>,
    chain: u64,
    /// The last entry written.
    index: u64,
    /// Where the log ends, counted in bytes of records since its beginning.
    position: u64,
    /// Everything before it is durable.
    synced_to: u64,
    is_sealed: bool,
    committed: u64,
    committed_position: u64,
    pending: VecDeque<(Ticket, LogIndex, Place)>,
    next_ticket: u64,
    ready: Option<Segment>,
    is_preparing: bool,
    spares: VecDeque<String>,
    garbage: Vec<String>,
    next_id: u64,
    snapshot_index: u64,
    snapshot_position: u64,
    /// Indexes of the snapshot files there are.
    snapshots: Vec<u64>,
    buffer: Vec<u8>,
    counters: Counters,
    is_poisoned: bool,
}

impl LocalJournal {
    /// Takes the data directory for this process. A server does so before it touches anything else of it.
    pub fn lock(disk: &dyn Disk) -> Result<Box<dyn Lock>, JournalError> {
        disk.lock().map_err(|error| match error {
            LockError::Held { path, pid } => JournalError::Locked { path, pid },
            LockError::Io { path, source } => JournalError::Io {
                operation: "lock",
                file: path,
                source,
            },
        })
    }

    /// Takes the data directory and replays what is stored in it.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: LocalOptions,
        replay: &mut dyn Replay,
    ) -> Result<(Self, RecoveryReport), JournalError> {
        let lock = Self::lock(disk.as_ref())?;
        Self::open_locked(disk, lock, options, replay)
    }

    /// Replays what is stored in a data directory that is locked already.
    pub fn open_locked(
        disk: Arc<dyn Disk>,
        lock: Box<dyn Lock>,
        options: LocalOptions,
        replay: &mut dyn Replay,
    ) -> Result<(Self, RecoveryReport), JournalError> {
        let options = options.rounded();
        let (mut recovered, report) = recover(disk.as_ref(), options.fsync == Fsync::Always, replay)?;
        let mut next_id = recovered.next_id;
        let last = match recovered.spans.pop() {
            Some(span) => span,
            None => first_span(disk.as_ref(), &options, &mut recovered.unused, &mut next_id)?,
        };
        let is_started = last.end > IDENTITY_BYTES;
        let mut journal = Self::assemble(disk, options, lock, recovered, last, next_id);
        if !is_started {
            // From here on a damaged first segment can be told from one that was never written to.
            journal.append(None)?;
            journal.sync_all()?;
            journal.committed_position = journal.position;
        }
        Ok((journal, report))
    }

    fn assemble(
        disk: Arc<dyn Disk>,
        options: LocalOptions,
        lock: Box<dyn Lock>,
        recovered: Recovered,
        last: Span,
        next_id: u64,
    ) -> Self {
        let spans = recovered.spans.into_iter();
        let ends = spans.len();
        let mut closed: VecDeque<Closed> = spans.map(Closed::from).collect();
        for at in 0..ends {
            let end = closed.get(at + 1).map_or(last.base, |next| next.base);
            closed[at].is_synced = end <= recovered.synced_to;
        }
        let mut spares: VecDeque<String> = recovered.obsolete.into();
        let mut ready = None;
        for segment in recovered.unused {
            if ready.is_none() && segment.id > last.segment.id && segment.bytes == options.segment_bytes {
                ready = Some(segment);
            } else {
                spares.push_back(segment.name);
            }
        }
        Self {
            disk,
            options,
            _lock: lock,
            active: Active::from(last),
            closed,
            kept: recovered
                .kept
                .into_iter()
                .map(|kept| (number(kept.id), kept))
                .collect(),
            named: recovered.snapshot_segments.into_iter().collect(),
            retired: Vec::new(),
            chain: recovered.chain,
            index: recovered.index,
            position: recovered.position,
            synced_to: recovered.synced_to,
            is_sealed: recovered.is_sealed,
            committed: recovered.index,
            committed_position: recovered.position,
            pending: VecDeque::new(),
            next_ticket: 1,
            ready,
            is_preparing: false,
            spares,
            garbage: Vec::new(),
            next_id,
            snapshot_index: recovered.snapshot_index,
            snapshot_position: recovered.snapshot_position,
            snapshots: recovered.snapshots,
            buffer: Vec::new(),
            counters: Counters::default(),
            is_poisoned: false,
        }
    }

    /// Runs a step. After a failed sync nothing may follow: what is on the disk is not known.
    fn guarded<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        if self.is_poisoned {
            return Err(JournalError::Poisoned);
        }
        let result = step(self);
        self.is_poisoned |= matches!(result, Err(JournalError::SyncFailed { .. }));
        result
    }

    fn check_usable(&self) -> Result<(), JournalError> {
        if self.is_poisoned {
            return Err(JournalError::Poisoned);
        }
        Ok(())
    }

    /// Writes one record with one write, and the start record of its segment before it if that is still missing.
    /// Returns where its payload lies.
    fn append(&mut self, record: Option<(Kind, &[u8])>) -> Result<Place, JournalError> {
        self.buffer.clear();
        let generation = self.active.segment.generation;
        let mut chain = self.chain;
        if !self.active.is_started {
            let start = Start {
                base: self.active.base,
                chain_before: chain,
                index_before: self.index,
                segment_id: self.active.segment.id,
            };
            chain = record::encode_start(&mut self.buffer, &start, generation, self.synced_to);
        }
        let mut index = self.index;
        let payload_at = self.active.end + (self.buffer.len() + HEADER_BYTES) as u64;
        if let Some((kind, payload)) = record {
            index += u64::from(kind == Kind::Entry);
            let fields = Fields {
                kind,
                generation,
                index,
                term: 0,
                node: 0,
                synced_to: self.synced_to,
            };
            chain = record::encode(&mut self.buffer, &fields, payload, chain);
        }
        if let Err(partial) = write_all_at(self.active.segment.file.as_ref(), &self.buffer, self.active.end) {
            return Err(self.cut_back(partial));
        }
        let bytes = self.buffer.len() as u64;
        self.active.is_started = true;
        self.active.end += bytes;
        self.position += bytes;
        self.chain = chain;
        self.index = index;
        self.is_sealed = matches!(record, Some((Kind::Seal, _)));
        self.counters.bytes_written += bytes;
        if self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        Ok(self.active.segment.place(payload_at))
    }

    /// Takes back what a failed write left: a part of a record, followed by what was in the file before, might else
    /// be taken for the whole one later.
    fn cut_back(&mut self, partial: PartialWrite) -> JournalError {
        let name = self.active.segment.name.clone();
        let end = self.active.end;
        // Any other reason than a full disk says that the disk itself has failed.
        self.is_poisoned |= !is_full(&partial.error);
        let mut failure = JournalError::writing(self.disk.describe(&name), partial.error);
        if partial.written > 0 {
            let file = Arc::clone(&self.active.segment.file);
            let cut = match write_zeros(file.as_ref(), end, end + partial.written as u64) {
                Ok(()) => self.sync_all(),
                // Also a full disk here leaves half a record behind, which must end this journal.
                Err(PartialWrite { error: source, .. }) => Err(JournalError::Io {
                    operation: "cut a failed write from",
                    file: self.disk.describe(&name),
                    source,
                }),
            };
            if let Err(error) = cut {
                self.is_poisoned = true;
                failure = error;
            }
        }
        failure
    }

    /// Sees to it that a record of so many bytes fits into the active segment.
    fn make_room(&mut self, bytes: u64) -> Result<(), JournalError> {
        let start = if self.active.is_started {
            0
        } else {
            START_RECORD_BYTES
        };
        if self.active.end + start + bytes <= self.active.segment.bytes {
            return Ok(());
        }
        let next = self.next_segment(IDENTITY_BYTES + START_RECORD_BYTES + bytes)?;
        let next = Active {
            segment: next,
            base: self.position,
            index_before: self.index,
            end: IDENTITY_BYTES,
            is_started: false,
        };
        let last = std::mem::replace(&mut self.active, next);
        if last.is_started {
            self.closed.push_back(Closed {
                is_synced: self.synced_to >= self.position,
                segment: last.segment,
                base: last.base,
                index_before: last.index_before,
            });
        } else {
            self.spares.push_back(last.segment.name);
        }
        Ok(())
    }

    /// Returns the prepared segment, or makes one now.
    fn next_segment(&mut self, bytes_min: u64) -> Result<Segment, JournalError> {
        match self.ready.take() {
            Some(segment) if segment.bytes >= bytes_min => return Ok(segment),
            // Its id will be passed by the one made now, so only its file can still be used.
            Some(segment) => self.spares.push_back(segment.name),
            None => {}
        }
        self.counters.segments_waited_for += 1;
        let bytes = self
            .options
            .segment_bytes
            .max(bytes_min.next_multiple_of(IDENTITY_BYTES));
        let order = self.order(bytes);
        let disk = Arc::clone(&self.disk);
        order.make(disk.as_ref(), &mut self.garbage)
    }

    fn order(&mut self, bytes: u64) -> Order {
        let id = self.next_id;
        self.next_id += 1;
        let is_usual = bytes == self.options.segment_bytes;
        Order {
            id,
            bytes,
            recycle: is_usual.then(|| self.spares.pop_front()).flatten(),
        }
    }

    /// Makes everything written durable.
    fn sync_all(&mut self) -> Result<(), JournalError> {
        let began = Instant::now();
        for closed in self.closed.iter_mut().filter(|closed| !closed.is_synced) {
            let Segment { file, name, .. } = &closed.segment;
            sync(self.disk.as_ref(), file.as_ref(), name)?;
            closed.is_synced = true;
        }
        sync(
            self.disk.as_ref(),
            self.active.segment.file.as_ref(),
            &self.active.segment.name,
        )?;
        self.synced_to = self.position;
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counters.syncs += 1;
        self.counters.last_sync_nanos = nanos;
        self.counters.sync_nanos += nanos;
        Ok(())
    }

    fn sync_if_needed(&mut self) -> Result<(), JournalError> {
        if self.synced_to < self.position {
            self.sync_all()?;
        }
        Ok(())
    }

    /// Gives up the segments that the snapshot covers, but for those that it needs contents from.
    fn drop_obsolete(&mut self) {
        while !self.closed.is_empty() {
            let (index_before, is_started) = match self.closed.get(1) {
                Some(next) => (next.index_before, true),
                None => (self.active.index_before, self.active.is_started),
            };
            // The next segment must be able to stand at the beginning of the log: its start record is durable, as
            // everything is synced when a snapshot completes.
            if index_before > self.snapshot_index || !is_started {
                break;
            }
            if let Some(Closed { segment, .. }) = self.closed.pop_front() {
                self.kept.insert(number(segment.id), segment);
            }
        }
        let named = &self.named;
        let obsolete = self.kept.extract_if(.., |id, _| !named.contains(id));
        self.retired.extend(obsolete.map(|(_, segment)| segment));
    }
}

/// Makes or takes the segment of a log that has none.
fn first_span(
    disk: &dyn Disk,
    options: &LocalOptions,
    unused: &mut Vec<Segment>,
    next_id: &mut u64,
) -> Result<Span, JournalError> {
    let segment = match unused.pop() {
        Some(segment) => segment,
        None => {
            let id = *next_id;
            *next_id += 1;
            Segment::make(disk, id, options.first_segment_bytes, None)?
        }
    };
    Ok(Span {
        segment,
        base: 0,
        index_before: 0,
        end: IDENTITY_BYTES,
    })
}

impl From<Span> for Closed {
    fn from(span: Span) -> Self {
        Self {
            segment: span.segment,
            base: span.base,
            index_before: span.index_before,
            is_synced: false,
        }
    }
}

impl From<Span> for Active {
    fn from(span: Span) -> Self {
        Self {
            is_started: span.end > IDENTITY_BYTES,
            segment: span.segment,
            base: span.base,
            index_before: span.index_before,
            end: span.end,
        }
    }
}

impl Journal for LocalJournal {
    fn epoch(&self) -> Option<Epoch> {
        (!self.is_poisoned).then_some(EPOCH)
    }

    fn propose(&mut self, entry: &[u8], expected: Epoch) -> Result<Ticket, ProposeError> {
        if expected != EPOCH {
            return Err(ProposeError::EpochChanged { epoch: self.epoch() });
        }
        if entry.len() > ENTRY_BYTES_MAX {
            return Err(ProposeError::TooLarge {
                bytes: entry.len() as u64,
                bytes_max: ENTRY_BYTES_MAX as u64,
            });
        }
        let place = self.guarded(|journal| {
            journal.make_room(record_bytes(entry.len()))?;
            journal.append(Some((Kind::Entry, entry)))
        })?;
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.counters.entries += 1;
        self.pending.push_back((ticket, LogIndex(self.index), place));
        Ok(ticket)
    }

    fn wait(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError> {
        self.guarded(|journal| match journal.options.fsync {
            Fsync::Always => journal.sync_if_needed(),
            Fsync::Off => Ok(()),
        })?;
        self.committed = self.index;
        self.committed_position = self.position;
        let committed = |(ticket, index, place)| Event::Committed {
            index,
            term: Term(0),
            source: Source::Own(ticket),
            place: Some(place),
        };
        events.extend(self.pending.drain(..).map(committed));
        Ok(())
    }

    fn begin_snapshot(
        &mut self,
        index: LogIndex,
        segments: &[u32],
    ) -> Result<Box<dyn SnapshotSink>, JournalError> {
        self.check_usable()?;
        if index.0 == 0 || index.0 > self.committed || index.0 < self.snapshot_index {
            return Err(JournalError::SnapshotIndex {
                index,
                previous: LogIndex(self.snapshot_index),
                committed: LogIndex(self.committed),
            });
        }
        // A snapshot stands for durable entries, and names durable copies; without fsync they may not be.
        if self.synced_to < self.position {
            self.guarded(Self::sync_all)?;
        }
        let position = if index.0 == self.committed {
            self.committed_position
        } else {
            // Only segments are known for older entries; the count of bytes since then is then a little too high.
            let bases = self
                .closed
                .iter()
                .map(|closed| (closed.index_before, closed.base));
            let bases = bases.chain([(self.active.index_before, self.active.base)]);
            let before = bases.rev().find(|(index_before, _)| *index_before <= index.0);
            before.map_or(self.snapshot_position, |(_, base)| base)
        };
        let writer = snapshot::Writer::create(Arc::clone(&self.disk), index, position, segments)?;
        Ok(Box::new(writer))
    }

    fn complete_snapshot(&mut self, receipt: SnapshotReceipt) -> Result<(), JournalError> {
        self.check_usable()?;
        let index = receipt.index().0;
        if index < self.snapshot_index {
            self.garbage.push(snapshot::name(index));
            return Ok(());
        }
        self.guarded(Self::sync_if_needed)?;
        let (older, kept) = self.snapshots.iter().partition(|snapshot| **snapshot < index);
        self.garbage.extend(Vec::into_iter(older).map(snapshot::name));
        self.snapshots = kept;
        if !self.snapshots.contains(&index) {
            self.snapshots.push(index);
        }
        self.snapshot_index = index;
        self.snapshot_position = receipt.log_position().max(self.snapshot_position);
        self.named = receipt.segments().iter().copied().collect();
        self.drop_obsolete();
        Ok(())
    }

    fn log_bytes_since_snapshot(&self) -> u64 {
        self.position - self.snapshot_position
    }

    fn copy_forward(&mut self, copies: &[u8]) -> Result<Option<Place>, JournalError> {
        let place = self.guarded(|journal| {
            journal.make_room(record_bytes(copies.len()))?;
            journal.append(Some((Kind::Copies, copies)))
        })?;
        if self.pending.is_empty() {
            self.committed_position = self.position;
        }
        Ok(Some(place))
    }

    fn segment(&self, segment: u32) -> Option<Arc<dyn File>> {
        let id = u64::from(segment);
        if id == self.active.segment.id {
            return Some(Arc::clone(&self.active.segment.file));
        }
        let closed = self.closed.binary_search_by_key(&id, |closed| closed.segment.id);
        let found = match closed {
            Ok(at) => self.closed.get(at).map(|closed| &closed.segment),
            Err(_) => self.kept.get(&segment),
        };
        found.map(|segment| Arc::clone(&segment.file))
    }

    fn kept(&self) -> Vec<Kept> {
        let kept = |(segment, kept): (&u32, &Segment)| Kept {
            segment: *segment,
            bytes: kept.bytes,
        };
        self.kept.iter().map(kept).collect()
    }

    fn segment_bytes(&self) -> u64 {
        self.options.segment_bytes
    }

    fn space(&self) -> io::Result<Option<Space>> {
        self.disk.space()
    }

    fn take_preparation(&mut self) -> Option<Preparation> {
        if self.is_preparing || self.is_poisoned {
            return None;
        }
        // The file of a segment that somebody reads is not written to.
        let is_free = |segment: &mut Segment| Arc::strong_count(&segment.file) == 1;
        let free = self.retired.extract_if(.., is_free);
        self.spares.extend(free.map(|segment| segment.name));
        let order = match self.ready {
            None => Some(self.order(self.options.segment_bytes)),
            Some(_) => None,
        };
        while self.spares.len() > SPARE_SEGMENTS_MAX {
            self.garbage.extend(self.spares.pop_front());
        }
        let remove = std::mem::take(&mut self.garbage);
        if order.is_none() && remove.is_empty() {
            return None;
        }
        self.is_preparing = true;
        Some(Preparation::new(Arc::clone(&self.disk), order, remove))
    }

    fn install(&mut self, mut prepared: Prepared) -> Result<(), JournalError> {
        self.is_preparing = false;
        self.garbage.append(&mut prepared.leftovers);
        if let Some(segment) = prepared.segment.take() {
            if self.ready.is_none() && segment.id > self.active.segment.id {
                self.ready = Some(segment);
            } else {
                self.spares.push_back(segment.name);
            }
        }
        match prepared.error {
            Some(error) => self.guarded(|_| Err(error)),
            None => Ok(()),
        }
    }

    fn seal(&mut self) -> Result<(), JournalError> {
        self.check_usable()?;
        if self.is_sealed || !self.pending.is_empty() || self.index == 0 {
            return Ok(());
        }
        self.guarded(|journal| {
            journal.sync_if_needed()?;
            journal.make_room(record_bytes(0))?;
            journal.append(Some((Kind::Seal, &[])))?;
            journal.sync_all()
        })?;
        self.committed_position = self.position;
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
