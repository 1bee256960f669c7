//! The partition: all queues of one unit of order, and what every command does before and after its own work.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use types::{LeaseToken, LogIndex, QueueId, QueueKey, QueueName, Slot, TenantId, Timestamp, WallTime};

use crate::group::Groups;
use crate::header::Delivery;
use crate::queue::Queue;
use crate::slab::Slab;
use crate::task::MoveTask;
use crate::timers::Timers;
use crate::{Applied, Command, Effect, commands};

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
        let outcome = commands::apply(self, context, command);
        Applied {
            outcome,
            effects: std::mem::take(&mut self.effects),
        }
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
                && self.slab.links(lapse.slot).timer_at == lapse.at;
            if !is_current {
                continue;
            }
            self.slab.links_mut(lapse.slot).timer_at = Timestamp::NEVER;
            let header = *self.slab.header(lapse.slot);
            match header.delivery {
                Delivery::Available => {}
                // The timer stood under an earlier time than the true one: enter it again, under that.
                Delivery::Delayed | Delivery::InFlight if header.visible_at > lapse.at => {
                    self.schedule(lapse.slot);
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
        if self.timers.needs_clean(self.hidden) {
            let (slab, queues) = (&self.slab, &self.queues);
            self.timers.clean(|lapse| {
                slab.find(lapse.queue, lapse.sequence, lapse.slot).is_some()
                    && queues
                        .get(&lapse.queue)
                        .is_some_and(|queue| lapse.sequence >= queue.record.floor)
                    && slab.links(lapse.slot).timer_at == lapse.at
            });
        }
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
