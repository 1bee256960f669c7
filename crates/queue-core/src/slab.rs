//! The slab of message headers with its free list, and the columns beside it that are rebuilt on load.

use types::{QueueId, Sequence, Slot, Timestamp};

use crate::cow::CowVec;
use crate::header::Header;
use crate::line::Whose;

/// No slot: the end of a list.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// What is known of a slot beyond its header. Not part of the state: rebuilt on load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Links {
    /// The message before this one in its group.
    pub(crate) previous: u32,
    /// The message behind this one in its group.
    pub(crate) next: u32,
    /// The time under which the slot stands in the timer heap; `NEVER` if it does not.
    pub(crate) timer_at: Timestamp,
}

impl Links {
    const NONE: Self = Self {
        previous: NO_SLOT,
        next: NO_SLOT,
        timer_at: Timestamp::NEVER,
    };
}

#[derive(Debug, Default)]
pub(crate) struct Slab {
    pub(crate) headers: CowVec<Header>,
    pub(crate) free: CowVec<u32>,
    links: Vec<Links>,
    /// For each line that a slot can stand in, whether it stands among the returned messages there. A column of its
    /// own: beside the links it would take eight bytes of padding a message.
    marks: Vec<u8>,
}

impl Slab {
    /// Takes the slab of a snapshot; every slot's links are still empty.
    pub(crate) fn restore(headers: CowVec<Header>, free: CowVec<u32>) -> Self {
        let (links, marks) = (vec![Links::NONE; headers.len()], vec![0; headers.len()]);
        Self {
            headers,
            free,
            links,
            marks,
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
        self.marks.push(0);
        Slot(slot)
    }

    pub(crate) fn release(&mut self, slot: Slot) {
        *self.header_mut(slot) = Header::FREE;
        self.unlist(slot);
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

    /// Forgets which lists a slot stands in: its message is about to be another one to them.
    pub(crate) fn unlist(&mut self, slot: Slot) {
        *self.links_mut(slot) = Links::NONE;
        self.marks[slot.0 as usize] = 0;
    }

    /// Marks whether a slot stands among the returned messages of a line; returns whether it did.
    pub(crate) fn mark_returned(&mut self, slot: Slot, whose: Whose, is_returned: bool) -> bool {
        let marks = &mut self.marks[slot.0 as usize];
        let was_returned = *marks & whose.mark() != 0;
        *marks = if is_returned {
            *marks | whose.mark()
        } else {
            *marks & !whose.mark()
        };
        was_returned
    }

    pub(crate) fn links(&self, slot: Slot) -> &Links {
        &self.links[slot.0 as usize]
    }

    pub(crate) fn links_mut(&mut self, slot: Slot) -> &mut Links {
        &mut self.links[slot.0 as usize]
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
}
