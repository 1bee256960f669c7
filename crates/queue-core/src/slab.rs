//! The slab of message headers and histories with its free list, and the columns beside it that are rebuilt on load.

use types::{QueueId, Sequence, Slot, Timestamp};

use crate::column::Column;
use crate::cow::CowVec;
use crate::header::{Header, NO_GROUP};
use crate::history::{Histories, History, NO_HISTORY};
use crate::line::Whose;

/// No slot: the end of a list.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// What is known of a slot beyond its header. Not part of the state: rebuilt on load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Links {
    /// The message before this one in its group.
    pub(crate) previous: u32,
    /// The message behind this one in its group.
    pub(crate) next: u32,
}

impl Links {
    const NONE: Self = Self {
        previous: NO_SLOT,
        next: NO_SLOT,
    };
}

#[derive(Debug, Default)]
pub(crate) struct Slab {
    pub(crate) headers: CowVec<Header>,
    pub(crate) histories: Histories,
    pub(crate) free: CowVec<u32>,
    links: Column<Links>,
}

impl Slab {
    /// Takes the slab of a snapshot; every slot's links are still empty.
    pub(crate) fn restore(headers: CowVec<Header>, histories: Histories, free: CowVec<u32>) -> Self {
        let mut links = Column::default();
        (0..headers.len()).for_each(|_| links.push(Links::NONE));
        Self {
            headers,
            histories,
            free,
            links,
        }
    }

    pub(crate) fn insert(&mut self, header: Header) -> Slot {
        if let Some(slot) = self.free.pop() {
            *self.header_mut(Slot(slot)) = header;
            return Slot(slot);
        }
        let slot = u32::try_from(self.headers.len()).expect("the slab is bounded below 4 billion messages");
        self.headers.push(header);
        self.links.push(Links::NONE);
        Slot(slot)
    }

    pub(crate) fn release(&mut self, slot: Slot) {
        let header = std::mem::replace(self.header_mut(slot), Header::FREE);
        self.histories.release(header.history);
        self.unlink(slot, header.group);
        self.free.push(slot.0);
    }

    pub(crate) fn header(&self, slot: Slot) -> &Header {
        self.headers
            .get(slot.0 as usize)
            .expect("slots come from this slab")
    }

    pub(crate) fn header_mut(&mut self, slot: Slot) -> &mut Header {
        self.headers
            .get_mut(slot.0 as usize)
            .expect("slots come from this slab")
    }

    /// Returns what happened to the message of a slot.
    pub(crate) fn history(&self, slot: Slot) -> &History {
        self.histories.get(self.header(slot).history)
    }

    /// Returns what happened to the message of a slot, to be changed.
    pub(crate) fn history_mut(&mut self, slot: Slot) -> &mut History {
        let place = self.header(slot).history;
        if place != NO_HISTORY {
            return self.histories.get_mut(place);
        }
        let place = self.histories.take_place();
        self.header_mut(slot).history = place;
        let history = self.histories.get_mut(place);
        *history = History::NONE;
        history
    }

    /// Forgets which lists a slot stands in: its message is about to be another one to them.
    pub(crate) fn unlist(&mut self, slot: Slot) {
        let header = self.header_mut(slot);
        header.marks = 0;
        let (history, group) = (header.history, header.group);
        if history != NO_HISTORY {
            self.histories.get_mut(history).timer_at = Timestamp::NEVER;
        }
        self.unlink(slot, group);
    }

    /// Only a message of a group has links.
    fn unlink(&mut self, slot: Slot, group: u32) {
        if group != NO_GROUP {
            *self.links_mut(slot) = Links::NONE;
        }
    }

    /// Marks whether a slot stands among the returned messages of a line; returns whether it did.
    pub(crate) fn mark_returned(&mut self, slot: Slot, whose: Whose, is_returned: bool) -> bool {
        let marks = &mut self.header_mut(slot).marks;
        let was_returned = *marks & whose.mark() != 0;
        *marks = if is_returned {
            *marks | whose.mark()
        } else {
            *marks & !whose.mark()
        };
        was_returned
    }

    pub(crate) fn links(&self, slot: Slot) -> &Links {
        self.links.get(slot.0).expect("slots come from this slab")
    }

    pub(crate) fn links_mut(&mut self, slot: Slot) -> &mut Links {
        self.links.get_mut(slot.0).expect("slots come from this slab")
    }

    /// Returns the header if the slot still holds this message of this queue.
    pub(crate) fn find(&self, queue: QueueId, sequence: Sequence, slot: Slot) -> Option<&Header> {
        self.headers
            .get(slot.0 as usize)
            .filter(|header| header.sequence == sequence && header.queue == queue && !header.is_free())
    }

    pub(crate) fn len(&self) -> usize {
        self.headers.len()
    }

    /// Returns the bytes that are allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        let shared = self.headers.memory_bytes() + self.free.memory_bytes();
        shared + self.histories.memory_bytes() + self.links.memory_bytes()
    }
}
