//! A node with everything around it: its links, how it comes to its cluster, and the way of a request to the leader.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use broker::{Broker, Checkpoint, Clock, ForwardError, Forwarding, Leader, Process, Random};
use bytes::Bytes;
use journal::{Disk, JournalError, LocalOptions, Lock, ReplicatedLog, RestoreSnapshot, Space};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::admin;
use crate::agreement::{self, Comparing, Levels};
use crate::counts::{Counts, LinkCounts, LinkObserver};
use crate::driver::ClusterJournal;
use crate::forming;
use crate::link::{
    ClusterId, Handler, HandlerError, Identity, LateAnswer, LinkError, Links, Network, NodeId, Options,
    Outside, Peer, Request, Security, Target,
};
use crate::messages::{
    self, ADOPT, CHANGE, COMPARE, DISCOVER, FORWARD, Found, Founding, JOIN, Place, ROOM, STATUS, TELL,
};
use crate::node::{ElectionSilence, Node, NodeError, NodeOptions, Role};
use crate::raft::codec::CodecError;
use crate::raft::network::{CallError, Calling, Kind, Peers};
use crate::room::{self, Rooms};

/// How often something whose answer nobody needs is tried again, and how long each try may take.
const TELLS: u32 = 3;
const TELL_TIMEOUT: Duration = Duration::from_secs(2);
const TELL_PAUSE: Duration = Duration::from_millis(100);
/// A node that was not heard for so long counts as out of reach.
const SILENT_AFTER: Duration = Duration::from_secs(2);
/// Longest pause before a node that is away is dialled again.
const RECONNECT_MAX: Duration = Duration::from_millis(250);
/// How long a leader that stops waits for its successor.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(2);
const HANDOVER_LOOK: Duration = Duration::from_millis(5);
/// How often a node that is to lead no more looks whether it does.
const OFFICE_LOOK: Duration = Duration::from_millis(500);

/// What an operator decides about a cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen for other nodes, as `host:port`.
    pub listen: String,
    /// Where other nodes reach this one.
    pub advertise: String,
    /// The addresses of all nodes of the first formation, this one included.
    pub seeds: Vec<String>,
    /// What people call the cluster; nothing if they do not.
    pub name: String,
    /// How nodes prove themselves.
    pub security: Security,
    /// When a node stands for election.
    pub election_silence: ElectionSilence,
    /// How long a batch may take to reach a quorum before its outcome counts as unknown.
    pub replicate_timeout: Duration,
    /// Entries that stay in the log behind a snapshot, for followers that are a little behind.
    pub entries_kept: u64,
    /// Whether tests may turn clocks through requests of other nodes.
    pub may_move_clock: bool,
    /// Whether this node asks for the leadership whenever another has it.
    pub prefers_to_lead: bool,
}

/// What a node uses of the world beside its disk.
#[derive(Debug, Clone)]
pub struct World {
    /// The network.
    pub network: Arc<dyn Network>,
    /// Random bytes.
    pub random: Arc<dyn Random>,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// The process: what writes the log runs on a thread of it.
    pub process: Arc<dyn Process>,
    /// Where everything runs that is not the owner's.
    pub runtime: Handle,
}

/// Why a node of a cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its log cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Raft did not start.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// Other nodes cannot be listened to.
    #[error("cannot listen for other nodes on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A node of a cluster. Clones are the same node.
#[derive(Debug, Clone)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    world: World,
    links: OnceLock<Links>,
    node: OnceLock<Node>,
    broker: OnceLock<Broker>,
    /// Held while the membership changes: one change at a time.
    changes: Mutex<()>,
    levels: Arc<Levels>,
    counts: Arc<Counts>,
    comparing: Comparing,
    rooms: Rooms,
    /// Why this node takes no part any more.
    halted: OnceLock<String>,
    /// Whether this node is to lead only if nobody else can.
    avoids_office: AtomicBool,
}

