//! Discard: takes messages out of their queue whose content is lost. A repair proposes it, never a client.

use types::QueueId;

use crate::{Handle, Outcome, Partition, QueueError};

pub(super) fn apply(
    partition: &mut Partition,
    id: QueueId,
    handles: &[Handle],
) -> Result<Outcome, QueueError> {
    partition.queue(id).ok_or(QueueError::NoSuchQueue)?;
    for handle in handles.iter().filter(|handle| handle.queue == id) {
        let is_there = partition
            .slab
            .find(handle.queue, handle.sequence, handle.slot)
            .is_some();
        if is_there && partition.is_live(handle.slot) {
            partition.remove(handle.slot);
        }
    }
    Ok(Outcome::Done)
}
