//! Who answers a request: the owner of this node while it reigns, otherwise that of the node that leads.
//!
//! A request goes from the node that was asked to one that leads, and never further. What nobody has taken is tried
//! again for a while at whoever leads then. What may have been taken is not, but for a long poll: nothing of it has
//! reached a client, so it waits on at the next leader, with the time that it has left.

use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use journal::Space;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tracing::error;
use types::TenantId;

use crate::agreement::Checkpoint;
use crate::contents::Held;
use crate::forward::{decode_reply, decode_request, encode_reply, encode_request};
use crate::handle::{Broker, BrokerError, Received, refusal};
use crate::request::{Input, Receive, ReceivedMessage, Reply, Request, Taken};
use crate::take::{Take, give_back};
use crate::turn::{Shared, Status};

/// How long a request is tried again that no node has taken.
const TRY_FOR: Duration = Duration::from_secs(2);
/// The first and the longest pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// How long an answer of another node is waited for, beside the time that a receive waits.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a receive waits at most that leaves its time to the queue.
const OWN_WAIT_MAX: Duration = Duration::from_secs(20);

/// An answer that is on its way from another node.
pub type Forwarding = Pin<Box<dyn Future<Output = Result<Bytes, ForwardError>> + Send>>;

/// The way to the owner that reigns, on another node. Implemented by whoever keeps the links between nodes.
pub trait Leader: Debug + Send + Sync {
    /// Sends a request to the node that leads, to be given to [`Broker::serve_forwarded`] there, and returns what that
    /// answers. If the future is dropped, so is the one there; an answer that is on its way by then goes, with its request,
    /// to [`Broker::take_back`]. One that does not come `within` this time is unknown.
    fn forward(&self, request: Bytes, within: Duration) -> Forwarding;

    /// Sends a request whose answer nobody needs. It is worth trying again for a moment; if it is lost, leases of
    /// messages run their time. Called on any thread, and must not block.
    fn tell(&self, request: Bytes);

    /// Compares what this node came to with what the others did, and halts whoever differs from a majority. Must not block.
    fn compare(&self, checkpoint: Checkpoint);

    /// Returns the highest feature level that every node of the cluster understands, as far as this one has heard; 0 while
    /// it has not heard all of them. Must not block.
    fn level(&self) -> u32;

    /// Hears how much room this node's disk has, and whether that is below its reserve. Returns whether a quorum of the nodes has room. Must not block.
    fn room(&self, space: Space, is_short: bool) -> bool;

    /// Hears that the cluster is of this feature level: nodes that do not understand it have no place in it. Must not block.
    fn raised(&self, level: u32);
}

/// Why there is no answer of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// The request has surely not reached the other node.
    #[error("the request was not sent")]
    NotSent,
    /// It may have been carried out.
    #[error("the answer was lost")]
    Unknown,
    /// No other node is known to lead.
    #[error("no other node leads")]
    NoLeader,
}

/// Whether long polls still wait, and who has to know when they do not.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    is_begun: AtomicBool,
    begun: Notify,
}

impl Drain {
    pub(crate) fn begin(&self) {
        self.is_begun.store(true, Ordering::Release);
        self.begun.notify_waiters();
    }

    fn is_begun(&self) -> bool {
        self.is_begun.load(Ordering::Acquire)
    }

    async fn begun(&self) {
        let mut begun = pin!(self.begun.notified());
        // Listens before it looks, so that nothing is missed in between.
        begun.as_mut().enable();
        if !self.is_begun() {
            begun.await;
        }
    }
}

impl Shared {
    /// Gives a request that has no answer to the owner that reigns. It is lost only if there is none for a while, or after
    /// the end of this one: then leases run their time.
    pub(crate) fn tell(&self, request: Request) {
        match &self.options.leader {
            Some(leader) if !self.leads() => leader.tell(encode_request(&request).into()),
            _ => {
                if self.inbox.push(Input { request, reply: None }).is_ok() {
                    self.inbox.kick();
                }
            }
        }
    }
}

/// Tries that no node has taken.
struct Tries {
    until: Instant,
    pause: Duration,
}

impl Tries {
    fn begin() -> Self {
        Self {
            until: Instant::now() + TRY_FOR,
            pause: PAUSE,
        }
    }

