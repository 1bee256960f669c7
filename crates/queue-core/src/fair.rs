//! Fair queues: message groups of a standard queue are served in turn, so that a flood in one of them does not keep the
//! others waiting.
//!
//! The group with the fewest messages in flight comes first, then the one that was served longest ago. Every fourth
//! take is the oldest message of all, so that none starves. A queue whose messages have no groups is not affected.

use types::{QueueId, Slot};

use crate::Partition;
use crate::group::Share;
use crate::header::{Delivery, Header, NO_GROUP};
use crate::line::Whose;
use crate::queue::FairPlace;

/// One take in so many is the oldest message whatever its group.
const OLDEST_EVERY: u8 = 4;

impl Partition {
    /// Returns the group that a message of this group, or of none, enters.
    pub(crate) fn group_for(&mut self, id: QueueId, name: Option<&str>) -> u32 {
        let Some(queue) = self.queues.get_mut(&id) else {
            return NO_GROUP;
        };
        if queue.is_fifo() {
            return name.map_or(NO_GROUP, |name| {
                self.groups.find_or_insert(id, queue.record.generation, name)
            });
        }
        let named = name.filter(|name| !name.is_empty());
        queue.record.is_fair |= named.is_some();
        // Once a standard queue has groups, messages without one share a group of their own.
        let Some(name) = named.or(queue.record.is_fair.then_some("")) else {
            return NO_GROUP;
        };
        let group = self.groups.find_or_insert(id, queue.record.generation, name);
        if self.groups.get(group).messages == 0 {
            // It was never served: before those that were, and behind other new ones.
            self.last_ticket += 1;
            self.groups.get_mut(group).ticket = i64::MIN + self.last_ticket;
        }
        group
    }

    /// Enters a message into its group's share.
    pub(crate) fn fair_enter(&mut self, slot: Slot, header: &Header) {
        let Self { slab, groups, .. } = self;
        let share = groups.share(header.group);
        share
            .line
            .clean(Whose::Group, slab, header.queue, u64::from(share.available));
        if header.delivery == Delivery::Available {
            share.line.push_fresh(header.sequence, slot);
        }
        self.change_share(header, |share| count(share, header.delivery, 1));
    }

    /// Takes a message out of its group's share.
    pub(crate) fn fair_leave(&mut self, header: &Header) {
        self.change_share(header, |share| count(share, header.delivery, -1));
    }

    /// Moves a message within its group's share from one state to another.
    pub(crate) fn fair_change(&mut self, slot: Slot, header: &Header, to: Delivery) {
        if to == Delivery::Available {
            let Self { slab, groups, .. } = self;
            groups
                .share(header.group)
                .line
                .push_returned(Whose::Group, slab, header.sequence, slot);
        }
        self.change_share(header, |share| {
            count(share, header.delivery, -1);
            count(share, to, 1);
        });
    }

    /// Changes a share, and with it the place of its group in the order of service.
    fn change_share(&mut self, header: &Header, change: impl FnOnce(&mut Share)) {
        let Some(queue) = self.queues.get_mut(&header.queue) else {
            return;
        };
        let ticket = self.groups.get(header.group).ticket;
        let share = self.groups.share(header.group);
        let place = |share: &Share| FairPlace {
            in_flight: share.in_flight,
            ticket,
            group: header.group,
        };
        if share.available > 0 {
            queue.fair.remove(&place(share));
        }
        change(share);
        if share.available > 0 {
            queue.fair.insert(place(share));
        }
    }

    /// Takes the message that is next in turn off its line, or the oldest where no groups are.
    pub(crate) fn pop_next(&mut self, id: QueueId) -> Option<Slot> {
        let queue = self.queues.get_mut(&id)?;
        if queue.fair.is_empty() {
            return queue.line.pop(Whose::Queue, &mut self.slab, id);
        }
        queue.record.takes = (queue.record.takes + 1) % OLDEST_EVERY;
        let first = queue.fair.first().copied();
        if queue.record.takes == 0 {
            let oldest = queue.line.pop(Whose::Queue, &mut self.slab, id)?;
            let group = self.slab.header(oldest).group;
            self.served(id, group);
            return Some(oldest);
        }
        let group = first?.group;
        let slot = self
            .groups
            .share(group)
            .line
            .pop(Whose::Group, &mut self.slab, id)?;
        self.served(id, group);
        Some(slot)
    }

    /// Puts an available message of a standard queue on the lines again that it was taken off.
    pub(crate) fn put_back(&mut self, slot: Slot) {
        let header = *self.slab.header(slot);
        debug_assert_eq!(
            header.delivery,
            Delivery::Available,
            "only an available message stands in a line"
        );
        let Self {
            queues, slab, groups, ..
        } = self;
        let Some(queue) = queues.get_mut(&header.queue).filter(|queue| !queue.is_fifo()) else {
            return;
        };
        queue
            .line
            .push_returned(Whose::Queue, slab, header.sequence, slot);
        if header.group != NO_GROUP {
            groups
                .share(header.group)
                .line
                .push_returned(Whose::Group, slab, header.sequence, slot);
        }
    }

    /// Puts a group behind the others that have as many messages in flight.
    fn served(&mut self, id: QueueId, group: u32) {
        if group == NO_GROUP {
            return;
        }
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let old = self.groups.get(group).ticket;
        let in_flight = self.groups.share(group).in_flight;
        if queue.fair.remove(&FairPlace {
            in_flight,
            ticket: old,
            group,
        }) {
            queue.fair.insert(FairPlace {
                in_flight,
                ticket,
                group,
            });
        }
        self.groups.get_mut(group).ticket = ticket;
    }
}

fn count(share: &mut Share, delivery: Delivery, by: i32) {
    match delivery {
        Delivery::Delayed => {}
        Delivery::Available => share.available = share.available.wrapping_add_signed(by),
        Delivery::InFlight => share.in_flight = share.in_flight.wrapping_add_signed(by),
    }
}
