//! The reference model: the rules of delivery once more, as plainly as they can be said, over vectors that are scanned
//! from end to end. It shares no code with the state machine, only the types of its commands and outcomes.
//!
//! [`Model::step`] takes a command and what the partition made of it, and says whether that was allowed. Where the
//! product may choose (ids, sequences, slots, tokens) the model follows the choice and holds the product to it later.
//! Everything else must be as computed here.

// With their paths, so that another crate's tests can take this file with its parts.
#[path = "model/attempts.rs"]
mod attempts;
#[path = "model/check.rs"]
pub(crate) mod check;
#[path = "model/effects.rs"]
mod effects;
#[path = "model/fair.rs"]
mod fair;
#[path = "model/receive.rs"]
mod receive;
#[path = "model/tasks.rs"]
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use queue_core::attributes::DeduplicationScope;
use queue_core::{Applied, AttributeChange, Command, Context, Counters, Handle, PayloadId, RedrivePolicy};
use types::{MessageId, QueueId, QueueKey};

use attempts::Attempt;
use check::New;
use fair::Share;
use tasks::Task;

/// What a step that was not allowed is told by.
pub(crate) type Verdict = Result<(), String>;

/// The whole partition.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    /// The state clock.
    pub(crate) now: u64,
    pub(crate) queues: Vec<Queue>,
    /// Names of deleted queues, and when each was deleted.
    deleted: Vec<(QueueKey, u64)>,
    /// Slots that the owner keeps content for.
    slots: Vec<New>,
    /// Move tasks in the order in which they started.
    tasks: Vec<Task>,
    /// Every id that a message was given.
    ids: BTreeSet<[u8; 16]>,
    top_queue: u64,
    top_uid: u64,
    pub(crate) seen: Coverage,
}

/// One queue.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) id: QueueId,
    pub(crate) key: QueueKey,
    /// The value of every attribute, each once.
    attributes: Vec<AttributeChange>,
    /// The scope of deduplication, fixed at creation.
    scope: DeduplicationScope,
    /// In order of their sequences.
    pub(crate) messages: Vec<Message>,
    pub(crate) tags: BTreeMap<String, String>,
    /// FIFO: the groups that can be served, in the order in which they will be.
    servable: Vec<String>,
    /// Standard: whether a message had a group, since the last purge.
    is_fair: bool,
    /// Standard: takes while a message with a group was available, modulo four.
    takes: u8,
    /// Standard: counts how often a group was served.
    turns: u64,
    /// Standard: the groups that have messages, in the order in which they came.
    shares: Vec<Share>,
    pub(crate) remembered: Vec<Remembered>,
    /// FIFO: receives that had an attempt id.
    attempts: Vec<Attempt>,
    purged_at: Option<u64>,
    top_sequence: u64,
    top_token: u64,
}

/// One message that is neither deleted nor expired.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// The model's own name of the message; goes with it into a dead-letter queue.
    uid: u64,
    pub(crate) slot: u32,
    /// The id in its content.
    pub(crate) message_id: MessageId,
    /// What a task made of the id.
    new_id: NewId,
    /// Its content, and the length of that.
    payload: (PayloadId, u32),
    /// Unknown after a move until the message is received.
    pub(crate) sequence: Option<u64>,
    group: Option<String>,
    sent: u64,
    pub(crate) age_from: u64,
    pub(crate) visible_at: u64,
    /// Whether it waits for `visible_at`.
    pub(crate) hidden: bool,
    /// Whether a receive hid it, rather than a delay.
    leased: bool,
    received_at: u64,
    receive_count: u32,
    receives_here: u32,
    first_received: Option<u64>,
    pub(crate) token: Option<u64>,
    source: Option<QueueKey>,
}

/// The id that a move task gave a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewId {
    /// No task moved it.
    None,
    /// It was not received since.
    Unknown,
    Known(MessageId),
}

/// A deduplication id that a FIFO queue knows.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    group: Option<String>,
    id: String,
    pub(crate) accepted_at: u64,
    message_id: MessageId,
    sequence: u64,
}

