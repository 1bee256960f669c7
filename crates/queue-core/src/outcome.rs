//! What a command came to, and what the state machine wants done outside.

use types::{LogIndex, MessageId, QueueId, QueueKey, Sequence, Slot, WallTime};

use crate::{Handle, QueueError};

/// The result of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// What the client is told.
    pub outcome: Result<Outcome, QueueError>,
    /// What the owner has to do.
    pub effects: Vec<Effect>,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The command had nothing more to say.
    Done,
    /// The queue that was created or found.
    Queue(QueueId),
    /// An enqueue: one result for each entry.
    Enqueued(Vec<Result<Enqueued, QueueError>>),
    /// A receive: the messages taken, in order; none if nothing was due.
    Received(Vec<Delivery>),
    /// A move task that was cancelled had moved so many messages.
    Moved(u64),
    /// A delete or visibility change: one result for each entry.
    Entries(Vec<Result<(), QueueError>>),
}

/// A message that was added, or the one that a repeated send repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    /// The id to answer: for a repeated send that of the first.
    pub message_id: MessageId,
    /// The sequence number; clients of FIFO queues see it.
    pub sequence: Sequence,
    /// Where the message lies; `None` for a repeated send, whose content is dropped.
    pub slot: Option<Slot>,
}

/// Names a content: the journal entry that brought it, and its place among all contents of that entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PayloadId {
    /// The journal entry.
    pub index: LogIndex,
    /// The number of contents that stand before it in the entry.
    pub ordinal: u32,
}

/// The content of a message that is there, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// The queue of the message.
    pub queue: QueueId,
    /// Its place in that queue.
    pub sequence: Sequence,
    /// The content.
    pub id: PayloadId,
    /// The length of the content in bytes.
    pub content_bytes: u32,
}

/// One message handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// What the receipt handle says.
    pub handle: Handle,
    /// How often the message was received, this time included.
    pub receive_count: u32,
    /// When it was sent.
    pub sent: WallTime,
    /// When it was received for the first time.
    pub first_received: WallTime,
    /// The queue that it was dead-lettered from.
    pub dead_letter_source: Option<QueueKey>,
    /// The content.
    pub payload: PayloadId,
    /// The length of the content in bytes.
    pub content_bytes: u32,
    /// The id that a move task gave the message; `None` if it still has the one in its content.
    pub message_id: Option<MessageId>,
}

/// What the owner has to do outside the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// A message (in a FIFO queue: a group) became available: wake one waiter.
    Available(QueueId),
    /// The slot is free: its content can be dropped.
    Freed {
        /// Where the message lay.
        slot: Slot,
        /// The length of its content in bytes.
        content_bytes: u32,
    },
    /// A message moved to its queue's dead-letter queue.
    DeadLettered {
        /// The queue that it left.
        from: QueueId,
    },
    /// The queue is gone: its waiters end.
    QueueDeleted(QueueId),
}
