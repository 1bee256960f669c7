//! The links of a node: the one object that others use.

use std::fmt;
use std::io;
use std::sync::Arc;

use broker::{Clock, Random};
use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::accepting;
use super::asker::{Asker, NotBegun};
use super::dialling::Dialling;
use super::hub::Hub;
use super::{
    Cause, ClusterId, Handler, Identity, LateAnswer, Limits, LinkError, Network, NodeId, Observer, Pieces,
    Security, Target, Timing,
};

/// The most bytes of an advertised address.
const ADDRESS_BYTES_MAX: usize = 255;

/// The longest body or window: lengths have 32 bits.
const LENGTH_MAX: usize = u32::MAX as usize;

/// What an operator decides about links.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen, as `host:port`.
    pub listen: String,
    /// How nodes prove themselves.
    pub security: Security,
    /// Nodes that know less than this feature level are refused.
    pub level_min: u32,
    /// The limits.
    pub limits: Limits,
    /// The times.
    pub timing: Timing,
}

impl Options {
    /// Takes the usual limits and times.
    pub fn new(listen: impl Into<String>, security: Security) -> Self {
        Self {
            listen: listen.into(),
            security,
            level_min: 0,
            limits: Limits::default(),
            timing: Timing::default(),
        }
    }
}

/// What links use of the world.
#[derive(Debug, Clone)]
pub struct Outside {
    /// The network.
    pub network: Arc<dyn Network>,
    /// Where nonces and the jitter of pauses come from.
    pub random: Arc<dyn Random>,
    /// The time of day, for comparing it. Everything else follows the clock of tokio.
    pub clock: Arc<dyn Clock>,
    /// Who counts.
    pub observer: Arc<dyn Observer>,
}

/// A request to another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is asked; below [`DISCOVERY_KINDS_END`](super::DISCOVERY_KINDS_END) also outside of a cluster.
    pub kind: u16,
    /// The request, as its kind has it.
    pub body: Bytes,
    /// Whether it, and its answer, go before others: votes and heartbeats.
    pub has_priority: bool,
}

impl Request {
    /// Makes a request that waits its turn.
    pub fn new(kind: u16, body: impl Into<Bytes>) -> Self {
        let (body, has_priority) = (body.into(), false);
        Self {
            kind,
            body,
            has_priority,
        }
    }

    /// Lets it go before others.
    #[must_use]
    pub fn with_priority(mut self) -> Self {
        self.has_priority = true;
        self
    }
}

/// How the link to one target is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerStatus {
    /// The target.
    pub target: Target,
    /// The node that answers there, while connected.
    pub node: Option<NodeId>,
    /// When that node, or the one that the target names, was last heard, on whatever connection.
    pub last_heard: Option<Instant>,
}

impl PeerStatus {
    /// Whether it is connected.
    pub fn is_connected(&self) -> bool {
        self.node.is_some()
    }
}

/// All links of a node. Clones are the same links; they end when the last one is dropped.
#[derive(Clone)]
pub struct Links {
    hub: Arc<Hub>,
    listen_address: String,
    _ends: Arc<EndsWithLinks>,
}

struct EndsWithLinks(Arc<Hub>);

impl Drop for EndsWithLinks {
    fn drop(&mut self) {
        self.0.abort_tasks();
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links")
            .field("listen_address", &self.listen_address)
            .finish_non_exhaustive()
    }
}

impl Links {
    /// Listens, and from then on serves what others ask.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened at, the advertised one is too long, or limits or times do not fit each other.
    pub async fn start(
        identity: Identity,
        options: Options,
        outside: Outside,
        handler: impl Handler,
    ) -> io::Result<Self> {
        check(&identity, &options).map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?;
        match &options.security {
            Security::Secret { current, .. } if current.is_short() => {
                tracing::warn!(
                    "the shared secret of the cluster is shorter than 32 bytes: it can be guessed"
                );
            }
            Security::Insecure => {
                tracing::warn!(
                    "links are not protected: whoever reaches the port can read and change everything"
                );
            }
            Security::Secret { .. } | Security::Tls(_) => {}
        }
        let listener = outside.network.listen(&options.listen).await?;
        let listen_address = listener.local_address();
        let hub = Arc::new(Hub::new(identity, options, outside, Arc::new(handler)));
        hub.spawn_accepting(accepting::run(hub.clone(), listener));
        let _ends = Arc::new(EndsWithLinks(hub.clone()));
        Ok(Self {
            hub,
            listen_address,
            _ends,
        })
    }

    /// Returns where it listens, with the port that was chosen if port 0 was asked for.
    pub fn listen_address(&self) -> &str {
        &self.listen_address
    }

    /// Asks a node, and waits for the answer. Dropping the future cancels the request, here and there. Requests under way
    /// at the same time may be served in any order.
    ///
    /// # Errors
    ///
    /// If no answer came until the deadline, with whether the request may have been carried out. A request fails early
    /// with the dial that it waited for.
    pub async fn call(
        &self,
        target: &Target,
        request: Request,
        deadline: Instant,
    ) -> Result<Bytes, LinkError> {
        self.call_once(target, request, deadline, None).await
    }

    /// Does so for a request whose answer may have to be undone: one that comes when the future is dropped or the deadline
    /// has passed goes to `late`. An answer that the link loses goes to nobody.
    ///
    /// # Errors
    ///
    /// As for [`Links::call`].
    pub async fn call_or_late(
        &self,
        target: &Target,
        request: Request,
        deadline: Instant,
        late: LateAnswer,
    ) -> Result<Bytes, LinkError> {
        self.call_once(target, request, deadline, Some(late)).await
    }