/// How often something worth testing happened. A run that saw too little proves nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub(crate) commands: u64,
    pub(crate) sends: u64,
    pub(crate) deliveries: u64,
    pub(crate) redeliveries: u64,
    pub(crate) lapses: u64,
    pub(crate) delays: u64,
    pub(crate) moves: u64,
    pub(crate) moves_refused: u64,
    pub(crate) received_from_dlq: u64,
    pub(crate) duplicates: u64,
    pub(crate) forgotten_ids: u64,
    pub(crate) deletes: u64,
    pub(crate) stale_deletes: u64,
    pub(crate) expired_receipts: u64,
    pub(crate) foreign_receipts: u64,
    pub(crate) expiries: u64,
    pub(crate) purges: u64,
    pub(crate) purges_refused: u64,
    pub(crate) give_backs: u64,
    pub(crate) withheld: u64,
    pub(crate) discarded: u64,
    pub(crate) visibility_changes: u64,
    pub(crate) visibility_refused: u64,
    pub(crate) visibility_too_long: u64,
    pub(crate) queues_deleted: u64,
    pub(crate) names_refused: u64,
    pub(crate) on_deadline: u64,
    pub(crate) before_deadline: u64,
    pub(crate) blocked_groups: u64,
    pub(crate) restarts: u64,
    pub(crate) tags: u64,
    pub(crate) policies_refused: u64,
    pub(crate) fair_takes: u64,
    pub(crate) oldest_takes: u64,
    pub(crate) attempts_repeated: u64,
    pub(crate) attempts_refused: u64,
    pub(crate) attempts_undone: u64,
    pub(crate) attempts_ignored: u64,
    pub(crate) tasks_started: u64,
    pub(crate) tasks_refused: u64,
    pub(crate) tasks_completed: u64,
    pub(crate) tasks_failed: u64,
    pub(crate) tasks_cancelled: u64,
    pub(crate) tasks_restarted: u64,
    pub(crate) task_moves: u64,
}

impl Model {
    /// Lets the clock go on and the command happen, and says whether `applied` is what had to come of it.
    pub(crate) fn step(&mut self, context: &Context, command: &Command, applied: &Applied) -> Verdict {
        let available_before = self.available();
        let moves_before = self.seen.moves;
        self.now = self.now.max(context.at.as_millis());
        self.seen.commands += 1;
        self.count_boundaries();
        self.timers();
        self.run_tasks(context);
        let news = self.command(context, command, &applied.outcome)?;
        let moves = self.seen.moves - moves_before;
        self.effects(command, applied, &available_before, moves, &news)
    }

    /// Whatever is due happens: first the ends of delays and leases, then expiry, each in the order of time and then
    /// of sequence.
    fn timers(&mut self) {
        let now = self.now;
        for queue in &mut self.queues {
            let due = |message: &Message| message.hidden && message.visible_at <= now;
            while let Some(message) = queue
                .messages
                .iter_mut()
                .filter(|m| due(m))
                .min_by_key(|m| m.visible_at)
            {
                message.hidden = false;
                *if message.leased {
                    &mut self.seen.lapses
                } else {
                    &mut self.seen.delays
                } += 1;
                queue.order_groups();
            }
            let retention = queue.retention_millis();
            let expired = |message: &Message| now >= message.age_from.saturating_add(retention);
            let oldest = |queue: &Queue| {
                let ages = queue
                    .messages
                    .iter()
                    .enumerate()
                    .filter(|(_, message)| expired(message));
                ages.min_by_key(|(_, message)| message.age_from).map(|(at, _)| at)
            };
            while let Some(at) = oldest(queue) {
                queue.messages.remove(at);
                queue.order_groups();
                self.seen.expiries += 1;
            }
            let known = queue.remembered.len();
            queue.remembered.retain(|entry| now < entry.accepted_at + 300_000);
            self.seen.forgotten_ids += (known - queue.remembered.len()) as u64;
            queue.attempts.retain(|attempt| now < attempt.at + 300_000);
        }
    }

    fn count_boundaries(&mut self) {
        let deadlines = self.deadlines();
        self.seen.on_deadline += u64::from(deadlines.contains(&self.now));
        self.seen.before_deadline += u64::from(deadlines.contains(&(self.now + 1)));
    }

    /// Returns every instant at which something will change by itself, in no order.
    pub(crate) fn deadlines(&self) -> Vec<u64> {
        let mut deadlines = self.lapses();
        for queue in &self.queues {
            let retention = queue.retention_millis();
            deadlines.extend(
                queue
                    .messages
                    .iter()
                    .map(|message| message.age_from.saturating_add(retention)),
            );
            deadlines.extend(queue.remembered.iter().map(|entry| entry.accepted_at + 300_000));
            deadlines.extend(queue.attempts.iter().map(|attempt| attempt.at + 300_000));
        }
        deadlines.extend(self.task_times());
        deadlines
    }

