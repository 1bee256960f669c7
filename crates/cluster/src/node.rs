//! One node of a cluster: its Raft, and what can be asked of it from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use broker::Process;
use bytes::Bytes;
use journal::{ReplicatedLog, StoredCopies};
use openraft::async_runtime::instant::Instant as _;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{ChangeMembers, Config, ServerState, SnapshotPolicy};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tracing::{info, warn};
use types::LogIndex;

use crate::driver::{ClusterJournal, Deliveries, Office, Shared};
use crate::raft::codec::Mark;
use crate::raft::incoming::Incoming;
use crate::raft::log_store::{self, LogStore};
use crate::raft::machine::Machine;
use crate::raft::network::{self, Kind, Network, Peers};
use crate::raft::types::{Member, Raft};

/// Entries that stay in the log behind a snapshot, for followers that are a little behind.
pub const ENTRIES_KEPT: u64 = 1_024;
/// Most entries of one request; their bytes are limited as well.
const APPEND_ENTRIES_MAX: u64 = 256;
/// A node that is not more entries behind has caught up: entries go on coming.
const NEAR_ENTRIES: u64 = APPEND_ENTRIES_MAX;
/// A leader looks so many times in a lease whether it still has a quorum behind it, and proposals are late.
const LOOKS_PER_LEASE: u32 = 8;
/// A leader completes a change of voters that is half done for so many looks: whoever began it is gone.
const LOOKS_AT_JOINT: u32 = 20;
/// The lease of a node that alone has a vote: nobody else can be elected.
const ALONE: Duration = Duration::from_secs(3_600);

/// How long no leader may be heard before a node stands for election: between the two, by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElectionSilence {
    /// The shortest silence.
    pub low: Duration,
    /// The longest silence.
    pub high: Duration,
}

impl Default for ElectionSilence {
    fn default() -> Self {
        Self {
            low: Duration::from_millis(900),
            high: Duration::from_millis(1_200),
        }
    }
}

impl ElectionSilence {
    /// openraft stands after its longest time-out and a random one between the shortest and the longest.
    fn timeouts(self) -> (Duration, Duration) {
        let max = self.high / 2;
        (self.low.saturating_sub(max), max)
    }
}

/// How a node takes part.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The random id that it takes if its directory was never used.
    pub fresh_id: u64,
    /// When it stands for election.
    pub election_silence: ElectionSilence,
    /// How long a batch may take to reach a quorum before its outcome counts as unknown.
    pub replicate_timeout: Duration,
    /// Entries that stay in the log behind a snapshot: usually [`ENTRIES_KEPT`].
    pub entries_kept: u64,
}

/// Why a node could not do what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The settings do not fit together.
    #[error("the settings of the cluster do not fit together: {0}")]
    Settings(String),
    /// The log cannot be used.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Raft refused, or has ended.
    #[error("{0}")]
    Raft(String),
}

fn raft_error(error: impl std::fmt::Display) -> NodeError {
    NodeError::Raft(error.to_string())
}

/// What a node is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It proposes.
    Leader,
    /// It follows a leader, or waits for one.
    Follower,
    /// It stands for election.
    Candidate,
    /// It follows and has no vote.
    Learner,
}

/// A node's own view of its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// This node.
    pub id: u64,
    /// What it is.
    pub role: Role,
    /// The term that it knows of.
    pub term: u64,
    /// The leader that it knows of. On a leader itself, only while it has a quorum behind it.
    pub leader: Option<u64>,
    /// Since when, in milliseconds of Unix time, this node has known of that leader; 0 without one.
    pub leader_since_millis: u64,
    /// Whether this node leads with a quorum behind it, or hears one that leads.
    pub has_quorum: bool,
    /// The last entry that is applied here.
    pub applied: u64,
    /// The last entry that is no longer in its log; 0 if all are.
    pub purged: u64,
    /// All nodes with their addresses, and whether each has a vote.
    pub members: BTreeMap<u64, (String, bool)>,
}

