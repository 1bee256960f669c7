//! Reads entries of a replicated log, on any thread.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use types::LogIndex;

use crate::contract::Place;
use crate::disk::{Disk, File};
use crate::error::{Corruption, JournalError};
use crate::log_id::LogId;
use crate::record::{self, APPLIED_BYTES, HEADER_BYTES, Kind, Record, record_bytes};
use crate::replicated::index::{Index, Stored};
use crate::replicated::{EntryKind, StoredCopies};
use crate::segment::{Segment, number};

/// An entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Where it stands in the log.
    pub id: LogId,
    /// Whose entry it is.
    pub kind: EntryKind,
    /// What was appended.
    pub bytes: Vec<u8>,
    /// Where its bytes lie on this node.
    pub place: Place,
}

/// Reads the entries of a [`ReplicatedLog`](super::ReplicatedLog), also on another thread than the one that writes. What it
/// says is true of the log at some moment of the call.
#[derive(Debug, Clone)]
pub struct LogReader {
    disk: Arc<dyn Disk>,
    index: Arc<RwLock<Index>>,
}

impl LogReader {
    pub(super) fn new(disk: Arc<dyn Disk>, index: Arc<RwLock<Index>>) -> Self {
        Self { disk, index }
    }

    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stored(&self, index: LogIndex) -> Option<Stored> {
        self.index().stored(index)
    }

    pub(super) fn has_segment(&self, id: u64) -> bool {
        self.index().has_segment(number(id))
    }

    /// Returns the last entry, or the one that the log was purged to.
    pub fn last_id(&self) -> LogId {
        self.index().last()
    }

    /// Returns the entry before the first one that is there; its index is 0 if none was ever purged.
    pub fn purged_id(&self) -> LogId {
        self.index().purged()
    }

    /// Returns the id of an entry that is there, or of the one before the first. Nothing is read from the disk.
    pub fn id(&self, index: LogIndex) -> Option<LogId> {
        self.index().id(index)
    }

    /// Returns how many bytes an entry has. Nothing is read from the disk.
    pub fn entry_bytes(&self, index: LogIndex) -> Option<u32> {
        self.index().stored(index).map(|stored| stored.bytes)
    }

    /// Returns where the bytes of an entry lie. Nothing is read from the disk.
    pub fn place(&self, index: LogIndex) -> Option<Place> {
        self.index().stored(index).map(|stored| stored.place)
    }

    /// Returns the file of a segment to read contents from. It is not used for anything else while somebody holds it.
    pub fn file(&self, segment: u32) -> Option<Arc<dyn File>> {
        self.index().segment(segment).map(|segment| segment.file)
    }

    /// Reads an entry and checks it; none if it was purged or truncated, or is not there yet.
    pub fn entry(&self, index: LogIndex) -> Result<Option<StoredEntry>, JournalError> {
        let Some((id, stored, segment)) = self.index().find(index) else {
            return Ok(None);
        };
        let record = self.read(&segment, stored, HEADER_BYTES)?;
        let record = self.check(&segment, stored, HEADER_BYTES, &record)?;
        let kind = match record.known_kind() {
            Kind::Entry if record.id() == id => EntryKind::Commands,
            Kind::Raft if record.id() == id => EntryKind::Raft,
            Kind::Entry
            | Kind::Raft
            | Kind::Seal
            | Kind::Start
            | Kind::Copies
            | Kind::Truncation
            | Kind::Mark
            | Kind::ReplicatedStart
            | Kind::AppliedCopies => {
                let reason = format!("another record lies where entry {index} was");
                return Err(self.damaged(&segment, stored, reason));
            }
        };
        Ok(Some(StoredEntry {
            id,
            kind,
            bytes: record.payload().to_vec(),
            place: stored.place,
        }))
    }

    /// Reads copies that a start found, and checks them; none if a snapshot that was completed or installed since does
    /// without them.
    pub fn copies(&self, copies: &StoredCopies) -> Result<Option<Vec<u8>>, JournalError> {
        let stored = Stored {
            place: copies.place,
            bytes: copies.bytes,
        };
        let Some(segment) = self.index().segment(copies.place.segment) else {
            return Ok(None);
        };
        let before = HEADER_BYTES + APPLIED_BYTES;
        let record = self.read(&segment, stored, before)?;
        let record = self.check(&segment, stored, before, &record)?;
        match record.known_kind() {
            Kind::AppliedCopies => Ok(Some(record.payload()[APPLIED_BYTES..].to_vec())),
            Kind::Entry
            | Kind::Seal
            | Kind::Start
            | Kind::Copies
            | Kind::Raft
            | Kind::Truncation
            | Kind::Mark
            | Kind::ReplicatedStart => Err(self.damaged(
                &segment,
                stored,
                "another record lies where copies were".to_owned(),
            )),
        }
    }

    /// Reads the record of a payload that begins so many bytes behind it.
    fn read(&self, segment: &Segment, stored: Stored, before: usize) -> Result<Vec<u8>, JournalError> {
        let payload = before - HEADER_BYTES + stored.bytes as usize;
        let mut bytes = vec![0; record_bytes(payload) as usize];
        let offset = u64::from(stored.place.offset) - before as u64;
        let read = segment
            .file
            .read_at(&mut bytes, offset)
            .map_err(|source| JournalError::failed("read", self.disk.describe(&segment.name), source))?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn check<'a>(
        &self,
        segment: &Segment,
        stored: Stored,
        before: usize,
        bytes: &'a [u8],
    ) -> Result<Record<'a>, JournalError> {
        let payload = before - HEADER_BYTES + stored.bytes as usize;
        let is_whole = bytes.len() as u64 == record_bytes(payload)
            && record::announced_bytes(bytes, segment.generation) == Some(bytes.len() as u64);
        let record = is_whole.then(|| Record::check(bytes)).flatten();
        let record = record.filter(|record| record.kind().is_ok() && record.payload().len() == payload);
        record.ok_or_else(|| {
            let reason = "the checksum of a record does not hold that held before".to_owned();
            self.damaged(segment, stored, reason)
        })
    }

    fn damaged(&self, segment: &Segment, stored: Stored, reason: String) -> JournalError {
        JournalError::Corruption(Corruption {
            file: self.disk.describe(&segment.name),
            offset: u64::from(stored.place.offset),
            reason,
        })
    }
}
