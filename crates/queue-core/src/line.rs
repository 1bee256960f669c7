//! The available messages of a standard queue, or of one of its message groups, the oldest first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use types::{QueueId, Sequence, Slot};

use crate::header::{Delivery, Header};
use crate::slab::{Links, Slab};

/// A message in a list; kept small, because there are two lists with every message in them.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct Entry {
    pub(crate) sequence: Sequence,
    pub(crate) slot: Slot,
}

/// Which of a slot's flags says that it stands among the returned messages of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose {
    Queue,
    Group,
}

impl Whose {
    fn flag(self, links: &mut Links) -> &mut bool {
        match self {
            Self::Queue => &mut links.is_returned,
            Self::Group => &mut links.is_returned_in_group,
        }
    }
}

/// Available messages. Entries that no longer fit their message are passed over.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Messages that became available when they were added, in order.
    fresh: VecDeque<Entry>,
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
        if !std::mem::replace(whose.flag(slab.links_mut(slot)), true) {
            self.returned.push(Reverse((sequence, slot)));
        }
    }

    /// Takes the oldest available message.
    pub(crate) fn pop(&mut self, whose: Whose, slab: &mut Slab, queue: QueueId) -> Option<Slot> {
        let is_available =
            |header: Option<&Header>| header.is_some_and(|header| header.delivery == Delivery::Available);
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
                *whose.flag(slab.links_mut(slot)) = false;
            }
            self.returned.pop();
        }
        let fresh = self.fresh.front().map(|entry| entry.sequence);
        let returned = self.returned.peek().map(|entry| entry.0);
        match (fresh, returned) {
            (Some(fresh), returned) if returned.is_none_or(|(sequence, _)| fresh < sequence) => {
                self.fresh.pop_front().map(|entry| entry.slot)
            }
            (_, Some((_, slot))) => {
                self.returned.pop();
                *whose.flag(slab.links_mut(slot)) = false;
                Some(slot)
            }
            (_, None) => None,
        }
    }
}
