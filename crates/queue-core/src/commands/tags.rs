//! TagQueue and UntagQueue: labels of a queue that decide nothing.

use std::sync::Arc;

use types::QueueId;

use crate::{Outcome, Partition, QueueError};

pub(super) fn tag(
    partition: &mut Partition,
    id: QueueId,
    tags: &[(Box<str>, Box<str>)],
) -> Result<Outcome, QueueError> {
    let queue = partition.queues.get_mut(&id).ok_or(QueueError::NoSuchQueue)?;
    Arc::make_mut(&mut queue.record.settings)
        .tags
        .extend(tags.iter().cloned());
    Ok(Outcome::Done)
}

pub(super) fn untag(
    partition: &mut Partition,
    id: QueueId,
    keys: &[Box<str>],
) -> Result<Outcome, QueueError> {
    let queue = partition.queues.get_mut(&id).ok_or(QueueError::NoSuchQueue)?;
    let tags = &mut Arc::make_mut(&mut queue.record.settings).tags;
    keys.iter().for_each(|key| {
        tags.remove(key);
    });
    Ok(Outcome::Done)
}
