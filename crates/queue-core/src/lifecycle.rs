//! What happens to one message: it is added, shown, hidden, moved, removed. Every counter and list changes here.

use types::{LeaseToken, QueueId, Slot, Timestamp};

use crate::group::Groups;
use crate::header::{Delivery, Header, NO_GROUP};
use crate::history::History;
use crate::line::Whose;
use crate::partition::Origin;
use crate::timers::Lapse;
use crate::{Effect, Partition};

impl Partition {
    /// Adds a message to its queue, with the lists and timers that its header asks for. `visible_at` counts if it is
    /// delayed.
    pub(crate) fn insert(&mut self, header: Header, visible_at: Timestamp) -> Slot {
        let slot = self.slab.insert(header);
        self.enter(slot);
        if header.delivery != Delivery::Available {
            self.hidden += 1;
            self.schedule(slot, visible_at);
        }
        slot
    }

    /// Enters the message of a slot into the lists of its queue, but for a timer. The slot is in no list.
    fn enter(&mut self, slot: Slot) {
        let header = *self.slab.header(slot);
        let queue = self
            .queues
            .get_mut(&header.queue)
            .expect("the caller found the queue");
        *queue.counters.of(header.delivery) += 1;
        queue.push_age(&self.slab, header.age_from, header.sequence, slot);
        if header.group != NO_GROUP {
            self.groups.get_mut(header.group).messages += 1;
        }
        if queue.is_fifo() {
            self.groups.append(&mut self.slab, header.group, slot);
            self.refresh_group(header.group);
        } else {
            queue
                .line
                .clean(Whose::Queue, &mut self.slab, header.queue, queue.counters.visible);
            if header.delivery == Delivery::Available {
                queue.line.push_fresh(header.sequence, slot);
                self.effects.push(Effect::Available(header.queue));
            }
            if header.group != NO_GROUP {
                self.fair_enter(slot, &header);
            }
        }
        self.schedule_expiry(header.queue);
    }

    /// Says when a message's delay or lease ends, and enters that unless an earlier entry stands for it.
    pub(crate) fn schedule(&mut self, slot: Slot, visible_at: Timestamp) {
        let header = self.slab.header(slot);
        let lapse = Lapse {
            at: visible_at,
            queue: header.queue,
            sequence: header.sequence,
            slot,
        };
        let history = self.slab.history_mut(slot);
        history.visible_at = visible_at;
        if visible_at < history.timer_at {
            history.timer_at = visible_at;
            self.timers.push_lapse(lapse);
        }
    }

    /// Makes a hidden message available.
    pub(crate) fn show(&mut self, slot: Slot) {
        let header = *self.slab.header(slot);
        debug_assert_ne!(
            header.delivery,
            Delivery::Available,
            "only a hidden message is shown"
        );
        self.change_delivery(slot, Delivery::Available);
        let queue = self
            .queues
            .get_mut(&header.queue)
            .expect("a live message has a queue");
        if queue.is_fifo() {
            self.refresh_group(header.group);
        } else {
            queue
                .line
                .push_returned(Whose::Queue, &mut self.slab, header.sequence, slot);
            self.effects.push(Effect::Available(header.queue));
        }
    }

    /// Hides a message until `visible_at`: it is in flight.
    pub(crate) fn hide(&mut self, slot: Slot, visible_at: Timestamp) {
        let header = *self.slab.header(slot);
        if header.delivery != Delivery::InFlight {
            self.change_delivery(slot, Delivery::InFlight);
        }
        self.schedule(slot, visible_at);
        if self.queues[&header.queue].is_fifo() {
            self.refresh_group(header.group);
        }
    }

    fn change_delivery(&mut self, slot: Slot, to: Delivery) {
        let header = *self.slab.header(slot);
        self.slab.header_mut(slot).delivery = to;
        let queue = self
            .queues
            .get_mut(&header.queue)
            .expect("a live message has a queue");
        let was_at_limit = queue.is_at_limit();
        *queue.counters.of(header.delivery) -= 1;
        *queue.counters.of(to) += 1;
        self.hidden += usize::from(to != Delivery::Available);
        self.hidden -= usize::from(header.delivery != Delivery::Available);
        if was_at_limit && !queue.is_at_limit() {
            self.effects.push(Effect::Available(header.queue));
        }
        if header.group != NO_GROUP && !queue.is_fifo() {
            self.fair_change(slot, &header, to);
        }
    }

