//! What happens at a start: find the snapshot, replay the log after it, tell a torn tail from damage.
//!
//! The rule, reasoned in `docs/formats/segment.md`: the log ends at the first place where no record counts. If any
//! valid record after that place knew the log to be durable beyond it, the place is damage, and nothing is changed.
//! Otherwise what follows was never acknowledged: it is overwritten or removed, durably, before anything new is
//! written. A recovery that is itself interrupted can begin again.

use std::io;

use types::LogIndex;

use crate::directory::{Candidate, Chosen, Directory, open_kept};
use crate::disk::Disk;
use crate::error::{Corruption, JournalError};
use crate::io::{write_all_at, write_zeros};
use crate::layout::Layout;
use crate::log_id::LogId;
use crate::record::{HEADER_BYTES, Kind, Record};
use crate::scan::{Claim, Scanner};
use crate::segment::{self, IDENTITY_BYTES, Segment, sync, sync_names};
use crate::snapshot;
use crate::visit::Visit;

/// What a start found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The snapshot that was used.
    pub snapshot: Option<LogIndex>,
    /// Newer snapshots that were damaged and done without, newest first.
    pub damaged_snapshots: Vec<Corruption>,
    /// Entries replayed after the snapshot.
    pub entries_replayed: u64,
    /// The last entry of the log; 0 if there is none.
    pub last_index: LogIndex,
    /// Bytes of log that were read, snapshot not included.
    pub log_bytes: u64,
    /// What was cut off the end.
    pub torn_tail: Option<TornTail>,
}

/// Bytes at the end of the log that were written but never known to be durable, and do not make whole records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The file in which the tail began.
    pub file: String,
    /// Where it began.
    pub offset: u64,
    /// How far traces of records reached, over all files.
    pub bytes: u64,
}

/// A segment of the log that holds records.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) segment: Segment,
    /// The log position of its start record.
    pub(crate) base: u64,
    pub(crate) before: LogId,
    /// Where its last record ends, in the file.
    pub(crate) end: u64,
}

impl Span {
    fn position_at_end(&self) -> u64 {
        self.base + (self.end - IDENTITY_BYTES)
    }
}

/// The log as it stands after recovery.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) spans: Vec<Span>,
    pub(crate) position: u64,
    pub(crate) chain: u64,
    pub(crate) last: LogId,
    /// The newest mark; empty on a single node.
    pub(crate) mark: Vec<u8>,
    pub(crate) is_sealed: bool,
    /// The position before which everything is known to be durable.
    pub(crate) synced_to: u64,
    pub(crate) snapshot_index: u64,
    pub(crate) snapshot_position: u64,
    pub(crate) snapshots: Vec<u64>,
    /// What the snapshot named.
    pub(crate) snapshot_segments: Vec<u32>,
    /// Segments made in advance and never written to.
    pub(crate) unused: Vec<Segment>,
    /// Segments before the log that hold contents which the snapshot needs.
    pub(crate) kept: Vec<Segment>,
    /// Names of segments that nothing needs.
    pub(crate) obsolete: Vec<String>,
    pub(crate) next_id: u64,
}

