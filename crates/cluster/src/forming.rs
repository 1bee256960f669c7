//! How a fresh node comes to a cluster: it asks every seed before anything else.
//!
//! If one of them belongs to a cluster, it joins that one. Only if every seed answers that it is fresh does the one with the
//! lowest address form the cluster, of all of them; the others wait for it. So the first formation needs all nodes, and
//! no part of them can ever form a second cluster beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use crate::cluster::Cluster;
use crate::link::{ClusterId, Request, Target};
use crate::messages::{ADOPT, Answer, DISCOVER, Found, Founding, JOIN, Place};
use crate::node::View;

/// How long one answer is waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a leader waits for a node to be up to date, which then asks again, and how long the node waits for the answer.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(60);
const JOIN_TIMEOUT: Duration = Duration::from_secs(90);
/// Between two rounds of asking.
const PAUSE: Duration = Duration::from_millis(200);
/// What stands in the way is logged once in so many rounds.
const ROUNDS_PER_LINE: u32 = 25;

/// Asks the seeds until this node belongs to a cluster.
pub(crate) async fn run(cluster: Cluster) {
    let mut rounds = 0;
    loop {
        match round(&cluster).await {
            Ok(()) => {
                check_address(&cluster);
                return;
            }
            Err(reason) if rounds % ROUNDS_PER_LINE == 0 => info!(reason, "no cluster yet"),
            Err(_) => {}
        }
        rounds += 1;
        sleep_until(Instant::now() + PAUSE).await;
    }
}

/// Says so if the others reach this node at another address than it announces.
fn check_address(cluster: &Cluster) {
    let view = cluster.node().view();
    let announced = &cluster.settings().advertise;
    if let Some((known, _)) = view.members.get(&view.id).filter(|(known, _)| known != announced) {
        warn!(
            known,
            announced,
            "the others reach this node at another address than cluster.advertise says, and go on doing so: set it to the \
             known address, or take the node out (holdfast cluster remove) and let it join again with an empty data directory"
        );
    }
}

/// What a node is to its cluster, as far as it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has a vote, or there is none for it.
    Settled,
    /// A voter has its address: it takes that one's place when it is up to date. Whoever began that may be gone.
    Replaces,
    /// It was taken out, or has not heard of its being added.
    Unknown,
}

fn standing(view: &View) -> Standing {
    match view.members.get(&view.id) {
        None => Standing::Unknown,
        Some((_, true)) => Standing::Settled,
        Some((own, false)) => {
            let mut others = view.members.values();
            if others.any(|(address, has_vote)| *has_vote && address == own) {
                Standing::Replaces
            } else {
                Standing::Settled
            }
        }
    }
}

/// One round; an error says what it waits for.
async fn round(cluster: &Cluster) -> Result<(), String> {
    let node = cluster.node();
    if node.is_member().await.map_err(|error| error.to_string())? {
        let view = node.view();
        return match standing(&view) {
            Standing::Settled => Ok(()),
            Standing::Unknown => Err("this node is not one of the nodes that it knows of".to_owned()),
            Standing::Replaces => {
                let leader = view.leader.and_then(|leader| view.members.get(&leader));
                let (Some(id), Some((leader, _))) = (node.cluster(), leader) else {
                    return Err("no leader is known that could give this node its vote".to_owned());
                };
                join(cluster, id, leader).await
            }
        };
    }
    if cluster.settings().seeds.is_empty() {
        // A cluster of one is formed on purpose only.
        return Err(
            "no seeds are set (cluster.seeds): this version forms a cluster of its seeds alone".to_owned(),
        );
    }
    let own = cluster.settings().advertise.clone();
    let mut fresh = BTreeMap::from([(own.clone(), node.id())]);
    let mut missing = Vec::new();
    for seed in cluster.settings().seeds.iter().filter(|seed| **seed != own) {
        match discover(cluster, seed).await {
            Ok(Found::Member { cluster: id }) => return join(cluster, id, seed).await,
            Ok(Found::Fresh { node }) => drop(fresh.insert(seed.clone(), node)),
            Err(reason) => missing.push(format!("{seed}: {reason}")),
        }
    }
    if !missing.is_empty() {
        return Err(format!(
            "waiting for every seed to answer ({})",
            missing.join("; ")
        ));
    }
    match fresh.first_key_value() {
        Some((lowest, _)) if *lowest != own => Err(format!("waiting for {lowest} to form the cluster")),
        _ => found(cluster, fresh).await,
    }
}

