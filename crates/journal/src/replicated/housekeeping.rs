//! What a replicated log needs done beside its entries; the same as that of a single node.

use std::io;
use std::sync::Arc;

use types::LogIndex;

use crate::contract::{Counters, Kept, Place};
use crate::disk::{File, Space};
use crate::error::JournalError;
use crate::preparation::{Preparation, Prepared};
use crate::record::{APPLIED_BYTES, ENTRY_BYTES_MAX, Kind};
use crate::replicated::{ReplicatedLog, check_size};
use crate::segment_log::NewRecord;

impl ReplicatedLog {
    /// Writes contents that lie in an old segment once more, so that the old one can go. It is no entry; it is durable with
    /// the next sync, and a start finds it with `applied`, the entry that the owner has applied. Returns where they lie.
    pub fn copy_forward(&mut self, applied: LogIndex, copies: &[u8]) -> Result<Place, JournalError> {
        check_size(copies.len() as u64, (ENTRY_BYTES_MAX - APPLIED_BYTES) as u64)?;
        let place = self.log.write(&[NewRecord {
            kind: Kind::AppliedCopies,
            id: self.log.last(),
            payload: [&applied.0.to_le_bytes(), copies],
        }])?;
        self.take_new_segment();
        Ok(place.plus(APPLIED_BYTES as u32))
    }

    /// Keeps the segments of copies that are written from now on until there is a snapshot of an entry or a later one: they
    /// belong to a state that is still coming, of that entry. It replaces the hold before.
    pub fn hold(&mut self, until: LogIndex) {
        self.log.hold(until);
    }

    /// Returns the file of a segment to read from. It is not used for anything else while somebody holds it.
    pub fn segment(&self, segment: u32) -> Option<Arc<dyn File>> {
        self.log.segment(segment)
    }

    /// Returns the segments that are kept only for the contents in them.
    pub fn kept(&self) -> Vec<Kept> {
        self.log.kept()
    }

    /// Returns the length of a usual segment.
    pub fn segment_bytes(&self) -> u64 {
        self.log.segment_bytes()
    }

    /// Returns how much room there is where the log is written, if that is a file system.
    pub fn space(&self) -> io::Result<Option<Space>> {
        self.log.space()
    }

    /// Returns how many bytes of log a start would read.
    pub fn log_bytes_since_snapshot(&self) -> u64 {
        self.log.log_bytes_since_snapshot()
    }

    /// As [`Journal::take_preparation`](crate::Journal::take_preparation).
    pub fn take_preparation(&mut self) -> Option<Preparation> {
        self.log.take_preparation()
    }

    /// As [`Journal::install`](crate::Journal::install).
    pub fn install(&mut self, prepared: Prepared) -> Result<(), JournalError> {
        self.log.install(prepared)
    }

    /// Makes everything written durable and says so in the log, so that damage to it can be told from a torn tail. To be
    /// called after 100 ms without a write and at a clean stop.
    pub fn seal(&mut self) -> Result<(), JournalError> {
        self.log.seal()?;
        self.take_new_segment();
        Ok(())
    }

    /// Returns what was counted since the log was opened.
    pub fn counters(&self) -> Counters {
        self.log.counters()
    }
}
