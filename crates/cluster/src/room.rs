//! Which nodes have room on their disks: what a quorum has no room for must not be accepted.
//!
//! A node that is below its reserve says so to the others every second, and once more when it has room again; one that is
//! not heard for a while counts as having room, as it may be gone for another reason. A leader below its reserve hands over
//! to a voter that has room, if a quorum has. So does one that could not send its state because contents of it are damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use journal::Space;
use tokio::time::Instant;
use tracing::warn;

use crate::cluster::Cluster;
use crate::link::{NodeId, Request, Target};
use crate::messages::ROOM;
use crate::node::Role;
use crate::raft::codec::CodecError;

/// How often a node that has no room says so.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How long that counts.
const COUNTS_FOR: Duration = Duration::from_secs(5);
/// How often a leader with damaged contents tries to hand over.
const LEAVE_DAMAGED_EVERY: Duration = Duration::from_secs(60);
/// How long telling may take.
const TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct State {
    is_short: bool,
    used_percent: Option<u8>,
    told_at: Option<Instant>,
    /// When nodes last said that they are short of room.
    short: BTreeMap<u64, Instant>,
    is_handing_over: bool,
    /// When this node last gave up leading for damage of its own.
    left_damaged_at: Option<Instant>,
}

/// What this node knows of the disks of all.
#[derive(Debug, Default)]
pub(crate) struct Rooms(Mutex<State>);

/// What follows from it.
#[derive(Debug, PartialEq, Eq)]
struct Decision {
    /// Whether a quorum of the voters has room.
    has_quorum: bool,
    /// Whether the others are to be told of this node.
    tells: bool,
    /// The voters beside this one that have room.
    heirs: BTreeSet<u64>,
}

impl State {
    fn look(&mut self, is_short: bool, own: u64, voters: &BTreeSet<u64>, now: Instant) -> Decision {
        let is_due = self.told_at.is_none_or(|told| now - told >= TELL_EVERY);
        let tells = is_short != self.is_short || (is_short && is_due);
        self.is_short = is_short;
        if tells {
            self.told_at = Some(now);
        }
        self.short.retain(|_, said| now - *said < COUNTS_FOR);
        let others = voters.iter().filter(|voter| **voter != own);
        let heirs: BTreeSet<u64> = others
            .filter(|voter| !self.short.contains_key(voter))
            .copied()
            .collect();
        let with_room = heirs.len() + usize::from(!is_short && voters.contains(&own));
        Decision {
            has_quorum: with_room > voters.len() / 2,
            tells,
            heirs,
        }
    }

    /// Whether a leader with damaged contents hands over now: not again soon, as it may be the only one who can lead.
    fn may_leave_damaged(&mut self, now: Instant) -> bool {
        let may_leave = self
            .left_damaged_at
            .is_none_or(|left| now - left >= LEAVE_DAMAGED_EVERY);
        if may_leave {
            self.left_damaged_at = Some(now);
        }
        may_leave
    }

    fn hear(&mut self, node: u64, is_short: bool, now: Instant) {
        if is_short {
            self.short.insert(node, now);
        } else {
            self.short.remove(&node);
        }
    }
}

impl Rooms {
    /// Takes note of how full this node's disk is.
    pub(crate) fn measured(&self, space: Space) {
        let used = space.total.saturating_sub(space.available);
        let percent = (used.saturating_mul(100)).checked_div(space.total);
        self.state().used_percent = percent.and_then(|percent| u8::try_from(percent).ok());
    }

    /// Whether this node's disk was below its reserve when somebody looked last.
    pub(crate) fn is_short(&self) -> bool {
        self.state().is_short
    }

