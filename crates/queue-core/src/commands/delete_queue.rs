//! DeleteQueue: the queue and its name go at once, the slots of its messages are reclaimed bit by bit.

use types::{QueueId, limits};

use crate::{Effect, Outcome, Partition, QueueError};

pub(super) fn apply(partition: &mut Partition, id: QueueId) -> Result<Outcome, QueueError> {
    let queue = partition.queues.remove(&id).ok_or(QueueError::NoSuchQueue)?;
    let counters = queue.counters();
    partition.garbage += counters.total();
    partition.hidden -= usize::try_from(counters.delayed + counters.in_flight).unwrap_or(usize::MAX);
    if let Some(moving) = queue.record.moving {
        partition.running_tasks -= 1;
        partition.tasks.remove(&moving.task);
    }
    partition.tasks.retain(|_, task| task.source != id);
    let (clock, key) = (partition.clock, queue.key().clone());
    partition.names.remove(&key);
    forget_old_names(partition);
    partition.deleted_names.insert(key.clone(), clock);
    partition.deleted_order.push_back((clock, key));
    partition.effects.push(Effect::QueueDeleted(id));
    Ok(Outcome::Done)
}

fn forget_old_names(partition: &mut Partition) {
    let clock = partition.clock;
    let is_old = |at: types::Timestamp| at.plus_seconds(limits::DELETED_NAME_WAIT_SECONDS) <= clock;
    while let Some((at, key)) = partition.deleted_order.pop_front_if(|(at, _)| is_old(*at)) {
        if partition.deleted_names.get(&key) == Some(&at) {
            partition.deleted_names.remove(&key);
        }
    }
}