    /// Returns the instants at which a message becomes available.
    pub(crate) fn lapses(&self) -> Vec<u64> {
        let messages = self.queues.iter().flat_map(|queue| &queue.messages);
        messages
            .filter(|message| message.hidden)
            .map(|message| message.visible_at)
            .collect()
    }

    /// Returns the queue of this key, if it exists.
    pub(crate) fn find(&self, key: &QueueKey) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.key == *key)
    }

    /// Returns every queue with the value of each of its attributes.
    pub(crate) fn attributes(&self) -> Vec<(QueueKey, Vec<AttributeChange>)> {
        self.queues
            .iter()
            .map(|queue| (queue.key.clone(), queue.attributes.clone()))
            .collect()
    }

    fn queue_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues.iter_mut().find(|queue| queue.id == id)
    }

    /// Takes note of a restart.
    pub(crate) fn restarted(&mut self) {
        self.seen.restarts += 1;
        self.seen.tasks_restarted += self.task_times().count() as u64;
    }

    /// Returns slot and id of every message, as its content has it.
    pub(crate) fn message_ids(&self) -> impl Iterator<Item = (u32, MessageId)> {
        let messages = self.queues.iter().flat_map(|queue| &queue.messages);
        messages.map(|message| (message.slot, message.message_id))
    }

    /// Returns slot and queue of every message, its sequence if that is known, its content and the length of that.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = (u32, QueueId, Option<u64>, (PayloadId, u32))> {
        self.queues.iter().flat_map(|queue| {
            let of_message = |m: &Message| (m.slot, queue.id, m.sequence, m.payload);
            queue.messages.iter().map(of_message)
        })
    }

    /// Returns the message of a handle and whether the handle is of its newest receive.
    pub(crate) fn message(&self, handle: &Handle) -> Option<(&Message, bool)> {
        let queue = self.queues.iter().find(|queue| queue.id == handle.queue)?;
        let message = queue
            .messages
            .iter()
            .find(|message| message.sequence == Some(handle.sequence.0))?;
        Some((message, message.token == Some(handle.token.0)))
    }
}

impl Queue {
    pub(crate) fn is_fifo(&self) -> bool {
        self.key.name.is_fifo()
    }

    pub(crate) fn visibility_seconds(&self) -> u32 {
        self.number(&AttributeChange::VisibilityTimeout(0))
    }

    pub(crate) fn retention_millis(&self) -> u64 {
        u64::from(self.number(&AttributeChange::MessageRetentionPeriod(0))) * 1_000
    }

    fn delay_seconds(&self) -> u32 {
        self.number(&AttributeChange::DelaySeconds(0))
    }

    fn maximum_bytes(&self) -> u32 {
        self.number(&AttributeChange::MaximumMessageSize(0))
    }

    /// Returns the value of the attribute that `like` is of.
    fn attribute(&self, like: &AttributeChange) -> Option<&AttributeChange> {
        self.attributes
            .iter()
            .find(|attribute| discriminant(*attribute) == discriminant(like))
    }

    fn number(&self, like: &AttributeChange) -> u32 {
        if let Some(
            AttributeChange::VisibilityTimeout(value)
            | AttributeChange::MessageRetentionPeriod(value)
            | AttributeChange::DelaySeconds(value)
            | AttributeChange::MaximumMessageSize(value),
        ) = self.attribute(like)
        {
            *value
        } else {
            panic!("{like:?} has no number")
        }
    }

    fn redrive_policy(&self) -> Option<&RedrivePolicy> {
        if let Some(AttributeChange::RedrivePolicy(policy)) =
            self.attribute(&AttributeChange::RedrivePolicy(None))
        {
            policy.as_ref()
        } else {
            None
        }
    }

    /// Returns how many messages can be received, wait for a delay, and are in flight.
    pub(crate) fn counters(&self) -> Counters {
        let count = |hidden: bool, leased: bool| {
            let counts = |m: &&Message| m.hidden == hidden && (!hidden || m.leased == leased);
            self.messages.iter().filter(counts).count() as u64
        };
        Counters {
            visible: count(false, false),
            delayed: count(true, false),
            in_flight: count(true, true),
        }
    }