/// Replays what is stored and makes the end of the log clean. With `is_settled` everything replayed is made durable.
pub(crate) fn recover(
    disk: &dyn Disk,
    layout: Layout,
    is_settled: bool,
    visit: &mut dyn Visit,
) -> Result<(Recovered, RecoveryReport), JournalError> {
    let directory = Directory::list(disk)?;
    layout.check(disk, &directory)?;
    let chosen = directory.choose_snapshot(disk)?;
    let candidates = directory.open_needed(disk, layout, &chosen)?;
    let first_needed = candidates.first().map_or(u64::MAX, |c| c.segment.id);
    let kept = open_kept(disk, &chosen, first_needed)?;
    visit_snapshot(disk, &chosen, visit)?;

    let (log, rest) = Log::walk(disk, layout, &chosen, candidates, visit)?;
    let end = log.end(&chosen, &rest)?;
    log.erase(end.traces_end, &rest)?;
    for name in &directory.temporaries {
        remove(disk, name)?;
    }
    log.settle(is_settled)?;
    sync_names(disk)?;

    let report = RecoveryReport {
        snapshot: (chosen.index > 0).then_some(LogIndex(chosen.index)),
        damaged_snapshots: chosen.damaged,
        entries_replayed: log.entries_read,
        last_index: log.last.index,
        log_bytes: log.bytes_read,
        torn_tail: end.torn_tail,
    };
    let is_kept = |id: u64| kept.iter().any(|segment| segment.id == id);
    let older = directory.segments.iter().filter(|id| **id < first_needed);
    let obsolete = older
        .filter(|id| !is_kept(**id))
        .map(|id| segment::name(*id))
        .collect();
    let recovered = Recovered {
        position: log.position,
        chain: log.chain,
        last: log.last,
        mark: log.mark,
        is_sealed: log.is_sealed,
        synced_to: if is_settled { log.position } else { log.proven },
        snapshot_index: chosen.index,
        snapshot_position: log.snapshot_position,
        snapshots: directory.snapshots,
        unused: log.unused,
        spans: log.spans,
        obsolete,
        kept,
        snapshot_segments: chosen.segments,
        next_id: directory.segments.last().copied().unwrap_or(0) + 1,
    };
    Ok((recovered, report))
}

fn visit_snapshot(disk: &dyn Disk, chosen: &Chosen, visit: &mut dyn Visit) -> Result<(), JournalError> {
    if chosen.index == 0 {
        return Ok(());
    }
    let name = snapshot::name(chosen.index);
    let mut reader = snapshot::Reader::open(disk, &name, chosen.index)?;
    let index = LogIndex(chosen.index);
    visit
        .snapshot(index, &mut reader)
        .map_err(|source| JournalError::Replay { index, source })
}

fn remove(disk: &dyn Disk, name: &str) -> Result<(), JournalError> {
    disk.remove(name)
        .map_err(|source| JournalError::failed("remove", disk.describe(name), source))
}

/// Records where none should be.
#[derive(Debug)]
pub(crate) struct Torn {
    traces_end: u64,
    claim: Option<Claim>,
}

impl Torn {
    /// Looks through a whole segment that does not continue the log; none if it was never written to.
    fn survey(disk: &dyn Disk, candidate: &Candidate) -> Result<Option<Self>, JournalError> {
        let survey = Scanner::new(disk, &candidate.segment).survey(IDENTITY_BYTES)?;
        Ok(survey.traces_end.map(|traces_end| Self {
            traces_end,
            claim: survey.claim,
        }))
    }
}

/// The log as far as it has been read.
#[derive(Debug)]
pub(crate) struct Log<'a> {
    disk: &'a dyn Disk,
    pub(crate) spans: Vec<Span>,
    unused: Vec<Segment>,
    position: u64,
    chain: u64,
    pub(crate) last: LogId,
    mark: Vec<u8>,
    layout: Layout,
    is_sealed: bool,
    /// The highest position that a record in its place knew to be durable.
    proven: u64,
    snapshot_index: u64,
    snapshot_position: u64,
    /// Entries behind the snapshot.
    entries_read: u64,
    bytes_read: u64,
    bytes_total: u64,
}

/// What lies at the end of a log that is not damaged.
#[derive(Debug)]
pub(crate) struct End {
    torn_tail: Option<TornTail>,
    /// How far traces of records reach in the last segment that holds some that count.
    traces_end: Option<u64>,
}

/// Segments that hold records and do not continue the log.
pub(crate) type Rest = Vec<(Candidate, Torn)>;

impl<'a> Log<'a> {
    /// Reads the log as far as records count.
    pub(crate) fn walk(
        disk: &'a dyn Disk,
        layout: Layout,
        chosen: &Chosen,
        candidates: Vec<Candidate>,
        visit: &mut dyn Visit,
    ) -> Result<(Self, Rest), JournalError> {
        let mut log = Self::new(disk, layout, chosen, &candidates);
        let mut rest = Vec::new();
        for candidate in candidates {
            if rest.is_empty() && log.is_continued_by(&candidate) {
                log.read(candidate, visit)?;
            } else if let Some(torn) = Torn::survey(disk, &candidate)? {
                rest.push((candidate, torn));
            } else {
                log.unused.push(candidate.segment);
            }
        }
        Ok((log, rest))
    }

