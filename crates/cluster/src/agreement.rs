//! Whether the nodes came to the same by the same entries.
//!
//! Each tells all others what it came to, now and then. What most of the voters came to is right, and who differs from it
//! must not go on. If there is no majority for anything, nobody may.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use broker::Checkpoint;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::time::Instant;
use tracing::{debug, error};
use types::LogIndex;

use crate::cluster::Cluster;
use crate::link::{NodeId, Request, Target};
use crate::messages::COMPARE;
use crate::raft::codec::{CodecError, NODES_MAX};

/// Checkpoints that are remembered: those of the last million entries.
const KEPT: usize = 1_000;
/// How long another node may take to answer with what it came to.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What is compared: an entry, and since which one the hash is; none for the whole state.
type Point = (LogIndex, Option<LogIndex>);

/// What nodes came to, as far as this one has heard.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    points: BTreeMap<Point, BTreeMap<u64, u64>>,
}

/// What follows from it for this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is with the majority, or nothing is known yet.
    GoOn,
    /// A majority came to something else.
    Differs,
    /// All voters came to something, and no majority to the same.
    NoMajority,
}

impl Agreement {
    /// Takes note of what a node came to.
    fn note(&mut self, point: Point, node: u64, hash: u64) {
        self.points.entry(point).or_default().insert(node, hash);
        while self.points.len() > KEPT {
            self.points.pop_first();
        }
    }

    /// Returns what nodes came to.
    fn known(&self, point: Point) -> BTreeMap<u64, u64> {
        self.points.get(&point).cloned().unwrap_or_default()
    }

    /// Decides what follows for a node.
    fn verdict(&self, point: Point, own: u64, voters: &BTreeSet<u64>) -> Verdict {
        let Some(known) = self.points.get(&point) else {
            return Verdict::GoOn;
        };
        let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, hash) in known.iter().filter(|(node, _)| voters.contains(node)) {
            *votes.entry(*hash).or_default() += 1;
        }
        let quorum = voters.len() / 2 + 1;
        let right = votes.iter().find(|(_, count)| **count >= quorum);
        match (right, known.get(&own)) {
            (Some((right, _)), Some(found)) if found != right => Verdict::Differs,
            (None, Some(_)) if votes.values().sum::<usize>() == voters.len() => Verdict::NoMajority,
            _ => Verdict::GoOn,
        }
    }
}

/// The part of a node that compares.
#[derive(Debug, Default)]
pub(crate) struct Comparing(Mutex<Agreement>);

impl Comparing {
    fn note(&self, point: Point, node: u64, hash: u64) {
        let mut agreement = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        agreement.note(point, node, hash);
    }

    fn known(&self, point: Point) -> BTreeMap<u64, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).known(point)
    }

    fn verdict(&self, point: Point, own: u64, voters: &BTreeSet<u64>) -> Verdict {
        let agreement = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        agreement.verdict(point, own, voters)
    }
}

/// Tells all other nodes what this one came to, and hears what they did.
pub(crate) fn tell(cluster: &Cluster, checkpoint: Checkpoint) {
    let own = cluster.node().id();
    let point = (checkpoint.index, checkpoint.since);
    cluster.comparing().note(point, own, checkpoint.hash);
    judge(cluster, point);
    let view = cluster.node().view();
    let others = view.members.into_iter().filter(|(id, _)| *id != own);
    let body = encode(checkpoint);
    for (id, (address, _)) in others {
        let (cluster, body) = (cluster.clone(), body.clone());
        let Some(node) = NodeId::new(id) else { continue };
        cluster.runtime().clone().spawn(async move {
            let target = Target::node(node, address);
            let request = Request::new(COMPARE, body);
            let answer = cluster
                .links()
                .call(&target, request, Instant::now() + TIMEOUT)
                .await;
            let known = answer.map(decode_known);
            match known {
                Ok(Ok(known)) => {
                    for (node, hash) in known.into_iter().filter(|(node, _)| *node != own) {
                        cluster.comparing().note(point, node, hash);
                    }
                    judge(&cluster, point);
                }
                // It hears of it with a later checkpoint.
                Err(error) => debug!(%error, node = id, "a checkpoint was not compared"),
                Ok(Err(error)) => debug!(%error, node = id, "a checkpoint was not compared"),
            }
        });
    }
}

