//! The segment log: records in one file order, over files of a fixed length.
//!
//! It knows records, segments and when bytes are durable, but not what a record means: [`crate::LocalJournal`] and
//! [`crate::ReplicatedLog`] are thin layers over it. Byte layout and the rules of recovery are in
//! `docs/formats/segment.md`. Nothing here starts a thread: preparing segments and writing snapshots are handed out.

mod restart;
mod segments;
mod snapshots;
mod sync;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use self::sync::nanos_since;
pub use self::sync::{PendingSync, Synced};
use crate::contract::{Counters, Place};
use crate::disk::{Disk, Lock, LockError};
use crate::error::{JournalError, is_full};
use crate::io::{PartialWrite, write_all_at, write_zeros};
use crate::layout::Layout;
use crate::log_id::LogId;
use crate::options::{Fsync, LocalOptions};
use crate::record::{self, Fields, HEADER_BYTES, Kind, Start};
use crate::recovery::{Recovered, RecoveryReport, Span, recover};
use crate::segment::{IDENTITY_BYTES, Segment, number, sync};
use crate::segment_log::segments::{Active, Closed, first_span};
use crate::visit::Visit;

/// A buffer that grew beyond this for one large entry is given back.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// A record to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewRecord<'a> {
    pub(crate) kind: Kind,
    /// The entry's own; that of the last entry for the other kinds.
    pub(crate) id: LogId,
    /// The payload, in two parts that are written behind each other.
    pub(crate) payload: [&'a [u8]; 2],
}

impl NewRecord<'_> {
    /// Returns how many bytes the record takes.
    pub(crate) fn bytes(&self) -> u64 {
        record::record_bytes(self.payload[0].len() + self.payload[1].len())
    }
}

/// The log, its segments and its snapshots, on one disk.
#[derive(Debug)]
pub(crate) struct SegmentLog {
    disk: Arc<dyn Disk>,
    options: LocalOptions,
    layout: Layout,
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
    last: LogId,
    /// What every new segment begins with, beside its place in the log.
    mark: Vec<u8>,
    /// Where the log ends, counted in bytes of records since its beginning.
    position: u64,
    /// Everything before it is durable.
    synced_to: u64,
    is_sealed: bool,
    ready: Option<Segment>,
    is_preparing: bool,
    spares: VecDeque<String>,
    garbage: Vec<String>,
    next_id: u64,
    snapshot_index: u64,
    snapshot_position: u64,
    /// Where the log ended when the last snapshot was begun; at a start, where the log begins. Where contents are that
    /// were copied later, the snapshot does not say.
    snapshot_begun_at: u64,
    /// What was written from a position on stays until a snapshot of an entry or a later one is there.
    held: Option<(u64, u64)>,
    /// Indexes of the snapshot files there are.
    snapshots: Vec<u64>,
    buffer: Vec<u8>,
    counters: Counters,
    is_poisoned: bool,
}

/// Takes the data directory for this process.
pub(crate) fn lock(disk: &dyn Disk) -> Result<Box<dyn Lock>, JournalError> {
    disk.lock().map_err(|error| match error {
        LockError::Held { path, pid } => JournalError::Locked { path, pid },
        LockError::Io { path, source } => JournalError::Io {
            operation: "lock",
            file: path,
            source,
        },
    })
}

