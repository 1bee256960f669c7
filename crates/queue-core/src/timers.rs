//! When delays and leases end, and when the oldest message of a queue expires.
//!
//! Both are heaps with lazy deletion: an entry that no longer fits its message is passed over. Entries are rebuilt
//! on load, so what happens must not depend on stale ones: a message is only ever acted on under its true time, in
//! the order (time, queue, sequence).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use types::{QueueId, Sequence, Slot, Timestamp};

/// The end of a delay or lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lapse {
    pub(crate) at: Timestamp,
    pub(crate) queue: QueueId,
    pub(crate) sequence: Sequence,
    pub(crate) slot: Slot,
}

/// Live entries below which the heap is never cleaned.
const CLEAN_FLOOR: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Timers {
    lapses: BinaryHeap<Reverse<Lapse>>,
    expiries: BinaryHeap<Reverse<(Timestamp, QueueId)>>,
}

impl Timers {
    pub(crate) fn push_lapse(&mut self, lapse: Lapse) {
        self.lapses.push(Reverse(lapse));
    }

    pub(crate) fn next_lapse(&self) -> Option<Lapse> {
        self.lapses.peek().map(|entry| entry.0)
    }

    pub(crate) fn pop_lapse(&mut self) {
        self.lapses.pop();
    }

    /// Whether stale entries outnumber live ones, so that a clean pays for itself.
    pub(crate) fn needs_clean(&self, live: usize) -> bool {
        self.lapses.len() > 2 * live + CLEAN_FLOOR
    }

    pub(crate) fn clean(&mut self, mut is_live: impl FnMut(&Lapse) -> bool) {
        self.lapses.retain(|entry| is_live(&entry.0));
    }

    pub(crate) fn push_expiry(&mut self, at: Timestamp, queue: QueueId) {
        self.expiries.push(Reverse((at, queue)));
    }

    pub(crate) fn next_expiry(&self) -> Option<(Timestamp, QueueId)> {
        self.expiries.peek().map(|entry| entry.0)
    }

    pub(crate) fn pop_expiry(&mut self) {
        self.expiries.pop();
    }

    /// Returns the bytes that are allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        let expiries = self.expiries.capacity() * size_of::<Reverse<(Timestamp, QueueId)>>();
        self.lapses.capacity() * size_of::<Reverse<Lapse>>() + expiries
    }
}