    fn new(disk: &'a dyn Disk, layout: Layout, chosen: &Chosen, candidates: &[Candidate]) -> Self {
        let start = candidates.first().and_then(|c| c.start);
        let base = start.map_or(0, |start| start.base);
        Self {
            disk,
            spans: Vec::new(),
            unused: Vec::new(),
            position: base,
            chain: start.map_or(0, |start| start.chain_before),
            last: start.map_or_else(LogId::default, |start| start.before),
            mark: Vec::new(),
            layout,
            is_sealed: false,
            proven: 0,
            snapshot_index: chosen.index,
            snapshot_position: base,
            entries_read: 0,
            bytes_read: 0,
            bytes_total: candidates.iter().map(|c| c.segment.bytes - IDENTITY_BYTES).sum(),
        }
    }

    fn is_continued_by(&self, candidate: &Candidate) -> bool {
        candidate.start.is_some_and(|start| {
            start.layout == self.layout
                && start.base == self.position
                && start.chain_before == self.chain
                && start.before == self.last
        })
    }

    /// Reads a segment up to the first place where no record counts.
    fn read(&mut self, candidate: Candidate, visit: &mut dyn Visit) -> Result<(), JournalError> {
        const PROGRESS_STEP_BYTES: u64 = 8 << 20;
        let segment = candidate.segment;
        let (base, before) = (self.position, self.last);
        let mut end = IDENTITY_BYTES;
        let mut scanner = Scanner::new(self.disk, &segment);
        let mut progress_at = self.bytes_read;
        while let Some(record) = scanner.record_at(end)? {
            if !record.counts(self.last.index.0, self.chain, end == IDENTITY_BYTES)
                || record.synced_to() > self.position
            {
                break;
            }
            let id = record.id();
            visit
                .record(&record, segment.place(end + HEADER_BYTES as u64))
                .map_err(|source| JournalError::Replay {
                    index: id.index,
                    source,
                })?;
            end += record.bytes_len();
            self.take(&record);
            if self.bytes_read - progress_at >= PROGRESS_STEP_BYTES {
                progress_at = self.bytes_read;
                visit.progress(self.bytes_read, self.bytes_total);
            }
        }
        self.spans.push(Span {
            segment,
            base,
            before,
            end,
        });
        Ok(())
    }

    /// Goes on to the end of a record.
    fn take(&mut self, record: &Record<'_>) {
        let kind = record.known_kind();
        self.position += record.bytes_len();
        self.bytes_read += record.bytes_len();
        self.last = record.id();
        self.chain = record.chain();
        self.is_sealed = kind == Kind::Seal;
        self.proven = self.proven.max(record.synced_to());
        let is_behind = self.last.index.0 > self.snapshot_index;
        self.entries_read += u64::from(is_behind && matches!(kind, Kind::Entry | Kind::Raft));
        if !is_behind {
            self.snapshot_position = self.position;
        }
        if let Some(mark) = record.mark() {
            self.mark = mark.to_vec();
        }
    }

    /// Finds what follows the log. It is damage if something there proves that the log was durable further on.
    pub(crate) fn end(&self, chosen: &Chosen, rest: &[(Candidate, Torn)]) -> Result<End, JournalError> {
        let tail = match self.spans.last() {
            Some(span) => Scanner::new(self.disk, &span.segment).survey(span.end)?,
            None => Default::default(),
        };
        let own = self
            .spans
            .last()
            .map(|span| (&span.segment.name, span.end, tail.traces_end));
        let place = match (own, rest.first()) {
            (Some((name, end, Some(_))), _) => (name, end),
            (Some((name, end, None)), Some((next, _))) if next.start.is_some() => (name, end),
            (_, Some((next, _))) => (&next.segment.name, IDENTITY_BYTES),
            (Some((name, end, None)), None) => (name, end),
            (None, None) => {
                self.check_reaches(chosen, "", 0)?;
                return Ok(End {
                    torn_tail: None,
                    traces_end: None,
                });
            }
        };
        let claims = rest
            .iter()
            .filter_map(|(c, torn)| torn.claim.map(|claim| (&c.segment.name, claim)));
        let own_claim = own.and_then(|(name, ..)| tail.claim.map(|claim| (name, claim)));
        let highest = claims.chain(own_claim).max_by_key(|(_, claim)| claim.synced_to);
        if let Some((name, claim)) = highest.filter(|(_, claim)| claim.synced_to > self.position) {
            return Err(self.damage(
                place,
                format!(
                    "no valid record follows entry {}, but the record at byte {} of {} was written when the log was \
                     durable {} bytes further",
                    self.last.index,
                    claim.offset,
                    name,
                    claim.synced_to - self.position
                ),
            ));
        }
        self.check_reaches(chosen, place.0, place.1)?;
        let mut bytes = rest
            .iter()
            .map(|(_, torn)| torn.traces_end - IDENTITY_BYTES)
            .sum();
        if let Some((_, end, Some(traces_end))) = own {
            bytes += traces_end - end;
        }
        let torn_tail = (bytes > 0).then(|| TornTail {
            file: self.disk.describe(place.0),
            offset: place.1,
            bytes,
        });
        Ok(End {
            torn_tail,
            traces_end: tail.traces_end,
        })
    }

