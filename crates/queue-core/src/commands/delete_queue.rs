//! DeleteQueue: the queue and its name go at once, the slots of its messages are reclaimed bit by bit.

use types::{QueueId, limits};

use crate::{Effect, Outcome, Partition, QueueError};

pub(super) fn apply(partition: &mut Partition, id: QueueId) -> Result<Outcome, QueueError> {
    partition.unlist_source(id);
    let queue = partition.queues.remove(&id).ok_or(QueueError::NoSuchQueue)?;
    let counters = queue.counters();
    partition.garbage += counters.total();
    partition.hidden -= usize::try_from(counters.delayed + counters.in_flight).unwrap_or(usize::MAX);
    let tasks = partition.tasks.range((id, 0)..=(id, u64::MAX));
    let tasks: Vec<_> = tasks.map(|(key, task)| (*key, task.next_at)).collect();
    for (key, next_at) in tasks {
        partition.tasks.remove(&key);
        partition.running.remove(&(next_at, id));
    }
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