/// Hears what another node came to, and answers what is known of it.
pub(crate) fn heard(cluster: &Cluster, node: u64, body: Bytes) -> Result<Bytes, CodecError> {
    let checkpoint = decode(body)?;
    let point = (checkpoint.index, checkpoint.since);
    cluster.comparing().note(point, node, checkpoint.hash);
    judge(cluster, point);
    Ok(encode_known(&cluster.comparing().known(point)))
}

fn judge(cluster: &Cluster, (index, since): Point) {
    let view = cluster.node().view();
    let voters = view.members.iter().filter(|(_, (_, has_vote))| *has_vote);
    let voters = voters.map(|(id, _)| *id).collect();
    let what = if since.is_some() {
        "what it did"
    } else {
        "its state"
    };
    let reason = match cluster.comparing().verdict((index, since), view.id, &voters) {
        Verdict::GoOn => return,
        Verdict::Differs => format!(
            "{what} up to entry {index} differs from that of a majority of nodes. It serves no more. Keep its directory for \
             whoever looks for the cause, then start it with an empty one: it gets the state of the others"
        ),
        Verdict::NoMajority => format!(
            "{what} up to entry {index} differs between the nodes, and no majority has the same. None of them serves any \
             more: restore a backup, or start again with the node whose state is right"
        ),
    };
    cluster.halt(reason);
}

impl Cluster {
    /// Takes no further part, for good: what this node has is not what it should be.
    fn halt(&self, reason: String) {
        if self.halted().is_some() {
            return;
        }
        error!(reason, "this node has halted");
        self.set_halted(reason);
        let node = self.node().clone();
        self.runtime().spawn(async move {
            node.resign();
            if let Err(error) = node.shutdown().await {
                error!(%error, "Raft did not end in order");
            }
        });
    }
}

fn encode(checkpoint: Checkpoint) -> Bytes {
    let mut to = BytesMut::new();
    to.put_u64_le(checkpoint.index.0);
    to.put_u8(u8::from(checkpoint.since.is_some()));
    to.put_u64_le(checkpoint.since.unwrap_or_default().0);
    to.put_u64_le(checkpoint.hash);
    to.freeze()
}

fn decode(mut from: Bytes) -> Result<Checkpoint, CodecError> {
    let index = LogIndex(from.try_get_u64_le()?);
    let has_since = match from.try_get_u8()? {
        0 => false,
        1 => true,
        _ => return Err(CodecError::Invalid("what is compared")),
    };
    let since = LogIndex(from.try_get_u64_le()?);
    let hash = from.try_get_u64_le()?;
    // What later versions add is passed over: comparing must never stop because nodes differ in version.
    Ok(Checkpoint {
        index,
        since: has_since.then_some(since),
        hash,
    })
}

fn encode_known(known: &BTreeMap<u64, u64>) -> Bytes {
    let mut to = BytesMut::new();
    to.put_u8(u8::try_from(known.len()).unwrap_or(u8::MAX));
    for (node, hash) in known.iter().take(usize::from(u8::MAX)) {
        to.put_u64_le(*node);
        to.put_u64_le(*hash);
    }
    to.freeze()
}

fn decode_known(mut from: Bytes) -> Result<Vec<(u64, u64)>, CodecError> {
    let count = usize::from(from.try_get_u8()?);
    if count > NODES_MAX {
        return Err(CodecError::Invalid("the number of nodes"));
    }
    (0..count)
        .map(|_| Ok((from.try_get_u64_le()?, from.try_get_u64_le()?)))
        .collect()
}

/// The feature levels that other nodes have announced, by node.
#[derive(Debug, Default)]
pub(crate) struct Levels(Mutex<BTreeMap<u64, u32>>);

