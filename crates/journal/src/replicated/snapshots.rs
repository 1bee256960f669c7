//! Snapshots of a replicated log: this node's own, those of another node, and the one that makes a single node a cluster's.

use std::io::Read;
use std::sync::Arc;

use types::LogIndex;

use crate::contract::{Replay, ReplayError, SnapshotReceipt, SnapshotSink};
use crate::disk::Disk;
use crate::error::JournalError;
use crate::layout::Layout;
use crate::replicated::ReplicatedLog;
use crate::replicated::index::Index;
use crate::snapshot::{self, Header, RaftSnapshot};

/// The last complete snapshot, to be read while the log goes on.
#[derive(Debug, Clone)]
pub struct StoredSnapshot {
    disk: Arc<dyn Disk>,
    index: LogIndex,
}

impl StoredSnapshot {
    /// Returns the entry that the state is the one after.
    pub fn index(&self) -> LogIndex {
        self.index
    }

    /// Reads the owner's content. An error if a later snapshot has taken its place before.
    pub fn read<T>(
        &self,
        read: impl FnOnce(&mut dyn Read) -> Result<T, ReplayError>,
    ) -> Result<T, JournalError> {
        let index = self.index;
        let name = snapshot::name(index.0);
        let mut content = snapshot::Reader::open(self.disk.as_ref(), &name, index.0)?;
        read(&mut content).map_err(|source| JournalError::Replay { index, source })
    }
}

impl ReplicatedLog {
    /// Returns what the last complete snapshot stands for.
    pub fn snapshot(&self) -> Option<&RaftSnapshot> {
        self.snapshot.as_ref()
    }

    /// Returns a handle that reads the owner's content of the last complete snapshot, on any thread.
    pub fn stored_snapshot(&self) -> Option<StoredSnapshot> {
        let index = self.snapshot.as_ref()?.id.index;
        Some(StoredSnapshot {
            disk: self.log.shared_disk(),
            index,
        })
    }

    /// Gives the owner's content of the last complete snapshot once more.
    pub fn replay_snapshot(&self, replay: &mut dyn Replay) -> Result<(), JournalError> {
        match self.stored_snapshot() {
            Some(stored) => stored.read(|content| replay.snapshot(stored.index, content)),
            None => Ok(()),
        }
    }

    /// Begins a snapshot of the state after an entry, which must be committed, not purged and not behind the last snapshot;
    /// `membership` is that of the cluster as of this entry. As [`Journal::begin_snapshot`](crate::Journal::begin_snapshot)
    /// for the rest.
    pub fn begin_snapshot(
        &mut self,
        index: LogIndex,
        membership: &[u8],
        segments: &[u32],
    ) -> Result<Box<dyn SnapshotSink>, JournalError> {
        self.log.check_usable()?;
        snapshot::check_membership(membership)?;
        let is_behind = index.0 < self.log.snapshot_index().max(1);
        let Some(id) = self.id(index).filter(|_| !is_behind) else {
            return Err(self.no_snapshot(index));
        };
        let position = self.position_of(index);
        self.log.begin_snapshot(
            Header::replicated(id.into_snapshot(membership), segments),
            position,
        )
    }

    /// Returns where the log stands behind an entry.
    fn position_of(&self, index: LogIndex) -> u64 {
        match self.reader.stored(index) {
            Some(stored) => self.log.position_after(stored.place, stored.bytes),
            None => self.log.position_about(index.0),
        }
    }

    fn no_snapshot(&self, index: LogIndex) -> JournalError {
        JournalError::SnapshotIndex {
            index,
            previous: LogIndex(self.log.snapshot_index()),
            committed: self.log.last().index,
        }
    }

    /// Takes a finished snapshot of this node into account: older snapshots may go, and what was purged.
    pub fn complete_snapshot(&mut self, receipt: SnapshotReceipt) -> Result<(), JournalError> {
        self.complete(&receipt)
    }

    fn complete(&mut self, receipt: &SnapshotReceipt) -> Result<(), JournalError> {
        let is_newer = receipt.index().0 >= self.log.snapshot_index();
        self.log.complete_snapshot(receipt, self.purged_id().index.0)?;
        if is_newer {
            self.snapshot = receipt.raft().cloned();
        }
        self.take_segments();
        Ok(())
    }

    /// Begins to write the state of another node, of a later entry than that of the last snapshot. `segments` are those of
    /// this node that hold contents of it; contents that are written after this call are not kept. It counts for nothing
    /// before [`ReplicatedLog::install_snapshot`]. No snapshot of this node at the same entry may be under way.
    pub fn begin_install(
        &mut self,
        snapshot: &RaftSnapshot,
        segments: &[u32],
    ) -> Result<Box<dyn SnapshotSink>, JournalError> {
        snapshot::check_membership(&snapshot.membership)?;
        if snapshot.id.index.0 <= self.log.snapshot_index() {
            return Err(self.no_snapshot(snapshot.id.index));
        }
        self.log
            .begin_restart(Header::replicated(snapshot.clone(), segments))
    }

    /// Makes the state of another node that of this one, durably. If the log holds the very entry that the snapshot ends
    /// with, it goes on as it is; otherwise every entry is dropped, and it begins behind the snapshot. The mark stays.
    pub fn install_snapshot(&mut self, receipt: &SnapshotReceipt) -> Result<(), JournalError> {
        let Some(snapshot) = receipt.raft().filter(|_| !receipt.is_named()) else {
            return Err(self.no_snapshot(receipt.index()));
        };
        if snapshot.id.index.0 <= self.log.snapshot_index() {
            return Err(self.no_snapshot(snapshot.id.index));
        }
        if self.id(snapshot.id.index) == Some(snapshot.id) {
            self.log.name_snapshot(snapshot.id.index)?;
            let position = self.position_of(snapshot.id.index);
            return self.complete(&receipt.named(position));
        }
        let mark = self.log.mark().to_vec();
        self.log
            .restart(Layout::Replicated, snapshot.id, &mark, receipt)?;
        self.snapshot = Some(snapshot.clone());
        *self.index() = Index::behind(snapshot.id);
        self.take_segments();
        Ok(())
    }
}
