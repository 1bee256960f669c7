//! The partition: all queues of one unit of order, and what every command does before and after its own work.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use types::{
    LeaseToken, LogIndex, QueueId, QueueKey, QueueName, Slot, TenantId, Timestamp, WallTime, limits,
};

use crate::group::Groups;
use crate::header::Delivery;
use crate::queue::Queue;
use crate::slab::Slab;
use crate::task::MoveTask;
use crate::timers::Timers;
use crate::{Applied, Command, Effect, Outcome, Payload, RunningHash, commands};

/// When and where in the journal a command is applied.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// The state clock of the batch.
    pub at: Timestamp,
    /// The wall clock of the batch, which users read and nothing is decided by.
    pub wall: WallTime,
    /// The journal entry.
    pub index: LogIndex,
    /// The number of contents that earlier commands of the entry brought.
    pub ordinal: u32,
}

/// How much background work one command may do, so that none takes long.
#[derive(Debug, Clone, Copy)]
struct Budget {
    transitions: u32,
    reclaim_slots: u32,
}

impl Budget {
    const COMMAND: Self = Self {
        transitions: 1_000,
        reclaim_slots: 256,
    };
    /// A tick has nothing else to do.
    const TICK: Self = Self {
        transitions: 8_192,
        reclaim_slots: 8_192,
    };
}

/// A queue that messages were dead-lettered from, kept while a message refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) key: QueueKey,
    pub(crate) messages: u64,
}

/// The state of a partition. Changed by [`Partition::apply`] alone.
#[derive(Debug, Default)]
pub struct Partition {
    pub(crate) clock: Timestamp,
    /// Most messages of one queue in flight; that of SQS if `None`.
    pub(crate) in_flight_max: Option<u64>,
    pub(crate) slab: Slab,
    pub(crate) groups: Groups,
    pub(crate) queues: BTreeMap<QueueId, Queue>,
    pub(crate) names: BTreeMap<QueueKey, QueueId>,
    /// Names of queues that were deleted less than a minute ago.
    pub(crate) deleted_names: BTreeMap<QueueKey, Timestamp>,
    pub(crate) deleted_order: VecDeque<(Timestamp, QueueKey)>,
    pub(crate) origins: BTreeMap<QueueId, Origin>,
    pub(crate) timers: Timers,
    /// Dead-letter queues, each with the queues that name it.
    pub(crate) redrives: BTreeSet<(QueueKey, QueueKey)>,
    /// Move tasks of each source in the order in which they started.
    pub(crate) tasks: BTreeMap<(QueueId, u64), MoveTask>,
    pub(crate) last_task: u64,
    /// When running tasks have something to do; a source has at most one.
    pub(crate) running: BTreeSet<(Timestamp, QueueId)>,
    /// The wall clock of the command that is applied.
    pub(crate) wall: WallTime,
    /// Messages with a running delay or lease.
    pub(crate) hidden: usize,
    /// Slots of purged messages that are not reclaimed yet, and where the search for them goes on.
    pub(crate) garbage: u64,
    pub(crate) reclaim_cursor: u32,
    pub(crate) last_queue: QueueId,
    pub(crate) last_token: LeaseToken,
    pub(crate) last_ticket: i64,
    /// Tickets of groups that go back to the head of the order count down.
    pub(crate) first_ticket: i64,
    pub(crate) seal_keys: Vec<[u8; 32]>,
    pub(crate) level: u32,
    pub(crate) running_hash: RunningHash,
    pub(crate) effects: Vec<Effect>,
}

impl Partition {
    /// Applies one command. The same commands give the same state on every node.
    pub fn apply(&mut self, context: Context, command: &Command) -> Applied {
        let budget = if matches!(command, Command::Tick) {
            Budget::TICK
        } else {
            Budget::COMMAND
        };
        self.clock = self.clock.max(context.at);
        self.wall = context.wall;
        let settled = self.settle(budget.transitions);
        self.run_tasks(budget.transitions - settled);
        self.reclaim(budget.reclaim_slots);
        if matches!(command, Command::Tick) {
            self.forget_ids(budget.reclaim_slots);
        }
        let outcome = commands::apply(self, context, command);
        let applied = Applied {
            outcome,
            effects: std::mem::take(&mut self.effects),
        };
        self.running_hash.add_applied(&applied);
        applied
    }

    /// Returns the state clock: the time of the last command.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Returns the queue of this tenant and name.
    pub fn queue_id(&self, key: &QueueKey) -> Option<QueueId> {
        self.names.get(key).copied()
    }

    /// Returns a queue.
    pub fn queue(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(&id)
    }

