//! The registry of receives that wait for a message. A plain state machine: nobody sleeps here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use types::QueueId;

use crate::request::WaiterId;

/// Most receives that are parked; further ones are told to come back later.
pub(crate) const PARKED_MAX: usize = 100_000;

/// A parked receive.
#[derive(Debug)]
pub(crate) struct Waiter<R> {
    pub(crate) id: WaiterId,
    /// Its place among all receives that ever waited: one that was woken for nothing comes back to it.
    pub(crate) arrival: u64,
    /// The incarnation of the queue: a queue of the same name that comes later is another one.
    pub(crate) queue: QueueId,
    pub(crate) max: u32,
    pub(crate) visibility_timeout_seconds: Option<u32>,
    pub(crate) attempt: Option<[u8; 16]>,
    /// When it ends with an empty answer, in monotonic time.
    pub(crate) deadline: Duration,
    pub(crate) reply: R,
}

#[derive(Debug)]
pub(crate) struct Waiters<R> {
    parked: HashMap<WaiterId, Waiter<R>>,
    /// Waiters of each queue by arrival, so that the longest waiting stands first.
    lines: BTreeMap<QueueId, BTreeMap<u64, WaiterId>>,
    deadlines: BTreeSet<(Duration, WaiterId)>,
}

impl<R> Default for Waiters<R> {
    fn default() -> Self {
        Self {
            parked: HashMap::new(),
            lines: BTreeMap::new(),
            deadlines: BTreeSet::new(),
        }
    }
}

impl<R> Waiters<R> {
    pub(crate) fn len(&self) -> usize {
        self.parked.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// Parks a receive at its place among the others of its queue.
    pub(crate) fn park(&mut self, waiter: Waiter<R>) {
        let line = self.lines.entry(waiter.queue).or_default();
        line.insert(waiter.arrival, waiter.id);
        self.deadlines.insert((waiter.deadline, waiter.id));
        self.parked.insert(waiter.id, waiter);
    }

    /// Takes the longest waiting receive of a queue.
    pub(crate) fn wake(&mut self, queue: QueueId) -> Option<Waiter<R>> {
        let (_, id) = self.lines.get(&queue)?.first_key_value()?;
        self.cancel(*id)
    }

    /// Takes a receive out whose client has gone.
    pub(crate) fn cancel(&mut self, id: WaiterId) -> Option<Waiter<R>> {
        let waiter = self.parked.remove(&id)?;
        self.deadlines.remove(&(waiter.deadline, id));
        if let Some(line) = self.lines.get_mut(&waiter.queue) {
            line.remove(&waiter.arrival);
            if line.is_empty() {
                self.lines.remove(&waiter.queue);
            }
        }
        Some(waiter)
    }

    /// Takes the next receive whose time is over.
    pub(crate) fn expire(&mut self, now: Duration) -> Option<Waiter<R>> {
        let (deadline, id) = *self.deadlines.first()?;
        if deadline <= now { self.cancel(id) } else { None }
    }

    /// Takes any receive.
    pub(crate) fn pop(&mut self) -> Option<Waiter<R>> {
        let (_, id) = *self.deadlines.first()?;
        self.cancel(id)
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(id: u64, queue: u64, seconds: u64) -> Waiter<u64> {
        Waiter {
            id: WaiterId(id),
            arrival: id,
            queue: QueueId(queue),
            max: 1,
            visibility_timeout_seconds: None,
            attempt: None,
            deadline: Duration::from_secs(seconds),
            reply: id,
        }
    }

    fn woken(waiters: &mut Waiters<u64>, queue: u64) -> Option<u64> {
        waiters.wake(QueueId(queue)).map(|waiter| waiter.reply)
    }

    #[test]
    fn the_longest_waiting_of_the_queue_wakes_first() {
        let mut waiters = Waiters::default();
        [waiter(1, 7, 9), waiter(2, 8, 9), waiter(3, 7, 9)]
            .into_iter()
            .for_each(|w| waiters.park(w));
        assert_eq!(woken(&mut waiters, 7), Some(1));
        assert_eq!(woken(&mut waiters, 7), Some(3));
        // Woken for nothing: both come back, in whatever order, and stand as they stood.
        waiters.park(waiter(4, 7, 9));
        waiters.park(waiter(1, 7, 9));
        waiters.park(waiter(3, 7, 9));
        assert_eq!(woken(&mut waiters, 7), Some(1));
        assert_eq!(woken(&mut waiters, 7), Some(3));
        assert_eq!(woken(&mut waiters, 7), Some(4));
        assert_eq!(woken(&mut waiters, 7), None);
        assert_eq!((waiters.len(), woken(&mut waiters, 8)), (1, Some(2)));
    }

    #[test]
    fn a_cancelled_or_expired_waiter_is_never_woken() {
        let mut waiters = Waiters::default();
        [waiter(1, 7, 3), waiter(2, 7, 2), waiter(3, 7, 5)]
            .into_iter()
            .for_each(|w| waiters.park(w));
        assert!(waiters.cancel(WaiterId(1)).is_some());
        assert!(waiters.cancel(WaiterId(1)).is_none());
        assert_eq!(waiters.next_deadline(), Some(Duration::from_secs(2)));
        assert_eq!(waiters.expire(Duration::from_secs(1)).map(|w| w.reply), None);
        assert_eq!(waiters.expire(Duration::from_secs(2)).map(|w| w.reply), Some(2));
        assert_eq!(woken(&mut waiters, 7), Some(3));
        assert!(waiters.is_empty() && waiters.lines.is_empty() && waiters.deadlines.is_empty());
    }
}