    /// Overwrites the tail in the last segment and removes the segments after it.
    pub(crate) fn erase(
        &self,
        traces_end: Option<u64>,
        rest: &[(Candidate, Torn)],
    ) -> Result<(), JournalError> {
        if let (Some(span), Some(traces_end)) = (self.spans.last(), traces_end) {
            let to = traces_end.next_multiple_of(4096).min(span.segment.bytes);
            let file = span.segment.file.as_ref();
            write_zeros(file, span.end, to).map_err(|partial| {
                JournalError::writing(self.disk.describe(&span.segment.name), partial.error)
            })?;
            sync(self.disk, file, &span.segment.name)?;
        }
        for (candidate, _) in rest {
            remove(self.disk, &candidate.segment.name)?;
        }
        // The names must be gone for good before new records take the place of those in them; the caller syncs.
        Ok(())
    }

    /// Refuses a log that ends before a snapshot: a snapshot is made of durable entries only.
    fn check_reaches(&self, chosen: &Chosen, name: &str, offset: u64) -> Result<(), JournalError> {
        if self.last.index.0 < chosen.newest {
            let reason = format!(
                "the log ends with entry {}, but there is a snapshot of entry {}",
                self.last.index, chosen.newest
            );
            return Err(self.damage((name, offset), reason));
        }
        Ok(())
    }

    fn damage(&self, (name, offset): (impl AsRef<str>, u64), reason: String) -> JournalError {
        JournalError::Corruption(Corruption {
            file: self.disk.describe(name.as_ref()),
            offset,
            reason,
        })
    }

    /// Makes what was read but not proven durable: all of it, or only the first segment, as those before it are given up.
    /// It is written again and not only synced: after a failed sync the
    /// system counts pages as clean that never reached the disk, and they are still there to be read.
    fn settle(&self, is_whole: bool) -> Result<(), JournalError> {
        let (spans, unused) = match is_whole {
            true => (self.spans.len(), &self.unused[..]),
            false => (1, &[][..]),
        };
        let mut buffer = vec![0; 256 << 10];
        for span in self
            .spans
            .iter()
            .take(spans)
            .filter(|span| span.position_at_end() > self.proven)
        {
            let file = span.segment.file.as_ref();
            let name = &span.segment.name;
            let mut at = IDENTITY_BYTES + self.proven.saturating_sub(span.base);
            while at < span.end {
                let step = buffer.len().min((span.end - at) as usize);
                let bytes = &mut buffer[..step];
                let read = file.read_at(bytes, at).and_then(|read| match read == step {
                    true => Ok(()),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                });
                read.map_err(|source| JournalError::failed("read", self.disk.describe(name), source))?;
                write_all_at(file, bytes, at)
                    .map_err(|partial| JournalError::writing(self.disk.describe(name), partial.error))?;
                at += step as u64;
            }
            sync(self.disk, file, name)?;
        }
        // A record that an earlier process began a segment with and overwrote again leaves no trace, and could come back
        // as long as the zeros are not durable. The last segment with records was synced above: its last one never says
        // of itself that it is durable.
        for segment in unused {
            sync(self.disk, segment.file.as_ref(), &segment.name)?;
        }
        Ok(())
    }
}
