//! What operators ask of a cluster: how its nodes are, who leads, and who belongs to it.
//!
//! Any node may be asked. It asks all others how they are, and sends a change on to the node that leads.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use crate::cluster::Cluster;
use crate::link::{NodeId, Request, Target};
use crate::messages::{Answer, CHANGE, STATUS, begin, check_end, check_version, put_text, text};
use crate::node::{Role, View};
use crate::raft::codec::CodecError;

/// How long another node may take to say how it is.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a change may take: a node may have to be brought up to date.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a change is sent on while the leader changes, and the pause between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(200);

/// How a node says that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What it is.
    pub role: Role,
    /// The leader that it knows of.
    pub leader: Option<u64>,
    /// The term that it knows of.
    pub term: u64,
    /// The last entry that is applied there.
    pub applied: u64,
    /// How full its disk is; none if nobody has looked yet.
    pub disk_used_percent: Option<u8>,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surveyed {
    /// Its id.
    pub id: u64,
    /// Where other nodes reach it.
    pub address: String,
    /// Whether it has a vote.
    pub has_vote: bool,
    /// How it is; none if it did not answer.
    pub report: Option<Report>,
}

/// A change that an operator asks for. Nodes are named by their id (16 hexadecimal digits) or address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Hands leadership over, to this node or any.
    Transfer {
        /// The node.
        to: Option<String>,
    },
    /// Gives a vote to a node that has joined without one.
    Add {
        /// The node.
        node: String,
    },
    /// Takes a node out of the cluster.
    Remove {
        /// The node.
        node: String,
        /// Also if too few of the others are in reach.
        is_forced: bool,
    },
}

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// It cannot be made as things are.
    #[error("{0}")]
    Refused(String),
    /// Nobody leads, or the leader did not answer: it may be made later.
    #[error("{0}")]
    Unavailable(String),
}

/// How often a node that prefers to lead asks for the leadership: seldom enough that one that cannot keep it does little harm.
const SEEK_EVERY: Duration = Duration::from_secs(5);
/// It asks only while it is not further behind than this.
const SEEK_LAG_MAX: u64 = 1_000;

/// Asks for the leadership whenever another node has it, for as long as the process lives.
pub(crate) async fn seek_office(cluster: Cluster) {
    loop {
        sleep_until(Instant::now() + SEEK_EVERY).await;
        let view = cluster.node().view();
        let has_vote = view.members.get(&view.id).is_some_and(|(_, has_vote)| *has_vote);
        if view.role != Role::Follower || view.leader.is_none() || !has_vote || !cluster.is_fit_to_lead() {
            continue;
        }
        let surveyed = cluster.survey().await;
        let most = surveyed
            .iter()
            .filter_map(|node| node.report.as_ref())
            .map(|report| report.applied)
            .max();
        if most.is_none_or(|most| most > view.applied + SEEK_LAG_MAX) {
            continue;
        }
        let to = Some(format!("{:016x}", view.id));
        match cluster.change(&Change::Transfer { to }).await {
            Ok(()) => info!("this node prefers to lead, and was given the leadership"),
            Err(error) => warn!(%error, "this node prefers to lead, and was not given the leadership"),
        }
    }
}

impl Cluster {
    /// Asks every node how it is.
    pub async fn survey(&self) -> Vec<Surveyed> {
        let Some(node) = self.started() else {
            return Vec::new();
        };
        let view = node.view();
        let mut asked = Vec::new();
        for (id, (address, has_vote)) in view.members.clone() {
            let (cluster, address_asked) = (self.clone(), address.clone());
            let report = if id == view.id {
                let own = cluster.report(&view);
                self.runtime().spawn(async move { Some(own) })
            } else {
                self.runtime()
                    .spawn(async move { cluster.ask_report(id, address_asked).await })
            };
            asked.push((id, address, has_vote, report));
        }
        let mut surveyed = Vec::new();
        for (id, address, has_vote, report) in asked {
            surveyed.push(Surveyed {
                id,
                address,
                has_vote,
                // A task that has panicked has said so.
                report: report.await.ok().flatten(),
            });
        }
        surveyed
    }

    fn report(&self, view: &View) -> Report {
        Report {
            role: view.role,
            leader: view.leader,
            term: view.term,
            applied: view.applied,
            disk_used_percent: self.rooms().used_percent(),
        }
    }

    async fn ask_report(&self, id: u64, address: String) -> Option<Report> {
        let target = Target::node(NodeId::new(id)?, address);
        let request = Request::new(STATUS, Bytes::new());
        let answer = self
            .links()
            .call(&target, request, Instant::now() + STATUS_TIMEOUT)
            .await;
        Report::decode(answer.ok()?).ok()
    }

    /// Answers another node how this one is.
    pub(crate) fn answer_report(&self) -> Bytes {
        self.report(&self.node().view()).encode()
    }

