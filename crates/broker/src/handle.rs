//! The handle that APIs call: one async function for each thing an owner can be asked.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use journal::JournalError;
use queue_core::{AttributeChange, EnqueueEntry, Enqueued, Handle, MoveTask, QueueError, TaskId};
use tokio::sync::oneshot;
use types::{LogIndex, MessageId, QueueKey, QueueName, TenantId, WallTime};

use crate::budget::Reserved;
use crate::fetch::{Fetched, fetch};
use crate::inbox::Refusal;
use crate::process::Work;
use crate::progress::Progress;
use crate::request::{
    Input, QueueDescription, QueuePage, Receive, ReceivedMessage, Reply, Request, Taken, WaiterId,
};
use crate::take::{Take, give_back, withhold};
use crate::turn::{BrokerOptions, Committer, JournalOpener, Shared, Status};

/// A handle to the owner of a partition. Clones are cheap and lead to the same owner.
#[derive(Clone)]
pub struct Broker {
    pub(crate) shared: Arc<Shared>,
    last_waiter: Arc<AtomicU64>,
}

/// Why a request was not answered with an outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerError {
    /// The state machine refused it.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Too much waits already, or the disk is full: nothing was done, and a later try may succeed.
    #[error("too much waits already")]
    Overloaded,
    /// The disk has no room for more messages: nothing was done, and a later try may succeed.
    #[error("the disk is almost full")]
    NoRoom,
    /// It may have happened or not: a later try tells.
    #[error("the outcome is not known")]
    Unknown,
    /// The state is still being read: nothing was done.
    #[error("the state is still being read")]
    Recovering,
    /// No node leads, or none that can be reached: nothing was done, and a later try may succeed.
    #[error("no node leads")]
    NoLeader,
    /// The server is stopping: nothing was done.
    #[error("the server is stopping")]
    Stopping,
}

/// What to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// Most messages to take, 1 to 10.
    pub max: u32,
    /// Seconds for which they stay invisible; the queue's own timeout if `None`.
    pub visibility_timeout_seconds: Option<u32>,
    /// Seconds to wait for a message; the queue's own if `None`.
    pub wait_seconds: Option<u32>,
    /// Names the attempt, so that a FIFO queue can repeat its answer.
    pub attempt: Option<[u8; 16]>,
}

/// Messages received, and the take that gives them back unless their answer is delivered.
#[derive(Debug, Default)]
pub struct Received {
    /// The messages in order; none if the wait ended without one.
    pub messages: Vec<ReceivedMessage>,
    /// The take; `None` if there is no message.
    pub take: Option<Take>,
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker")
            .field("status", &self.shared.status())
            .finish_non_exhaustive()
    }
}

impl Broker {
    /// Starts the commit thread, which opens the journal and then serves. `opened` hears how opening went.
    pub fn start(
        options: BrokerOptions,
        opener: JournalOpener,
        opened: impl FnOnce(Result<(), JournalError>) + Send + 'static,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let shared = Arc::new(Shared::new(options));
        let broker = Self {
            shared: shared.clone(),
            last_waiter: Arc::default(),
        };
        let run = move || {
            let service = Service(shared);
            match Committer::open(service.0.clone(), opener) {
                Ok(committer) => {
                    service.0.advance(Status::Serving);
                    opened(Ok(()));
                    service.0.run(committer);
                }
                Err(failure) => {
                    service.0.end();
                    opened(Err(failure));
                }
            }
        };
        let thread = std::thread::Builder::new().name("commit".to_owned()).spawn(run)?;
        Ok((broker, thread))
    }

    /// Opens the journal at once, and returns the commit turns as work for a runtime that has one thread for everything,
    /// as a simulation has. Each of its requests has to kick.
    ///
    /// # Errors
    ///
    /// If the journal cannot be opened.
    pub fn open_as_task(options: BrokerOptions, opener: JournalOpener) -> Result<(Self, Work), JournalError> {
        let shared = Arc::new(Shared::new(options));
        let broker = Self {
            shared: shared.clone(),
            last_waiter: Arc::default(),
        };
        let service = Service(shared);
        let committer = Committer::open(service.0.clone(), opener)?;
        service.0.advance(Status::Serving);
        let work = async move { service.0.run_as_task(committer).await };
        Ok((broker, Box::pin(work)))
    }

