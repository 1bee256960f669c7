//! GiveBack: undoes receives whose answer did not reach its client. Withhold: does not count those that cannot be shown.

use types::{LeaseToken, QueueId, Slot, WallTime};

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

/// Undoes the count of receives, and leaves their messages hidden: they cannot be shown now, and may be later.
pub(super) fn withhold(
    partition: &mut Partition,
    id: QueueId,
    handles: &[Handle],
) -> Result<Outcome, QueueError> {
    partition.queue(id).ok_or(QueueError::NoSuchQueue)?;
    for handle in handles.iter().filter(|handle| handle.queue == id) {
        uncount(partition, handle);
    }
    Ok(Outcome::Done)
}

fn give_back(partition: &mut Partition, is_fifo: bool, handle: &Handle) {
    let Some(slot) = uncount(partition, handle) else {
        return;
    };
    let header = partition.slab.header(slot);
    if header.delivery != Delivery::InFlight {
        return;
    }
    let group = header.group;
    partition.show(slot);
    if is_fifo {
        partition.put_group_first(group);
    }
}

/// Takes back the counts of one receive, and its handle; none if the handle is no longer current.
fn uncount(partition: &mut Partition, handle: &Handle) -> Option<Slot> {
    let slot = partition.resolve(handle)?;
    if partition.slab.history(slot).token != handle.token {
        return None;
    }
    let history = partition.slab.history_mut(slot);
    // Nobody holds the handle, and giving it back twice must count once.
    history.token = LeaseToken(0);
    history.receive_count -= 1;
    history.receives_here = history.receives_here.saturating_sub(1);
    if history.receive_count == 0 {
        history.first_received = WallTime::from_millis(0);
    }
    Some(slot)
}
