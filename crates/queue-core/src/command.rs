//! What can be asked of a partition. Commands are stored: see [`crate::Entry`] for their bytes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{LeaseToken, MessageId, QueueId, QueueKey, Sequence, Slot};

use crate::AttributeChange;
use crate::task::TaskId;

/// One command to a partition. Everything that depends on the outside (time, ids, random bytes, limits that an
/// operator can set) was decided by the proposer and is in the command or in its [`crate::Context`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Creates a queue, or finds the one that has this key and these attributes.
    CreateQueue {
        /// Tenant and name. A name that ends in `.fifo` makes a FIFO queue.
        key: QueueKey,
        /// The attributes that the client passed, each once.
        attributes: Vec<AttributeChange>,
        /// The tags that the client passed; they count only if the queue is new.
        tags: Vec<(Box<str>, Box<str>)>,
        /// Seconds after a delete before the name can be used again; 0 when limits are relaxed.
        deleted_name_wait_seconds: u32,
    },
    /// Deletes a queue with all that is in it.
    DeleteQueue {
        /// The queue.
        queue: QueueId,
    },
    /// Changes the attributes that are named and no others.
    SetQueueAttributes {
        /// The queue.
        queue: QueueId,
        /// The attributes that the client passed.
        attributes: Vec<AttributeChange>,
    },
    /// Removes every message of a queue and clears its deduplication memory.
    PurgeQueue {
        /// The queue.
        queue: QueueId,
        /// Seconds that have to lie between two purges; 0 when limits are relaxed.
        purge_wait_seconds: u32,
    },
    /// Adds messages; each has its own outcome.
    Enqueue {
        /// The queue.
        queue: QueueId,
        /// One or more messages, in order.
        entries: Vec<EnqueueEntry>,
    },
    /// Takes messages that are due.
    Receive {
        /// The queue.
        queue: QueueId,
        /// Most messages to take, 1 to 10.
        max: u32,
        /// Seconds for which they stay invisible; the queue's own timeout if `None`.
        visibility_timeout_seconds: Option<u32>,
        /// Whether the client waits: then a full in-flight set gives nothing, where a short poll gets an error.
        is_long_poll: bool,
        /// Names the attempt, so that a FIFO queue can repeat its answer: the first 16 bytes of SHA-256 over the
        /// client's id.
        attempt: Option<[u8; 16]>,
    },
    /// Deletes received messages; each has its own outcome.
    Delete {
        /// The queue that the client named.
        queue: QueueId,
        /// One or more receipt handles.
        handles: Vec<Handle>,
    },
    /// Changes how long received messages stay invisible, from now; each has its own outcome.
    ChangeVisibility {
        /// The queue that the client named.
        queue: QueueId,
        /// Receipt handles, each with seconds from now; 0 makes the message visible.
        entries: Vec<(Handle, u32)>,
    },
    /// Undoes receives whose answer did not reach its client: position, visibility and both counts go back.
    /// A handle that is no longer current is passed over.
    GiveBack {
        /// The queue.
        queue: QueueId,
        /// The handles of the deliveries.
        handles: Vec<Handle>,
    },
    /// Does not count receives whose messages cannot be shown, because their content is damaged. They stay hidden for the
    /// time of their lease. A handle that is no longer current is passed over.
    Withhold {
        /// The queue.
        queue: QueueId,
        /// The handles of the deliveries.
        handles: Vec<Handle>,
    },
    /// Takes messages out of their queue whose content is lost, whoever has received them. The handles name messages; their
    /// leases do not count, and a message that is gone is passed over.
    Discard {
        /// The queue.
        queue: QueueId,
        /// The messages.
        handles: Vec<Handle>,
    },
    /// Sets tags of a queue.
    TagQueue {
        /// The queue.
        queue: QueueId,
        /// Keys and values; a key that is there gets the new value.
        tags: Vec<(Box<str>, Box<str>)>,
    },
    /// Takes tags off a queue.
    UntagQueue {
        /// The queue.
        queue: QueueId,
        /// Their keys; one that is not there is passed over.
        keys: Vec<Box<str>>,
    },
    /// Starts to move what a dead-letter queue holds.
    StartMoveTask {
        /// The dead-letter queue.
        source: QueueId,
        /// The task's id: 16 random bytes as a UUID.
        task: TaskId,
        /// Where messages go; each to the queue that it was dead-lettered from if `None`.
        destination: Option<QueueKey>,
        /// Most messages to move in a second.
        rate: Option<u32>,
    },
    /// Stops a running move task. What it moved stays moved.
    CancelMoveTask {
        /// The dead-letter queue.
        source: QueueId,
        /// The task.
        task: TaskId,
    },
    /// Does nothing by itself: due timers, expiry and reclaiming happen, as with every command.
    Tick,
    /// Sets the limits that an operator can set.
    SetLimits {
        /// Most messages of one queue that may be in flight.
        in_flight_max: u64,
    },
    /// Adds the key that seals receipt handles from now on; older keys still open theirs.
    AddSealKey {
        /// 32 random bytes.
        key: [u8; 32],
    },
    /// Says that every node understands this feature level: from now on commands of it may be proposed.
    RaiseLevel {
        /// The level. A lower one than before changes nothing.
        level: u32,
    },
    /// Has every node hash its whole state as it is now, to be compared between them.
    Compare,
    /// Does nothing: stands for the commands of the next feature level, to test upgrades with.
    #[cfg(feature = "next-level")]
    OfNextLevel,
}

/// One message to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueueEntry {
    /// The id that the message will have.
    pub message_id: MessageId,
    /// What the client sent, in its stored form ([`crate::Content`]). The state machine does not look inside.
    pub content: Arc<[u8]>,
    /// Body and user attributes in bytes, as SQS counts them.
    pub size_bytes: u32,
    /// Seconds before the message can be received; the queue's own delay if `None`. FIFO queues use their own.
    pub delay_seconds: Option<u32>,
    /// The message group; always there on a FIFO queue.
    pub group: Option<Box<str>>,
    /// How a FIFO queue recognises a repeated send; `None` on a standard queue.
    pub deduplication: Option<Deduplication>,
}

/// What a FIFO queue recognises a repeated send by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deduplication {
    /// The id that the client gave.
    Id(Box<str>),
    /// The client gave none; SHA-256 of the body, which counts if the queue deduplicates by content.
    BodyHash([u8; 32]),
}

/// What a receipt handle says once it is opened: proof of one particular receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    /// The incarnation of the queue that delivered the message.
    pub queue: QueueId,
    /// Where the message lay; a hint that is checked by `sequence`.
    pub slot: Slot,
    /// The message.
    pub sequence: Sequence,
    /// The receive.
    pub token: LeaseToken,
}
