//! The log of a node of a cluster: what Raft has it remember, in the segments of [`crate::segment_log`].
//!
//! Entries, truncations, the mark (vote and committed position) and copies are records in one file order, written by one
//! thread. It knows no vote, no quorum and no leader: what is committed, and when it is applied, is decided above it.
//! [`LogReader`] reads entries on other threads. Byte layout: `docs/formats/segment.md`.

mod housekeeping;
mod index;
mod reader;
mod restore;
mod snapshots;

use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use types::LogIndex;

pub use self::reader::{LogReader, StoredEntry};
pub use self::restore::{ReplicatedRecovery, RestoreSnapshot, StoredCopies};
pub use self::snapshots::StoredSnapshot;
use crate::contract::Place;
use crate::disk::{Disk, Lock};
use crate::error::{Corruption, JournalError};
use crate::layout::Layout;
use crate::log_id::LogId;
use crate::options::LocalOptions;
use crate::record::{ENTRY_BYTES_MAX, Kind};
use crate::replicated::index::{Index, Stored};
use crate::replicated::restore::Gather;
use crate::segment_log::{self, NewRecord, PendingSync, SegmentLog, Synced};
use crate::snapshot::{self, RaftSnapshot};

/// Largest mark.
pub const MARK_BYTES_MAX: usize = 4096;
/// What one append may hold, so that it fits into a segment that can be made.
const APPEND_BYTES_MAX: u64 = 256 << 20;

/// Whose entry it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A batch of commands, for the owner.
    Commands,
    /// Nothing to the owner: a blank entry, a change of membership.
    Raft,
}

/// An entry to be appended.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry<'a> {
    /// Where it stands; its index is the one after the last.
    pub id: LogId,
    /// Whose entry it is.
    pub kind: EntryKind,
    /// What is to be kept, at most [`ENTRY_BYTES_MAX`] bytes.
    pub bytes: &'a [u8],
}

/// The log of a node of a cluster. After an error of a call nothing of the call is in the log; whether it can go on is what
/// [`ReplicatedLog::is_usable`] says.
#[derive(Debug)]
pub struct ReplicatedLog {
    log: SegmentLog,
    index: Arc<RwLock<Index>>,
    reader: LogReader,
    snapshot: Option<RaftSnapshot>,
}

