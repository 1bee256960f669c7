//! What makes the state of a single node that of the first node of a new cluster.

use std::collections::{BTreeMap, BTreeSet};

use broker::Random;
use journal::RaftSnapshot;
use types::LogIndex;

use crate::raft::codec::{Mark, encode_stored_membership};
use crate::raft::types::{LeaderId, LogId, Member, Membership, StoredMembership, Vote, to_journal};

/// The term in which the state counts as written.
const TERM: u64 = 1;

/// The first node of a cluster, before it was ever started as one.
#[derive(Debug)]
pub struct FirstNode {
    /// Its random id.
    pub node: u64,
    /// The random id of the cluster.
    pub cluster: [u8; 16],
    /// Names its snapshot, with it as the only voter.
    pub snapshot: RaftSnapshot,
    /// What its log begins with: who it is, and that it voted for itself.
    pub mark: Vec<u8>,
}

/// Describes a node that has the state after an entry of its own, and is reached at `advertise`. None if there is no entry.
pub fn first_node(index: LogIndex, advertise: &str, random: &dyn Random) -> Option<FirstNode> {
    let (mut node, mut cluster) = ([0; 8], [0; 16]);
    random.fill(&mut node);
    random.fill(&mut cluster);
    let node = u64::from_le_bytes(node).max(1);
    let id = LogId {
        leader_id: LeaderId {
            term: TERM,
            node_id: node,
        },
        index: index.0.checked_sub(1)?,
    };
    let address = advertise.to_owned();
    let members = BTreeMap::from([(node, Member { address })]);
    let membership = Membership::new(vec![BTreeSet::from([node])], members).ok()?;
    let membership = StoredMembership::new(Some(id), membership);
    let mark = Mark {
        node,
        cluster: Some(cluster),
        vote: Some(Vote::new_committed(TERM, node)),
    };
    Some(FirstNode {
        node,
        cluster,
        snapshot: RaftSnapshot {
            id: to_journal(id),
            membership: encode_stored_membership(&membership),
        },
        mark: mark.encode(),
    })
}
