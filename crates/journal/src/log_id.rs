//! Where an entry stands in a replicated log.

use types::{LogIndex, NodeId, Term};

use crate::snapshot::RaftSnapshot;

/// An entry of a replicated log: its index, and who proposed it in which term. Two logs that have an entry with the same
/// id have the same entries up to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId {
    /// The term it was proposed in; 0 on a single node.
    pub term: Term,
    /// The leader that proposed it; 0 on a single node.
    pub node: NodeId,
    /// Its place; 0 stands for the beginning of the log, before the first entry.
    pub index: LogIndex,
}

impl LogId {
    /// Returns the id of a single node's entry.
    pub(crate) fn local(index: LogIndex) -> Self {
        Self {
            index,
            ..Self::default()
        }
    }

    /// Returns what a snapshot of the state after this entry stands for.
    pub(crate) fn into_snapshot(self, membership: &[u8]) -> RaftSnapshot {
        RaftSnapshot {
            id: self,
            membership: membership.to_vec(),
        }
    }
}