impl ReplicatedLog {
    /// Takes the data directory and reads what is stored in it.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: LocalOptions,
        restore: &mut dyn RestoreSnapshot,
    ) -> Result<(Self, ReplicatedRecovery), JournalError> {
        let lock = segment_log::lock(disk.as_ref())?;
        Self::open_locked(disk, lock, options, restore)
    }

    /// Reads what is stored in a data directory that is locked already. Damage is [`JournalError::NodeCorruption`].
    pub fn open_locked(
        disk: Arc<dyn Disk>,
        lock: Box<dyn Lock>,
        options: LocalOptions,
        restore: &mut dyn RestoreSnapshot,
    ) -> Result<(Self, ReplicatedRecovery), JournalError> {
        match Self::restored(disk, lock, options, restore) {
            Err(JournalError::Corruption(damage)) => Err(JournalError::NodeCorruption(damage)),
            restored => restored,
        }
    }

    fn restored(
        disk: Arc<dyn Disk>,
        lock: Box<dyn Lock>,
        options: LocalOptions,
        restore: &mut dyn RestoreSnapshot,
    ) -> Result<(Self, ReplicatedRecovery), JournalError> {
        let mut gather = Gather::new(restore);
        let (mut log, report) =
            SegmentLog::open(Arc::clone(&disk), lock, options, Layout::Replicated, &mut gather)?;
        if log.is_bare() {
            // What a conversion or an installed snapshot left behind is out of date from here on.
            log.seal()?;
        }
        let Gather {
            snapshot,
            index,
            copies,
            ..
        } = gather;
        let mut index = index.unwrap_or_default();
        check_agreement(disk.as_ref(), &index, snapshot.as_ref())?;
        index.set_segments(log.readable_segments());
        let index = Arc::new(RwLock::new(index));
        let log = Self {
            log,
            reader: LogReader::new(disk, Arc::clone(&index)),
            index,
            snapshot,
        };
        Ok((log, ReplicatedRecovery { report, copies }))
    }

    fn index(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the log can go on. If not, nobody knows what is on the disk, and the process must end.
    pub fn is_usable(&self) -> bool {
        self.log.is_usable()
    }

    /// Returns a handle that reads entries on any thread.
    pub fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    /// Reads an entry and checks it; none if it is not there.
    pub fn entry(&self, index: LogIndex) -> Result<Option<StoredEntry>, JournalError> {
        self.reader.entry(index)
    }

    /// Returns the id of an entry that is there, or of the one before the first. Nothing is read from the disk.
    pub fn id(&self, index: LogIndex) -> Option<LogId> {
        self.reader.id(index)
    }

    /// Returns the last entry, or the one that the log was purged to. Its index is 0 if nothing was ever written.
    pub fn last_id(&self) -> LogId {
        self.log.last()
    }

    /// Returns the entry before the first one that is there; its index is 0 if none was ever purged.
    pub fn purged_id(&self) -> LogId {
        self.reader.purged_id()
    }

    /// Returns the newest mark; empty if there never was one.
    pub fn mark(&self) -> &[u8] {
        self.log.mark()
    }

    /// Writes entries, all of them or none. They follow the last one and are not durable before [`ReplicatedLog::sync`].
    /// Returns where their bytes lie.
    pub fn append(&mut self, entries: &[NewEntry<'_>]) -> Result<Vec<Place>, JournalError> {
        self.check_append(entries)?;
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let record = |entry: &NewEntry<'_>| match entry.kind {
            EntryKind::Commands => Kind::Entry,
            EntryKind::Raft => Kind::Raft,
        };
        let records: Vec<_> = entries
            .iter()
            .map(|entry| NewRecord {
                kind: record(entry),
                id: entry.id,
                payload: [entry.bytes, &[]],
            })
            .collect();
        let mut place = self.log.write(&records)?;
        self.log.count_entries(entries.len() as u64);
        let mut places = Vec::with_capacity(entries.len());
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        for (entry, record) in entries.iter().zip(&records) {
            let bytes = entry.bytes.len() as u32;
            index.push(entry.id, Stored { place, bytes });
            places.push(place);
            place = place.plus(record.bytes() as u32);
        }
        drop(index);
        self.take_new_segment();
        Ok(places)
    }

    fn check_append(&self, entries: &[NewEntry<'_>]) -> Result<(), JournalError> {
        let mut last = self.log.last().index;
        let mut sum = 0;
        for entry in entries {
            if entry.id.index != last.next() {
                return Err(self.out_of_order(entry.id.index));
            }
            check_size(entry.bytes.len() as u64, ENTRY_BYTES_MAX as u64)?;
            sum += entry.bytes.len() as u64;
            last = entry.id.index;
        }
        check_size(sum, APPEND_BYTES_MAX)
    }

    fn out_of_order(&self, index: LogIndex) -> JournalError {
        JournalError::Order {
            index,
            first: self.purged_id().index.next(),
            last: self.log.last().index,
        }
    }

    /// Takes the entries behind one back, which is the last from now on. It may not be before the last snapshot, or before
    /// what was purged.
    pub fn truncate_after(&mut self, index: LogIndex) -> Result<(), JournalError> {
        if index == self.log.last().index {
            return self.log.check_usable();
        }
        let is_needed = index.0 < self.log.snapshot_index();
        let Some(id) = self.reader.id(index).filter(|_| !is_needed) else {
            return Err(self.out_of_order(index));
        };
        self.log.write(&[NewRecord {
            kind: Kind::Truncation,
            id,
            payload: [&[], &[]],
        }])?;
        self.index().truncate(id);
        self.take_new_segment();
        Ok(())
    }

    /// Writes what the node must remember beside its entries, in the caller's encoding: at most [`MARK_BYTES_MAX`] bytes.
    /// It is durable with the next sync, and replaces the one before.
    pub fn set_mark(&mut self, mark: &[u8]) -> Result<(), JournalError> {
        check_mark(mark)?;
        if mark == self.log.mark() {
            return self.log.check_usable();
        }
        self.log.set_mark(mark)?;
        self.take_new_segment();
        Ok(())
    }

    /// Makes everything written durable. After [`JournalError::SyncFailed`] the process must abort.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.log.commit()
    }

    /// Returns the sync that makes everything written durable, to be run while others use the log; none if there is nothing
    /// to sync, or syncs are off.
    pub fn begin_sync(&mut self) -> Result<Option<PendingSync>, JournalError> {
        self.log.begin_sync()
    }

    /// Takes a sync that was run into account. A failed one leaves a log that cannot go on.
    pub fn end_sync(&mut self, result: Result<Synced, JournalError>) -> Result<(), JournalError> {
        self.log.end_sync(result)
    }

    /// Forgets the entries up to one. A segment goes when all its entries are purged, the last complete snapshot contains
    /// them, and it does not need contents from it. A start finds all entries of the segments that it needs after the
    /// snapshot, also purged ones, and no older ones.
    pub fn purge(&mut self, index: LogIndex) -> Result<(), JournalError> {
        self.log.check_usable()?;
        if index > self.log.last().index {
            return Err(self.out_of_order(index));
        }
        if index > self.purged_id().index {
            self.index().purge(index);
            self.log.drop_obsolete(self.log.snapshot_index().min(index.0));
            self.take_segments();
        }
        Ok(())
    }

    /// Shows readers the segment that the last write began, if it did.
    fn take_new_segment(&self) {
        if !self.reader.has_segment(self.log.active_segment()) {
            self.take_segments();
        }
    }

    fn take_segments(&self) {
        self.index().set_segments(self.log.readable_segments());
    }
}

/// Refuses a mark that is longer than any can be.
pub(crate) fn check_mark(mark: &[u8]) -> Result<(), JournalError> {
    check_size(mark.len() as u64, MARK_BYTES_MAX as u64)
}

fn check_size(bytes: u64, bytes_max: u64) -> Result<(), JournalError> {
    if bytes > bytes_max {
        return Err(JournalError::TooLarge { bytes, bytes_max });
    }
    Ok(())
}

/// Refuses a snapshot that stands for another history than the log does.
fn check_agreement(
    disk: &dyn Disk,
    index: &Index,
    snapshot: Option<&RaftSnapshot>,
) -> Result<(), JournalError> {
    let Some(snapshot) = snapshot else { return Ok(()) };
    let found = index.id(snapshot.id.index);
    if found == Some(snapshot.id) {
        return Ok(());
    }
    Err(JournalError::Corruption(Corruption {
        file: disk.describe(&snapshot::name(snapshot.id.index.0)),
        offset: 0,
        reason: format!(
            "it stands for {:?}, and the log holds {found:?} there",
            snapshot.id
        ),
    }))
}