/// A node. Clones are the same node.
#[derive(Clone)]
pub struct Node {
    raft: Raft,
    store: LogStore,
    office: Arc<Office>,
    incoming: Arc<Incoming>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("id", self.raft.node_id())
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Starts a node on the log that it has, in `process` and `runtime`; `copies` are those that opening the log found. The journal is for
    /// the owner, who has the state of the log's snapshot. Blocks until Raft has read the log, so it must not be called on
    /// a thread of a runtime.
    pub fn start(
        options: &NodeOptions,
        mut log: ReplicatedLog,
        copies: Vec<StoredCopies>,
        peers: Arc<dyn Peers>,
        process: Arc<dyn Process>,
        runtime: &Handle,
    ) -> Result<(Self, ClusterJournal), NodeError> {
        let (min, max) = options.election_silence.timeouts();
        let config = Arc::new(config(min, max, options.entries_kept)?);
        let deliveries = Arc::new(Deliveries::default());
        let office = Arc::new(Office::default());
        let mark = match Mark::decode(log.mark()).map_err(io::Error::from)? {
            Some(mark) => mark,
            None => {
                let mark = Mark {
                    node: options.fresh_id.max(1),
                    cluster: None,
                    vote: None,
                };
                log.set_mark(&mark.encode())
                    .and_then(|()| log.sync())
                    .map_err(io::Error::other)?;
                mark
            }
        };
        let snapshot = log.snapshot().cloned();
        let snapshot = snapshot.as_ref();
        let store = LogStore::start(log, mark, process, runtime.clone())?;
        let id = mark.node;
        let shared = Arc::clone(store.shared());
        let machine = Machine::new(store.clone(), Arc::clone(&deliveries), id, snapshot)?;
        let network = Network {
            peers,
            store: Arc::clone(&shared),
        };
        let raft = runtime
            .block_on(Raft::new(id, config, network, store.clone(), machine))
            .map_err(raft_error)?;
        let watcher = Watcher {
            raft: raft.clone(),
            store: Arc::clone(&shared),
            office: Arc::clone(&office),
            deliveries: Arc::clone(&deliveries),
            // A follower keeps from electing another for the longest time-out; clocks may run a little apart.
            lease: max * 3 / 4,
        };
        runtime.spawn(watcher.run());
        let applied = snapshot.map_or(LogIndex(0), |snapshot| snapshot.id.index);
        let journal = ClusterJournal::new(
            raft.clone(),
            runtime.clone(),
            Shared {
                store: shared,
                deliveries,
                office: Arc::clone(&office),
            },
            options.replicate_timeout,
            applied,
            copies,
        );
        let incoming = Arc::default();
        let node = Self {
            raft,
            store,
            office,
            incoming,
        };
        Ok((node, journal))
    }

    /// Returns its id.
    pub fn id(&self) -> u64 {
        *self.raft.node_id()
    }

    /// Returns the id of its cluster; none if it never was in one.
    pub fn cluster(&self) -> Option<[u8; 16]> {
        self.store.mark().cluster
    }

    /// Makes it a node of this cluster, durably. Not once it is a member of another.
    pub async fn adopt(&self, cluster: [u8; 16]) -> Result<(), NodeError> {
        Ok(self.store.set_cluster(cluster).await?)
    }

    /// Answers what another node asks.
    pub async fn answer(&self, kind: Kind, body: Bytes) -> io::Result<Bytes> {
        network::answer(&self.raft, self.store.shared(), &self.incoming, kind, body).await
    }

    /// Forms a new cluster of these nodes, each with its address; once, on one fresh node.
    pub async fn form(&self, members: BTreeMap<u64, String>) -> Result<(), NodeError> {
        let members: BTreeMap<_, _> = members
            .into_iter()
            .map(|(id, address)| (id, Member { address }))
            .collect();
        self.raft.initialize(members).await.map_err(raft_error)
    }