async fn ask(
    cluster: &Cluster,
    address: &str,
    request: Request,
    within: Duration,
) -> Result<bytes::Bytes, String> {
    let target = Target::anyone(address);
    let answer = cluster
        .links()
        .call(&target, request, Instant::now() + within)
        .await;
    answer.map_err(|error| error.to_string())
}

async fn discover(cluster: &Cluster, seed: &str) -> Result<Found, String> {
    let request = Request::new(DISCOVER, cluster.place().encode());
    let answer = ask(cluster, seed, request, ANSWER_TIMEOUT).await?;
    Found::decode(answer).map_err(|error| error.to_string())
}

/// Forms a cluster of all seeds. Everybody is told first, so that each takes Raft's first message for one of its cluster.
async fn found(cluster: &Cluster, fresh: BTreeMap<String, u64>) -> Result<(), String> {
    let distinct: BTreeSet<_> = fresh.values().collect();
    if distinct.len() < fresh.len() {
        return Err("two seeds answer with the same node id: one data directory was copied".to_owned());
    }
    let nodes = fresh.iter().map(|(address, node)| Place {
        node: *node,
        address: address.clone(),
    });
    let founding = Founding {
        // Begun before and not finished: the same again.
        cluster: cluster.node().cluster().unwrap_or_else(|| cluster.random_id()),
        nodes: nodes.collect(),
    };
    become_one(cluster, founding.cluster).await?;
    for address in fresh
        .keys()
        .filter(|address| **address != cluster.settings().advertise)
    {
        let request = Request::new(ADOPT, founding.encode());
        let answer = ask(cluster, address, request, ANSWER_TIMEOUT).await?;
        match Answer::decode(answer).map_err(|error| error.to_string())? {
            Answer::Done => {}
            Answer::Refused(reason) => {
                return Err(format!("{address} refuses to be one of the cluster: {reason}"));
            }
            Answer::Elsewhere(_) => return Err(format!("{address} is being formed into another cluster")),
        }
    }
    let members = fresh.into_iter().map(|(address, node)| (node, address)).collect();
    cluster
        .node()
        .form(members)
        .await
        .map_err(|error| error.to_string())?;
    info!(cluster = %hex(founding.cluster), "formed the cluster");
    Ok(())
}

/// Makes this node one of a cluster, durably, and its links with it.
async fn become_one(cluster: &Cluster, id: [u8; 16]) -> Result<(), String> {
    let link_id = ClusterId::new(id).ok_or("a cluster whose id is zero")?;
    if cluster.node().cluster() != Some(id) {
        cluster
            .node()
            .adopt(id)
            .await
            .map_err(|error| error.to_string())?;
    }
    cluster.links().set_cluster(link_id);
    Ok(())
}

/// Answers the one that forms a cluster.
pub(crate) async fn adopt(cluster: &Cluster, founding: Founding) -> Answer {
    match cluster.node().is_member().await {
        Ok(false) => {}
        Ok(true) => return Answer::Refused("this node belongs to a cluster already".to_owned()),
        Err(error) => return Answer::Refused(error.to_string()),
    }
    if !founding.nodes.contains(&cluster.place()) {
        let address = &cluster.settings().advertise;
        return Answer::Refused(format!("this node, {address}, is not one of its nodes"));
    }
    let theirs: BTreeSet<_> = founding
        .nodes
        .iter()
        .map(|place| place.address.as_str())
        .collect();
    let mut ours: BTreeSet<_> = cluster.settings().seeds.iter().map(String::as_str).collect();
    ours.insert(&cluster.settings().advertise);
    if theirs != ours {
        return Answer::Refused(format!("its seeds are {theirs:?}, and here they are {ours:?}"));
    }
    match become_one(cluster, founding.cluster).await {
        Ok(()) => Answer::Done,
        Err(reason) => Answer::Refused(reason),
    }
}