    /// Returns the names of a tenant's queues that follow `after`, in order.
    pub fn queue_names<'a>(
        &'a self,
        tenant: TenantId,
        after: Option<&'a QueueName>,
    ) -> impl Iterator<Item = &'a QueueName> {
        self.names
            .range(first_key(tenant)..)
            .map(|(key, _)| key)
            .take_while(move |key| key.tenant == tenant)
            .map(|key| &key.name)
            .filter(move |name| after.is_none_or(|after| *name > after))
    }

    /// Returns the names of a tenant's queues that have this one as their dead-letter queue, in order.
    pub fn dead_letter_sources<'a>(&'a self, key: &'a QueueKey) -> impl Iterator<Item = &'a QueueName> {
        self.redrives
            .range((key.clone(), first_key(key.tenant))..)
            .take_while(move |(dlq, source)| dlq == key && source.tenant == key.tenant)
            .map(|(_, source)| &source.name)
    }

    /// Enters a queue among the sources of its dead-letter queue.
    pub(crate) fn list_source(&mut self, id: QueueId) {
        if let Some(pair) = self.queue(id).and_then(redrive) {
            self.redrives.insert(pair);
        }
    }

    /// Takes a queue out of the sources of its dead-letter queue.
    pub(crate) fn unlist_source(&mut self, id: QueueId) {
        if let Some(pair) = self.queue(id).and_then(redrive) {
            self.redrives.remove(&pair);
        }
    }

    /// Returns all queues in the order in which they were created.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.values()
    }

    /// Returns how many messages of one queue may be in flight.
    pub fn in_flight_max(&self) -> u64 {
        self.in_flight_max.unwrap_or(limits::IN_FLIGHT_MAX)
    }

    /// Sets how many messages of one queue may be in flight. What is in flight stays so.
    pub(crate) fn set_in_flight_max(&mut self, in_flight_max: u64) -> Outcome {
        self.in_flight_max = Some(in_flight_max);
        for queue in self.queues.values_mut() {
            let was_at_limit = queue.is_at_limit();
            queue.in_flight_max = in_flight_max;
            if was_at_limit && !queue.is_at_limit() {
                self.effects.push(Effect::Available(queue.id()));
            }
        }
        Outcome::Done
    }

    /// Returns the number of queues.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// Whether a receive from this queue would find a message, due timers aside.
    pub fn has_available(&self, id: QueueId) -> bool {
        self.queue(id).is_some_and(Queue::has_available)
    }

    /// Whether a receive under the id of this attempt would repeat an earlier one, or be refused because of it: it
    /// has to be decided by a command though no message may be available.
    pub fn knows_attempt(&self, id: QueueId, attempt: &[u8; 16], at: Timestamp) -> bool {
        self.queue(id)
            .and_then(|queue| queue.attempts.find(attempt, at))
            .is_some_and(|earlier| earlier.visible_at > at)
    }

    /// Returns the content of a slot's message; `None` if the slot is free or its message was purged.
    pub fn payload(&self, slot: Slot) -> Option<Payload> {
        let header = self.slab.headers.get(slot.0 as usize)?;
        self.is_live(slot).then(|| Payload {
            queue: header.queue,
            sequence: header.sequence,
            id: header.payload(),
            content_bytes: header.content_bytes,
        })
    }

    /// Returns the length of the content that a slot is kept for, also after its message was purged; `None` if the slot is
    /// free.
    pub fn content_bytes(&self, slot: Slot) -> Option<u32> {
        let header = self.slab.headers.get(slot.0 as usize)?;
        (!header.is_free()).then_some(header.content_bytes)
    }

    /// Returns the number of slots, free ones included.
    pub fn slots(&self) -> usize {
        self.slab.len()
    }

    /// Returns the seal keys, the one in use last.
    pub fn seal_keys(&self) -> &[[u8; 32]] {
        &self.seal_keys
    }

    /// Returns when a delay or lease ends next; it may be earlier than the true time, never later.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.next_lapse().map(|lapse| lapse.at)
    }

    /// Returns when a message expires next; it may be earlier than the true time, never later.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.timers.next_expiry().map(|(at, _)| at)
    }

    /// Returns how many deduplication ids are held.
    pub fn deduplication_ids(&self) -> usize {
        self.queues.values().map(|queue| queue.deduplication.len()).sum()
    }

    /// Whether a tick would free deduplication ids at this time: they are over.
    pub fn has_forgotten_ids(&self, at: Timestamp) -> bool {
        self.queues
            .values()
            .any(|queue| queue.deduplication.has_forgotten(at))
    }

    fn forget_ids(&mut self, mut most: u32) {
        for queue in self.queues.values_mut() {
            most -= queue.deduplication.forget(self.clock, most);
        }
    }

    /// Whether there are slots of purged messages left to reclaim.
    pub fn has_garbage(&self) -> bool {
        self.garbage > 0
    }

    /// Whether the slot holds a message that was neither purged nor lost its queue.
    pub(crate) fn is_live(&self, slot: Slot) -> bool {
        let header = self.slab.header(slot);
        self.queues
            .get(&header.queue)
            .is_some_and(|queue| header.sequence >= queue.record.floor)
    }

    /// Ends due delays and leases, then removes expired messages; at most `budget` of both. Returns how many.
    pub(crate) fn settle(&mut self, budget: u32) -> u32 {
        let mut left = budget;
        while left > 0 && self.end_next_lapse() {
            left -= 1;
        }
        while left > 0 && self.expire_next() {
            left -= 1;
        }
        self.clean_timers();
        budget - left
    }

    /// Ends the next due delay or lease. Returns whether there was one.
    fn end_next_lapse(&mut self) -> bool {
        while let Some(lapse) = self.timers.next_lapse() {
            if lapse.at > self.clock {
                return false;
            }
            self.timers.pop_lapse();
            let is_current = self.slab.find(lapse.queue, lapse.sequence, lapse.slot).is_some()
                && self.is_live(lapse.slot)
                && self.slab.history(lapse.slot).timer_at == lapse.at;
            if !is_current {
                continue;
            }
            let history = self.slab.history_mut(lapse.slot);
            history.timer_at = Timestamp::NEVER;
            let visible_at = history.visible_at;
            match self.slab.header(lapse.slot).delivery {
                Delivery::Available => {}
                // The timer stood under an earlier time than the true one: enter it again, under that.
                Delivery::Delayed | Delivery::InFlight if visible_at > lapse.at => {
                    self.schedule(lapse.slot, visible_at);
                }
                Delivery::Delayed | Delivery::InFlight => {
                    self.show(lapse.slot);
                    return true;
                }
            }
        }
        false
    }

    /// Removes the next expired message. Returns whether there was one.
    fn expire_next(&mut self) -> bool {
        while let Some((at, id)) = self.timers.next_expiry() {
            if at > self.clock {
                return false;
            }
            self.timers.pop_expiry();
            let Some(queue) = self.queues.get_mut(&id).filter(|queue| queue.expiry_at == at) else {
                continue;
            };
            queue.expiry_at = Timestamp::NEVER;
            let retention = queue.attributes().message_retention_seconds;
            let Some((age_from, slot)) = queue.oldest(&self.slab) else {
                continue;
            };
            let is_due = age_from.plus_seconds(retention) == at;
            if is_due {
                self.remove(slot);
            }
            self.schedule_expiry(id);
            if is_due {
                return true;
            }
        }
        false
    }

    /// Enters the expiry of a queue's oldest message if it stands under none or a later time.
    pub(crate) fn schedule_expiry(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let retention = queue.attributes().message_retention_seconds;
        let Some((age_from, _)) = queue.oldest(&self.slab) else {
            return;
        };
        let at = age_from.plus_seconds(retention);
        if at < queue.expiry_at {
            queue.expiry_at = at;
            self.timers.push_expiry(at, id);
        }
    }

    fn clean_timers(&mut self) {
        if !self.timers.needs_clean(self.hidden) {
            return;
        }
        let Self {
            slab, queues, timers, ..
        } = self;
        timers.clean(|lapse| {
            let header = slab.find(lapse.queue, lapse.sequence, lapse.slot);
            let queue = queues.get(&lapse.queue);
            let is_live = queue.is_some_and(|queue| lapse.sequence >= queue.record.floor)
                && slab.history(lapse.slot).timer_at == lapse.at;
            match header.map(|header| header.delivery) {
                Some(Delivery::Delayed | Delivery::InFlight) => is_live,
                // It was shown before its time. Its entry goes too, or those of many such messages would make every
                // command clean again.
                Some(Delivery::Available) => {
                    if is_live {
                        slab.history_mut(lapse.slot).timer_at = Timestamp::NEVER;
                    }
                    false
                }
                None => false,
            }
        });
    }

    /// Looks at the next slots for purged messages and frees them.
    fn reclaim(&mut self, slots: u32) {
        for _ in 0..slots {
            if self.garbage == 0 {
                return;
            }
            let slot = Slot(self.reclaim_cursor);
            self.reclaim_cursor = if slot.0 as usize + 1 >= self.slab.len() {
                0
            } else {
                slot.0 + 1
            };
            if !self.slab.header(slot).is_free() && !self.is_live(slot) {
                self.garbage -= 1;
                self.free(slot);
            }
        }
    }
}

