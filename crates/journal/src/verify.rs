//! Reads everything that is stored and says what it found. Nothing on the disk is changed.
//!
//! The log is opened as a start opens it, on an [`Overlay`], so the two agree on what is damage. What a start does
//! not read is read too: snapshots that are not the newest good one, and segments that are kept for contents.

use std::io::Read;
use std::sync::Arc;

use types::LogIndex;

use crate::contract::{Journal, Kept, Place, Replay, ReplayError};
use crate::directory::Directory;
use crate::disk::Disk;
use crate::error::{Corruption, JournalError};
use crate::local::LocalJournal;
use crate::options::LocalOptions;
use crate::overlay::Overlay;
use crate::recovery::{RecoveryReport, TornTail};
use crate::replicated::{ReplicatedLog, RestoreSnapshot};
use crate::scan::Scanner;
use crate::segment::{IDENTITY_BYTES, Segment};
use crate::snapshot::{self, RaftSnapshot};

/// What a data directory holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Snapshot files.
    pub snapshots: u64,
    /// Segment files.
    pub segments: u64,
    /// The snapshot that a start begins with.
    pub snapshot: Option<LogIndex>,
    /// Entries after that snapshot, as far as they can be read.
    pub entries: u64,
    /// The last of them, or the snapshot's.
    pub last_index: LogIndex,
    /// Bytes of log that hold records; 0 if a start is refused.
    pub log_bytes: u64,
    /// What a start would cut off the end. It is no damage.
    pub torn_tail: Option<TornTail>,
    /// Everything that is not as it was written.
    pub damage: Vec<Corruption>,
    /// Whether a start refuses this directory.
    pub is_start_refused: bool,
}

/// Reads a data directory whose lock the caller holds. Also returns the journal as a start would have it, to read
/// contents from; none if a start would be refused.
pub fn verify(
    disk: Arc<dyn Disk>,
    replay: &mut dyn Replay,
) -> Result<(Verification, Option<LocalJournal>), JournalError> {
    let mut found = Verification::of_snapshots(disk.as_ref())?;
    let mut counting = Counting {
        replay,
        entries: 0,
        last: LogIndex(0),
    };
    let overlay: Arc<dyn Disk> = Arc::new(Overlay::new(Arc::clone(&disk)));
    let opened = LocalJournal::open(overlay, LocalOptions::for_repair(), &mut counting);
    (found.entries, found.last_index) = (counting.entries, counting.last);
    let journal = found.take_start(opened)?;
    if let Some(journal) = &journal {
        found.take_kept(damage_of_kept(disk.as_ref(), journal)?);
    }
    Ok((found, journal))
}

/// The same for the directory of a node of a cluster. Its entries are those that were found behind the snapshot, committed
/// or not.
pub fn verify_replicated(
    disk: Arc<dyn Disk>,
    restore: &mut dyn RestoreSnapshot,
) -> Result<(Verification, Option<ReplicatedLog>), JournalError> {
    let mut found = Verification::of_snapshots(disk.as_ref())?;
    let overlay: Arc<dyn Disk> = Arc::new(Overlay::new(Arc::clone(&disk)));
    let opened = ReplicatedLog::open(overlay, LocalOptions::for_repair(), restore);
    let log = found.take_start(opened.map(|(log, recovery)| (log, recovery.report)))?;
    if let Some(log) = &log {
        found.take_kept(damage_of(disk.as_ref(), &log.kept())?);
    }
    Ok((found, log))
}

impl Verification {
    fn of_snapshots(disk: &dyn Disk) -> Result<Self, JournalError> {
        let directory = Directory::list(disk)?;
        let damaged = damaged_snapshots(disk, &directory)?;
        Ok(Self {
            snapshots: directory.snapshots.len() as u64,
            segments: directory.segments.len() as u64,
            damage: damaged.into_iter().map(|(_, damage)| damage).collect(),
            ..Self::default()
        })
    }

