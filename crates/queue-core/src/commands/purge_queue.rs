//! PurgeQueue: every message is gone at once, the slots are reclaimed bit by bit.

use types::QueueId;

use crate::{Outcome, Partition, QueueError};

pub(super) fn apply(
    partition: &mut Partition,
    id: QueueId,
    purge_wait_seconds: u32,
) -> Result<Outcome, QueueError> {
    let clock = partition.clock;
    let queue = partition.queues.get_mut(&id).ok_or(QueueError::NoSuchQueue)?;
    if queue
        .record
        .purged_at
        .is_some_and(|at| at.plus_seconds(purge_wait_seconds) > clock)
    {
        return Err(QueueError::PurgeInProgress);
    }
    let counters = queue.counters();
    queue.record.purged_at = Some(clock);
    queue.clear();
    partition.garbage += counters.total();
    partition.hidden -= usize::try_from(counters.delayed + counters.in_flight).unwrap_or(usize::MAX);
    Ok(Outcome::Done)
}
