//! What all links of a node share.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::condition::Condition;
use super::dialling::Dialling;
use super::handler::AnyHandler;
use super::handshake::{Established, HandshakeError, Own};
use super::heard::Heard;
use super::limits::CLOCK_DIFFERENCE_MAX;
use super::links::{Options, Outside};
use super::outbox::Outbox;
use super::served::Served;
use super::wire::Wire;
use super::{ClusterId, Identity, Lost, NodeId, Peer, Side, Target};

pub(super) struct Hub {
    pub(super) options: Options,
    pub(super) outside: Outside,
    pub(super) handler: Arc<dyn AnyHandler>,
    state: Mutex<State>,
    tasks: Mutex<JoinSet<()>>,
    accepting: Mutex<Option<AbortHandle>>,
    /// How many connections there are, of both sides.
    connections: Condition<usize>,
}

pub(super) struct State {
    pub(super) identity: Identity,
    pub(super) level_min: u32,
    pub(super) is_shutting_down: bool,
    pub(super) dialled: BTreeMap<Target, Arc<Dialling>>,
    /// The connections that others dialled, by a number of their own.
    pub(super) accepted: BTreeMap<u64, Accepted>,
    pub(super) next_accepted: u64,
    pub(super) unauthenticated: usize,
    heard: BTreeMap<NodeId, Arc<Heard>>,
}

/// A connection that another node dialled.
pub(super) struct Accepted {
    pub(super) node: NodeId,
    /// `None` until the handshake is done.
    pub(super) served: Option<Arc<Served>>,
}

impl Hub {
    pub(super) fn new(
        identity: Identity,
        options: Options,
        outside: Outside,
        handler: Arc<dyn AnyHandler>,
    ) -> Self {
        let state = State {
            identity,
            level_min: options.level_min,
            is_shutting_down: false,
            dialled: BTreeMap::new(),
            accepted: BTreeMap::new(),
            next_accepted: 0,
            unauthenticated: 0,
            heard: BTreeMap::new(),
        };
        Self {
            options,
            outside,
            handler,
            state: Mutex::new(state),
            tasks: Mutex::default(),
            accepting: Mutex::default(),
            connections: Condition::new(0),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a task that ends with the links.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.tasks();
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                tracing::error!(%error, "a task of the links panicked");
            }
        }
        tasks.spawn(task)
    }

    /// Runs what accepts connections.
    pub(super) fn spawn_accepting(&self, task: impl Future<Output = ()> + Send + 'static) {
        *self.accepting.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.spawn(task));
    }

    pub(super) fn stop_accepting(&self) {
        if let Some(task) = self
            .accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            task.abort();
        }
    }

    pub(super) fn abort_tasks(&self) {
        self.tasks().abort_all();
    }

    /// What a handshake says of this node now.
    pub(super) fn own(&self) -> Own {
        let state = self.state();
        Own {
            identity: state.identity.clone(),
            level_min: state.level_min,
            is_shutting_down: state.is_shutting_down,
            random: self.outside.random.clone(),
            clock: self.outside.clock.clone(),
        }
    }

    /// When a node was heard, for setting and reading.
    pub(super) fn heard(&self, node: NodeId) -> Arc<Heard> {
        let mut state = self.state();
        state
            .heard
            .entry(node)
            .or_insert_with(|| Arc::new(Heard::never()))
            .clone()
    }

    /// When a node was last heard, if ever.
    pub(super) fn last_heard(&self, node: NodeId) -> Option<Instant> {
        self.state().heard.get(&node)?.last()
    }

    /// Makes a connection of what the handshake left, and reports it.
    pub(super) fn connect(
        self: &Arc<Self>,
        established: Established,
        outbox: Arc<Outbox>,
        side: Side,
    ) -> Connection {
        let Established {
            stream,
            sealing,
            opening,
            peer,
            clock_ahead_millis,
        } = established;
        let heard = self.heard(peer.node);
        heard.now();
        let observer = self.outside.observer.clone();
        tracing::info!(node = %peer.node, address = peer.address, ?side, "connected");
        observer.connected(&peer, side);
        if u128::from(clock_ahead_millis.unsigned_abs()) > CLOCK_DIFFERENCE_MAX.as_millis() {
            tracing::warn!(node = %peer.node, clock_ahead_millis, "the clock of a node differs");
            observer.clock_differs(&peer, clock_ahead_millis);
        }
        let wire = Wire {
            stream,
            sealing,
            opening,
            outbox,
            timing: self.options.timing.clone(),
            observer,
            side,
            heard,
        };
        let counted = Counted::new(self);
        Connection {
            counted,
            peer,
            side,
            wire,
        }
    }

    pub(super) fn report_lost(&self, peer: &Peer, side: Side, lost: &Lost) {
        match lost {
            Lost::Closed | Lost::ClosedHere => {
                tracing::info!(node = %peer.node, ?side, %lost, "disconnected")
            }
            Lost::Silent
            | Lost::Truncated
            | Lost::Io(_)
            | Lost::Oversized(_)
            | Lost::OutOfSequence { .. }
            | Lost::Forged(_)
            | Lost::Malformed(_) => tracing::warn!(node = %peer.node, ?side, %lost, "link lost"),
        }
        self.outside.observer.lost(peer, side, lost);
    }

    pub(super) fn report_refused(&self, side: Side, address: &str, error: &HandshakeError) {
        match error.reason() {
            Some(reason) => {
                tracing::warn!(address, ?side, %error, "handshake refused");
                self.outside.observer.refused(side, reason);
            }
            None => tracing::info!(address, ?side, %error, "handshake failed"),
        }
    }

    pub(super) fn has_joined(&self, peer: &Peer) -> bool {
        self.state().has_joined(peer)
    }

    /// Waits until no connection is left.
    pub(super) async fn all_disconnected(&self) {
        self.connections
            .wait(|connections| (*connections == 0).then_some(()))
            .await;
    }

    /// Becomes a member: what was connected before is connected anew.
    pub(super) fn set_cluster(&self, cluster: ClusterId) {
        use super::frame::Goodbye::Renew;
        let mut state = self.state();
        if state.identity.cluster == Some(cluster) {
            return;
        }
        state.identity.cluster = Some(cluster);
        for served in state
            .accepted
            .values()
            .filter_map(|accepted| accepted.served.as_ref())
        {
            served.say_goodbye(Renew);
        }
        for dialling in state.dialled.values() {
            dialling.retire(Renew);
        }
    }
}

impl State {
    /// Whether this node has become a member of the peer's cluster since the handshake with it.
    pub(super) fn has_joined(&self, peer: &Peer) -> bool {
        !peer.is_member && peer.cluster.is_some() && peer.cluster == self.identity.cluster
    }
}

/// A connection that is counted.
pub(super) struct Connection {
    counted: Counted,
    peer: Peer,
    side: Side,
    wire: Wire,
}

impl Connection {
    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Runs it to its end, which is reported.
    pub(super) async fn run(self, receive: impl FnMut(super::frame::Received) -> Result<(), Lost>) -> Lost {
        let lost = self.wire.run(receive).await;
        self.counted.0.report_lost(&self.peer, self.side, &lost);
        lost
    }
}

struct Counted(Arc<Hub>);

impl Counted {
    fn new(hub: &Arc<Hub>) -> Self {
        hub.connections.change(|connections| *connections += 1);
        Self(hub.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.change(|connections| *connections -= 1);
    }
}
