//! The partition state machine: every rule of delivery, in one place, without IO.
//!
//! [`Partition::apply`] takes the time and a [`Command`] and gives back an [`Outcome`] and [`Effect`]s. It is pure
//! and total: the same commands give the same state, byte for byte, on every node; a wrong command is an error
//! value, never a panic. There is no clock, file, socket, thread or random number here; the owner of the partition
//! (crate `broker`) decides those before it journals a command.
//!
//! Message bodies are not here either. The state knows a message by its [`Slot`](types::Slot) and its place in the
//! journal; the owner keeps the bodies in a column beside it, see [`content`] for their stored form.
//!
//! Start reading at [`command`], then `partition.rs`, then one file of `commands/`.

#![forbid(unsafe_code)]

mod agreement;
mod attempts;
pub mod attributes;
mod chunked;
pub mod codec;
mod column;
pub mod command;
mod commands;
pub mod content;
mod cow;
mod deduplication;
mod entry;
mod error;
mod fair;
mod group;
mod header;
mod history;
mod invariants;
mod lifecycle;
mod line;
mod memory;
mod outcome;
mod partition;
mod queue;
mod slab;
mod snapshot;
mod stored_header;
mod task;
mod timers;

pub use agreement::{LEVEL, RunningHash, entry_hash};
pub use attributes::{AttributeChange, AttributeName, QueueAttributes, RedrivePolicy};
pub use command::{Command, Deduplication, EnqueueEntry, Handle};
pub use content::Content;
pub use cow::CowVec;
pub use entry::{DecodeError, Entry, EntryEncoder};
pub use error::QueueError;
pub use outcome::{Applied, Delivery, Effect, Enqueued, Outcome, Payload, PayloadId};
pub use partition::{Context, Partition};
pub use queue::{Counters, Queue};
pub use snapshot::{PartitionSnapshot, RestoreError};
pub use task::{MoveTask, TaskFailure, TaskId, TaskStatus};