    /// Returns the last applied entry and the hash of the state then, if the owner is there: for tests, since it goes
    /// through the whole state.
    pub fn state_hash(&self) -> Option<(LogIndex, u64)> {
        self.shared.state_hash()
    }

    /// Returns what the broker is doing.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Returns how far the start has come with reading the log.
    pub fn progress(&self) -> &Progress {
        &self.shared.progress
    }

    /// Starts a commit on the commit thread if requests wait.
    pub fn kick(&self) {
        self.shared.inbox.kick();
    }

    /// Starts commits, or does them, whenever requests wait and the reactor has run out of other work. A server spawns
    /// it once on its reactors; it never ends.
    pub async fn drive(self) {
        self.shared.drive().await;
    }

    /// Returns how many requests wait for the commit thread.
    pub fn waiting(&self) -> usize {
        self.shared.inbox.len()
    }

    /// Ends every waiting receive with an empty answer and lets none wait any more. Other requests go on.
    pub async fn end_polls(&self) -> Result<(), BrokerError> {
        self.shared.advance(Status::Stopping);
        self.shared.drain.begin();
        self.done_now(Request::EndPolls).await
    }

    /// Refuses every further request; the commit thread ends when it has answered what it accepted.
    pub fn stop(&self) {
        self.shared.advance(Status::Stopping);
        self.shared.inbox.close();
    }

    /// Waits until the commit thread has ended, in order or by a failure. One caller hears it.
    pub async fn ended(&self) {
        self.shared.ended.notified().await;
    }

    /// Moves the state clock forward, for tests of time.
    pub async fn advance_clock(&self, by: Duration) -> Result<(), BrokerError> {
        match self.shared.options.leader {
            None => self.done_now(Request::AdvanceClock { by }).await,
            Some(_) => self.done(Request::AdvanceClock { by }).await,
        }
    }

    /// Creates a queue, or finds the one that has this key and these attributes.
    pub async fn create_queue(
        &self,
        key: QueueKey,
        attributes: Vec<AttributeChange>,
        tags: Vec<(Box<str>, Box<str>)>,
    ) -> Result<(), BrokerError> {
        self.done(Request::CreateQueue {
            key,
            attributes,
            tags,
        })
        .await
    }

    /// Deletes a queue.
    pub async fn delete_queue(&self, key: QueueKey) -> Result<(), BrokerError> {
        self.done(Request::DeleteQueue { key }).await
    }

    /// Changes the attributes that are named.
    pub async fn set_queue_attributes(
        &self,
        key: QueueKey,
        attributes: Vec<AttributeChange>,
    ) -> Result<(), BrokerError> {
        self.done(Request::SetQueueAttributes { key, attributes }).await
    }

    /// Removes every message of a queue.
    pub async fn purge_queue(&self, key: QueueKey) -> Result<(), BrokerError> {
        self.done(Request::PurgeQueue { key }).await
    }

    /// Succeeds if the queue exists.
    pub async fn find_queue(&self, key: QueueKey) -> Result<(), BrokerError> {
        self.done(Request::FindQueue { key }).await
    }

    /// Returns names of a tenant's queues in order.
    pub async fn list_queues(
        &self,
        tenant: TenantId,
        prefix: String,
        after: Option<QueueName>,
        max: usize,
    ) -> Result<QueuePage, BrokerError> {
        let reply = self
            .ask(Request::ListQueues {
                tenant,
                prefix,
                after,
                max,
            })
            .await?;
        if let Reply::Page(page) = reply {
            Ok(page)
        } else {
            Err(refusal(reply))
        }
    }