    /// Whether this node belongs to a cluster.
    pub async fn is_member(&self) -> Result<bool, NodeError> {
        self.raft.is_initialized().await.map_err(raft_error)
    }

    /// Adds a node that follows without a vote, and waits until it has caught up. Only the leader can.
    pub async fn add_learner(&self, id: u64, address: String) -> Result<(), NodeError> {
        let added = self.raft.add_learner(id, Member { address }, false).await;
        let added = added.map_err(raft_error)?.log_id.index;
        // openraft would wait for a node that is not further behind than `replication_lag_threshold`, and every node is that.
        let mut metrics = self.raft.data_metrics();
        loop {
            let is_near = {
                let metrics = metrics.borrow_watched();
                let reports = metrics.replication.as_ref();
                let reports =
                    reports.ok_or_else(|| NodeError::Raft("this node does not lead any more".to_owned()))?;
                let has = reports.get(&id).copied().flatten().map_or(0, |last| last.index);
                let last = metrics.last_log.map_or(0, |last| last.index);
                has >= added.max(last.saturating_sub(NEAR_ENTRIES))
            };
            if is_near {
                return Ok(());
            }
            metrics.changed().await.map_err(raft_error)?;
        }
    }

    /// Gives exactly these nodes a vote; those that lose it leave the cluster. Only the leader can.
    pub async fn set_voters(&self, voters: BTreeSet<u64>) -> Result<(), NodeError> {
        let changed = self.raft.change_membership(voters, false).await;
        changed.map(|_| ()).map_err(raft_error)
    }

    /// Takes nodes without a vote out of the cluster. Only the leader can.
    pub async fn remove_learners(&self, learners: BTreeSet<u64>) -> Result<(), NodeError> {
        let change = ChangeMembers::RemoveNodes(learners);
        let changed = self.raft.change_membership(change, false).await;
        changed.map(|_| ()).map_err(raft_error)
    }

    /// Hands leadership over. From here on this node proposes nothing more in this reign.
    pub async fn transfer(&self, to: u64) -> Result<(), NodeError> {
        self.office.resign();
        self.raft.trigger().transfer_leader(to).await.map_err(raft_error)
    }

    /// Gives the present reign up, if this node has one.
    pub(crate) fn resign(&self) {
        self.office.resign();
    }

    /// Returns this node's view.
    pub fn view(&self) -> View {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let role = match metrics.state {
            ServerState::Leader => Role::Leader,
            ServerState::Candidate => Role::Candidate,
            ServerState::Learner => Role::Learner,
            ServerState::Follower | ServerState::Shutdown => Role::Follower,
        };
        let leads = self.office.term(Instant::now()).is_some();
        let has_ended = metrics.state == ServerState::Shutdown;
        let leader = metrics
            .current_leader
            .filter(|leader| !has_ended && (*leader != metrics.id || leads));
        let membership = metrics.membership_config.membership();
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        View {
            id: metrics.id,
            role,
            term: metrics.current_term,
            leader,
            leader_since_millis: self.office.leader_since_millis(),
            has_quorum: leader.is_some(),
            applied: metrics.last_applied.map_or(0, |id| id.index),
            purged: metrics.purged.map_or(0, |id| id.index),
            members: membership
                .nodes()
                .map(|(id, member)| (*id, (member.address.clone(), voters.contains(id))))
                .collect(),
        }
    }

    /// Whether a content of this node could not be read for another node since this was asked last.
    pub(crate) fn take_damaged(&self) -> bool {
        self.store.shared().outgoings().take_damaged()
    }

    /// Gives up what is only held for nodes that are far behind.
    pub(crate) fn give_up(&self) {
        self.store.shared().outgoings().give_up();
    }

    /// Ends this node's part; what it has in its log stays.
    pub async fn shutdown(&self) -> Result<(), NodeError> {
        self.raft.shutdown().await.map_err(raft_error)
    }
}