    /// Makes a change, here or at the node that leads.
    pub async fn change(&self, change: &Change) -> Result<(), ChangeError> {
        let unavailable = |text: &str| Err(ChangeError::Unavailable(text.to_owned()));
        if self.started().is_none() {
            return unavailable("the node has not read its log yet");
        }
        let mut last = "no node leads".to_owned();
        for _ in 0..TRIES {
            let view = self.node().view();
            let answer = match view.leader {
                Some(leader) if leader == view.id => Ok(self.make(change).await),
                Some(leader) => self.send_on(leader, &view, change).await,
                None => Err("no node leads".to_owned()),
            };
            match answer {
                Ok(Answer::Done) => return Ok(()),
                Ok(Answer::Refused(reason)) => return Err(ChangeError::Refused(reason)),
                Ok(Answer::Elsewhere(_)) => last = "the leader has changed".to_owned(),
                Err(reason) => last = reason,
            }
            sleep_until(Instant::now() + PAUSE).await;
        }
        unavailable(&last)
    }

    async fn send_on(&self, leader: u64, view: &View, change: &Change) -> Result<Answer, String> {
        let address = view.members.get(&leader).map(|(address, _)| address.clone());
        let (Some(id), Some(address)) = (NodeId::new(leader), address) else {
            return Err("the node that leads is not known".to_owned());
        };
        let (target, request) = (Target::node(id, address), Request::new(CHANGE, change.encode()));
        let answer = self
            .links()
            .call(&target, request, Instant::now() + CHANGE_TIMEOUT)
            .await;
        let answer = answer.map_err(|error| format!("the node that leads did not answer: {error}"))?;
        Answer::decode(answer).map_err(|error| error.to_string())
    }

    /// Answers another node that sends a change on.
    pub(crate) async fn answer_change(&self, body: Bytes) -> Result<Bytes, CodecError> {
        let change = Change::decode(body)?;
        Ok(self.make(&change).await.encode())
    }

    /// Makes a change, if this node leads.
    async fn make(&self, change: &Change) -> Answer {
        let _one_at_a_time = self.changes().lock().await;
        let view = self.node().view();
        if view.leader != Some(view.id) || view.role != Role::Leader {
            return Answer::Elsewhere(None);
        }
        match change {
            Change::Transfer { to } => self.transfer_leadership(&view, to.as_deref()).await,
            Change::Add { node } => self.add(&view, node).await,
            Change::Remove { node, is_forced } => self.remove(&view, node, *is_forced).await,
        }
    }

    async fn transfer_leadership(&self, view: &View, to: Option<&str>) -> Answer {
        let wanted = match to {
            Some(name) => match find(view, name) {
                Some(id) if id == view.id => return Answer::Done,
                Some(id) => Some(id),
                None => return unknown(name),
            },
            None => None,
        };
        let heir = self.nearest(|id| wanted.is_none_or(|wanted| wanted == id));
        match heir {
            None => Answer::Refused("no such node with a vote is in reach".to_owned()),
            Some(heir) if self.transfer_to(heir).await => Answer::Done,
            Some(_) => Answer::Refused("the node did not take the leadership in time".to_owned()),
        }
    }

    async fn add(&self, view: &View, name: &str) -> Answer {
        let Some(id) = find(view, name) else {
            return Answer::Refused(format!(
                "{name} has not joined: start it with a member among its seeds, and add it then"
            ));
        };
        let mut voters = voters(view);
        if !voters.insert(id) {
            return Answer::Done;
        }
        if let Some(reason) = self.lacks_quorum(&voters).await {
            return Answer::Refused(reason);
        }
        let address = view
            .members
            .get(&id)
            .map(|(address, _)| address.clone())
            .unwrap_or_default();
        // Up to date first: a vote that is far behind would be missed at the next failure.
        match timeout(CHANGE_TIMEOUT, self.node().add_learner(id, address)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Answer::Refused(error.to_string()),
            Err(_) => return Answer::Refused("it is not up to date yet".to_owned()),
        }
        self.set(voters, "a node was given a vote", id).await
    }

    async fn remove(&self, view: &View, name: &str, is_forced: bool) -> Answer {
        let Some(id) = find(view, name) else {
            return unknown(name);
        };
        let mut voters = voters(view);
        if !voters.remove(&id) {
            let removed = self.node().remove_learners(BTreeSet::from([id])).await;
            return match removed {
                Ok(()) => Answer::Done,
                Err(error) => Answer::Refused(error.to_string()),
            };
        }
        if voters.is_empty() {
            return Answer::Refused("it is the only node with a vote".to_owned());
        }
        if !is_forced && let Some(reason) = self.lacks_quorum(&voters).await {
            return Answer::Refused(format!("{reason}; it can be forced"));
        }
        if id == view.id {
            // Whoever leads then makes the change.
            return match self.nearest(|_| true) {
                Some(heir) if self.transfer_to(heir).await => Answer::Elsewhere(None),
                Some(_) | None => Answer::Refused("it leads, and nobody could take over".to_owned()),
            };
        }
        self.set(voters, "a node was taken out of the cluster", id).await
    }