    /// Returns a queue's attributes, tags and exact counters.
    pub async fn describe_queue(&self, key: QueueKey) -> Result<QueueDescription, BrokerError> {
        let reply = self.ask(Request::DescribeQueue { key }).await?;
        if let Reply::Description(description) = reply {
            Ok(*description)
        } else {
            Err(refusal(reply))
        }
    }

    /// Sets tags of a queue.
    pub async fn tag_queue(&self, key: QueueKey, tags: Vec<(Box<str>, Box<str>)>) -> Result<(), BrokerError> {
        self.done(Request::TagQueue { key, tags }).await
    }

    /// Takes tags off a queue.
    pub async fn untag_queue(&self, key: QueueKey, keys: Vec<Box<str>>) -> Result<(), BrokerError> {
        self.done(Request::UntagQueue { key, keys }).await
    }

    /// Returns names of queues that have this one as their dead-letter queue, in order.
    pub async fn dead_letter_sources(
        &self,
        key: QueueKey,
        after: Option<QueueName>,
        max: usize,
    ) -> Result<QueuePage, BrokerError> {
        let reply = self
            .ask(Request::ListDeadLetterSources { key, after, max })
            .await?;
        if let Reply::Page(page) = reply {
            Ok(page)
        } else {
            Err(refusal(reply))
        }
    }

    /// Starts to move what a dead-letter queue holds.
    pub async fn start_move_task(
        &self,
        source: QueueKey,
        task: TaskId,
        destination: Option<QueueKey>,
        rate: Option<u32>,
    ) -> Result<(), BrokerError> {
        self.done(Request::StartMoveTask {
            source,
            task,
            destination,
            rate,
        })
        .await
    }

    /// Stops a running move task and returns how many messages it moved.
    pub async fn cancel_move_task(&self, source: QueueKey, task: TaskId) -> Result<u64, BrokerError> {
        let reply = self.ask(Request::CancelMoveTask { source, task }).await?;
        if let Reply::Moved(moved) = reply {
            Ok(moved)
        } else {
            Err(refusal(reply))
        }
    }

    /// Returns the move tasks of a queue, the newest first.
    pub async fn move_tasks(&self, source: QueueKey, max: usize) -> Result<Vec<MoveTask>, BrokerError> {
        let reply = self.ask(Request::ListMoveTasks { source, max }).await?;
        if let Reply::Tasks(tasks) = reply {
            Ok(tasks)
        } else {
            Err(refusal(reply))
        }
    }

    /// Adds messages; each has its own result.
    pub async fn enqueue(
        &self,
        key: QueueKey,
        entries: Vec<EnqueueEntry>,
    ) -> Result<Vec<Result<Enqueued, QueueError>>, BrokerError> {
        let _reserved = self.reserve(key.tenant, &entries)?;
        let reply = self.ask(Request::Enqueue { key, entries }).await?;
        if let Reply::Enqueued(results) = reply {
            Ok(results)
        } else {
            Err(refusal(reply))
        }
    }

    /// Takes messages, waiting for the first if asked to. Dropping the future gives back what was taken for it.
    pub async fn receive(&self, key: QueueKey, options: ReceiveOptions) -> Result<Received, BrokerError> {
        let tenant = key.tenant;
        let receive = Receive {
            waiter: WaiterId(0),
            key,
            max: options.max,
            visibility_timeout_seconds: options.visibility_timeout_seconds,
            wait: options.wait_seconds.map(|wait| Duration::from_secs(wait.into())),
            attempt: options.attempt,
        };
        if self.shared.options.leader.is_some() {
            return self.receive_routed(tenant, receive).await;
        }
        let reply = self.receive_own(receive).await?;
        if let Reply::Received(taken) = reply {
            self.fetched(tenant, taken).await
        } else {
            Err(refusal(reply))
        }
    }

