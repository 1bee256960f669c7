//! What an owner is asked, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use journal::File;
use queue_core::{
    AttributeChange, Command, Counters, Delivery, EnqueueEntry, Enqueued, Handle, MoveTask, QueueAttributes,
    QueueError, TaskId,
};
use types::{QueueId, QueueKey, QueueName, TenantId, WallTime};

use crate::contents::Held;

/// Names one receive, so that it can be cancelled while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId(pub u64);

/// A request with the place where its answer goes; `None` for requests that have no answer.
#[derive(Debug)]
pub struct Input<R> {
    /// What is asked.
    pub request: Request,
    /// Where the answer goes.
    pub reply: Option<R>,
}

/// What an owner can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Request {
    CreateQueue {
        key: QueueKey,
        attributes: Vec<AttributeChange>,
        tags: Vec<(Box<str>, Box<str>)>,
    },
    DeleteQueue {
        key: QueueKey,
    },
    SetQueueAttributes {
        key: QueueKey,
        attributes: Vec<AttributeChange>,
    },
    PurgeQueue {
        key: QueueKey,
    },
    Enqueue {
        key: QueueKey,
        entries: Vec<EnqueueEntry>,
    },
    Receive(Receive),
    Delete {
        key: QueueKey,
        handles: Vec<Handle>,
    },
    ChangeVisibility {
        key: QueueKey,
        entries: Vec<(Handle, u32)>,
    },
    TagQueue {
        key: QueueKey,
        tags: Vec<(Box<str>, Box<str>)>,
    },
    UntagQueue {
        key: QueueKey,
        keys: Vec<Box<str>>,
    },
    StartMoveTask {
        source: QueueKey,
        task: TaskId,
        destination: Option<QueueKey>,
        rate: Option<u32>,
    },
    CancelMoveTask {
        source: QueueKey,
        task: TaskId,
    },
    /// Undoes receives whose answer did not reach its client.
    GiveBack {
        queue: QueueId,
        handles: Vec<Handle>,
    },
    /// Leaves messages hidden for the time of their lease, and does not count the receive: they cannot be shown.
    Withhold {
        queue: QueueId,
        handles: Vec<Handle>,
    },
    /// The client of a receive has gone.
    Cancel {
        waiter: WaiterId,
    },
    FindQueue {
        key: QueueKey,
    },
    ListQueues {
        tenant: TenantId,
        prefix: String,
        after: Option<QueueName>,
        max: usize,
    },
    DescribeQueue {
        key: QueueKey,
    },
    ListMoveTasks {
        source: QueueKey,
        max: usize,
    },
    ListDeadLetterSources {
        key: QueueKey,
        after: Option<QueueName>,
        max: usize,
    },
    /// Moves the state clock forward, for tests of time.
    AdvanceClock {
        by: Duration,
    },
    /// A command of the server itself: no client asks for it, and no other node.
    Internal(Command),
    /// Ends every waiting receive with an empty answer, and lets none wait any more.
    EndPolls,
}

/// A receive: what to take, and how long to wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receive {
    /// Its name while it waits.
    pub waiter: WaiterId,
    /// The queue.
    pub key: QueueKey,
    /// Most messages to take.
    pub max: u32,
    /// Seconds for which they stay invisible; the queue's own timeout if `None`.
    pub visibility_timeout_seconds: Option<u32>,
    /// How long to wait for a message; the queue's own time if `None`.
    pub wait: Option<Duration>,
    /// Names the attempt, so that a FIFO queue can repeat its answer.
    pub attempt: Option<[u8; 16]>,
}

/// What an owner answers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reply {
    Done,
    Enqueued(Vec<Result<Enqueued, QueueError>>),
    Received(Vec<Taken>),
    Entries(Vec<Result<(), QueueError>>),
    Moved(u64),
    Tasks(Vec<MoveTask>),
    Page(QueuePage),
    Description(Box<QueueDescription>),
    Refused(QueueError),
    /// It may have happened or not, and may still happen: the client has to ask again.
    Unknown,
    /// It did not happen, and will not: the journal could not take it.
    NotTaken,
    /// It did not happen, and will not: the disk has no room for more messages.
    NoRoom,
    /// It did not happen, and will not: another node leads, or none.
    NotLeader {
        /// How long a receive has still to wait that was waiting already.
        wait_left: Option<Duration>,
    },
}

/// One message of a receive, as the owner answers it.
#[derive(Debug, Clone)]
pub struct Taken {
    /// What the state says of it.
    pub delivery: Delivery,
    /// What its sender sent, or where that lies.
    pub content: Held,
    /// The file to read it from. The journal knows it, the owner does not.
    pub file: Option<Arc<dyn File>>,
}

impl PartialEq for Taken {
    fn eq(&self, other: &Self) -> bool {
        (&self.delivery, &self.content) == (&other.delivery, &other.content)
    }
}

impl Eq for Taken {}

/// One message of a receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// What the state says of it.
    pub delivery: Delivery,
    /// What its sender sent, in its stored form. The id in it is that of the message unless the delivery has another.
    pub content: Arc<[u8]>,
}

/// Some names of queues, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePage {
    /// The names.
    pub names: Vec<QueueName>,
    /// Whether there are more behind the last.
    pub has_more: bool,
}

/// What a queue is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDescription {
    /// What a client can set.
    pub attributes: QueueAttributes,
    /// Tags in the order of their keys.
    pub tags: Vec<(Box<str>, Box<str>)>,
    /// How many messages it holds.
    pub counters: Counters,
    /// When it was created.
    pub created: WallTime,
    /// When an attribute was last changed.
    pub modified: WallTime,
}
