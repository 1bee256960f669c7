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
    /// Enters a message into its group's share.
    pub(crate) fn fair_enter(&mut self, slot: Slot, header: &Header) {
        if header.delivery == Delivery::Available {
            self.groups
                .share(header.group)
                .line
                .push_fresh(header.sequence, slot);
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