    /// Takes messages from the owner of this node. Dropping the future gives back what was taken for it.
    pub(crate) async fn receive_own(&self, mut receive: Receive) -> Result<Reply, BrokerError> {
        let waiter = WaiterId(self.last_waiter.fetch_add(1, Ordering::Relaxed));
        receive.waiter = waiter;
        let reply = self.submit(Request::Receive(receive))?;
        let poll = PendingReceive {
            shared: self.shared.clone(),
            waiter,
            reply: Some(reply),
        };
        poll.await.ok_or(BrokerError::Unknown)
    }

    /// Counts contents that come in as in flight.
    pub(crate) fn reserve(
        &self,
        tenant: TenantId,
        entries: &[EnqueueEntry],
    ) -> Result<Reserved, BrokerError> {
        let bytes = entries.iter().map(|entry| entry.content.len() as u64).sum();
        let reserved = self.shared.budget.reserve(tenant, bytes);
        reserved.ok_or(BrokerError::Overloaded)
    }

    /// Brings the contents of taken messages into memory. Those that are damaged are left out of the answer.
    pub(crate) async fn fetched(&self, tenant: TenantId, taken: Vec<Taken>) -> Result<Received, BrokerError> {
        let handles = taken.iter().map(|taken| taken.delivery.handle);
        let bytes = taken
            .iter()
            .map(|taken| u64::from(taken.delivery.content_bytes))
            .sum();
        let Some(reserved) = self.shared.budget.reserve(tenant, bytes) else {
            give_back(&self.shared, handles);
            return Err(BrokerError::Overloaded);
        };
        // From here on a client that goes gives everything back.
        let mut take = Take::new(self.shared.clone(), handles.collect(), reserved);
        let Fetched {
            messages,
            damaged,
            blocked,
        } = fetch(taken).await;
        if !damaged.is_empty() {
            self.shared.options.observer.damaged(damaged.len() as u64);
            take.leave_out(&damaged);
            take.leave_out(&blocked);
            withhold(&self.shared, damaged);
            give_back(&self.shared, blocked.into_iter());
        }
        let take = (!messages.is_empty()).then_some(take);
        Ok(Received { messages, take })
    }

    /// Deletes received messages; each has its own result.
    pub async fn delete(
        &self,
        key: QueueKey,
        handles: Vec<Handle>,
    ) -> Result<Vec<Result<(), QueueError>>, BrokerError> {
        self.entries(Request::Delete { key, handles }).await
    }

    /// Changes how long received messages stay invisible; each has its own result.
    pub async fn change_visibility(
        &self,
        key: QueueKey,
        entries: Vec<(Handle, u32)>,
    ) -> Result<Vec<Result<(), QueueError>>, BrokerError> {
        self.entries(Request::ChangeVisibility { key, entries }).await
    }

    /// Returns the access policy of a queue, if it has one.
    pub fn policy(&self, key: &QueueKey) -> Option<Arc<str>> {
        self.shared.policies.get(key)
    }

    /// Returns the text of a receipt handle.
    pub fn seal(&self, tenant: TenantId, handle: &Handle) -> String {
        self.shared
            .seals
            .get()
            .map_or_else(String::new, |sealer| sealer.seal(tenant, handle))
    }

    /// Whether receipt handles can be told from forged ones. A node that has just joined does not have the key yet, and must
    /// refuse none for good.
    pub fn knows_handles(&self) -> Result<(), BrokerError> {
        self.shared.seals.get().map(|_| ()).ok_or(BrokerError::NoLeader)
    }

    /// Returns what a receipt handle says, or `None` if this tenant was never given it, or [`Broker::knows_handles`] not.
    pub fn open(&self, tenant: TenantId, text: &str) -> Option<Handle> {
        self.shared.seals.get()?.open(tenant, text)
    }

    /// Returns a new message id.
    pub fn new_message_id(&self) -> MessageId {
        let mut bytes = [0; 16];
        self.shared.options.random.fill(&mut bytes);
        MessageId::from_random(bytes)
    }

    /// Returns the time of day.
    pub fn wall_now(&self) -> WallTime {
        self.shared.options.clock.wall()
    }

