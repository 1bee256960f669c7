//! What this node came to, to be compared with what others came to. Which of two is right the nodes decide by majority.

use types::LogIndex;

use crate::owner::Owner;

/// What was applied is compared once in so many entries.
pub(crate) const COMPARED_EVERY: u64 = 1_000;

/// A hash of what a node has after an entry. Every node of a cluster must have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The entry.
    pub index: LogIndex,
    /// A hash over everything applied since this entry; `None` if it is of the whole state.
    pub since: Option<LogIndex>,
    /// The hash.
    pub hash: u64,
}

impl<R> Owner<R> {
    /// Returns the hash of what was applied. None before all nodes have come to a level: they may have begun at different
    /// entries.
    pub(crate) fn checkpoint(&self) -> Option<Checkpoint> {
        let running = self.partition.running_hash();
        (self.partition.level() > 0).then_some(Checkpoint {
            index: self.index,
            since: Some(running.since),
            hash: running.hash,
        })
    }
}
