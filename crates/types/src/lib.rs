//! Names, ids, times and limits that every crate shares.
//!
//! A value of one of these types is valid: text is parsed once, at the edge, and never checked again inside.
//! There is no logic here beyond parsing and printing; delivery rules live in `queue-core`.

#![forbid(unsafe_code)]

mod account;
mod arn;
mod ids;
pub mod limits;
mod queue_name;
mod time;

pub use account::TenantId;
pub use arn::{QueueArn, Region};
pub use ids::{LeaseToken, LogIndex, MessageId, NodeId, PartitionId, QueueId, Sequence, Slot, Term};
pub use queue_name::{QueueKey, QueueName};
pub use time::{Timestamp, WallTime};

/// Text that is not a valid value of the type it was parsed for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {what}: {text:?}")]
pub struct ParseError {
    /// What the text should have been.
    pub what: &'static str,
    /// The text as it was given.
    pub text: String,
}

impl ParseError {
    fn new(what: &'static str, text: &str) -> Self {
        Self {
            what,
            text: text.to_owned(),
        }
    }
}