    /// Waits before the next try; an error if there were enough.
    async fn pause(&mut self, shared: &Shared) -> Result<(), BrokerError> {
        if Instant::now() >= self.until {
            return Err(BrokerError::NoLeader);
        }
        // Sooner if this node begins to lead, or ceases to.
        timeout(self.pause, shared.roles.notified())
            .await
            .unwrap_or_default();
        self.pause = (2 * self.pause).min(PAUSE_MAX);
        Ok(())
    }
}

/// What became of a receive at one node.
enum Polled {
    Answered(Reply),
    /// Nobody knows; whatever was taken for it stays hidden for the time of its lease.
    Lost,
    /// No receive waits any more.
    Drained,
}

impl Broker {
    /// Answers a request that another node has sent on, by the owner of this node alone: one that does not reign says so.
    /// Dropping the future cancels a receive and undoes what was taken for it. Only tests of time move clocks.
    pub async fn serve_forwarded(&self, request: &[u8], may_move_clock: bool) -> Bytes {
        let reply = match decode_request(request) {
            Ok(Request::AdvanceClock { .. }) if !may_move_clock => Reply::NotTaken,
            Ok(request) => self.serve(request).await.unwrap_or_else(reply_of),
            Err(reason) => {
                error!(%reason, "a request of another node cannot be read");
                Reply::NotTaken
            }
        };
        encode_reply(&reply).into()
    }

    /// Hears an answer of another node that came when its future was dropped already: what was taken is given back.
    pub fn take_back(&self, request: &[u8], answer: &[u8]) {
        let Ok(Request::Receive(receive)) = decode_request(request) else {
            return;
        };
        if receive.attempt.is_some() {
            // Its client may have repeated the attempt elsewhere by now, and then holds these same handles.
            return;
        }
        if let Ok(Reply::Received(taken)) = decode_reply(answer) {
            give_back(&self.shared, taken.iter().map(|taken| taken.delivery.handle));
        }
    }

    /// Whether the owner of this node reigns.
    pub fn leads(&self) -> bool {
        self.shared.leads()
    }

    async fn serve(&self, request: Request) -> Result<Reply, BrokerError> {
        if !self.shared.leads() {
            return Err(BrokerError::NoLeader);
        }
        if matches!(request, Request::GiveBack { .. } | Request::Withhold { .. }) {
            self.shared.tell(request);
            return Ok(Reply::Done);
        }
        if let Request::Receive(receive) = request {
            return self.serve_receive(receive).await;
        }
        let _reserved = if let Request::Enqueue { key, entries } = &request {
            Some(self.reserve(key.tenant, entries)?)
        } else {
            None
        };
        self.ask_own(request).await
    }

    /// Takes messages for another node, with their contents.
    async fn serve_receive(&self, receive: Receive) -> Result<Reply, BrokerError> {
        let tenant = receive.key.tenant;
        let reply = self.receive_own(receive).await?;
        let Reply::Received(taken) = reply else {
            return Ok(reply);
        };
        let Received { messages, take } = self.fetched(tenant, taken).await?;
        let with_content = |message: ReceivedMessage| Taken {
            delivery: message.delivery,
            content: Held::Memory(message.content),
            file: None,
        };
        let reply = Reply::Received(messages.into_iter().map(with_content).collect());
        // The other node has them from here on, and gives back what it cannot deliver.
        take.into_iter().for_each(Take::delivered);
        Ok(reply)
    }

    /// Asks whoever reigns.
    pub(crate) async fn ask(&self, request: Request) -> Result<Reply, BrokerError> {
        if self.shared.options.leader.is_none() {
            return self.ask_own(request).await;
        }
        let mut tries = Tries::begin();
        loop {
            let reply = if self.shared.leads() {
                self.ask_own(request.clone()).await?
            } else {
                self.forward(&request, PATIENCE)
                    .await?
                    .unwrap_or_else(reply_of_loss)
            };
            if !matches!(reply, Reply::NotLeader { .. }) {
                return Ok(reply);
            }
            tries.pause(&self.shared).await?;
        }
    }

