//! One file for each command that changes messages or queues, and the table that leads to them.

mod change_visibility;
mod create_queue;
mod delete;
mod delete_queue;
mod discard;
mod enqueue;
mod give_back;
mod move_task;
mod purge_queue;
mod receive;
mod set_queue_attributes;
mod tags;

use types::{LeaseToken, Slot};

use crate::{Command, Context, Handle, Outcome, Partition, QueueError};

/// Does the work of one command on a state whose due timers were settled.
pub(crate) fn apply(
    partition: &mut Partition,
    context: Context,
    command: &Command,
) -> Result<Outcome, QueueError> {
    match command {
        Command::CreateQueue {
            key,
            attributes,
            tags,
            deleted_name_wait_seconds,
        } => create_queue::apply(
            partition,
            context,
            key,
            attributes,
            tags,
            *deleted_name_wait_seconds,
        ),
        Command::DeleteQueue { queue } => delete_queue::apply(partition, *queue),
        Command::SetQueueAttributes { queue, attributes } => {
            set_queue_attributes::apply(partition, context, *queue, attributes)
        }
        Command::PurgeQueue {
            queue,
            purge_wait_seconds,
        } => purge_queue::apply(partition, *queue, *purge_wait_seconds),
        Command::Enqueue { queue, entries } => enqueue::apply(partition, context, *queue, entries),
        Command::Receive {
            queue,
            max,
            visibility_timeout_seconds,
            is_long_poll,
            attempt,
        } => {
            let request = receive::Request {
                max: *max as usize,
                visibility_timeout_seconds: *visibility_timeout_seconds,
                is_long_poll: *is_long_poll,
                attempt: *attempt,
            };
            receive::apply(partition, context, *queue, &request)
        }
        Command::Delete { queue, handles } => delete::apply(partition, *queue, handles),
        Command::ChangeVisibility { queue, entries } => change_visibility::apply(partition, *queue, entries),
        Command::GiveBack { queue, handles } => give_back::apply(partition, *queue, handles),
        Command::Withhold { queue, handles } => give_back::withhold(partition, *queue, handles),
        Command::Discard { queue, handles } => discard::apply(partition, *queue, handles),
        Command::TagQueue { queue, tags } => tags::tag(partition, *queue, tags),
        Command::UntagQueue { queue, keys } => tags::untag(partition, *queue, keys),
        Command::StartMoveTask {
            source,
            task,
            destination,
            rate,
        } => move_task::start(partition, context, *source, *task, destination.as_ref(), *rate),
        Command::CancelMoveTask { source, task } => move_task::cancel(partition, *source, task),
        Command::Tick => Ok(Outcome::Done),
        Command::SetLimits { in_flight_max } => Ok(partition.set_in_flight_max(*in_flight_max)),
        Command::AddSealKey { key } => {
            partition.seal_keys.push(*key);
            Ok(Outcome::Done)
        }
        Command::RaiseLevel { level } => Ok(partition.raise_level(*level, context.index)),
        // The owner takes the state at this entry.
        Command::Compare => Ok(Outcome::Done),
        #[cfg(feature = "next-level")]
        Command::OfNextLevel => Ok(Outcome::Done),
    }
}

impl Partition {
    /// Returns the slot of the message that a handle names, unless it is gone.
    pub(crate) fn resolve(&self, handle: &Handle) -> Option<Slot> {
        // Token 0 is no lease: a message that was never received has no handle.
        if handle.token == LeaseToken(0) {
            return None;
        }
        self.slab.find(handle.queue, handle.sequence, handle.slot)?;
        self.is_live(handle.slot).then_some(handle.slot)
    }
}
