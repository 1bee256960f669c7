//! Receive: takes the messages that are due, and dead-letters those that were received too often.

use types::{LeaseToken, QueueId, Slot};

use crate::attempts::{Attempt, Key};
use crate::header::Delivery as State;
use crate::line::Whose;
use crate::{Context, Delivery, Handle, Outcome, Partition, QueueError};

pub(super) struct Request {
    pub(super) max: usize,
    pub(super) visibility_timeout_seconds: Option<u32>,
    pub(super) is_long_poll: bool,
    pub(super) attempt: Option<Key>,
}

/// Most messages that one receive moves to the dead-letter queue.
const MOVES_MAX: u32 = 100;
/// Due timers that a receive settles at a time when it would otherwise find nothing.
const SETTLE_STEP: u32 = 1_000;

/// What becomes of the first message in line.
enum Step {
    Taken(Slot),
    /// It was removed or moved: look at the next.
    Gone,
    /// As many messages were moved as one receive may move.
    Enough,
}

pub(super) fn apply(
    partition: &mut Partition,
    context: Context,
    id: QueueId,
    request: &Request,
) -> Result<Outcome, QueueError> {
    let clock = partition.clock;
    let queue = partition.queues.get_mut(&id).ok_or(QueueError::NoSuchQueue)?;
    let own_timeout = queue.attributes().visibility_timeout_seconds;
    let timeout = request.visibility_timeout_seconds.unwrap_or(own_timeout);
    let attempt = request.attempt.filter(|_| queue.is_fifo());
    if let Some(key) = attempt {
        queue.attempts.forget(clock);
        let earlier = queue.attempts.find(&key, clock).cloned();
        if let Some(earlier) = earlier
            && !was_given_back(partition, &earlier)
        {
            return repeat(partition, id, &earlier, timeout).map(Outcome::Received);
        }
    }
    let queue = &partition.queues[&id];
    if queue.is_at_limit() {
        let is_error = !queue.is_fifo() && !request.is_long_poll;
        return if is_error {
            Err(QueueError::OverLimit)
        } else {
            Ok(Outcome::Received(Vec::new()))
        };
    }
    let room = usize::try_from(queue.in_flight_max - queue.counters.in_flight).unwrap_or(usize::MAX);
    let max = request.max.min(room);
    let mut take = Take {
        partition,
        context,
        id,
        max,
        timeout,
        moves_left: MOVES_MAX,
        taken: Vec::new(),
    };
    take.run();
    while take.taken.is_empty() && take.moves_left > 0 && take.partition.settle(SETTLE_STEP) > 0 {
        take.run();
    }
    let Take { taken, partition, .. } = take;
    if let (Some(key), Some(queue)) = (attempt, partition.queues.get_mut(&id))
        && !taken.is_empty()
    {
        queue
            .attempts
            .remember_taken(key, clock, clock.plus_seconds(timeout), &taken);
    }
    Ok(Outcome::Received(taken))
}

/// Whether the answer of the receive did not reach its client, who then asks for the first time.
fn was_given_back(partition: &Partition, earlier: &Attempt) -> bool {
    earlier.handles.iter().any(|handle| {
        let slot = partition.resolve(handle);
        slot.is_some_and(|slot| partition.slab.history(slot).token == LeaseToken(0))
    })
}

/// Gives the answer of an earlier receive again: the same messages, the same handles, the leases begun anew.
fn repeat(
    partition: &mut Partition,
    id: QueueId,
    earlier: &Attempt,
    timeout: u32,
) -> Result<Vec<Delivery>, QueueError> {
    let is_unchanged = |handle: &Handle| {
        partition.resolve(handle).is_some_and(|slot| {
            let history = partition.slab.history(slot);
            history.token == handle.token
                && partition.slab.header(slot).delivery == State::InFlight
                && history.visible_at == earlier.visible_at
        })
    };
    if !earlier.handles.iter().all(is_unchanged) {
        return Err(QueueError::AttemptChanged);
    }
    let clock = partition.clock;
    let visible_at = clock.plus_seconds(timeout);
    let mut taken = Vec::with_capacity(earlier.handles.len());
    for handle in &earlier.handles {
        partition.slab.history_mut(handle.slot).leased_at = clock;
        if timeout > 0 {
            partition.hide(handle.slot, visible_at);
        } else {
            partition.show(handle.slot);
        }
        taken.push(partition.delivery(id, handle.slot));
    }
    if let Some(queue) = partition.queues.get_mut(&id) {
        queue.attempts.remember(Attempt {
            visible_at,
            ..earlier.clone()
        });
    }
    Ok(taken)
}

struct Take<'a> {
    partition: &'a mut Partition,
    context: Context,
    id: QueueId,
    max: usize,
    timeout: u32,
    moves_left: u32,
    taken: Vec<Delivery>,
}

