//! The available messages of a standard queue, or of one of its message groups, the oldest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use types::{QueueId, Sequence, Slot};

use crate::chunked::ChunkedDeque;
use crate::header::{Delivery, Header};
use crate::slab::Slab;

/// A message in a list; kept small, because there are two lists with every message in them.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct Entry {
    pub(crate) sequence: Sequence,
    pub(crate) slot: Slot,
}

/// Whose line it is: a slot can stand in both.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose {
    Queue,
    Group,
}

impl Whose {
    /// The bit that marks a slot as one of the line's returned messages.
    pub(crate) const fn mark(self) -> u8 {
        match self {
            Self::Queue => 1,
            Self::Group => 2,
        }
    }

    /// Entries below which a line is never cleaned. There may be as many groups as messages.
    const fn clean_floor(self) -> u64 {
        match self {
            Self::Queue => 1_024,
            Self::Group => 16,
        }
    }
}

/// Available messages. Entries that no longer fit their message are passed over.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Messages that became available when they were added, in order.
    fresh: ChunkedDeque<Entry>,
    /// Messages that became available later.
    returned: BinaryHeap<Reverse<(Sequence, Slot)>>,
}

impl Line {
    /// Enters a message that is available from the start; it is the newest.
    pub(crate) fn push_fresh(&mut self, sequence: Sequence, slot: Slot) {
        self.fresh.push_back(Entry { sequence, slot });
    }

    /// Enters a message that became available again, or after its delay.
    pub(crate) fn push_returned(&mut self, whose: Whose, slab: &mut Slab, sequence: Sequence, slot: Slot) {
        if !slab.mark_returned(slot, whose, true) {
            self.returned.push(Reverse((sequence, slot)));
        }
    }

    /// Throws entries away that no longer fit their message, if there are more of them than of the others.
    pub(crate) fn clean(&mut self, whose: Whose, slab: &mut Slab, queue: QueueId, available: u64) {
        let is_long = |len: usize| len as u64 > 2 * available + whose.clean_floor();
        if is_long(self.fresh.len()) {
            self.fresh
                .retain(|entry| is_available(slab.find(queue, entry.sequence, entry.slot)));
        }
        if is_long(self.returned.len()) {
            self.returned.retain(|Reverse((sequence, slot))| {
                let header = slab.find(queue, *sequence, *slot);
                let (is_there, stays) = (header.is_some(), is_available(header));
                if is_there && !stays {
                    slab.mark_returned(*slot, whose, false);
                }
                stays
            });
        }
    }

    /// Returns the bytes that are allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        let returned = self.returned.capacity() * size_of::<Reverse<(Sequence, Slot)>>();
        self.fresh.memory_bytes() + returned
    }

    /// Takes the oldest available message.
    pub(crate) fn pop(&mut self, whose: Whose, slab: &mut Slab, queue: QueueId) -> Option<Slot> {
        match self.first(whose, slab, queue)? {
            First::Fresh(slot) => {
                self.fresh.pop_front();
                Some(slot)
            }
            First::Returned(slot) => {
                self.returned.pop();
                slab.mark_returned(slot, whose, false);
                Some(slot)
            }
        }
    }

    /// Returns the oldest available message and leaves it where it is.
    pub(crate) fn peek(&mut self, whose: Whose, slab: &mut Slab, queue: QueueId) -> Option<Slot> {
        match self.first(whose, slab, queue)? {
            First::Fresh(slot) | First::Returned(slot) => Some(slot),
        }
    }

    fn first(&mut self, whose: Whose, slab: &mut Slab, queue: QueueId) -> Option<First> {
        while let Some(Entry { sequence, slot }) = self.fresh.front().copied() {
            if is_available(slab.find(queue, sequence, slot)) {
                break;
            }
            self.fresh.pop_front();
        }
        while let Some(Reverse((sequence, slot))) = self.returned.peek().copied() {
            let header = slab.find(queue, sequence, slot);
            if is_available(header) {
                break;
            }
            if header.is_some() {
                slab.mark_returned(slot, whose, false);
            }
            self.returned.pop();
        }
        let fresh = self.fresh.front().map(|entry| (entry.sequence, entry.slot));
        let returned = self.returned.peek().map(|entry| entry.0);
        match (fresh, returned) {
            (Some((fresh, slot)), returned) if returned.is_none_or(|(sequence, _)| fresh < sequence) => {
                Some(First::Fresh(slot))
            }
            (_, Some((_, slot))) => Some(First::Returned(slot)),
            (_, None) => None,
        }
    }
}

/// Which of the two lists begins with the oldest available message.
enum First {
    Fresh(Slot),
    Returned(Slot),
}

fn is_available(header: Option<&Header>) -> bool {
    header.is_some_and(|header| header.delivery == Delivery::Available)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(n: u64) -> Header {
        Header {
            sequence: Sequence(n),
            queue: QueueId(1),
            ..Header::FREE
        }
    }

    #[test]
    fn entries_of_messages_that_went_another_way_do_not_pile_up() {
        for whose in [Whose::Queue, Whose::Group] {
            let (mut slab, mut line) = (Slab::default(), Line::default());
            let stays = slab.insert(message(1));
            line.push_fresh(Sequence(1), stays);
            for n in 2..50_000 {
                line.clean(whose, &mut slab, QueueId(1), 2);
                let slot = slab.insert(message(n));
                line.push_fresh(Sequence(n), slot);
                line.push_returned(whose, &mut slab, Sequence(n), slot);
                // It expires, or a receive takes it off another line.
                slab.release(slot);
            }
            let most = usize::try_from(whose.clean_floor()).unwrap() + 5;
            assert!(line.fresh.len() <= most, "{whose:?}: {}", line.fresh.len());
            assert!(line.returned.len() <= most, "{whose:?}: {}", line.returned.len());
            assert_eq!(line.pop(whose, &mut slab, QueueId(1)), Some(stays));
            assert_eq!(line.pop(whose, &mut slab, QueueId(1)), None);
        }
    }

    #[test]
    fn a_message_whose_entry_was_cleaned_away_can_enter_again() {
        let (mut slab, mut line) = (Slab::default(), Line::default());
        let slots: Vec<Slot> = (1..100).map(|n| slab.insert(message(n))).collect();
        for slot in &slots {
            let sequence = slab.header(*slot).sequence;
            line.push_returned(Whose::Group, &mut slab, sequence, *slot);
            slab.header_mut(*slot).delivery = Delivery::InFlight;
        }
        line.clean(Whose::Group, &mut slab, QueueId(1), 0);
        assert!(line.returned.is_empty());
        let last = *slots.last().unwrap();
        slab.header_mut(last).delivery = Delivery::Available;
        let sequence = slab.header(last).sequence;
        line.push_returned(Whose::Group, &mut slab, sequence, last);
        assert_eq!(line.pop(Whose::Group, &mut slab, QueueId(1)), Some(last));
    }
}