impl Cluster {
    /// Prepares a node, which starts with [`Cluster::open`].
    pub fn new(settings: Settings, world: World) -> Self {
        Self(Arc::new(Inner {
            settings,
            world,
            links: OnceLock::new(),
            node: OnceLock::new(),
            broker: OnceLock::new(),
            changes: Mutex::new(()),
            levels: Arc::default(),
            counts: Arc::default(),
            comparing: Comparing::default(),
            rooms: Rooms::default(),
            halted: OnceLock::new(),
            avoids_office: AtomicBool::new(false),
        }))
    }

    /// Reads the log, starts Raft and the links, and begins to look for the cluster. Blocks until the log is read, so it must
    /// not be called on a thread of a runtime.
    pub fn open(
        &self,
        disk: Arc<dyn Disk>,
        lock: Box<dyn Lock>,
        options: LocalOptions,
        restore: &mut dyn RestoreSnapshot,
    ) -> Result<(ClusterJournal, journal::RecoveryReport), OpenError> {
        let (log, recovery) = ReplicatedLog::open_locked(disk, lock, options, restore)?;
        let mut fresh_id = [0; 8];
        self.0.world.random.fill(&mut fresh_id);
        let node_options = NodeOptions {
            fresh_id: u64::from_le_bytes(fresh_id),
            election_silence: self.0.settings.election_silence,
            replicate_timeout: self.0.settings.replicate_timeout,
            entries_kept: self.0.settings.entries_kept,
        };
        let runtime = &self.0.world.runtime;
        let (node, journal) = Node::start(
            &node_options,
            log,
            recovery.copies,
            Arc::new(self.clone()),
            Arc::clone(&self.0.world.process),
            runtime,
        )?;
        let identity = Identity {
            node: NodeId::new(node.id()).unwrap_or(NodeId::MIN),
            cluster: node.cluster().and_then(ClusterId::new),
            advertise: self.0.settings.advertise.clone(),
            level: broker::LEVEL,
        };
        self.0.node.get_or_init(|| node);
        let outside = Outside {
            network: Arc::clone(&self.0.world.network),
            random: Arc::clone(&self.0.world.random),
            clock: Arc::clone(&self.0.world.clock),
            observer: Arc::new(LinkObserver {
                levels: Arc::clone(&self.0.levels),
                counts: Arc::clone(&self.0.counts),
            }),
        };
        let mut link_options = Options::new(&self.0.settings.listen, self.0.settings.security.clone());
        // A node that has come back may be the one whose vote is missing.
        link_options.timing.backoff_max = RECONNECT_MAX;
        let links = runtime
            .block_on(Links::start(
                identity,
                link_options,
                outside,
                Serving(self.clone()),
            ))
            .map_err(|source| OpenError::Listen {
                address: self.0.settings.listen.clone(),
                source,
            })?;
        self.0.links.get_or_init(|| links);
        runtime.spawn(forming::run(self.clone()));
        if self.0.settings.prefers_to_lead {
            runtime.spawn(admin::seek_office(self.clone()));
        }
        Ok((journal, recovery.report))
    }

    /// Takes the broker that serves what other nodes send on.
    pub fn serve(&self, broker: Broker) {
        self.0.broker.get_or_init(|| broker);
    }

    /// Returns the node; none before its log is read.
    pub fn started(&self) -> Option<&Node> {
        self.0.node.get()
    }

    /// Returns where other nodes reach this one.
    pub fn address(&self) -> &str {
        &self.0.settings.advertise
    }

    /// Whether a node was heard within the last moments.
    pub fn reaches(&self, node: u64) -> bool {
        self.last_heard(node)
            .is_some_and(|heard| heard.elapsed() < SILENT_AFTER)
    }

    /// Whether links are not protected: an operator has allowed it.
    pub fn is_insecure(&self) -> bool {
        matches!(self.0.settings.security, Security::Insecure)
    }