impl Take<'_> {
    fn run(&mut self) {
        if self.partition.queues[&self.id].is_fifo() {
            self.take_groups()
        } else {
            self.take_oldest()
        }
    }

    /// Standard queues: the oldest available messages, or those of the groups whose turn it is.
    fn take_oldest(&mut self) {
        // With a timeout of 0 messages stay available, and go back to their lines when all are taken.
        let mut passed: Vec<Slot> = Vec::new();
        while self.taken.len() < self.max {
            let next = if self.timeout > 0 {
                self.partition.pop_next(self.id)
            } else {
                self.pop_oldest()
            };
            let Some(slot) = next else { break };
            // A message can stand twice in the line of its queue.
            if passed.contains(&slot) {
                continue;
            }
            match self.step(slot) {
                Step::Taken(slot) => {
                    self.lease(slot);
                    passed.extend((self.timeout == 0).then_some(slot));
                }
                Step::Gone => {}
                Step::Enough => {
                    self.partition.put_back(slot);
                    break;
                }
            }
        }
        // Groups are taken in turn; what one receive hands out stands in the order in which it was sent.
        self.taken.sort_by_key(|delivery| delivery.handle.sequence);
        for slot in passed {
            self.partition.put_back(slot);
            self.partition.effects.push(crate::Effect::Available(self.id));
        }
    }

    fn pop_oldest(&mut self) -> Option<Slot> {
        let Partition { queues, slab, .. } = &mut *self.partition;
        queues.get_mut(&self.id)?.line.pop(Whose::Queue, slab, self.id)
    }

    /// FIFO queues: from each group that can be served, in order, what stands before its first hidden message.
    fn take_groups(&mut self) {
        let mut touched = Vec::new();
        let mut slots = Vec::new();
        let mut interrupted = None;
        while slots.len() < self.max && interrupted.is_none() {
            let Some((&ticket, &group)) = self.partition.queues[&self.id].ready.first_key_value() else {
                break;
            };
            // Out of the order while its messages are taken; it gets a new place at the tail if it can be served.
            self.partition.set_ticket(group, 0);
            touched.push(group);
            if self.take_group(group, &mut slots) {
                interrupted = Some((group, ticket));
            }
            // Messages that left the group may have brought it back into the order.
            if self.partition.groups.get(group).queue == self.id {
                self.partition.set_ticket(group, 0);
            }
        }
        let taken_from = |slots: &[Slot], partition: &Partition, group: u32| {
            slots
                .iter()
                .any(|slot| partition.slab.header(*slot).group == group)
        };
        if let Some((group, ticket)) = interrupted
            && !taken_from(&slots, self.partition, group)
        {
            self.partition.set_ticket(group, ticket);
        }
        for group in &touched {
            // With a timeout of 0 the messages stay available, and the group goes to the tail.
            let is_whole = self.timeout > 0 && taken_from(&slots, self.partition, *group);
            if !is_whole && self.partition.groups.get(*group).queue == self.id {
                self.partition.refresh_group(*group);
            }
        }
        slots.into_iter().for_each(|slot| self.lease(slot));
    }

    /// Takes from the head of one group. Returns whether the receive has moved as many messages as it may.
    fn take_group(&mut self, group: u32, slots: &mut Vec<Slot>) -> bool {
        let mut next = self.partition.groups.head(group);
        while let Some(slot) = next
            && slots.len() < self.max
            && self.partition.slab.header(slot).delivery == State::Available
        {
            next = self.partition.next_in_group(slot);
            match self.step(slot) {
                Step::Taken(slot) => slots.push(slot),
                Step::Gone => {}
                Step::Enough => return true,
            }
        }
        false
    }

    /// Decides about one available message: expired, to be moved, or taken.
    fn step(&mut self, slot: Slot) -> Step {
        let header = *self.partition.slab.header(slot);
        let queue = &self.partition.queues[&self.id];
        let attributes = queue.attributes();
        if header.age_from.plus_seconds(attributes.message_retention_seconds) <= self.partition.clock {
            self.partition.remove(slot);
            return Step::Gone;
        }
        let policy = attributes
            .redrive_policy
            .as_ref()
            .filter(|policy| self.partition.slab.history(slot).receives_here >= policy.max_receive_count);
        let Some(target) = policy.and_then(|policy| self.partition.dead_letter_target(self.id, policy))
        else {
            return Step::Taken(slot);
        };
        if self.moves_left == 0 {
            return Step::Enough;
        }
        self.moves_left -= 1;
        self.partition.dead_letter(slot, target);
        Step::Gone
    }

    /// Hands one message out.
    fn lease(&mut self, slot: Slot) {
        let partition = &mut *self.partition;
        let clock = partition.clock;
        partition.last_token = partition.last_token.next();
        let history = partition.slab.history_mut(slot);
        history.token = partition.last_token;
        history.leased_at = clock;
        history.receive_count = history.receive_count.saturating_add(1);
        history.receives_here = history.receives_here.saturating_add(1);
        if history.first_received.as_millis() == 0 {
            history.first_received = self.context.wall;
        }
        if self.timeout > 0 {
            partition.hide(slot, clock.plus_seconds(self.timeout));
        }
        let delivery = partition.delivery(self.id, slot);
        self.taken.push(delivery);
    }
}

impl Partition {
    /// Says what the client is told of a message that it was given.
    fn delivery(&self, id: QueueId, slot: Slot) -> Delivery {
        let (header, history) = (self.slab.header(slot), self.slab.history(slot));
        Delivery {
            handle: Handle {
                queue: id,
                slot,
                sequence: header.sequence,
                token: history.token,
            },
            receive_count: history.receive_count,
            sent: header.sent,
            first_received: history.first_received,
            dead_letter_source: self.origins.get(&history.origin).map(|origin| origin.key.clone()),
            payload: header.payload(),
            content_bytes: header.content_bytes,
            message_id: history.message_id,
        }
    }

    fn next_in_group(&self, slot: Slot) -> Option<Slot> {
        Some(self.slab.links(slot).next)
            .filter(|next| *next != crate::slab::NO_SLOT)
            .map(Slot)
    }

    /// Returns the dead-letter queue if it is there and of the same type.
    fn dead_letter_target(&self, from: QueueId, policy: &crate::RedrivePolicy) -> Option<QueueId> {
        let target = self.queue(self.queue_id(&policy.dead_letter_queue)?)?;
        (target.is_fifo() == self.queue(from)?.is_fifo()).then_some(target.id())
    }
}
