//! One call of one client.

use serde::{Deserialize, Serialize};

/// One attempt of one client to do something. A repetition of a call that nobody answered is an operation of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Which client made it.
    pub process: u32,
    /// Which node it was sent to.
    pub node: u32,
    /// When it was sent, in microseconds of the one clock that all clients read.
    pub invoked_micros: u64,
    /// When its reply was there; `None` if there is none.
    pub returned_micros: Option<u64>,
    /// What was asked.
    pub call: Call,
    /// What was answered.
    pub reply: Reply,
}

impl Operation {
    /// Whether the reply says that it happened.
    pub fn is_done(&self) -> bool {
        match self.reply {
            Reply::Sent { .. } | Reply::Received(_) | Reply::Done => true,
            Reply::Refused(_) | Reply::Unknown => false,
        }
    }

    /// Whether the reply says that it did not happen.
    pub fn is_refused(&self) -> bool {
        matches!(self.reply, Reply::Refused(_))
    }

    /// Returns the messages that the reply brought.
    pub fn deliveries(&self) -> &[Delivery] {
        match &self.reply {
            Reply::Received(deliveries) => deliveries,
            Reply::Sent { .. } | Reply::Done | Reply::Refused(_) | Reply::Unknown => &[],
        }
    }
}

/// What was asked. Queues are named by their place in [`History::queues`](crate::History::queues).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// Sends one message; a batch is as many operations with the same times.
    Send {
        /// The queue.
        queue: usize,
        /// The body. No two messages have the same one; all attempts to send the same message do.
        body: String,
        /// The message group.
        group: Option<String>,
        /// The deduplication id.
        deduplication: Option<String>,
    },
    /// Receives, without a receive attempt id.
    Receive {
        /// The queue.
        queue: usize,
        /// The visibility timeout in microseconds.
        visibility_micros: u64,
    },
    /// Deletes one message; a batch is as many operations with the same times.
    Delete {
        /// The queue.
        queue: usize,
        /// The receipt handle.
        handle: String,
    },
    /// Changes how long a received message stays invisible.
    ChangeVisibility {
        /// The queue.
        queue: usize,
        /// The receipt handle.
        handle: String,
        /// The new time from now in microseconds.
        visibility_micros: u64,
    },
    /// Removes all messages of a queue.
    Purge {
        /// The queue.
        queue: usize,
    },
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Nothing that says whether it happened: no reply, a broken one, or a server that does not know itself.
    Unknown,
    /// It has not happened and will not; with the code of the refusal.
    Refused(String),
    /// The message was accepted.
    Sent {
        /// The id of the message.
        message: String,
        /// The sequence number on a FIFO queue.
        sequence: Option<u64>,
    },
    /// What a receive brought, in the order of the reply.
    Received(Vec<Delivery>),
    /// A delete, visibility change or purge was accepted.
    Done,
}

/// One message that a client received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The id of the message.
    pub message: String,
    /// The receipt handle.
    pub handle: String,
    /// The body as it arrived.
    pub body: String,
    /// ApproximateReceiveCount.
    pub receive_count: u32,
    /// The sequence number on a FIFO queue.
    pub sequence: Option<u64>,
    /// The message group as it arrived.
    pub group: Option<String>,
}
