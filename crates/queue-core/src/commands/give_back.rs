//! GiveBack: undoes receives whose answer did not reach its client.

use types::{LeaseToken, QueueId, WallTime};

use crate::header::Delivery;
use crate::{Handle, Outcome, Partition, QueueError};

pub(super) fn apply(
    partition: &mut Partition,
    id: QueueId,
    handles: &[Handle],
) -> Result<Outcome, QueueError> {
    let is_fifo = partition.queue(id).ok_or(QueueError::NoSuchQueue)?.is_fifo();
    // From last to first, so that groups that go back to the head of the order stand as they stood.
    handles
        .iter()
        .rev()
        .filter(|handle| handle.queue == id)
        .for_each(|handle| give_back(partition, is_fifo, handle));
    Ok(Outcome::Done)
}

fn give_back(partition: &mut Partition, is_fifo: bool, handle: &Handle) {
    let Some(slot) = partition.resolve(handle) else {
        return;
    };
    let clock = partition.clock;
    let header = partition.slab.header_mut(slot);
    if header.token != handle.token {
        return;
    }
    // Nobody holds the handle, and giving it back twice must count once.
    header.token = LeaseToken(0);
    header.receive_count -= 1;
    header.receives_here = header.receives_here.saturating_sub(1);
    if header.receive_count == 0 {
        header.first_received = WallTime::from_millis(0);
    }
    if header.delivery != Delivery::InFlight {
        return;
    }
    header.visible_at = clock;
    let group = header.group;
    partition.show(slot);
    if is_fifo {
        partition.put_group_first(group);
    }
}