    /// Returns the feature level of the cluster; 0 before this node has heard of one.
    pub fn feature_level(&self) -> u32 {
        self.0.links.get().map_or(0, Links::level_min)
    }

    fn last_heard(&self, node: u64) -> Option<Instant> {
        self.0.links.get()?.last_heard(NodeId::new(node)?)
    }

    /// Hands leadership over, and again whenever this node is elected: from now on it leads only if nobody else can.
    pub async fn leave_office(&self) {
        self.0.avoids_office.store(true, Ordering::Release);
        self.step_down().await;
        let cluster = self.clone();
        self.0.world.runtime.spawn(async move {
            loop {
                sleep_until(Instant::now() + OFFICE_LOOK).await;
                // Said once is enough, should nobody be there to lead instead.
                cluster.hand_over().await;
            }
        });
    }

    /// Whether this node would do well to lead: it takes part, is not drained, and has room.
    pub(crate) fn is_fit_to_lead(&self) -> bool {
        let avoids_office = self.0.avoids_office.load(Ordering::Acquire);
        !avoids_office && self.halted().is_none() && !self.0.rooms.is_short()
    }

    /// Returns why this node takes no part any more: what it has differs from what the others have.
    pub fn halted(&self) -> Option<&str> {
        self.0.halted.get().map(String::as_str)
    }

    pub(crate) fn set_halted(&self, reason: String) {
        self.0.halted.get_or_init(|| reason);
    }

    pub(crate) fn comparing(&self) -> &Comparing {
        &self.0.comparing
    }

    pub(crate) fn rooms(&self) -> &Rooms {
        &self.0.rooms
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.0.world.runtime
    }

    /// Hands leadership over if this node leads, and waits for a moment until somebody else does.
    pub async fn step_down(&self) {
        if !self.hand_over().await {
            warn!("leadership cannot be handed over: no other node with a vote is in reach");
        }
    }

    /// Does so, and returns whether this node did not lead or somebody else could.
    async fn hand_over(&self) -> bool {
        let view = self.started().map(Node::view);
        if view.is_none_or(|view| view.role != Role::Leader) {
            return true;
        }
        match self.nearest(|_| true) {
            Some(heir) => {
                self.transfer_to(heir).await;
                true
            }
            None => false,
        }
    }

    /// Returns the voter beside this node that was heard last, of those that are wanted and in reach: whoever resigns to a node
    /// that is away leaves the cluster without a leader for a while.
    pub(crate) fn nearest(&self, is_wanted: impl Fn(u64) -> bool) -> Option<u64> {
        let view = self.started()?.view();
        let voters = view.members.iter().filter(|(_, (_, has_vote))| *has_vote);
        let others = voters.map(|(id, _)| *id).filter(|id| *id != view.id);
        let heirs = others.filter(|id| is_wanted(*id) && self.reaches(*id));
        heirs.max_by_key(|id| self.last_heard(*id))
    }

    /// Hands leadership to a node, and waits for a moment until this one does not lead any more. Returns whether that is so.
    /// This node proposes nothing more in this reign, and sends no more heartbeats: whatever comes of it, somebody is elected.
    pub(crate) async fn transfer_to(&self, heir: u64) -> bool {
        let node = self.node();
        if let Err(error) = node.transfer(heir).await {
            warn!(%error, "leadership could not be handed over");
            return false;
        }
        let until = Instant::now() + HANDOVER_TIMEOUT;
        while node.view().role == Role::Leader && Instant::now() < until {
            sleep_until(Instant::now() + HANDOVER_LOOK).await;
        }
        node.view().role != Role::Leader
    }

    /// Ends links and Raft. What was committed stays.
    pub async fn shutdown(&self, within: Duration) {
        if let Some(links) = self.0.links.get() {
            links.shutdown(Instant::now() + within).await;
        }
        if let Some(node) = self.started()
            && let Err(error) = node.shutdown().await
        {
            warn!(%error, "Raft did not end in order");
        }
    }

