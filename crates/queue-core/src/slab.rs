//! The slab of message headers with its free list, and the columns beside it that are rebuilt on load.

use types::{QueueId, Sequence, Slot, Timestamp};

use crate::cow::CowVec;
use crate::header::Header;

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
    /// Whether the slot stands among the returned messages of its queue.
    pub(crate) is_returned: bool,
    /// Whether it stands among those of its group, in a standard queue.
    pub(crate) is_returned_in_group: bool,
}

impl Links {
    pub(crate) const NONE: Self = Self {
        previous: NO_SLOT,
        next: NO_SLOT,
        timer_at: Timestamp::NEVER,
        is_returned: false,
        is_returned_in_group: false,
    };
}

#[derive(Debug, Default)]
pub(crate) struct Slab {
    pub(crate) headers: CowVec<Header>,
    pub(crate) free: CowVec<u32>,
    links: Vec<Links>,
}

impl Slab {
    /// Takes the slab of a snapshot; every slot's links are still empty.
    pub(crate) fn restore(headers: CowVec<Header>, free: CowVec<u32>) -> Self {
        let links = vec![Links::NONE; headers.len()];
        Self { headers, free, links }
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
        *self.header_mut(slot) = Header::FREE;
        *self.links_mut(slot) = Links::NONE;
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
