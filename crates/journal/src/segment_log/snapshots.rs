//! Snapshots of a segment log: what they cover, and what may go once one is complete.

use std::io;
use std::sync::Arc;

use types::LogIndex;

use crate::contract::{Place, SnapshotReceipt, SnapshotSink};
use crate::disk::Disk;
use crate::error::JournalError;
use crate::segment::{IDENTITY_BYTES, temporary};
use crate::segment_log::SegmentLog;
use crate::snapshot;

impl SegmentLog {
    pub(crate) fn shared_disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// Begins a snapshot that stands for the log up to a position.
    pub(crate) fn begin_snapshot(
        &mut self,
        header: snapshot::Header,
        position: u64,
    ) -> Result<Box<dyn SnapshotSink>, JournalError> {
        // A snapshot stands for durable entries, and names durable copies; without fsync they may not be.
        self.guarded(Self::sync_if_needed)?;
        let writer = snapshot::Writer::create(Arc::clone(&self.disk), header, position, self.position)?;
        Ok(Box::new(writer))
    }

    /// Begins the snapshot with which the log is going to begin anew.
    pub(crate) fn begin_restart(
        &mut self,
        header: snapshot::Header,
    ) -> Result<Box<dyn SnapshotSink>, JournalError> {
        self.check_usable()?;
        // One that was finished and never came to count has this name too.
        let name = temporary(&snapshot::name(header.index.0));
        match self.disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(JournalError::failed("remove", self.disk.describe(&name), error));
            }
            Ok(()) | Err(_) => {}
        }
        let writer = snapshot::Writer::create(Arc::clone(&self.disk), header, 0, self.position)?;
        Ok(Box::new(writer.unnamed()))
    }

    /// Returns a position not behind the entry's end. Only segments are known, so it is a little too low.
    pub(crate) fn position_about(&self, index: u64) -> u64 {
        let bases = self.closed.iter().map(|closed| (closed.before, closed.base));
        let bases = bases.chain([(self.active.before, self.active.base)]);
        let before = bases.rev().find(|(before, _)| before.index.0 <= index);
        before.map_or(self.snapshot_position, |(_, base)| base)
    }

    /// Returns the position behind a record of the log, by where its payload lies.
    pub(crate) fn position_after(&self, place: Place, bytes: u32) -> u64 {
        let closed = self.closed.iter().map(|closed| (closed.segment.id, closed.base));
        let mut segments = closed.chain([(self.active.segment.id, self.active.base)]);
        let base = segments.find(|(id, _)| *id == u64::from(place.segment));
        let end = u64::from(place.offset) + u64::from(bytes).next_multiple_of(8);
        base.map_or(self.snapshot_position, |(_, base)| base + end - IDENTITY_BYTES)
    }

    /// Makes a finished snapshot count that was left without a name.
    pub(crate) fn name_snapshot(&mut self, index: LogIndex) -> Result<(), JournalError> {
        self.guarded(|log| {
            log.sync_if_needed()?;
            snapshot::give_name(log.disk.as_ref(), index.0)
        })
    }

    /// Takes a finished snapshot into account. Entries up to `needless` are not needed by anybody.
    pub(crate) fn complete_snapshot(
        &mut self,
        receipt: &SnapshotReceipt,
        needless: u64,
    ) -> Result<(), JournalError> {
        assert!(receipt.is_named(), "a snapshot counts only under its name");
        self.check_usable()?;
        let index = receipt.index().0;
        if index < self.snapshot_index {
            self.garbage.push(snapshot::name(index));
            return Ok(());
        }
        self.guarded(Self::sync_if_needed)?;
        self.take_snapshot(receipt);
        self.drop_obsolete(needless.min(index));
        Ok(())
    }

    pub(super) fn take_snapshot(&mut self, receipt: &SnapshotReceipt) {
        let index = receipt.index().0;
        let (older, kept) = self.snapshots.iter().partition(|snapshot| **snapshot < index);
        self.garbage.extend(Vec::into_iter(older).map(snapshot::name));
        self.snapshots = kept;
        if !self.snapshots.contains(&index) {
            self.snapshots.push(index);
        }
        self.snapshot_index = index;
        self.snapshot_position = receipt.log_position().max(self.snapshot_position);
        self.snapshot_begun_at = receipt.log_end();
        self.named = receipt.segments().iter().copied().collect();
    }

    /// Returns the index of the last complete snapshot; 0 if there is none.
    pub(crate) fn snapshot_index(&self) -> u64 {
        self.snapshot_index
    }

    pub(crate) fn log_bytes_since_snapshot(&self) -> u64 {
        self.position - self.snapshot_position
    }
}