    /// Returns what was counted of the links.
    pub fn link_counts(&self) -> LinkCounts {
        self.0.counts.read()
    }

    /// Returns what people call the cluster; nothing if they do not.
    pub fn name(&self) -> &str {
        &self.0.settings.name
    }

    pub(crate) fn world(&self) -> &World {
        &self.0.world
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Returns the node. Only for what runs after it has started.
    pub(crate) fn node(&self) -> &Node {
        self.0.node.get().expect("the node is started before its links")
    }

    /// Returns the links. Only for what runs after they have started.
    pub(crate) fn links(&self) -> &Links {
        self.0
            .links
            .get()
            .expect("links are started before the node looks for its cluster")
    }

    pub(crate) fn changes(&self) -> &Mutex<()> {
        &self.0.changes
    }

    /// Returns this node as others see it.
    pub(crate) fn place(&self) -> Place {
        Place {
            node: self.node().id(),
            address: self.0.settings.advertise.clone(),
        }
    }

    pub(crate) fn random_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        self.0.world.random.fill(&mut id);
        id
    }

    /// Returns the way to the node that leads; none if none is known, or this one does.
    fn leader(&self) -> Option<Target> {
        let view = self.started()?.view();
        let leader = view.leader.filter(|leader| *leader != view.id)?;
        let (address, _) = view.members.get(&leader)?;
        Some(Target::node(NodeId::new(leader)?, address))
    }

    /// Asks the node that leads. An answer that comes too late is heard by the broker.
    async fn ask_leader(&self, request: Request, within: Duration) -> Result<Bytes, ForwardError> {
        let (Some(target), Some(links)) = (self.leader(), self.0.links.get()) else {
            return Err(ForwardError::NoLeader);
        };
        let broker = self.0.broker.get().cloned();
        let asked = request.body.clone();
        let late = LateAnswer::new(move |answer| {
            if let Some(broker) = &broker {
                broker.take_back(&asked, &answer);
            }
        });
        links
            .call_or_late(&target, request, Instant::now() + within, late)
            .await
            .map_err(|error| {
                debug!(%error, leader = target.address, "a request was not answered by the leader");
                match error {
                    LinkError::NotSent(_) => ForwardError::NotSent,
                    LinkError::Unknown(_) => ForwardError::Unknown,
                }
            })
    }
}

impl Leader for Cluster {
    fn compare(&self, checkpoint: Checkpoint) {
        // None before the log is read: a start compares nothing.
        if self.0.links.get().is_some() {
            agreement::tell(self, checkpoint);
        }
    }

    fn level(&self) -> u32 {
        let Some(node) = self.started() else { return 0 };
        let view = node.view();
        let others = view.members.into_keys().filter(|id| *id != view.id);
        let lowest = self.0.levels.lowest(others);
        lowest.map_or(broker::LEVEL, |lowest| lowest.min(broker::LEVEL))
    }

    fn room(&self, space: Space, is_short: bool) -> bool {
        self.0.rooms.measured(space);
        // A start has nobody to tell.
        self.0
            .links
            .get()
            .map_or(!is_short, |_| room::look(self, is_short))
    }

    fn raised(&self, level: u32) {
        if let Some(links) = self.0.links.get() {
            links.set_level_min(level);
        }
    }

    fn forward(&self, request: Bytes, within: Duration) -> Forwarding {
        let cluster = self.clone();
        Box::pin(async move { cluster.ask_leader(Request::new(FORWARD, request), within).await })
    }

    fn tell(&self, request: Bytes) {
        let cluster = self.clone();
        self.0.world.runtime.spawn(async move {
            for _ in 0..TELLS {
                let request = Request::new(TELL, request.clone());
                if cluster.ask_leader(request, TELL_TIMEOUT).await.is_ok() {
                    return;
                }
                sleep_until(Instant::now() + TELL_PAUSE).await;
            }
            debug!("nobody was told of messages to give back: their leases run their time");
        });
    }
}

