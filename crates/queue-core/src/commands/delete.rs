//! Delete: takes received messages out of their queue, each with its own result.

use types::QueueId;

use crate::header::Delivery;
use crate::{Handle, Outcome, Partition, QueueError};

pub(super) fn apply(
    partition: &mut Partition,
    id: QueueId,
    handles: &[Handle],
) -> Result<Outcome, QueueError> {
    let is_fifo = partition.queue(id).ok_or(QueueError::NoSuchQueue)?.is_fifo();
    let results = handles
        .iter()
        .map(|handle| delete(partition, id, is_fifo, handle))
        .collect();
    Ok(Outcome::Entries(results))
}

fn delete(partition: &mut Partition, id: QueueId, is_fifo: bool, handle: &Handle) -> Result<(), QueueError> {
    if handle.queue != id {
        return Err(QueueError::ForeignReceipt);
    }
    // A message that is gone was deleted before, moved, purged or expired: deleting it again succeeds.
    let Some(slot) = partition.resolve(handle) else {
        return Ok(());
    };
    let is_in_flight = partition.slab.header(slot).delivery == Delivery::InFlight;
    let is_current = partition.slab.history(slot).token == handle.token;
    if is_fifo && !(is_current && is_in_flight) {
        return Err(QueueError::ReceiptExpired);
    }
    // An older handle deletes nothing while a newer lease runs; once that has lapsed, any handle deletes.
    if is_current || !is_in_flight {
        partition.remove(slot);
    }
    Ok(())
}