    async fn set(&self, voters: BTreeSet<u64>, what: &str, node: u64) -> Answer {
        let Ok(changed) = timeout(CHANGE_TIMEOUT, self.node().set_voters(voters)).await else {
            return Answer::Refused("a quorum has not agreed in time: it may be done later".to_owned());
        };
        match changed {
            Ok(()) => {
                info!(node = format!("{node:016x}"), "{what}");
                Answer::Done
            }
            Err(error) => {
                warn!(%error, "the membership could not be changed");
                Answer::Refused(error.to_string())
            }
        }
    }

    /// Returns why these voters could decide nothing: too few of them answer.
    async fn lacks_quorum(&self, voters: &BTreeSet<u64>) -> Option<String> {
        let surveyed = self.survey().await;
        let answers = surveyed
            .iter()
            .filter(|node| node.report.is_some() && voters.contains(&node.id));
        let (reached, needed) = (answers.count(), voters.len() / 2 + 1);
        (reached < needed).then(|| {
            format!(
                "only {reached} of the {} nodes that would have a vote are in reach, and {needed} are needed",
                voters.len()
            )
        })
    }
}

fn unknown(name: &str) -> Answer {
    Answer::Refused(format!(
        "{name} is no node of the cluster: name one by its id or address"
    ))
}

fn voters(view: &View) -> BTreeSet<u64> {
    let voters = view.members.iter().filter(|(_, (_, has_vote))| *has_vote);
    voters.map(|(id, _)| *id).collect()
}

/// Finds a node by its id or address.
fn find(view: &View, name: &str) -> Option<u64> {
    let is_it =
        |(id, (address, _)): &(&u64, &(String, bool))| address == name || format!("{id:016x}") == name;
    view.members.iter().find(is_it).map(|(id, _)| *id)
}

impl Report {
    fn encode(&self) -> Bytes {
        let mut to = begin();
        to.put_u8(match self.role {
            Role::Leader => 0,
            Role::Follower => 1,
            Role::Candidate => 2,
            Role::Learner => 3,
        });
        to.put_u64_le(self.leader.unwrap_or(0));
        to.put_u64_le(self.term);
        to.put_u64_le(self.applied);
        to.put_u8(self.disk_used_percent.unwrap_or(u8::MAX));
        to.freeze()
    }

    fn decode(mut from: Bytes) -> Result<Self, CodecError> {
        check_version(&mut from)?;
        let role = match from.try_get_u8()? {
            0 => Role::Leader,
            1 => Role::Follower,
            2 => Role::Candidate,
            3 => Role::Learner,
            _ => return Err(CodecError::Invalid("the role of a node")),
        };
        let report = Self {
            role,
            leader: Some(from.try_get_u64_le()?).filter(|leader| *leader > 0),
            term: from.try_get_u64_le()?,
            applied: from.try_get_u64_le()?,
            disk_used_percent: Some(from.try_get_u8()?).filter(|percent| *percent <= 100),
        };
        check_end(&from)?;
        Ok(report)
    }
}

impl Change {
    fn encode(&self) -> Bytes {
        let mut to = begin();
        let (kind, name) = match self {
            Self::Transfer { to: None } => (0, ""),
            Self::Transfer { to: Some(name) } => (1, name.as_str()),
            Self::Add { node } => (2, node.as_str()),
            Self::Remove {
                node,
                is_forced: false,
            } => (3, node.as_str()),
            Self::Remove {
                node,
                is_forced: true,
            } => (4, node.as_str()),
        };
        to.put_u8(kind);
        put_text(&mut to, name);
        to.freeze()
    }

    fn decode(mut from: Bytes) -> Result<Self, CodecError> {
        check_version(&mut from)?;
        let kind = from.try_get_u8()?;
        let node = text(&mut from)?;
        check_end(&from)?;
        Ok(match kind {
            0 => Self::Transfer { to: None },
            1 => Self::Transfer { to: Some(node) },
            2 => Self::Add { node },
            3 | 4 => Self::Remove {
                node,
                is_forced: kind == 4,
            },
            _ => return Err(CodecError::Invalid("the kind of a change")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_and_answered_is_understood_and_nothing_that_is_cut_short() {
        let node = "10.0.0.1:7901".to_owned();
        for change in [
            Change::Transfer { to: None },
            Change::Transfer {
                to: Some(node.clone()),
            },
            Change::Add { node: node.clone() },
            Change::Remove {
                node: node.clone(),
                is_forced: false,
            },
            Change::Remove {
                node,
                is_forced: true,
            },
        ] {
            let bytes = change.encode();
            assert_eq!(Change::decode(bytes.clone()), Ok(change));
            assert!((0..bytes.len()).all(|end| Change::decode(bytes.slice(..end)).is_err()));
        }
        for (leader, disk_used_percent) in [(None, None), (Some(7), Some(100))] {
            let report = Report {
                role: Role::Learner,
                leader,
                term: 3,
                applied: u64::MAX,
                disk_used_percent,
            };
            let bytes = report.encode();
            assert_eq!(Report::decode(bytes.clone()), Ok(report));
            assert!((0..bytes.len()).all(|end| Report::decode(bytes.slice(..end)).is_err()));
        }
    }
}