impl Peers for Cluster {
    fn call<'a>(
        &'a self,
        node: u64,
        address: &'a str,
        kind: Kind,
        body: Bytes,
        within: Duration,
    ) -> Calling<'a> {
        Box::pin(async move {
            let (Some(id), Some(links)) = (NodeId::new(node), self.0.links.get()) else {
                let reason = "the links are not open yet".to_owned();
                return Err(CallError::NotSent { node, reason });
            };
            // Everything but a long append and a part of a state decides on who leads.
            let has_priority = !matches!(kind, Kind::Append | Kind::SyncPart) || body.len() < 1_024;
            let mut request = Request::new(messages::number(kind), body);
            request.has_priority = has_priority;
            let target = Target::node(id, address);
            let answer = links.call(&target, request, Instant::now() + within).await;
            answer.map_err(|error| match error {
                LinkError::NotSent(cause) => CallError::NotSent {
                    node,
                    reason: cause.to_string(),
                },
                LinkError::Unknown(cause) => CallError::Unknown {
                    node,
                    reason: cause.to_string(),
                },
            })
        })
    }
}

/// Serves what other nodes ask.
struct Serving(Cluster);

fn malformed(error: CodecError) -> HandlerError {
    HandlerError::Failed(error.to_string())
}

impl Handler for Serving {
    async fn call(&self, peer: Peer, kind: u16, body: Bytes) -> Result<Bytes, HandlerError> {
        let cluster = &self.0;
        let Some(node) = cluster.started() else {
            return Err(HandlerError::Busy);
        };
        if let Some(kind) = messages::kind(kind) {
            let answer = node.answer(kind, body).await;
            return answer.map_err(|error| HandlerError::Failed(error.to_string()));
        }
        match kind {
            FORWARD | TELL => match cluster.0.broker.get() {
                Some(broker) => Ok(broker
                    .serve_forwarded(&body, cluster.0.settings.may_move_clock)
                    .await),
                None => Err(HandlerError::Busy),
            },
            STATUS => Ok(cluster.answer_report()),
            CHANGE => {
                // Goes on if the node that asked has gone.
                let (runtime, cluster) = (cluster.runtime().clone(), cluster.clone());
                let made = runtime
                    .spawn(async move { cluster.answer_change(body).await })
                    .await;
                made.map_err(|error| HandlerError::Failed(error.to_string()))?
                    .map_err(malformed)
            }
            ROOM => room::heard(cluster, peer.node.as_u64(), &body).map_err(malformed),
            COMPARE => agreement::heard(cluster, peer.node.as_u64(), body).map_err(malformed),
            DISCOVER => {
                Place::decode(body).map_err(malformed)?;
                let is_member = node.is_member().await;
                let is_member = is_member.map_err(|error| HandlerError::Failed(error.to_string()))?;
                let found = match node.cluster() {
                    Some(cluster) if is_member => Found::Member { cluster },
                    Some(_) | None => Found::Fresh { node: node.id() },
                };
                Ok(found.encode())
            }
            ADOPT => {
                let founding = Founding::decode(body).map_err(malformed)?;
                Ok(forming::adopt(cluster, founding).await.encode())
            }
            JOIN => {
                let place = Place::decode(body).map_err(malformed)?;
                if place.node != peer.node.as_u64() {
                    return Err(HandlerError::Failed(
                        "a node can ask to join for itself alone".to_owned(),
                    ));
                }
                // Goes on if the node that asked has gone: it will find itself a member.
                let cluster = cluster.clone();
                let runtime = cluster.0.world.runtime.clone();
                let admitted = runtime.spawn(async move { forming::admit(&cluster, place).await });
                let answer = admitted
                    .await
                    .map_err(|error| HandlerError::Failed(error.to_string()))?;
                Ok(answer.encode())
            }
            _ => Err(HandlerError::UnknownKind),
        }
    }
}
