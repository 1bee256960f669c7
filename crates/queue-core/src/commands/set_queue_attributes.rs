//! SetQueueAttributes: changes what is named and nothing else.

use std::sync::Arc;

use types::QueueId;

use crate::attributes::AttributeChange;
use crate::{Context, Outcome, Partition, QueueError};

pub(super) fn apply(
    partition: &mut Partition,
    context: Context,
    id: QueueId,
    changes: &[AttributeChange],
) -> Result<Outcome, QueueError> {
    let queue = partition.queue(id).ok_or(QueueError::NoSuchQueue)?;
    if changes
        .iter()
        .any(|change| queue.attributes().has_moved_on(change))
    {
        return Err(QueueError::PolicyChanged);
    }
    let old_delay_seconds = queue.attributes().delay_seconds;
    partition.unlist_source(id);
    let queue = partition.queues.get_mut(&id).ok_or(QueueError::NoSuchQueue)?;
    let settings = Arc::make_mut(&mut queue.record.settings);
    changes
        .iter()
        .for_each(|change| settings.attributes.change(change));
    settings.modified = context.wall;
    let delay_seconds = settings.attributes.delay_seconds;
    if queue.is_fifo() && delay_seconds != old_delay_seconds {
        delay_anew(partition, id, delay_seconds);
    }
    partition.list_source(id);
    // A shorter retention may make the oldest message expire sooner than the queue's timer says.
    partition.schedule_expiry(id);
    Ok(Outcome::Done)
}

/// Gives the messages of a FIFO queue whose delay still runs the new delay, counted from when they were sent. The
/// delays of a standard queue stay what they were. In the order of sending, as groups are served in the order in
/// which they become available.
fn delay_anew(partition: &mut Partition, id: QueueId, delay_seconds: u32) {
    let Some(queue) = partition.queues.get(&id) else {
        return;
    };
    for slot in queue.delayed(&partition.slab) {
        let visible_at = partition.slab.header(slot).age_from.plus_seconds(delay_seconds);
        if visible_at <= partition.clock {
            partition.show(slot);
        } else {
            partition.schedule(slot, visible_at);
        }
    }
}
