//! The refusals of the state machine. Each variant exists because the wire answers it differently.

use crate::AttributeName;

/// Why a command, or one entry of it, was refused. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// There is no queue with this id or name.
    #[error("the queue does not exist")]
    NoSuchQueue,
    /// A queue of this name was deleted less than the waiting time ago.
    #[error("a queue of this name was deleted a moment ago")]
    QueueDeletedRecently,
    /// The queue exists with another value of an attribute that was passed.
    #[error("the queue exists with a different value of {0}")]
    AttributeDiffers(AttributeName),
    /// The queue was purged less than the waiting time ago.
    #[error("the queue was purged a moment ago")]
    PurgeInProgress,
    /// The message is larger than the queue allows.
    #[error("the message is longer than {max_bytes} bytes")]
    MessageTooLong {
        /// The queue's MaximumMessageSize.
        max_bytes: u32,
    },
    /// A FIFO queue without content-based deduplication was given no deduplication id. Refuses the whole command.
    #[error("the queue needs a deduplication id")]
    MissingDeduplicationId,
    /// A FIFO queue was given a message without a group, or a standard queue a deduplication. Refuses the whole
    /// command; the API refuses it before.
    #[error("the message does not fit the type of the queue")]
    WrongQueueType,
    /// The receipt handle is of another queue.
    #[error("the receipt handle is of another queue")]
    ForeignReceipt,
    /// The receipt handle of a FIFO queue's message is no longer current.
    #[error("the receipt handle has expired")]
    ReceiptExpired,
    /// The message is gone, or its visibility cannot be changed with this handle.
    #[error("the message is not available for a visibility change")]
    VisibilityNotChangeable,
    /// The message would stay invisible for more than 12 hours since it was received.
    #[error("the visibility timeout would exceed {max_seconds} seconds since the receive")]
    VisibilityTooLong {
        /// The limit in seconds.
        max_seconds: u32,
    },
    /// The receive cannot be repeated: a message of it was deleted or its visibility changed.
    #[error("the messages of this receive attempt have changed")]
    AttemptChanged,
    /// No queue has this one as its dead-letter queue.
    #[error("the queue is not a dead-letter queue")]
    NotADeadLetterQueue,
    /// The destination of a move task does not exist.
    #[error("the destination does not exist")]
    NoSuchDestination,
    /// The destination of a move task is of another type than its source.
    #[error("the destination is of another type than the source")]
    WrongDestinationType,
    /// A move task of this source is running.
    #[error("a move task of this queue is running")]
    TaskRunning,
    /// The queue has no such running task.
    #[error("there is no such task")]
    NoSuchTask,
    /// The access policy is no longer the one that the change was made of.
    #[error("the policy was changed meanwhile")]
    PolicyChanged,
    /// Too many messages of the queue are in flight.
    #[error("too many messages are in flight")]
    OverLimit,
}
