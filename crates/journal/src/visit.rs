//! Who takes what a start reads: the owner of a single node, or the index of a replicated log.

use types::LogIndex;

use crate::contract::{Place, Replay, ReplayError};
use crate::record::{Kind, Record};
use crate::snapshot;

/// Takes what is stored, in its order.
pub(crate) trait Visit {
    /// Takes the snapshot of the state after an entry, if there is one; it comes first.
    fn snapshot(&mut self, index: LogIndex, reader: &mut snapshot::Reader<'_>) -> Result<(), ReplayError>;
    /// Takes a record that counts, and where its payload lies. The first one may stand before the snapshot.
    fn record(&mut self, record: &Record<'_>, place: Place) -> Result<(), ReplayError>;
    /// Hears from time to time how many bytes of the log have been read, and of how many.
    fn progress(&mut self, bytes_done: u64, bytes_total: u64);
}

/// Gives a single node's log to its owner.
pub(crate) struct ReplayVisit<'a> {
    replay: &'a mut dyn Replay,
    snapshot_index: LogIndex,
}

impl<'a> ReplayVisit<'a> {
    pub(crate) fn new(replay: &'a mut dyn Replay) -> Self {
        Self {
            replay,
            snapshot_index: LogIndex(0),
        }
    }
}

impl Visit for ReplayVisit<'_> {
    fn snapshot(&mut self, index: LogIndex, reader: &mut snapshot::Reader<'_>) -> Result<(), ReplayError> {
        self.snapshot_index = index;
        self.replay.snapshot(index, reader)
    }

    fn record(&mut self, record: &Record<'_>, place: Place) -> Result<(), ReplayError> {
        let index = LogIndex(record.index());
        match record.known_kind() {
            Kind::Entry if index > self.snapshot_index => {
                self.replay.entry(index, record.payload(), Some(place))
            }
            Kind::Copies if index >= self.snapshot_index => self.replay.copies(record.payload(), place),
            Kind::Entry | Kind::Copies | Kind::Seal | Kind::Start => Ok(()),
            Kind::Raft | Kind::Truncation | Kind::Mark | Kind::ReplicatedStart | Kind::AppliedCopies => {
                Err("a record of a cluster in the log of a single node".into())
            }
        }
    }

    fn progress(&mut self, bytes_done: u64, bytes_total: u64) {
        self.replay.progress(bytes_done, bytes_total);
    }
}