    /// Whether a receive would find something.
    pub(crate) fn has_available(&self) -> bool {
        if self.is_fifo() {
            !self.servable.is_empty()
        } else {
            self.messages.iter().any(|m| !m.hidden)
        }
    }

    /// Brings the order of service up to date: a group whose first message is hidden leaves it, and one whose first
    /// message no longer is enters at the tail.
    fn order_groups(&mut self) {
        self.forget_shares();
        self.order_servable();
    }

    fn order_servable(&mut self) {
        let mut seen: Vec<&str> = Vec::new();
        let mut can: Vec<&str> = Vec::new();
        for message in &self.messages {
            if let Some(group) = message.group.as_deref().filter(|_| self.key.name.is_fifo())
                && !seen.contains(&group)
            {
                seen.push(group);
                can.extend(Some(group).filter(|_| !message.hidden));
            }
        }
        self.servable.retain(|group| can.contains(&group.as_str()));
        for group in can {
            if !self.servable.iter().any(|other| other == group) {
                self.servable.push(group.to_owned());
            }
        }
    }
}

impl Coverage {
    /// Adds what another run saw.
    pub(crate) fn add(&mut self, other: &Self) {
        for ((_, mine), (_, theirs)) in self.fields().into_iter().zip(other.clone().fields()) {
            *mine += *theirs;
        }
    }

    /// Panics if so many sequences saw too little of anything: then their success says nothing.
    pub(crate) fn assert_enough(mut self, sequences: u64) {
        let text = format!("{self:#?}");
        for (name, count) in self.fields() {
            // What a sequence leans against is rare; a hundredth of the sequences must have seen it all the same.
            assert!(
                *count >= sequences / 100,
                "unknown: too few {name} in {sequences} sequences\n{text}"
            );
        }
    }

    fn fields(&mut self) -> [(&'static str, &mut u64); 45] {
        [
            ("commands", &mut self.commands),
            ("sends", &mut self.sends),
            ("deliveries", &mut self.deliveries),
            ("redeliveries", &mut self.redeliveries),
            ("lapses", &mut self.lapses),
            ("delays", &mut self.delays),
            ("moves", &mut self.moves),
            ("moves refused", &mut self.moves_refused),
            ("received from a dead-letter queue", &mut self.received_from_dlq),
            ("duplicates", &mut self.duplicates),
            ("forgotten ids", &mut self.forgotten_ids),
            ("deletes", &mut self.deletes),
            ("stale deletes", &mut self.stale_deletes),
            ("expired receipts", &mut self.expired_receipts),
            ("foreign receipts", &mut self.foreign_receipts),
            ("expiries", &mut self.expiries),
            ("purges", &mut self.purges),
            ("purges refused", &mut self.purges_refused),
            ("give-backs", &mut self.give_backs),
            ("withheld", &mut self.withheld),
            ("discarded", &mut self.discarded),
            ("visibility changes", &mut self.visibility_changes),
            ("visibility changes refused", &mut self.visibility_refused),
            ("visibility too long", &mut self.visibility_too_long),
            ("queues deleted", &mut self.queues_deleted),
            ("names refused", &mut self.names_refused),
            ("commands on a deadline", &mut self.on_deadline),
            ("commands just before a deadline", &mut self.before_deadline),
            ("blocked groups", &mut self.blocked_groups),
            ("restarts", &mut self.restarts),
            ("tags", &mut self.tags),
            ("policies refused", &mut self.policies_refused),
            ("takes of a group whose turn it was", &mut self.fair_takes),
            ("takes of the oldest in between", &mut self.oldest_takes),
            ("repeated attempts", &mut self.attempts_repeated),
            ("refused attempts", &mut self.attempts_refused),
            ("attempts after a give-back", &mut self.attempts_undone),
            ("attempts on standard queues", &mut self.attempts_ignored),
            ("move tasks started", &mut self.tasks_started),
            ("move tasks refused", &mut self.tasks_refused),
            ("move tasks completed", &mut self.tasks_completed),
            ("move tasks failed", &mut self.tasks_failed),
            ("move tasks cancelled", &mut self.tasks_cancelled),
            ("move tasks across a restart", &mut self.tasks_restarted),
            ("messages moved by tasks", &mut self.task_moves),
        ]
    }
}
