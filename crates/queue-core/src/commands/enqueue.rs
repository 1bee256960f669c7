//! Enqueue: adds messages, each with its own result.

use types::QueueId;

use crate::command::EnqueueEntry;
use crate::deduplication::{self, Accepted, Key};
use crate::header::{Delivery, Header};
use crate::history::NO_HISTORY;
use crate::queue::Queue;
use crate::{Context, Enqueued, Outcome, Partition, QueueError};

/// Deduplication ids that one send frees at most.
const FORGET_MAX: u32 = 64;

pub(super) fn apply(
    partition: &mut Partition,
    context: Context,
    id: QueueId,
    entries: &[EnqueueEntry],
) -> Result<Outcome, QueueError> {
    let clock = partition.clock;
    let queue = partition.queues.get_mut(&id).ok_or(QueueError::NoSuchQueue)?;
    // More than are added, so that a memory that has grown shrinks again.
    queue.deduplication.forget(clock, FORGET_MAX);
    let mut keys = Vec::with_capacity(entries.len());
    for entry in entries {
        keys.push(check(queue, entry)?);
    }
    let mut results = Vec::with_capacity(entries.len());
    for (ordinal, (entry, key)) in (context.ordinal..).zip(entries.iter().zip(keys)) {
        results.push(add(partition, Context { ordinal, ..context }, id, entry, key));
    }
    Ok(Outcome::Enqueued(results))
}

/// Refuses what would refuse the whole command; returns the deduplication key of a FIFO queue's message.
fn check(queue: &Queue, entry: &EnqueueEntry) -> Result<Option<Key>, QueueError> {
    let Some(fifo) = &queue.attributes().fifo else {
        return if entry.deduplication.is_some() {
            Err(QueueError::WrongQueueType)
        } else {
            Ok(None)
        };
    };
    let group = entry.group.as_deref().ok_or(QueueError::WrongQueueType)?;
    let given = entry
        .deduplication
        .as_ref()
        .ok_or(QueueError::MissingDeduplicationId)?;
    deduplication::key(
        fifo.effective_scope,
        fifo.content_based_deduplication,
        group,
        given,
    )
    .map(Some)
    .ok_or(QueueError::MissingDeduplicationId)
}

fn add(
    partition: &mut Partition,
    context: Context,
    id: QueueId,
    entry: &EnqueueEntry,
    key: Option<Key>,
) -> Result<Enqueued, QueueError> {
    let clock = partition.clock;
    let queue = partition.queues.get_mut(&id).ok_or(QueueError::NoSuchQueue)?;
    let max_bytes = queue.attributes().maximum_message_bytes;
    if entry.size_bytes > max_bytes {
        return Err(QueueError::MessageTooLong { max_bytes });
    }
    if let Some(first) = key.and_then(|key| queue.deduplication.find(&key, clock)) {
        return Ok(Enqueued {
            message_id: first.message_id,
            sequence: first.sequence,
            slot: None,
        });
    }
    let own_delay = entry.delay_seconds.filter(|_| !queue.is_fifo());
    let delay_seconds = own_delay.unwrap_or(queue.attributes().delay_seconds);
    let sequence = queue.take_sequence();
    if let Some(key) = key {
        queue.deduplication.remember(Accepted {
            key,
            at: clock,
            message_id: entry.message_id,
            sequence,
        });
    }
    let group = partition.group_for(id, entry.group.as_deref());
    let header = Header {
        sequence,
        queue: id,
        index: context.index,
        ordinal: context.ordinal,
        content_bytes: u32::try_from(entry.content.len()).unwrap_or(u32::MAX),
        sent: context.wall,
        age_from: clock,
        group,
        history: NO_HISTORY,
        delivery: if delay_seconds > 0 {
            Delivery::Delayed
        } else {
            Delivery::Available
        },
        marks: 0,
    };
    let slot = partition.insert(header, clock.plus_seconds(delay_seconds));
    Ok(Enqueued {
        message_id: entry.message_id,
        sequence,
        slot: Some(slot),
    })
}