fn config(min: Duration, max: Duration, entries_kept: u64) -> Result<Config, NodeError> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let config = Config {
        cluster_name: "holdfast".to_owned(),
        heartbeat_interval: millis(min / 3),
        election_timeout_min: millis(min),
        election_timeout_max: millis(max),
        enable_pre_vote: Some(true),
        // The owner makes them, by the bytes of the log.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: entries_kept,
        max_payload_entries: APPEND_ENTRIES_MAX,
        // Only what is no longer in the log is sent as a whole state.
        replication_lag_threshold: u64::MAX,
        install_snapshot_timeout: 600_000,
        // Followers write while this node writes. Entries are batches already.
        broadcast_submitted_on_append: Some(true),
        // After a start nobody knows what of the log was committed before a quorum has said so, so each reign has a term of
        // its own.
        enable_leader_restore: Some(false),
        ..Config::default()
    };
    config
        .validate()
        .map_err(|error| NodeError::Settings(error.to_string()))
}

/// Tells the owner when this node's reign begins and ends.
struct Watcher {
    raft: Raft,
    store: Arc<log_store::Shared>,
    office: Arc<Office>,
    deliveries: Arc<Deliveries>,
    lease: Duration,
}

impl Watcher {
    async fn run(self) {
        let mut server = self.raft.server_metrics();
        let mut interval = tokio::time::interval(self.lease / LOOKS_PER_LEASE);
        let mut last = None;
        let mut joint_for = 0;
        loop {
            tokio::select! {
                changed = server.changed() => if changed.is_err() { break },
                _ = interval.tick() => {}
            }
            if self.store.outgoings().settle(Instant::now())
                && let Err(error) = self.raft.trigger().snapshot().await
            {
                warn!(%error, "a snapshot could not be told to Raft");
            }
            let metrics = self.raft.metrics();
            let (leads, leader, rest) = {
                let metrics = metrics.borrow_watched();
                // One that takes its own vote away hands over by itself, whatever the lease says.
                let has_vote = metrics.membership_config.voter_ids().any(|id| id == metrics.id);
                let leads = metrics.state == ServerState::Leader && has_vote;
                let leads = leads.then_some(metrics.current_term);
                let is_alone = metrics.membership_config.voter_ids().eq([metrics.id]);
                let acked = metrics.last_quorum_acked.as_ref();
                let rest = acked.map(|acked| self.lease.saturating_sub(acked.elapsed()));
                (
                    leads,
                    metrics.current_leader,
                    if is_alone { Some(ALONE) } else { rest },
                )
            };
            let lease_until = rest.map(|rest| Instant::now() + rest);
            self.office.set(leads, lease_until);
            self.office.set_leader(leader);
            let term = self.office.term(Instant::now());
            joint_for = match self.half_changed() {
                Some(voters) if term.is_some() && joint_for >= LOOKS_AT_JOINT => {
                    self.complete(voters);
                    0
                }
                Some(_) if term.is_some() => joint_for + 1,
                Some(_) | None => 0,
            };
            if term != last {
                match (term, last) {
                    (Some(term), _) => info!(term, "this node leads the cluster"),
                    (None, Some(term)) => warn!(term, "this node does not lead the cluster any more"),
                    (None, None) => {}
                }
                last = term;
                self.deliveries.wake();
            } else if self.deliveries.has_proposals() {
                // The owner looks whether one of them takes too long.
                self.deliveries.wake();
            }
        }
        self.office.set(None, None);
        self.deliveries.wake();
    }

    /// Returns the voters that are to be, while those before them have a say too.
    fn half_changed(&self) -> Option<BTreeSet<u64>> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let configs = metrics.membership_config.membership().get_joint_config();
        configs.last().filter(|_| configs.len() > 1).cloned()
    }

    fn complete(&self, voters: BTreeSet<u64>) {
        info!(?voters, "completing a change of voters that was left half done");
        let raft = self.raft.clone();
        tokio::spawn(async move {
            if let Err(error) = raft.change_membership(voters, false).await {
                // It is tried again as long as it is half done.
                info!(%error, "the change of voters is not complete yet");
            }
        });
    }
}