    async fn entries(&self, request: Request) -> Result<Vec<Result<(), QueueError>>, BrokerError> {
        let reply = self.ask(request).await?;
        if let Reply::Entries(results) = reply {
            Ok(results)
        } else {
            Err(refusal(reply))
        }
    }

    async fn done(&self, request: Request) -> Result<(), BrokerError> {
        let reply = self.ask(request).await?;
        if reply == Reply::Done {
            Ok(())
        } else {
            Err(refusal(reply))
        }
    }

    /// Does not count on the caller to be on a reactor, which would start the commit when it runs out of work.
    async fn done_now(&self, request: Request) -> Result<(), BrokerError> {
        let answer = self.submit(request)?;
        self.kick();
        let reply = answer.await.map_err(|_| BrokerError::Unknown)?;
        if reply == Reply::Done {
            Ok(())
        } else {
            Err(refusal(reply))
        }
    }

    /// Asks the owner of this node.
    pub(crate) async fn ask_own(&self, request: Request) -> Result<Reply, BrokerError> {
        // A lost answer: the owner ended while it held the request.
        self.submit(request)?.await.map_err(|_| BrokerError::Unknown)
    }

    fn submit(&self, request: Request) -> Result<oneshot::Receiver<Reply>, BrokerError> {
        match self.shared.status() {
            Status::Recovering => return Err(BrokerError::Recovering),
            Status::Stopped => return Err(BrokerError::Stopping),
            Status::Serving | Status::Stopping => {}
        }
        let (reply, answer) = oneshot::channel();
        match self.shared.inbox.push(Input {
            request,
            reply: Some(reply),
        }) {
            Ok(()) => Ok(answer),
            Err(Refusal::Full) => Err(BrokerError::Overloaded),
            Err(Refusal::Closed) => Err(BrokerError::Stopping),
        }
    }
}

/// Ends the service with the commit thread, however that ends: after a panic nobody may wait for ever.
struct Service(Arc<Shared>);

impl Drop for Service {
    fn drop(&mut self) {
        self.0.end();
    }
}

pub(crate) fn refusal(reply: Reply) -> BrokerError {
    match reply {
        Reply::Refused(error) => BrokerError::Queue(error),
        Reply::NotTaken => BrokerError::Overloaded,
        Reply::NoRoom => BrokerError::NoRoom,
        Reply::NotLeader { .. } => BrokerError::NoLeader,
        Reply::Unknown
        | Reply::Done
        | Reply::Enqueued(_)
        | Reply::Received(_)
        | Reply::Entries(_)
        | Reply::Moved(_)
        | Reply::Tasks(_)
        | Reply::Page(_)
        | Reply::Description(_) => BrokerError::Unknown,
    }
}

/// A receive that was submitted. Dropped before its answer, it is cancelled, or undone if it was answered meanwhile.
struct PendingReceive {
    shared: Arc<Shared>,
    waiter: WaiterId,
    reply: Option<oneshot::Receiver<Reply>>,
}

impl Future for PendingReceive {
    type Output = Option<Reply>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(reply) = &mut self.reply else {
            return Poll::Ready(None);
        };
        let answer = Pin::new(reply).poll(context);
        if answer.is_ready() {
            self.reply = None;
        }
        answer.map(Result::ok)
    }
}

impl Drop for PendingReceive {
    fn drop(&mut self) {
        let Some(mut reply) = self.reply.take() else {
            return;
        };
        // Closed first: an answer that comes later fails to be sent, and the owner undoes it.
        reply.close();
        if let Ok(Reply::Received(messages)) = reply.try_recv() {
            give_back(
                &self.shared,
                messages.iter().map(|message| message.delivery.handle),
            );
            return;
        }
        // Refused only after the owner has ended.
        let request = Request::Cancel { waiter: self.waiter };
        if self.shared.inbox.push(Input { request, reply: None }).is_ok() {
            self.shared.inbox.kick();
        }
    }
}