impl Levels {
    /// Takes note of what a node has announced.
    pub(crate) fn announced(&self, node: u64, level: u32) {
        let mut levels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        levels.insert(node, level);
    }

    /// Returns the lowest of these nodes; 0 if one of them was never heard.
    pub(crate) fn lowest(&self, nodes: impl Iterator<Item = u64>) -> Option<u32> {
        let levels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.map(|node| levels.get(&node).copied().unwrap_or(0)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: Point = (LogIndex(1_000), Some(LogIndex(7)));

    fn verdict(own: u64, voters: &[u64], known: &[(u64, u64)]) -> Verdict {
        let mut agreement = Agreement::default();
        known
            .iter()
            .for_each(|(node, hash)| agreement.note(POINT, *node, *hash));
        agreement.verdict(POINT, own, &voters.iter().copied().collect())
    }

    #[test]
    fn two_of_three_agree_and_the_third_differs() {
        let known = [(1, 10), (2, 10), (3, 11)];
        assert_eq!(verdict(1, &[1, 2, 3], &known), Verdict::GoOn);
        assert_eq!(verdict(2, &[1, 2, 3], &known), Verdict::GoOn);
        assert_eq!(verdict(3, &[1, 2, 3], &known), Verdict::Differs);
        // Also while the one that agrees with it may still be to come.
        assert_eq!(
            verdict(3, &[1, 2, 3], &known[..2]),
            Verdict::GoOn,
            "it said nothing yet"
        );
    }

    #[test]
    fn nobody_goes_on_without_a_majority_and_everybody_until_all_have_said_something() {
        let known = [(1, 10), (2, 11), (3, 12)];
        for own in 1..=3 {
            assert_eq!(verdict(own, &[1, 2, 3], &known), Verdict::NoMajority);
            assert_eq!(verdict(own, &[1, 2, 3], &known[..2]), Verdict::GoOn);
        }
        // Of two voters neither can be told from the other.
        assert_eq!(verdict(1, &[1, 2], &known[..2]), Verdict::NoMajority);
    }

    #[test]
    fn a_learner_has_no_say_and_is_halted_like_others() {
        let known = [(1, 10), (2, 10), (3, 10), (4, 11), (5, 11), (6, 11)];
        assert_eq!(verdict(4, &[1, 2, 3], &known), Verdict::Differs);
        assert_eq!(verdict(1, &[1, 2, 3], &known), Verdict::GoOn);
        assert_eq!(verdict(1, &[1], &known), Verdict::GoOn, "alone");
    }

    #[test]
    fn other_points_do_not_count_and_old_ones_are_forgotten() {
        let mut agreement = Agreement::default();
        for index in 0..2 * KEPT as u64 {
            agreement.note((LogIndex(index), None), 1, index);
        }
        assert_eq!(agreement.points.len(), KEPT);
        assert!(agreement.known((LogIndex(0), None)).is_empty());
        agreement.note((LogIndex(2_000), None), 2, 1);
        let voters = BTreeSet::from([1, 2, 3]);
        assert_eq!(
            agreement.verdict((LogIndex(1_999), None), 1, &voters),
            Verdict::GoOn
        );
    }

    #[test]
    fn what_is_told_is_understood() {
        for since in [None, Some(LogIndex(3))] {
            let checkpoint = Checkpoint {
                index: LogIndex(9),
                since,
                hash: u64::MAX,
            };
            let bytes = encode(checkpoint);
            assert_eq!(decode(bytes.clone()), Ok(checkpoint));
            assert!((0..bytes.len()).all(|end| decode(bytes.slice(..end)).is_err()));
        }
        let known = BTreeMap::from([(1, 2), (3, 4)]);
        let bytes = encode_known(&known);
        assert_eq!(decode_known(bytes.clone()), Ok(known.into_iter().collect()));
        assert!((0..bytes.len()).all(|end| decode_known(bytes.slice(..end)).is_err()));
    }
}
