//! What a start of a node of a cluster finds.

use std::io::Read;

use types::LogIndex;

use crate::contract::{Place, ReplayError};
use crate::record::{APPLIED_BYTES, Kind, Record, number64};
use crate::recovery::RecoveryReport;
use crate::replicated::index::{Index, Stored};
use crate::snapshot::{self, RaftSnapshot};
use crate::visit::Visit;

/// Takes the stored state at a start: at most one snapshot. The entries after it are not applied, as nobody knows yet which
/// of them are committed; they are read from the log when it is known.
pub trait RestoreSnapshot {
    /// Takes the owner's content of the snapshot. It was verified as a whole before this call.
    fn snapshot(&mut self, snapshot: &RaftSnapshot, content: &mut dyn Read) -> Result<(), ReplayError>;
    /// Hears from time to time how many bytes of the log have been read, and of how many.
    fn progress(&mut self, _bytes_done: u64, _bytes_total: u64) {}
}

/// Contents that were copied forward and that the snapshot may not know: to be given to the owner, in their order, once it
/// has applied the entry. [`LogReader::copies`](super::LogReader::copies) reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredCopies {
    /// What the owner had applied when they were written.
    pub applied: LogIndex,
    /// Where they lie.
    pub place: Place,
    /// How many bytes they have.
    pub bytes: u32,
}

/// What a start found.
#[derive(Debug)]
pub struct ReplicatedRecovery {
    /// What was read and cut; entries replayed are those that were found behind the snapshot, truncated ones included.
    pub report: RecoveryReport,
    /// The copies that the snapshot may not know, in the order they were written in.
    pub copies: Vec<StoredCopies>,
}

/// Gathers what is stored.
pub(super) struct Gather<'a> {
    restore: &'a mut dyn RestoreSnapshot,
    pub(super) snapshot: Option<RaftSnapshot>,
    pub(super) index: Option<Index>,
    pub(super) copies: Vec<StoredCopies>,
}

impl<'a> Gather<'a> {
    pub(super) fn new(restore: &'a mut dyn RestoreSnapshot) -> Self {
        Self {
            restore,
            snapshot: None,
            index: None,
            copies: Vec::new(),
        }
    }

    fn snapshot_index(&self) -> LogIndex {
        let snapshot = self.snapshot.as_ref();
        snapshot.map_or(LogIndex(0), |snapshot| snapshot.id.index)
    }

    fn take_copies(&mut self, record: &Record<'_>, place: Place) -> Result<(), ReplayError> {
        let payload = record.payload();
        let bytes = payload
            .len()
            .checked_sub(APPLIED_BYTES)
            .ok_or("copies that do not say what was applied")?;
        let copies = StoredCopies {
            applied: LogIndex(number64(payload, 0)),
            place: place.plus(APPLIED_BYTES as u32),
            bytes: bytes as u32,
        };
        if copies.applied >= self.snapshot_index() {
            self.copies.push(copies);
        }
        Ok(())
    }
}

impl Visit for Gather<'_> {
    fn snapshot(&mut self, _index: LogIndex, reader: &mut snapshot::Reader<'_>) -> Result<(), ReplayError> {
        let Some(snapshot) = reader.raft().cloned() else {
            return Err("the snapshot does not say where in the cluster's log it stands".into());
        };
        self.restore.snapshot(&snapshot, reader)?;
        self.snapshot = Some(snapshot);
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>, place: Place) -> Result<(), ReplayError> {
        // The first record is the start of a segment, and names the entry before it.
        let index = self.index.get_or_insert_with(|| Index::behind(record.id()));
        match record.known_kind() {
            Kind::Entry | Kind::Raft => {
                let bytes = record.payload().len() as u32;
                index.push(record.id(), Stored { place, bytes });
            }
            Kind::Truncation => index.truncate(record.id()),
            Kind::AppliedCopies => self.take_copies(record, place)?,
            Kind::Seal | Kind::Mark | Kind::ReplicatedStart => {}
            Kind::Start | Kind::Copies => return Err("a single node's record in the log of a cluster".into()),
        }
        Ok(())
    }

    fn progress(&mut self, bytes_done: u64, bytes_total: u64) {
        self.restore.progress(bytes_done, bytes_total);
    }
}