impl SegmentLog {
    /// Reads what is stored in a data directory that is locked already.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        lock: Box<dyn Lock>,
        options: LocalOptions,
        layout: Layout,
        visit: &mut dyn Visit,
    ) -> Result<(Self, RecoveryReport), JournalError> {
        let options = options.rounded();
        let is_settled = options.fsync == Fsync::Always;
        let (mut recovered, report) = recover(disk.as_ref(), layout, is_settled, visit)?;
        let mut next_id = recovered.next_id;
        let last = match recovered.spans.pop() {
            Some(span) => span,
            None => first_span(disk.as_ref(), &options, &mut recovered.unused, &mut next_id)?,
        };
        let is_started = last.end > IDENTITY_BYTES;
        let mut log = Self::assemble(disk, options, layout, lock, recovered, last, next_id);
        if !is_started {
            // From here on a damaged first segment can be told from one that was never written to.
            log.append(&[])?;
            log.sync_all()?;
        }
        Ok((log, report))
    }

    fn assemble(
        disk: Arc<dyn Disk>,
        options: LocalOptions,
        layout: Layout,
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
        let kept = recovered.kept.into_iter();
        let begins_at = closed.front().map_or(last.base, |first| first.base);
        Self {
            disk,
            options,
            layout,
            _lock: lock,
            active: Active::from(last),
            closed,
            kept: kept.map(|kept| (number(kept.id), kept)).collect(),
            named: recovered.snapshot_segments.into_iter().collect(),
            retired: Vec::new(),
            chain: recovered.chain,
            last: recovered.last,
            mark: recovered.mark,
            position: recovered.position,
            synced_to: recovered.synced_to,
            is_sealed: recovered.is_sealed,
            ready,
            is_preparing: false,
            spares,
            garbage: Vec::new(),
            next_id,
            snapshot_index: recovered.snapshot_index,
            snapshot_position: recovered.snapshot_position,
            snapshot_begun_at: begins_at,
            held: None,
            snapshots: recovered.snapshots,
            buffer: Vec::new(),
            counters: Counters::default(),
            is_poisoned: false,
        }
    }

    /// Runs a step. After a failed sync nothing may follow: what is on the disk is not known.
    pub(crate) fn guarded<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        self.check_usable()?;
        let result = step(self);
        self.is_poisoned |= matches!(result, Err(JournalError::SyncFailed { .. }));
        result
    }

    pub(crate) fn check_usable(&self) -> Result<(), JournalError> {
        if self.is_poisoned {
            return Err(JournalError::Poisoned);
        }
        Ok(())
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.is_poisoned
    }

    /// Writes records with one write, all of them or none. Returns where the payload of the first one lies; all of
    /// them are in the same segment.
    pub(crate) fn write(&mut self, records: &[NewRecord<'_>]) -> Result<Place, JournalError> {
        self.guarded(|log| {
            log.make_room(records.iter().map(NewRecord::bytes).sum())?;
            log.append(records)
        })
    }

    /// Writes records into the active segment, and its start record before them if that is still missing.
    fn append(&mut self, records: &[NewRecord<'_>]) -> Result<Place, JournalError> {
        self.buffer.clear();
        let generation = self.active.segment.generation;
        let mut chain = self.chain;
        if !self.active.is_started {
            let start = Start {
                layout: self.layout,
                base: self.active.base,
                chain_before: chain,
                before: self.last,
                segment_id: self.active.segment.id,
            };
            chain = record::encode_start(&mut self.buffer, &start, &self.mark, generation, self.synced_to);
        }
        let payload_at = self.active.end + (self.buffer.len() + HEADER_BYTES) as u64;
        let mut last = self.last;
        for NewRecord { kind, id, payload } in records {
            let fields = Fields {
                kind: *kind,
                generation,
                id: *id,
                synced_to: self.synced_to,
            };
            chain = record::encode(&mut self.buffer, &fields, *payload, chain);
            last = *id;
        }
        if let Err(partial) = write_all_at(self.active.segment.file.as_ref(), &self.buffer, self.active.end) {
            return Err(self.cut_back(partial));
        }
        let bytes = self.buffer.len() as u64;
        self.active.is_started = true;
        self.active.end += bytes;
        self.position += bytes;
        self.chain = chain;
        self.last = last;
        self.is_sealed = records.last().is_some_and(|record| record.kind == Kind::Seal);
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

    /// Makes everything written durable, as far as entries are promised to be.
    pub(crate) fn commit(&mut self) -> Result<(), JournalError> {
        self.guarded(|log| match log.options.fsync {
            Fsync::Always => log.sync_if_needed(),
            Fsync::Off => Ok(()),
        })
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
        self.count_sync(nanos_since(began));
        Ok(())
    }

    /// Returns the sync that makes everything written durable, to be run while others use the log; none if there is nothing
    /// to sync, or syncs are off.
    pub(crate) fn begin_sync(&mut self) -> Result<Option<PendingSync>, JournalError> {
        self.check_usable()?;
        if self.options.fsync == Fsync::Off || self.synced_to >= self.position {
            return Ok(None);
        }
        let closed = self.closed.iter().filter(|closed| !closed.is_synced);
        let segments = closed.map(|closed| &closed.segment).chain([&self.active.segment]);
        Ok(Some(PendingSync {
            disk: Arc::clone(&self.disk),
            segments: segments.cloned().collect(),
            position: self.position,
        }))
    }

    /// Takes a sync that was run into account. A failed one leaves a log that cannot go on.
    pub(crate) fn end_sync(&mut self, result: Result<Synced, JournalError>) -> Result<(), JournalError> {
        let synced = self.guarded(|_| result)?;
        // What was written to a segment after the sync began, and before the next one, is not durable by it.
        let mut end = self.active.base;
        for closed in self.closed.iter_mut().rev() {
            closed.is_synced |= end <= synced.position;
            end = closed.base;
        }
        self.synced_to = self.synced_to.max(synced.position);
        self.count_sync(synced.nanos);
        Ok(())
    }

    fn count_sync(&mut self, nanos: u64) {
        self.counters.syncs += 1;
        self.counters.last_sync_nanos = nanos;
        self.counters.sync_nanos += nanos;
    }

    fn sync_if_needed(&mut self) -> Result<(), JournalError> {
        if self.synced_to < self.position {
            self.sync_all()?;
        }
        Ok(())
    }

    /// Says that everything written is durable, in the log itself.
    pub(crate) fn seal(&mut self) -> Result<(), JournalError> {
        self.check_usable()?;
        if self.is_sealed {
            return Ok(());
        }
        self.guarded(|log| {
            log.sync_if_needed()?;
            let seal = NewRecord {
                kind: Kind::Seal,
                id: log.last,
                payload: [&[], &[]],
            };
            log.make_room(seal.bytes())?;
            log.append(&[seal])?;
            log.sync_all()
        })
    }

    /// Writes what every new segment begins with from now on, beside its place.
    pub(crate) fn set_mark(&mut self, mark: &[u8]) -> Result<(), JournalError> {
        self.write(&[NewRecord {
            kind: Kind::Mark,
            id: self.last,
            payload: [mark, &[]],
        }])?;
        self.mark.clear();
        self.mark.extend_from_slice(mark);
        Ok(())
    }

    pub(crate) fn mark(&self) -> &[u8] {
        &self.mark
    }

    pub(crate) fn count_entries(&mut self, entries: u64) {
        self.counters.entries += entries;
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the last entry written.
    pub(crate) fn last(&self) -> LogId {
        self.last
    }

    /// Returns where the log ends, counted in bytes of records since its beginning.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }
}