    async fn call_once(
        &self,
        target: &Target,
        request: Request,
        deadline: Instant,
        late: Option<LateAnswer>,
    ) -> Result<Bytes, LinkError> {
        let begin = |asker: &Arc<Asker>| asker.call(&request, late.clone());
        let (ask, mut awaited) = self.begin(target, deadline, begin).await?;
        match timeout_at(deadline, &mut awaited.answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(ask.give_up(Cause::Lost(super::Lost::ClosedHere))),
            Err(_) => Err(ask.give_up(Cause::Deadline)),
        }
    }

    /// Asks a node for a stream of pieces. The deadline is for the link to be there; the stream itself has none, and
    /// ends with an error if the link is lost.
    ///
    /// # Errors
    ///
    /// If the request could not be sent.
    pub async fn stream(
        &self,
        target: &Target,
        request: Request,
        deadline: Instant,
    ) -> Result<Pieces, LinkError> {
        self.begin(target, deadline, |asker| asker.stream(&request)).await
    }

    /// Begins a request on a connection that takes it.
    async fn begin<T>(
        &self,
        target: &Target,
        deadline: Instant,
        begin: impl Fn(&Arc<Asker>) -> Result<T, NotBegun>,
    ) -> Result<T, LinkError> {
        loop {
            let dialling = self
                .dialling(target)
                .ok_or(LinkError::NotSent(Cause::ShuttingDown))?;
            let asker = dialling.connection(deadline).await.map_err(LinkError::NotSent)?;
            match begin(&asker) {
                Ok(begun) => return Ok(begun),
                Err(NotBegun::Refused(cause)) => return Err(LinkError::NotSent(cause)),
                // The next round waits for another connection.
                Err(NotBegun::Retired) => {}
            }
        }
    }

    /// Returns the link to a target, which is made if there is none; `None` when shutting down.
    fn dialling(&self, target: &Target) -> Option<Arc<Dialling>> {
        let mut state = self.hub.state();
        if state.is_shutting_down {
            return None;
        }
        if let Some(dialling) = state.dialled.get(target) {
            return Some(dialling.clone());
        }
        let dialling = Arc::new(Dialling::new(target.clone()));
        state.dialled.insert(target.clone(), dialling.clone());
        drop(state);
        self.hub.spawn(dialling.clone().run(self.hub.clone()));
        Some(dialling)
    }

    /// Says that this node, fresh so far, belongs to a cluster. Connections made before are made anew.
    pub fn set_cluster(&self, cluster: ClusterId) {
        self.hub.set_cluster(cluster);
    }

    /// Refuses nodes that know less than this feature level from now on.
    pub fn set_level_min(&self, level_min: u32) {
        self.hub.state().level_min = level_min;
    }

    /// Returns the feature level below which nodes are refused.
    pub fn level_min(&self) -> u32 {
        self.hub.state().level_min
    }

    /// Returns how each link is doing, ordered by target.
    pub fn peers(&self) -> Vec<PeerStatus> {
        let dialled: Vec<_> = self.hub.state().dialled.values().cloned().collect();
        let status = |dialling: Arc<Dialling>| {
            let target = dialling.target().clone();
            let node = dialling.asker().map(|asker| asker.peer().node);
            let last_heard = node.or(target.node).and_then(|node| self.last_heard(node));
            PeerStatus {
                target,
                node,
                last_heard,
            }
        };
        dialled.into_iter().map(status).collect()
    }

    /// Returns when a node was last heard, on a connection of either side.
    pub fn last_heard(&self, node: NodeId) -> Option<Instant> {
        self.hub.last_heard(node)
    }

    /// Ends the link to a target, once what is under way is answered.
    pub fn forget(&self, target: &Target) {
        let forgotten = self.hub.state().dialled.remove(target);
        if let Some(dialling) = forgotten {
            dialling.forget();
        }
    }

    /// Ends all links: nothing new is asked or served, what is under way is answered until the deadline.
    pub async fn shutdown(&self, deadline: Instant) {
        self.hub.stop_accepting();
        let dialled = {
            let mut state = self.hub.state();
            state.is_shutting_down = true;
            for served in state
                .accepted
                .values()
                .filter_map(|accepted| accepted.served.as_ref())
            {
                served.drain();
            }
            std::mem::take(&mut state.dialled)
        };
        for dialling in dialled.into_values() {
            dialling.forget();
        }
        if timeout_at(deadline, self.hub.all_disconnected()).await.is_err() {
            tracing::warn!("links are closed with requests under way");
        }
        self.hub.abort_tasks();
    }
}

fn check(identity: &Identity, options: &Options) -> Result<(), &'static str> {
    let (limits, timing) = (&options.limits, &options.timing);
    let checks = [
        (
            identity.advertise.len() <= ADDRESS_BYTES_MAX,
            "the advertised address is too long",
        ),
        (limits.body_bytes_max <= LENGTH_MAX, "body_bytes_max is too large"),
        (
            limits.stream_window_bytes <= LENGTH_MAX,
            "stream_window_bytes is too large",
        ),
        (
            limits.queued_bytes_max >= limits.body_bytes_max,
            "queued_bytes_max has no room for one body",
        ),
        (
            limits.queued_bytes_max > limits.stream_window_bytes,
            "queued_bytes_max has no room for one stream",
        ),
        (
            timing.dead_after >= 3 * timing.ping_after,
            "dead_after leaves no time for a ping and its answer",
        ),
        (
            timing.backoff_max >= timing.backoff_min,
            "backoff_max is below backoff_min",
        ),
    ];
    match checks.into_iter().find(|(is_met, _)| !is_met) {
        Some((_, text)) => Err(text),
        None => Ok(()),
    }
}