    /// Removes a live message: it was deleted, or it expired.
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.leave(slot);
        self.free(slot);
    }

    /// Takes a live message out of the counters and lists of its queue.
    fn leave(&mut self, slot: Slot) {
        let header = *self.slab.header(slot);
        let queue = self
            .queues
            .get_mut(&header.queue)
            .expect("a live message has a queue");
        let was_at_limit = queue.is_at_limit();
        *queue.counters.of(header.delivery) -= 1;
        if was_at_limit && !queue.is_at_limit() {
            self.effects.push(Effect::Available(header.queue));
        }
        queue
            .record
            .moving
            .iter_mut()
            .for_each(|moving| moving.left(header.sequence));
        self.hidden -= usize::from(header.delivery != Delivery::Available);
        if queue.is_fifo() {
            self.groups.unlink(&mut self.slab, header.group, slot);
            self.refresh_group(header.group);
        } else if header.group != NO_GROUP {
            self.fair_leave(&header);
        }
    }

    /// Frees the slot of a message that is in no list any more.
    pub(crate) fn free(&mut self, slot: Slot) {
        let header = *self.slab.header(slot);
        if header.group != NO_GROUP {
            self.groups.release(header.group);
        }
        self.release_origin(self.slab.history(slot).origin);
        self.slab.release(slot);
        self.effects.push(Effect::Freed {
            slot,
            content_bytes: header.content_bytes,
        });
    }

    pub(crate) fn release_origin(&mut self, id: QueueId) {
        if let Some(origin) = self.origins.get_mut(&id) {
            origin.messages -= 1;
            if origin.messages == 0 {
                self.origins.remove(&id);
            }
        }
    }

    /// Gives a group a place in the order of service if it can be served and has none, or takes it away.
    pub(crate) fn refresh_group(&mut self, index: u32) {
        let is_servable = self.is_servable(index);
        let has_ticket = self.groups.get(index).ticket != 0;
        match (is_servable, has_ticket) {
            (true, false) => {
                self.last_ticket += 1;
                self.set_ticket(index, self.last_ticket);
                self.effects.push(Effect::Available(self.groups.get(index).queue));
            }
            (false, true) => self.set_ticket(index, 0),
            (true, true) | (false, false) => {}
        }
    }

    fn is_servable(&self, index: u32) -> bool {
        let head = self.groups.head(index);
        head.is_some_and(|slot| self.slab.header(slot).delivery == Delivery::Available)
    }

    /// Moves a servable group to the head of the order of service.
    pub(crate) fn put_group_first(&mut self, index: u32) {
        if self.groups.get(index).ticket != 0 {
            self.first_ticket -= 1;
            self.set_ticket(index, self.first_ticket);
        }
    }

    /// Changes a group's place in the order of service; 0 takes it out.
    pub(crate) fn set_ticket(&mut self, index: u32, ticket: i64) {
        let Self { groups, queues, .. } = self;
        let group = Groups::get_mut(groups, index);
        let queue = queues.get_mut(&group.queue).expect("a live group has a queue");
        if group.ticket != 0 {
            queue.ready.remove(&group.ticket);
        }
        group.ticket = ticket;
        if ticket != 0 {
            queue.ready.insert(ticket, index);
            queue
                .record
                .moving
                .iter_mut()
                .for_each(|moving| moving.enters(ticket));
        }
    }

    /// Moves a message to the end of a dead-letter queue. Its content, age (but for FIFO), times and shown count stay.
    pub(crate) fn dead_letter(&mut self, slot: Slot, target: QueueId) {
        let old = *self.slab.header(slot);
        let old_origin = self.slab.history(slot).origin;
        let source = self.queues.get(&old.queue).expect("a live message has a queue");
        let origin = Origin {
            key: source.key().clone(),
            messages: 0,
        };
        self.origins.entry(old.queue).or_insert(origin).messages += 1;
        let is_fifo = source.is_fifo();
        let clock = self.clock;
        self.effects.push(Effect::DeadLettered { from: old.queue });
        self.transfer(slot, target, |header, history| {
            history.origin = old.queue;
            if is_fifo {
                header.age_from = clock;
            }
        });
        self.release_origin(old_origin);
    }

    /// Moves a message to the end of another queue of the same type, where it is available at once; `change` changes
    /// what else the move changes.
    pub(crate) fn transfer(
        &mut self,
        slot: Slot,
        target: QueueId,
        change: impl FnOnce(&mut Header, &mut History),
    ) {
        let old = *self.slab.header(slot);
        self.leave(slot);
        let queue = self.queues.get_mut(&target).expect("the caller found the queue");
        let sequence = queue.take_sequence();
        let name = (old.group != NO_GROUP).then(|| self.groups.get(old.group).name.clone());
        let group = self.group_for(target, name.as_deref());
        self.slab.unlist(slot);
        let mut history = *self.slab.history(slot);
        history.receives_here = 0;
        history.token = LeaseToken(0);
        let header = self.slab.header_mut(slot);
        header.queue = target;
        header.sequence = sequence;
        header.group = group;
        header.delivery = Delivery::Available;
        change(header, &mut history);
        *self.slab.history_mut(slot) = history;
        self.enter(slot);
        // Counted down last: a queue may be its own dead-letter queue, and then both groups are one.
        if old.group != NO_GROUP {
            self.groups.release(old.group);
        }
    }
}