/// Returns a queue behind the name of its dead-letter queue.
fn redrive(queue: &Queue) -> Option<(QueueKey, QueueKey)> {
    let policy = queue.attributes().redrive_policy.as_ref()?;
    Some((policy.dead_letter_queue.clone(), queue.key().clone()))
}

fn first_key(tenant: TenantId) -> QueueKey {
    // "-" sorts before every other character of a queue name.
    let name = "-".parse().expect("a hyphen is a queue name");
    QueueKey { tenant, name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EnqueueEntry, Handle, Outcome};

    const MESSAGES: usize = 3_000;

    fn apply(partition: &mut Partition, seconds: u64, command: &Command) -> Outcome {
        let context = Context {
            at: Timestamp::from_millis(seconds * 1_000),
            wall: WallTime::from_millis(1),
            index: LogIndex(1),
            ordinal: 0,
        };
        let outcome = partition.apply(context, command).outcome.unwrap();
        partition.check_invariants();
        outcome
    }

    fn receive_from(partition: &mut Partition, queue: QueueId, seconds: u64, timeout: u32) -> Vec<Handle> {
        let receive = Command::Receive {
            queue,
            max: u32::try_from(MESSAGES).unwrap() + 10,
            visibility_timeout_seconds: Some(timeout),
            is_long_poll: false,
            attempt: None,
        };
        let Outcome::Received(deliveries) = apply(partition, seconds, &receive) else {
            unreachable!("a receive has messages");
        };
        deliveries.into_iter().map(|delivery| delivery.handle).collect()
    }

    fn receive_all(partition: &mut Partition, seconds: u64) -> Vec<Handle> {
        receive_from(partition, QueueId(1), seconds, 600)
    }

    fn create(name: &str, attributes: Vec<crate::AttributeChange>) -> Command {
        Command::CreateQueue {
            key: key(name),
            attributes,
            tags: Vec::new(),
            deleted_name_wait_seconds: 0,
        }
    }

    fn key(name: &str) -> QueueKey {
        QueueKey {
            tenant: TenantId::DEV,
            name: name.parse().unwrap(),
        }
    }

    fn send(queue: QueueId, messages: usize) -> Command {
        let entry = EnqueueEntry {
            message_id: types::MessageId::from_random([0; 16]),
            content: [].into(),
            size_bytes: 1,
            delay_seconds: None,
            group: None,
            deduplication: None,
        };
        let entries = vec![entry; messages];
        Command::Enqueue { queue, entries }
    }

    #[test]
    fn an_old_message_in_a_dead_letter_queue_does_not_keep_the_ages_of_those_that_are_gone() {
        let mut partition = Partition::default();
        let policy = crate::RedrivePolicy {
            dead_letter_queue: key("dead"),
            max_receive_count: 1,
        };
        let policy = crate::AttributeChange::RedrivePolicy(Some(policy));
        apply(&mut partition, 0, &create("dead", Vec::new()));
        apply(&mut partition, 0, &create("q", vec![policy]));
        let (dead, source) = (QueueId(1), QueueId(2));
        // Moves what is in the source. It comes late: the dead-letter queue has a younger message already.
        let move_all = |partition: &mut Partition, seconds: u64| {
            apply(partition, seconds, &send(dead, 1));
            receive_from(partition, source, seconds, 1);
            while partition.has_available(source) || partition.queues[&source].counters().in_flight > 0 {
                receive_from(partition, source, seconds + 2, 1);
            }
        };
        apply(&mut partition, 40, &send(source, MESSAGES));
        move_all(&mut partition, 100);
        assert_eq!(partition.queues[&dead].late_ages_len(), MESSAGES);
        let mut handles = receive_from(&mut partition, dead, 103, 600);
        handles.retain(|handle| handle.sequence.0 > 2);
        apply(&mut partition, 103, &Command::Delete { queue: dead, handles });
        apply(&mut partition, 104, &send(source, 1));
        move_all(&mut partition, 110);
        let (left, entries) = (
            partition.queues[&dead].counters().total(),
            partition.queues[&dead].late_ages_len(),
        );
        assert_eq!((left, entries), (4, 2), "the old one and the one that came last");
    }

    #[test]
    fn messages_shown_before_their_time_leave_no_timers_that_every_command_cleans() {
        let mut partition = Partition::default();
        let queue = QueueId(1);
        apply(&mut partition, 0, &create("q", Vec::new()));
        apply(&mut partition, 0, &send(queue, MESSAGES));
        let handles = receive_all(&mut partition, 1);
        let entries = handles.iter().map(|handle| (*handle, 0)).collect();
        apply(&mut partition, 1, &Command::ChangeVisibility { queue, entries });
        apply(&mut partition, 1, &Command::Tick);
        assert!(!partition.timers.needs_clean(partition.hidden));
        // Their next leases have timers of their own, although those end later.
        assert_eq!(receive_all(&mut partition, 2).len(), MESSAGES);
        apply(&mut partition, 601, &Command::Tick);
        assert_eq!(partition.queues[&queue].counters().in_flight, MESSAGES as u64);
        apply(&mut partition, 602, &Command::Tick);
        assert_eq!(partition.queues[&queue].counters().visible, MESSAGES as u64);
    }
}
