//! ChangeVisibility: sets how long received messages stay invisible, counted from now.

use types::{QueueId, limits};

use crate::header::Delivery;
use crate::{Handle, Outcome, Partition, QueueError};

pub(super) fn apply(
    partition: &mut Partition,
    id: QueueId,
    entries: &[(Handle, u32)],
) -> Result<Outcome, QueueError> {
    let is_fifo = partition.queue(id).ok_or(QueueError::NoSuchQueue)?.is_fifo();
    let results = entries
        .iter()
        .map(|(handle, seconds)| change(partition, id, is_fifo, handle, *seconds))
        .collect();
    Ok(Outcome::Entries(results))
}

fn change(
    partition: &mut Partition,
    id: QueueId,
    is_fifo: bool,
    handle: &Handle,
    seconds: u32,
) -> Result<(), QueueError> {
    if handle.queue != id {
        return Err(QueueError::ForeignReceipt);
    }
    let slot = partition
        .resolve(handle)
        .ok_or(QueueError::VisibilityNotChangeable)?;
    let history = partition.slab.history(slot);
    let is_current = history.token == handle.token;
    let is_in_flight = partition.slab.header(slot).delivery == Delivery::InFlight;
    if is_fifo && !(is_current && is_in_flight) {
        return Err(QueueError::VisibilityNotChangeable);
    }
    // Recorded on AWS: an older handle still ends the timeout that a newer receive of a standard queue began. Once
    // the lease has lapsed only the current handle can hide the message again.
    if !is_in_flight && !is_current {
        return Ok(());
    }
    let until = partition.clock.plus_seconds(seconds);
    let max_seconds = limits::VISIBILITY_SECONDS_MAX;
    if until > history.leased_at.plus_seconds(max_seconds) {
        return Err(QueueError::VisibilityTooLong { max_seconds });
    }
    match (seconds, is_in_flight) {
        (0, true) => partition.show(slot),
        (0, false) => {}
        (_, _) => partition.hide(slot, until),
    }
    Ok(())
}
