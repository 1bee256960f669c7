//! How this cluster fills in the types of openraft.

use std::fmt;

use bytes::Bytes;
use journal::Ticket;
use types::{LogIndex, Term};

use crate::raft::machine::{Machine, SnapshotData};

openraft::declare_raft_types!(
    /// One group of nodes that holds all queues.
    pub(crate) Types:
        D = Batch,
        R = (),
        NodeId = u64,
        Node = Member,
);

/// A node's place among leaders: its term, and which node it is.
pub(crate) type LeaderId = openraft::impls::leader_id_adv::LeaderId<u64, u64>;
pub(crate) type Raft = openraft::Raft<Types, Machine>;
pub(crate) type LogId = openraft::LogId<LeaderId>;
pub(crate) type Vote = openraft::Vote<LeaderId>;
pub(crate) type Entry = openraft::type_config::alias::EntryOf<Types>;
pub(crate) type Payload = openraft::EntryPayload<Batch, u64, Member>;
pub(crate) type Membership = openraft::Membership<u64, Member>;
pub(crate) type StoredMembership = openraft::type_config::alias::StoredMembershipOf<Types>;
pub(crate) type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<Types>;
pub(crate) type Snapshot = openraft::type_config::alias::SnapshotOf<Types, SnapshotData>;

/// A batch of commands as the owner encoded it: one entry of the log.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) bytes: Bytes,
    /// The proposal that it is on the node that proposed it. Neither stored nor sent.
    pub(crate) ticket: Option<Ticket>,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} bytes)", self.bytes.len())
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A node as the membership names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// Where other nodes reach its link port: a name or an address, with the port.
    pub(crate) address: String,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// Raft counts entries from 0 and the journal from 1: there 0 stands for the beginning of the log.
pub(crate) fn journal_index(index: u64) -> LogIndex {
    LogIndex(index + 1)
}

/// Returns the name of an entry as the journal has it.
pub(crate) fn to_journal(id: LogId) -> journal::LogId {
    journal::LogId {
        term: Term(id.leader_id.term),
        node: types::NodeId(id.leader_id.node_id),
        index: journal_index(id.index),
    }
}

/// Returns the name of an entry as Raft has it; none for the beginning of the log.
pub(crate) fn from_journal(id: journal::LogId) -> Option<LogId> {
    let leader_id = LeaderId {
        term: id.term.0,
        node_id: id.node.0,
    };
    let index = id.index.0.checked_sub(1)?;
    Some(LogId { leader_id, index })
}