    /// Takes what a start said; none if it is refused because of damage.
    fn take_start<T>(
        &mut self,
        opened: Result<(T, RecoveryReport), JournalError>,
    ) -> Result<Option<T>, JournalError> {
        match opened {
            Ok((log, report)) => {
                self.snapshot = report.snapshot;
                self.entries = report.entries_replayed;
                self.last_index = report.last_index;
                self.log_bytes = report.log_bytes;
                self.torn_tail = report.torn_tail;
                Ok(Some(log))
            }
            Err(JournalError::Corruption(damage) | JournalError::NodeCorruption(damage)) => {
                self.is_start_refused = true;
                if !self.damage.contains(&damage) {
                    self.damage.push(damage);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn take_kept(&mut self, damaged: Vec<(u32, Corruption)>) {
        self.damage.extend(damaged.into_iter().map(|(_, damage)| damage));
    }
}

/// Looks through the segments that a journal keeps only for contents. Returns those that are damaged, with what is wrong.
pub fn damage_of_kept(
    disk: &dyn Disk,
    journal: &LocalJournal,
) -> Result<Vec<(u32, Corruption)>, JournalError> {
    damage_of(disk, &journal.kept())
}

fn damage_of(disk: &dyn Disk, kept: &[Kept]) -> Result<Vec<(u32, Corruption)>, JournalError> {
    let mut damaged = Vec::new();
    for kept in kept {
        let segment = Segment::open(disk, u64::from(kept.segment))?;
        let damage = damage_in(disk, &segment)?;
        damaged.extend(damage.map(|damage| (kept.segment, damage)));
    }
    Ok(damaged)
}

/// Returns the indexes of damaged snapshots, with what is wrong.
pub(crate) fn damaged_snapshots(
    disk: &dyn Disk,
    directory: &Directory,
) -> Result<Vec<(u64, Corruption)>, JournalError> {
    let mut damaged = Vec::new();
    for index in &directory.snapshots {
        match snapshot::verify(disk, &snapshot::name(*index), *index) {
            Ok(()) => {}
            Err(JournalError::Corruption(damage)) => damaged.push((*index, damage)),
            Err(error) => return Err(error),
        }
    }
    Ok(damaged)
}

/// Reads a segment that the log has left: everything in it was durable, so it has no torn tail.
fn damage_in(disk: &dyn Disk, segment: &Segment) -> Result<Option<Corruption>, JournalError> {
    let damaged = |offset, reason: String| {
        Some(Corruption {
            file: disk.describe(&segment.name),
            offset,
            reason,
        })
    };
    let mut scanner = Scanner::new(disk, segment);
    let start = scanner
        .record_at(IDENTITY_BYTES)?
        .and_then(|record| record.start());
    let Some(start) = start.filter(|start| start.segment_id == segment.id) else {
        let reason = "its first record does not say where in the log it stands";
        return Ok(damaged(IDENTITY_BYTES, reason.to_owned()));
    };
    let (mut index, mut chain, mut end) = (start.before.index.0, start.chain_before, IDENTITY_BYTES);
    while let Some(record) = scanner.record_at(end)? {
        if !record.counts(index, chain, end == IDENTITY_BYTES) {
            break;
        }
        (index, chain) = (record.index(), record.chain());
        end += record.bytes_len();
    }
    Ok(match scanner.survey(end)?.traces_end {
        Some(_) => damaged(
            end,
            format!("no valid record follows entry {index}, but there was one"),
        ),
        None => None,
    })
}

/// Counts what passes.
struct Counting<'a> {
    replay: &'a mut dyn Replay,
    entries: u64,
    last: LogIndex,
}

impl Replay for Counting<'_> {
    fn snapshot(&mut self, index: LogIndex, content: &mut dyn Read) -> Result<(), ReplayError> {
        self.last = index;
        self.replay.snapshot(index, content)
    }

    fn entry(&mut self, index: LogIndex, entry: &[u8], place: Option<Place>) -> Result<(), ReplayError> {
        (self.last, self.entries) = (index, self.entries + 1);
        self.replay.entry(index, entry, place)
    }

    fn copies(&mut self, copies: &[u8], place: Place) -> Result<(), ReplayError> {
        self.replay.copies(copies, place)
    }

    fn progress(&mut self, bytes_done: u64, bytes_total: u64) {
        self.replay.progress(bytes_done, bytes_total);
    }
}

/// Takes stored state and keeps nothing.
#[derive(Debug, Default)]
pub struct Discarding;

impl RestoreSnapshot for Discarding {
    fn snapshot(&mut self, _snapshot: &RaftSnapshot, _content: &mut dyn Read) -> Result<(), ReplayError> {
        Ok(())
    }
}

impl Replay for Discarding {
    fn snapshot(&mut self, _index: LogIndex, _content: &mut dyn Read) -> Result<(), ReplayError> {
        Ok(())
    }

    fn entry(&mut self, _index: LogIndex, _entry: &[u8], _place: Option<Place>) -> Result<(), ReplayError> {
        Ok(())
    }
}
