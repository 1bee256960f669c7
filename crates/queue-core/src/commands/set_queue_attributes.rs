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
    let queue = partition.queues.get_mut(&id).ok_or(QueueError::NoSuchQueue)?;
    let settings = Arc::make_mut(&mut queue.record.settings);
    changes
        .iter()
        .for_each(|change| settings.attributes.change(change));
    settings.modified = context.wall;
    // A shorter retention may make the oldest message expire sooner than the queue's timer says.
    partition.schedule_expiry(id);
    Ok(Outcome::Done)
}