    /// Returns how full this node's disk is; none if nobody has looked.
    pub(crate) fn used_percent(&self) -> Option<u8> {
        self.state().used_percent
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes note of whether this node is below its reserve. Returns whether a quorum has room.
pub(crate) fn look(cluster: &Cluster, is_short: bool) -> bool {
    let view = cluster.node().view();
    let voters = view.members.iter().filter(|(_, (_, has_vote))| *has_vote);
    let voters: BTreeSet<u64> = voters.map(|(id, _)| *id).collect();
    if voters.is_empty() {
        return !is_short;
    }
    if is_short {
        cluster.node().give_up();
    }
    let is_damaged = cluster.node().take_damaged();
    let (decision, reason) = {
        let mut state = cluster.rooms().state();
        let decision = state.look(is_short, view.id, &voters, Instant::now());
        let reason = if is_short && decision.has_quorum {
            Some("the disk is almost full: leadership goes to a node that has room")
        } else if is_damaged && state.may_leave_damaged(Instant::now()) {
            Some("contents are damaged here: leadership goes to a node that can send the state")
        } else {
            None
        };
        let reason = reason.filter(|_| view.role == Role::Leader && !state.is_handing_over);
        state.is_handing_over |= reason.is_some();
        (decision, reason)
    };
    if decision.tells {
        for (id, (address, _)) in view.members.iter().filter(|(id, _)| **id != view.id) {
            tell(cluster, *id, address.clone(), is_short);
        }
    }
    if let Some(reason) = reason {
        let cluster = cluster.clone();
        cluster.runtime().clone().spawn(async move {
            warn!("{reason}");
            // If nobody takes it, there is an election: this node sends no more heartbeats.
            if let Some(heir) = cluster.nearest(|id| decision.heirs.contains(&id)) {
                cluster.transfer_to(heir).await;
            }
            cluster.rooms().state().is_handing_over = false;
        });
    }
    decision.has_quorum
}

fn tell(cluster: &Cluster, id: u64, address: String, is_short: bool) {
    let Some(node) = NodeId::new(id) else { return };
    let cluster = cluster.clone();
    cluster.runtime().clone().spawn(async move {
        let request = Request::new(ROOM, Bytes::from(vec![u8::from(is_short)]));
        let target = Target::node(node, address);
        let told = cluster.links().call(&target, request, Instant::now() + TIMEOUT);
        if let Err(error) = told.await {
            // It is told again in a second, or finds room where there is none for a moment longer.
            tracing::debug!(%error, node = id, "a node was not told of the room on this disk");
        }
    });
}

/// Hears whether another node has room.
pub(crate) fn heard(cluster: &Cluster, node: u64, body: &Bytes) -> Result<Bytes, CodecError> {
    let is_short = match body.first() {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(CodecError::Invalid("whether there is room")),
    };
    cluster.rooms().state().hear(node, is_short, Instant::now());
    Ok(Bytes::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voters() -> BTreeSet<u64> {
        BTreeSet::from([1, 2, 3])
    }

    #[test]
    fn a_quorum_needs_room_and_one_node_without_it_does_not_matter() {
        let (mut state, now) = (State::default(), Instant::now());
        assert!(state.look(false, 1, &voters(), now).has_quorum);
        state.hear(2, true, now);
        let decision = state.look(false, 1, &voters(), now);
        assert!(decision.has_quorum);
        assert_eq!(decision.heirs, BTreeSet::from([3]));
        assert!(
            !state.look(true, 1, &voters(), now).has_quorum,
            "two of three are short"
        );
        state.hear(3, true, now);
        assert!(!state.look(false, 1, &voters(), now).has_quorum);
        state.hear(3, false, now);
        assert!(state.look(false, 1, &voters(), now).has_quorum);
    }

    #[test]
    fn what_was_said_counts_for_a_while() {
        let (mut state, now) = (State::default(), Instant::now());
        state.hear(2, true, now);
        state.hear(3, true, now);
        assert!(!state.look(false, 1, &voters(), now + COUNTS_FOR / 2).has_quorum);
        assert!(state.look(false, 1, &voters(), now + COUNTS_FOR).has_quorum);
    }

    #[test]
    fn others_are_told_of_changes_and_every_second_while_there_is_no_room() {
        let (mut state, now) = (State::default(), Instant::now());
        assert!(!state.look(false, 1, &voters(), now).tells);
        assert!(state.look(true, 1, &voters(), now).tells);
        assert!(!state.look(true, 1, &voters(), now + TELL_EVERY / 2).tells);
        assert!(state.look(true, 1, &voters(), now + TELL_EVERY).tells);
        assert!(state.look(false, 1, &voters(), now + TELL_EVERY).tells);
        assert!(!state.look(false, 1, &voters(), now + 10 * TELL_EVERY).tells);
    }

    #[test]
    fn a_leader_with_damage_hands_over_now_and_then() {
        let (mut state, now) = (State::default(), Instant::now());
        assert!(state.may_leave_damaged(now));
        assert!(!state.may_leave_damaged(now + LEAVE_DAMAGED_EVERY / 2));
        assert!(state.may_leave_damaged(now + LEAVE_DAMAGED_EVERY));
    }

    #[test]
    fn a_learner_has_no_say_and_may_be_full() {
        let (mut state, now) = (State::default(), Instant::now());
        state.hear(4, true, now);
        assert!(state.look(false, 1, &voters(), now).has_quorum);
        assert!(state.look(true, 4, &voters(), now).has_quorum);
    }
}