    /// Sends a request to another node and reads its answer.
    async fn forward(
        &self,
        request: &Request,
        within: Duration,
    ) -> Result<Result<Reply, ForwardError>, BrokerError> {
        if self.shared.status() == Status::Recovering {
            return Err(BrokerError::Recovering);
        }
        let Some(leader) = self
            .shared
            .options
            .leader
            .as_ref()
            .filter(|_| !self.shared.inbox.is_closed())
        else {
            return Err(BrokerError::Stopping);
        };
        let answer = leader.forward(encode_request(request).into(), within).await;
        Ok(answer.and_then(|bytes| {
            decode_reply(&bytes).map_err(|reason| {
                error!(%reason, "an answer of another node cannot be read");
                ForwardError::Unknown
            })
        }))
    }

    /// Takes messages for a client of this node, from whoever reigns, over any change of leader.
    pub(crate) async fn receive_routed(
        &self,
        tenant: TenantId,
        mut receive: Receive,
    ) -> Result<Received, BrokerError> {
        let is_long_poll = receive.wait != Some(Duration::ZERO);
        let mut until = receive.wait.map(|wait| Instant::now() + wait);
        let mut tries = Tries::begin();
        loop {
            if !self.shared.leads() && self.shared.seals.get().is_none() {
                // Nobody could open the handles of what is taken now. The first key comes with the log.
                tries.pause(&self.shared).await?;
                continue;
            }
            receive.wait = until.map(|until| until.saturating_duration_since(Instant::now()));
            match self.poll_once(&receive).await? {
                Polled::Answered(Reply::Received(taken)) => {
                    self.require_seal(&taken)?;
                    return self.fetched(tenant, taken).await;
                }
                Polled::Answered(Reply::NotLeader { wait_left }) => {
                    if let Some(left) = wait_left {
                        // It was waiting until now.
                        until = Some(Instant::now() + left);
                        tries = Tries::begin();
                    }
                }
                Polled::Answered(other) => return Err(refusal(other)),
                // It is answered at the next leader as it would be to a client that came back at once.
                Polled::Lost if is_long_poll => tries = Tries::begin(),
                Polled::Lost => return Err(BrokerError::Unknown),
                Polled::Drained => return Ok(Received::default()),
            }
            if is_long_poll && until.is_some_and(|until| until <= Instant::now()) {
                return Ok(Received::default());
            }
            tries.pause(&self.shared).await?;
        }
    }

    /// Asks one node for messages.
    async fn poll_once(&self, receive: &Receive) -> Result<Polled, BrokerError> {
        let mut receive = receive.clone();
        if self.shared.leads() {
            return self.receive_own(receive).await.map(Polled::Answered);
        }
        if self.shared.drain.is_begun() {
            receive.wait = Some(Duration::ZERO);
        }
        let within = receive.wait.unwrap_or(OWN_WAIT_MAX) + PATIENCE;
        let is_short = receive.wait == Some(Duration::ZERO);
        let request = Request::Receive(receive);
        let answer = tokio::select! {
            answer = self.forward(&request, within) => answer?,
            () = self.shared.drain.begun(), if !is_short => return Ok(Polled::Drained),
        };
        Ok(match answer {
            Ok(reply) => Polled::Answered(reply),
            Err(ForwardError::Unknown) => Polled::Lost,
            Err(loss) => Polled::Answered(reply_of_loss(loss)),
        })
    }

    /// Gives messages back whose handles nobody could open: this node does not know the first key yet.
    fn require_seal(&self, taken: &[Taken]) -> Result<(), BrokerError> {
        if taken.is_empty() || self.shared.seals.get().is_some() {
            return Ok(());
        }
        let handles = taken.iter().map(|taken| taken.delivery.handle);
        give_back(&self.shared, handles);
        Err(BrokerError::NoLeader)
    }
}

fn reply_of_loss(loss: ForwardError) -> Reply {
    match loss {
        ForwardError::Unknown => Reply::Unknown,
        ForwardError::NotSent | ForwardError::NoLeader => Reply::NotLeader { wait_left: None },
    }
}

/// Says to another node why its request was not answered with an outcome.
fn reply_of(refusal: BrokerError) -> Reply {
    match refusal {
        BrokerError::Queue(error) => Reply::Refused(error),
        BrokerError::Overloaded => Reply::NotTaken,
        BrokerError::NoRoom => Reply::NoRoom,
        BrokerError::Unknown => Reply::Unknown,
        // Nothing was done: whoever leads next can do it.
        BrokerError::NoLeader | BrokerError::Recovering | BrokerError::Stopping => {
            Reply::NotLeader { wait_left: None }
        }
    }
}