/// Becomes a node of the cluster that a seed belongs to.
async fn join(cluster: &Cluster, id: [u8; 16], seed: &str) -> Result<(), String> {
    become_one(cluster, id).await?;
    let mut address = seed.to_owned();
    // The seed, and the leader that it knows.
    for _ in 0..2 {
        let request = Request::new(JOIN, cluster.place().encode());
        let answer = ask(cluster, &address, request, JOIN_TIMEOUT).await?;
        match Answer::decode(answer).map_err(|error| error.to_string())? {
            Answer::Done => {
                info!(cluster = %hex(id), "joined the cluster");
                return Ok(());
            }
            Answer::Elsewhere(Some(leader)) => address = leader,
            Answer::Elsewhere(None) => return Err(format!("{address} knows no leader of the cluster")),
            Answer::Refused(reason) => return Err(format!("{address} refuses: {reason}")),
        }
    }
    Err("the leader of the cluster has changed".to_owned())
}

/// Takes a node into the cluster: without a vote first, then, when it is up to date, in the place of the voter that
/// announced the same address.
pub(crate) async fn admit(cluster: &Cluster, place: Place) -> Answer {
    let _one_at_a_time = cluster.changes().lock().await;
    let node = cluster.node();
    let view = node.view();
    if view.leader != Some(node.id()) {
        let leader = view.leader.and_then(|leader| view.members.get(&leader));
        return Answer::Elsewhere(leader.map(|(address, _)| address.clone()));
    }
    let refused = |error: crate::node::NodeError| Answer::Refused(error.to_string());
    let has_vote = view
        .members
        .get(&place.node)
        .is_some_and(|(_, has_vote)| *has_vote);
    if has_vote {
        return Answer::Done;
    }
    match timeout(
        CATCH_UP_TIMEOUT,
        node.add_learner(place.node, place.address.clone()),
    )
    .await
    {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return refused(error),
        // Others may want to join meanwhile, and this one asks again.
        Err(_) => return Answer::Refused("it is not up to date yet".to_owned()),
    }
    let view = node.view();
    let is_replaced =
        |(id, (address, _)): &(&u64, &(String, bool))| **id != place.node && *address == place.address;
    let replaced: BTreeSet<u64> = view
        .members
        .iter()
        .filter(is_replaced)
        .map(|(id, _)| *id)
        .collect();
    let voters: BTreeSet<u64> = view
        .members
        .iter()
        .filter(|(_, (_, has_vote))| *has_vote)
        .map(|(id, _)| *id)
        .collect();
    if voters.is_disjoint(&replaced) {
        info!(
            node = place.node,
            address = place.address,
            "a node has joined without a vote"
        );
        return Answer::Done;
    }
    let mut changed: BTreeSet<u64> = voters.difference(&replaced).copied().collect();
    changed.insert(place.node);
    if let Err(error) = node.set_voters(changed).await {
        return refused(error);
    }
    warn!(
        node = place.node,
        address = place.address,
        ?replaced,
        "a node has taken the place of another at its address"
    );
    Answer::Done
}

fn hex(id: [u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Role;

    fn view(members: &[(u64, &str, bool)]) -> View {
        View {
            id: 9,
            role: Role::Learner,
            term: 1,
            leader: Some(1),
            leader_since_millis: 0,
            has_quorum: true,
            applied: 0,
            purged: 0,
            members: members
                .iter()
                .map(|(id, address, has_vote)| (*id, ((*address).to_owned(), *has_vote)))
                .collect(),
        }
    }

    #[test]
    fn a_node_asks_until_it_has_the_place_of_the_one_at_its_address() {
        let others = [(1, "a:1", true), (2, "b:1", true)];
        let with = |own: &[(u64, &str, bool)]| standing(&view(&[&others[..], own].concat()));
        assert_eq!(with(&[(3, "c:1", true), (9, "c:1", false)]), Standing::Replaces);
        assert_eq!(with(&[(9, "c:1", true)]), Standing::Settled);
        assert_eq!(with(&[(3, "c:1", true), (9, "d:1", false)]), Standing::Settled);
        assert_eq!(with(&[(3, "c:1", true)]), Standing::Unknown);
        assert_eq!(standing(&view(&[])), Standing::Unknown);
    }
}
