//! Message groups: who is in a group, and which groups can be served.
//!
//! In a FIFO queue a group holds its messages in a list by sequence. It can be served when its first message is available; a receive
//! then takes what stands before the first message that is not. Groups are served in the order of their tickets: one
//! that becomes servable takes a ticket at the tail. In a standard queue a group is a share of the queue's messages,
//! served in turn with the others so that none waits long behind a flood; see `fair.rs`.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use types::{QueueId, Slot};

use crate::cow::CowVec;
use crate::line::Line;
use crate::slab::{NO_SLOT, Slab};

/// One message group. Free if `queue` is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) queue: QueueId,
    /// The queue's purge generation: after a purge the same name is a new group.
    pub(crate) generation: u32,
    pub(crate) name: Arc<str>,
    /// FIFO: place in the order of service; 0 if the group cannot be served. Standard: grows with each time the group
    /// is served; negative before the first.
    pub(crate) ticket: i64,
    /// Messages that refer to the group, purged ones that are not yet reclaimed included.
    pub(crate) messages: u32,
}

/// What is known of a group beyond its record; rebuilt on load.
#[derive(Debug)]
struct Members {
    /// FIFO: the first and the last message.
    head: u32,
    tail: u32,
    /// Standard: the messages that can be served.
    share: Option<Box<Share>>,
}

impl Members {
    const NONE: Self = Self {
        head: NO_SLOT,
        tail: NO_SLOT,
        share: None,
    };
}

/// The part of a standard queue's messages that belongs to one group.
#[derive(Debug, Default)]
pub(crate) struct Share {
    pub(crate) line: Line,
    pub(crate) available: u32,
    pub(crate) in_flight: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) groups: CowVec<Group>,
    pub(crate) free: CowVec<u32>,
    members: Vec<Members>,
    index: HashTable<u32>,
}

impl Groups {
    pub(crate) fn restore(groups: CowVec<Group>, free: CowVec<u32>) -> Self {
        let mut restored = Self {
            members: std::iter::repeat_with(|| Members::NONE)
                .take(groups.len())
                .collect(),
            groups,
            free,
            index: HashTable::default(),
        };
        for at in 0..restored.groups.len() {
            let index = u32::try_from(at).expect("group indexes are 32 bits");
            if restored.get(index).queue != QueueId(0) {
                restored.enter(index);
            }
        }
        restored
    }

    pub(crate) fn get(&self, index: u32) -> &Group {
        self.groups
            .get(index as usize)
            .expect("group indexes come from this table")
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Group {
        self.groups
            .get_mut(index as usize)
            .expect("group indexes come from this table")
    }

    /// Returns the first message of the group.
    pub(crate) fn head(&self, index: u32) -> Option<Slot> {
        Some(self.members[index as usize].head)
            .filter(|slot| *slot != NO_SLOT)
            .map(Slot)
    }

    /// Returns the group of this name, made if it was not there.
    pub(crate) fn find_or_insert(&mut self, queue: QueueId, generation: u32, name: &str) -> u32 {
        let found = self.index.find(hash(queue, generation, name), |index| {
            let group = self
                .groups
                .get(*index as usize)
                .expect("group indexes come from this table");
            group.queue == queue && group.generation == generation && *group.name == *name
        });
        if let Some(index) = found {
            return *index;
        }
        let group = Group {
            queue,
            generation,
            name: name.into(),
            ticket: 0,
            messages: 0,
        };
        let index = match self.free.pop() {
            Some(index) => {
                *self.get_mut(index) = group;
                index
            }
            None => {
                let index = u32::try_from(self.groups.len()).expect("group indexes are 32 bits");
                self.groups.push(group);
                self.members.push(Members::NONE);
                index
            }
        };
        self.enter(index);
        index
    }

    fn enter(&mut self, index: u32) {
        let Self {
            groups, index: table, ..
        } = self;
        let hash_of = |index: &u32| {
            let group = groups
                .get(*index as usize)
                .expect("group indexes come from this table");
            hash(group.queue, group.generation, &group.name)
        };
        table.insert_unique(hash_of(&index), index, hash_of);
    }

    /// Returns a standard queue's share of this group.
    pub(crate) fn share(&mut self, index: u32) -> &mut Share {
        self.members[index as usize].share.get_or_insert_default()
    }

    /// Returns how many messages of a standard queue's group are available, and how many in flight.
    pub(crate) fn share_counts(&self, index: u32) -> (u32, u32) {
        let share = self.members[index as usize].share.as_ref();
        share.map_or((0, 0), |share| (share.available, share.in_flight))
    }

    /// Puts a message at the end of its group's list.
    pub(crate) fn append(&mut self, slab: &mut Slab, index: u32, slot: Slot) {
        let ends = &mut self.members[index as usize];
        let links = slab.links_mut(slot);
        (links.previous, links.next) = (ends.tail, NO_SLOT);
        if ends.tail == NO_SLOT {
            ends.head = slot.0;
        } else {
            slab.links_mut(Slot(ends.tail)).next = slot.0;
        }
        ends.tail = slot.0;
    }

    /// Takes a message out of its group's list.
    pub(crate) fn unlink(&mut self, slab: &mut Slab, index: u32, slot: Slot) {
        let (previous, next) = (slab.links(slot).previous, slab.links(slot).next);
        let ends = &mut self.members[index as usize];
        if previous == NO_SLOT {
            ends.head = next;
        } else {
            slab.links_mut(Slot(previous)).next = next;
        }
        if next == NO_SLOT {
            ends.tail = previous;
        } else {
            slab.links_mut(Slot(next)).previous = previous;
        }
        let links = slab.links_mut(slot);
        (links.previous, links.next) = (NO_SLOT, NO_SLOT);
    }

    /// Counts one message less, and frees the group when it was the last.
    pub(crate) fn release(&mut self, index: u32) {
        let group = self.get_mut(index);
        group.messages -= 1;
        if group.messages > 0 {
            return;
        }
        let hash = hash(group.queue, group.generation, &group.name);
        *group = Group {
            queue: QueueId(0),
            generation: 0,
            name: "".into(),
            ticket: 0,
            messages: 0,
        };
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == index) {
            entry.remove();
        }
        self.members[index as usize] = Members::NONE;
        self.free.push(index);
    }
}

fn hash(queue: QueueId, generation: u32, name: &str) -> u64 {
    FixedState::default().hash_one((queue, generation, name))
}
