//! A partition with one bug: a wrapper that changes what goes into a right partition or what comes out of it. The product
//! has no switch for bugs.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a bug names the few places that it touches"
)]

use std::collections::{BTreeMap, BTreeSet};

use queue_core::attributes::RedrivePolicy;
use queue_core::{
    Applied, AttributeChange, Command, Context, Counters, Deduplication, Effect, Handle, MoveTask, Outcome,
    Partition, QueueError, TaskId, TaskStatus,
};
use types::{LeaseToken, MessageId, QueueId, QueueKey, Sequence, Timestamp, WallTime};

use crate::planted::Bug;
use crate::runner::{Subject, restored};
use crate::steps::{QUEUES, key};

/// A partition with one bug.
pub(crate) struct Mutant {
    bug: Bug,
    inner: Partition,
    /// Counts what the bug could have happened at, for those that happen now and then.
    chances: u64,
    /// The newest token of every message.
    tokens: BTreeMap<(QueueId, Sequence), LeaseToken>,
    /// The deduplication ids of messages, as they were given.
    ids: BTreeMap<(QueueId, Sequence), Deduplication>,
    /// What is put behind these ids from now on, so that they count as new.
    renamed: BTreeMap<String, u64>,
    /// Ids of messages that were purged, with what was answered for them.
    purged: Vec<(QueueId, Deduplication, queue_core::Enqueued)>,
    answered: Vec<(QueueId, Deduplication, queue_core::Enqueued)>,
    snapshot: Option<Partition>,
    /// Standard queues in which a message had a group.
    fair: BTreeSet<QueueId>,
    /// What was answered to receives with an attempt id.
    attempts: BTreeMap<(QueueId, [u8; 16]), Applied>,
    /// How many messages each task had moved.
    moved: BTreeMap<(QueueId, TaskId), u64>,
    /// Tasks as they were asked for: the bug is in what is done, not in what is shown.
    asked: Vec<(TaskId, Option<QueueKey>, Option<u32>)>,
    restarts: u8,
    last_sequence: Sequence,
    /// The contexts of commands that the bug adds.
    now: Option<Context>,
}

impl Mutant {
    pub(crate) fn new(bug: Bug) -> Self {
        Self {
            bug,
            inner: Partition::default(),
            chances: 0,
            tokens: BTreeMap::new(),
            ids: BTreeMap::new(),
            renamed: BTreeMap::new(),
            purged: Vec::new(),
            answered: Vec::new(),
            snapshot: None,
            fair: BTreeSet::new(),
            attempts: BTreeMap::new(),
            moved: BTreeMap::new(),
            asked: Vec::new(),
            restarts: 0,
            last_sequence: Sequence(0),
            now: None,
        }
    }

    /// Whether it is time again: every `n`th time.
    fn every(&mut self, n: u64) -> bool {
        self.chances += 1;
        self.chances.is_multiple_of(n)
    }

    /// Applies a command of the bug's own and returns only what the owner has to do.
    fn also(&mut self, context: Context, command: &Command) -> Vec<Effect> {
        self.inner.apply(context, command).effects
    }

    fn is_fifo(&self, id: QueueId) -> bool {
        self.inner
            .queue(id)
            .is_some_and(|queue| queue.key().name.is_fifo())
    }

    /// Returns another queue of the same type.
    fn another(&self, id: QueueId) -> Option<QueueId> {
        let ids = (0..QUEUES).filter_map(|queue| self.inner.queue_id(&key(queue)));
        ids.into_iter()
            .find(|other| *other != id && self.is_fifo(*other) == self.is_fifo(id))
    }

    /// Whether the state goes back to what it was before this command, although it was answered.
    fn undoes(&mut self, command: &Command) -> bool {
        match (self.bug, command) {
            (Bug::LoseAck, Command::Enqueue { .. }) => self.every(9),
            (Bug::Resurrect, Command::Delete { .. }) => self.every(3),
            (Bug::VisibilityChangeLost, Command::ChangeVisibility { .. })
            | (Bug::PurgeKeeps, Command::PurgeQueue { .. })
            | (Bug::TaskLost, Command::StartMoveTask { .. }) => true,
            (Bug::AttributesLost, Command::SetQueueAttributes { .. }) => self.every(2),
            _ => false,
        }
    }

    /// Changes what goes in.
    fn rewrite(&mut self, context: &mut Context, command: &mut Command) {
        match (self.bug, &mut *command) {
            (Bug::DedupLost | Bug::DedupAfterDelete | Bug::SnapshotForgetsDedup, Command::Enqueue { .. })
            | (Bug::DedupByGroup | Bug::FifoBlockIgnored | Bug::DelayIgnored, Command::Enqueue { .. }) => {
                self.rewrite_entries(command);
            }
            (Bug::GroupsIgnored | Bug::UngroupedAlone, Command::Enqueue { queue, entries })
                if !self.is_fifo(*queue) =>
            {
                for entry in entries {
                    if entry.group.is_some() {
                        self.fair.insert(*queue);
                        entry.group = entry.group.take().filter(|_| self.bug == Bug::UngroupedAlone);
                    } else if self.bug == Bug::UngroupedAlone && self.fair.contains(queue) {
                        self.chances += 1;
                        entry.group = Some(format!("alone-{}", self.chances).into());
                    }
                }
            }
            (Bug::TagsLost, Command::TagQueue { tags, .. }) => tags.clear(),
            (Bug::UntagLost, Command::UntagQueue { keys, .. }) => keys.clear(),
            (Bug::TaskCancelLost, Command::CancelMoveTask { source, task })
                if self.running(*source).is_some_and(|running| running.id == *task) =>
            {
                *command = Command::Tick;
            }
            (Bug::PolicyRace, Command::SetQueueAttributes { attributes, .. }) => {
                for attribute in attributes {
                    if let AttributeChange::PolicyFrom { to, .. } = attribute {
                        *attribute = AttributeChange::Policy(to.clone());
                    }
                }
            }
            (Bug::AttemptIgnored, Command::Receive { attempt, .. }) => *attempt = None,
            (
                Bug::SnapshotForgetsAttempts,
                Command::Receive {
                    attempt: Some(attempt),
                    ..
                },
            ) => attempt[15] = self.restarts,
            (
                Bug::TaskRateIgnored | Bug::TaskDestinationIgnored,
                Command::StartMoveTask {
                    task,
                    destination,
                    rate,
                    ..
                },
            ) => {
                self.asked.push((*task, destination.clone(), *rate));
                if self.bug == Bug::TaskRateIgnored {
                    *rate = None;
                } else {
                    *destination = None;
                }
            }
            (Bug::CrossQueue, Command::Enqueue { queue, .. }) if self.every(7) => {
                *queue = self.another(*queue).unwrap_or(*queue);
            }
            (
                Bug::DlqEarly | Bug::DlqLate | Bug::EarlyExpire | Bug::LateExpire | Bug::QueueDelayIgnored,
                Command::CreateQueue { attributes, .. } | Command::SetQueueAttributes { attributes, .. },
            ) => attributes
                .iter_mut()
                .for_each(|attribute| rewrite_attribute(self.bug, attribute)),
            (Bug::StaleHandleDeletes, Command::Delete { handles, .. })
            | (Bug::GiveBackByAnyone, Command::GiveBack { handles, .. }) => {
                handles.iter_mut().for_each(|handle| self.renew(handle));
            }
            (Bug::StaleHandleChangesFifo, Command::ChangeVisibility { queue, entries })
                if self.is_fifo(*queue) =>
            {
                entries.iter_mut().for_each(|(handle, _)| self.renew(handle));
            }
            (Bug::ForeignHandleAccepted, Command::Delete { queue, handles }) => {
                handles.iter_mut().for_each(|handle| handle.queue = *queue);
            }
            (Bug::VisibilityAdds, Command::ChangeVisibility { entries, .. }) => {
                entries
                    .iter_mut()
                    .for_each(|(_, seconds)| *seconds += u32::from(*seconds > 0));
            }
            (Bug::GiveBackCounts, Command::GiveBack { queue, handles }) => {
                let entries = handles.iter().map(|handle| (*handle, 0)).collect();
                *command = Command::ChangeVisibility {
                    queue: *queue,
                    entries,
                };
            }
            (Bug::WithholdCounts, Command::Withhold { .. }) => *command = Command::Tick,
            (Bug::WithholdShows, Command::Withhold { queue, handles }) => {
                *command = Command::GiveBack {
                    queue: *queue,
                    handles: handles.clone(),
                };
            }
            (
                Bug::PurgeWaitIgnored,
                Command::PurgeQueue {
                    purge_wait_seconds: wait,
                    ..
                },
            )
            | (
                Bug::NameWaitIgnored,
                Command::CreateQueue {
                    deleted_name_wait_seconds: wait,
                    ..
                },
            ) => *wait = 0,
            (Bug::EarlyTimers, Command::Tick) => {
                context.at = Timestamp::from_millis(context.at.as_millis() + 1)
            }
            (Bug::LateTimers, Command::Tick | Command::Delete { .. }) => {
                context.at = Timestamp::from_millis(context.at.as_millis() - 1);
            }
            _ => {}
        }
    }

    fn rewrite_entries(&mut self, command: &mut Command) {
        let Command::Enqueue { entries, .. } = command else {
            return;
        };
        let bug = self.bug;
        for entry in entries {
            let given = entry.deduplication.as_ref().map(text);
            match bug {
                Bug::DelayIgnored => entry.delay_seconds = entry.delay_seconds.map(|_| 0),
                Bug::FifoBlockIgnored if entry.group.is_some() && self.every(3) => {
                    entry.group = Some(format!("own-{}", self.chances).into());
                }
                Bug::DedupLost if given.is_some() && self.every(4) => {
                    entry.deduplication = Some(Deduplication::Id(format!("new-{}", self.chances).into()));
                }
                Bug::DedupByGroup => {
                    if let (Some(id), Some(group)) = (&given, &entry.group) {
                        entry.deduplication = Some(Deduplication::Id(format!("{id}{group}").into()));
                    }
                }
                _ => {
                    if let Some(times) = given.as_ref().and_then(|id| self.renamed.get(id)) {
                        let id = given.as_deref().unwrap_or_default();
                        entry.deduplication = Some(Deduplication::Id(format!("{id}-{times}").into()));
                    }
                }
            }
        }
    }

    /// Answers a receive of a known attempt as before, whatever became of its messages.
    fn answer_again(&self, command: &Command) -> Option<Applied> {
        let Command::Receive {
            queue,
            attempt: Some(attempt),
            ..
        } = command
        else {
            return None;
        };
        let answers = match self.bug {
            Bug::AttemptOutlivesLeases => self.is_fifo(*queue),
            Bug::AttemptOnStandard => !self.is_fifo(*queue),
            _ => false,
        };
        self.attempts
            .get(&(*queue, *attempt))
            .filter(|_| answers)
            .cloned()
    }

    fn note_attempt(&mut self, command: &Command, applied: &mut Applied) {
        let Command::Receive {
            queue,
            attempt: Some(attempt),
            ..
        } = command
        else {
            return;
        };
        let known = self.attempts.get(&(*queue, *attempt));
        let known = known.and_then(|applied| applied.outcome.clone().ok());
        let Ok(Outcome::Received(deliveries)) = &mut applied.outcome else {
            return;
        };
        if deliveries.is_empty() {
            return;
        }
        let is_again = known == Some(Outcome::Received(deliveries.clone()));
        if self.bug == Bug::AttemptCounts && is_again {
            deliveries[0].receive_count += 1;
            return;
        }
        let known = Applied {
            outcome: Ok(Outcome::Received(deliveries.clone())),
            effects: Vec::new(),
        };
        self.attempts.insert((*queue, *attempt), known);
    }

    /// Makes an old handle one of the newest receive.
    fn renew(&self, handle: &mut Handle) {
        if let Some(token) = self.tokens.get(&(handle.queue, handle.sequence)) {
            handle.token = *token;
        }
    }

    /// Takes note of what some bugs need to know.
    fn learn(&mut self, command: &Command, applied: &Applied) {
        match (command, &applied.outcome) {
            (Command::Enqueue { queue, entries }, Ok(Outcome::Enqueued(results))) => {
                for (entry, result) in entries.iter().zip(results) {
                    if let (Some(id), Ok(enqueued)) = (&entry.deduplication, result) {
                        self.ids.insert((*queue, enqueued.sequence), id.clone());
                        self.answered.push((*queue, id.clone(), *enqueued));
                    }
                }
            }
            (_, Ok(Outcome::Received(deliveries))) => {
                for delivery in deliveries {
                    let handle = delivery.handle;
                    self.tokens.insert((handle.queue, handle.sequence), handle.token);
                }
            }
            (Command::Delete { handles, .. }, Ok(_)) if self.bug == Bug::DedupAfterDelete => {
                for handle in handles {
                    if let Some(id) = self.ids.remove(&(handle.queue, handle.sequence)) {
                        *self.renamed.entry(text(&id)).or_default() += 1;
                    }
                }
            }
            (Command::PurgeQueue { .. }, Ok(_)) => self.purged = std::mem::take(&mut self.answered),
            _ => {}
        }
    }

    /// Does more than was asked, or answers something else.
    fn meddle(&mut self, context: Context, command: &Command, applied: &mut Applied) {
        if self.bug == Bug::GiveBackCounts
            && applied.outcome.is_ok()
            && matches!(command, Command::GiveBack { .. })
        {
            applied.outcome = Ok(Outcome::Done);
        }
        let bug = self.bug;
        self.meddle_with_tasks(context, command, applied);
        match bug {
            Bug::WakeLost if self.every(3) => applied.effects.retain(|effect| !is_wake(effect)),
            Bug::SlotLeaks => applied
                .effects
                .retain(|effect| !is_freed(effect) || !matches!(command, Command::Tick)),
            Bug::FreedBytesWrong => {
                for effect in &mut applied.effects {
                    if let Effect::Freed { content_bytes, .. } = effect {
                        *content_bytes += 1;
                    }
                }
            }
            Bug::SlotFreedTwice => {
                let freed: Vec<Effect> = applied.effects.iter().copied().filter(is_freed).collect();
                applied.effects.extend(freed);
            }
            Bug::DlqLose | Bug::DlqDuplicate => {
                let source = applied.effects.iter().find_map(|effect| {
                    if let Effect::DeadLettered { from } = effect {
                        Some(*from)
                    } else {
                        None
                    }
                });
                if let Some(source) = source {
                    let more = self.meddle_with_move(context, source);
                    applied.effects.extend(more);
                }
            }
            _ => {}
        }
        match &mut applied.outcome {
            Ok(Outcome::Received(deliveries)) => {
                let effects = self.meddle_with_receive(context, deliveries);
                applied.effects.extend(effects);
            }
            Ok(Outcome::Enqueued(results)) => self.meddle_with_send(command, results),
            _ => {}
        }
    }

    fn meddle_with_tasks(&mut self, context: Context, command: &Command, applied: &mut Applied) {
        let has_moved = self.has_moved();
        match (self.bug, command, &applied.outcome) {
            (Bug::TaskUnchecked, _, Err(QueueError::NotADeadLetterQueue))
            | (Bug::TaskRunsTwice, _, Err(QueueError::TaskRunning)) => applied.outcome = Ok(Outcome::Done),
            (Bug::TaskCancelLost, Command::CancelMoveTask { source, .. }, Ok(Outcome::Done)) => {
                let moved = self.inner.move_tasks(*source).next().map(|task| task.moved);
                applied.outcome = Ok(Outcome::Moved(moved.unwrap_or_default()));
            }
            (Bug::TaskTakesLater, Command::Enqueue { queue, .. }, Ok(_)) => {
                let running = self.running(*queue);
                if let Some(task) = running {
                    let (source, id) = (task.source, task.id);
                    let cancel = Command::CancelMoveTask { source, task: id };
                    let start = Command::StartMoveTask {
                        source,
                        task: id,
                        destination: task.destination,
                        rate: task.rate,
                    };
                    applied.effects.extend(self.also(context, &cancel));
                    applied.effects.extend(self.also(context, &start));
                }
            }
            (Bug::TaskMovesTwice | Bug::TaskLoses, ..) if has_moved => {
                let ids = (0..QUEUES).filter_map(|queue| self.inner.queue_id(&key(queue)));
                let tasks = ids.filter_map(|id| self.inner.move_tasks(id).next());
                let named = tasks.filter_map(|task| self.inner.queue_id(task.destination.as_ref()?));
                if let Some(target) = named.into_iter().next() {
                    let effects = self.meddle_with_target(context, target, self.bug == Bug::TaskMovesTwice);
                    applied.effects.extend(effects);
                }
            }
            _ => {}
        }
    }

    /// Whether a task moved a message since this was last asked.
    fn has_moved(&mut self) -> bool {
        let queues = self.inner.queues();
        let tasks = queues.flat_map(|queue| self.inner.move_tasks(queue.id()));
        let moved: BTreeMap<_, _> = tasks.map(|task| ((task.source, task.id), task.moved)).collect();
        let before = |task: &_| self.moved.get(task).copied().unwrap_or_default();
        let has_moved = moved.iter().any(|(task, moved)| *moved > before(task));
        self.moved = moved;
        has_moved
    }

    /// Returns the running task of a source.
    fn running(&self, source: QueueId) -> Option<MoveTask> {
        let mut tasks = self.inner.move_tasks(source);
        tasks.find(|task| task.status == TaskStatus::Running).cloned()
    }

    fn meddle_with_receive(
        &mut self,
        context: Context,
        deliveries: &mut Vec<queue_core::Delivery>,
    ) -> Vec<Effect> {
        let Some(first) = deliveries.first().map(|delivery| delivery.handle) else {
            return Vec::new();
        };
        let bug = self.bug;
        match bug {
            Bug::LeaseLost if self.every(4) => {
                return self.also(
                    context,
                    &Command::ChangeVisibility {
                        queue: first.queue,
                        entries: vec![(first, 0)],
                    },
                );
            }
            Bug::FifoSkip if deliveries.len() > 1 && self.is_fifo(first.queue) => {
                deliveries.remove(0);
                return self.also(
                    context,
                    &Command::GiveBack {
                        queue: first.queue,
                        handles: vec![first],
                    },
                );
            }
            Bug::FifoSwapped if deliveries.len() > 1 && self.is_fifo(first.queue) => deliveries.swap(0, 1),
            Bug::ReceiveCountReset => deliveries
                .iter_mut()
                .for_each(|delivery| delivery.receive_count = 1),
            Bug::FirstReceiveDrifts => {
                deliveries
                    .iter_mut()
                    .for_each(|delivery| delivery.first_received = context.wall);
            }
            Bug::MovedKeepsCounts | Bug::MovedKeepsSentTime => {
                for delivery in deliveries {
                    let was_moved = delivery.message_id.is_some();
                    if was_moved && bug == Bug::MovedKeepsCounts {
                        delivery.receive_count += 1;
                    } else if was_moved {
                        delivery.sent = WallTime::from_millis(delivery.sent.as_millis() - 1);
                    }
                }
            }
            Bug::RenameLost => deliveries
                .iter_mut()
                .for_each(|delivery| delivery.message_id = None),
            Bug::RenameReused => deliveries
                .iter_mut()
                .filter_map(|delivery| delivery.message_id.as_mut())
                .for_each(|id| *id = MessageId::from_random([8; 16])),
            Bug::PayloadMixed => deliveries
                .iter_mut()
                .for_each(|delivery| delivery.payload.ordinal += 1),
            Bug::DlqSourceLost => deliveries
                .iter_mut()
                .for_each(|delivery| delivery.dead_letter_source = None),
            _ => {}
        }
        Vec::new()
    }

    fn meddle_with_send(
        &mut self,
        command: &Command,
        results: &mut [Result<queue_core::Enqueued, queue_core::QueueError>],
    ) {
        let Command::Enqueue { queue, entries } = command else {
            return;
        };
        for (entry, result) in entries.iter().zip(results) {
            match (self.bug, &mut *result) {
                (Bug::SequenceReuse, Ok(enqueued)) if enqueued.slot.is_some() => {
                    let real = enqueued.sequence;
                    if self.every(5) {
                        enqueued.sequence = self.last_sequence;
                    }
                    self.last_sequence = real;
                }
                (Bug::DedupSurvivesPurge, Ok(_)) => {
                    let known = self.purged.iter().find(|(id, given, _)| {
                        id == queue && Some(text(given)) == entry.deduplication.as_ref().map(text)
                    });
                    if let Some((_, _, first)) = known {
                        *result = Ok(queue_core::Enqueued { slot: None, ..*first });
                    }
                }
                _ => {}
            }
        }
    }

    /// Loses or doubles the message that was moved last.
    fn meddle_with_move(&mut self, context: Context, source: QueueId) -> Vec<Effect> {
        let policy = self
            .inner
            .queue(source)
            .and_then(|queue| queue.attributes().redrive_policy.clone());
        let target = policy.and_then(|policy| self.inner.queue_id(&policy.dead_letter_queue));
        let Some(target) = target else { return Vec::new() };
        if self.bug == Bug::DlqDuplicate {
            self.meddle_with_target(context, source, true)
        } else {
            self.meddle_with_target(context, target, false)
        }
    }

    /// Adds a message to the queue, or takes its last away.
    fn meddle_with_target(&mut self, context: Context, target: QueueId, adds: bool) -> Vec<Effect> {
        if adds {
            let entry = queue_core::EnqueueEntry {
                message_id: types::MessageId::from_random([9; 16]),
                content: [].into(),
                size_bytes: 1,
                delay_seconds: None,
                group: self.is_fifo(target).then(|| "group-0".into()),
                deduplication: self
                    .is_fifo(target)
                    .then(|| Deduplication::Id(format!("{}", context.index).into())),
            };
            return self.also(
                context,
                &Command::Enqueue {
                    queue: target,
                    entries: vec![entry],
                },
            );
        }
        let receive = Command::Receive {
            queue: target,
            max: 10_000,
            visibility_timeout_seconds: Some(30),
            is_long_poll: true,
            attempt: None,
        };
        let received = self.inner.apply(context, &receive);
        let mut effects = received.effects;
        if let Ok(Outcome::Received(deliveries)) = received.outcome {
            let mut handles: Vec<Handle> = deliveries.iter().map(|delivery| delivery.handle).collect();
            let lost: Vec<Handle> = handles.pop().into_iter().collect();
            effects.extend(self.also(
                context,
                &Command::Delete {
                    queue: target,
                    handles: lost,
                },
            ));
            effects.extend(self.also(
                context,
                &Command::GiveBack {
                    queue: target,
                    handles,
                },
            ));
        }
        effects
    }
}

impl Subject for Mutant {
    fn apply(&mut self, context: Context, command: &Command) -> Applied {
        if let Some(known) = self.answer_again(command) {
            return known;
        }
        let before = self.undoes(command).then(|| restored(&self.inner));
        let (mut rewritten_context, mut rewritten) = (context, command.clone());
        self.rewrite(&mut rewritten_context, &mut rewritten);
        self.now = Some(rewritten_context);
        let mut applied = self.inner.apply(rewritten_context, &rewritten);
        if let Some(before) = before {
            self.inner = before;
        }
        if let (Bug::AttemptChangeIgnored, Err(QueueError::AttemptChanged)) = (self.bug, &applied.outcome)
            && let Command::Receive { attempt, .. } = &mut rewritten
        {
            *attempt = None;
            let again = self.inner.apply(rewritten_context, &rewritten);
            applied.outcome = again.outcome;
            applied.effects.extend(again.effects);
        }
        self.learn(command, &applied);
        self.meddle(rewritten_context, command, &mut applied);
        self.note_attempt(command, &mut applied);
        applied
    }

    fn task_at(&self) -> Option<Timestamp> {
        self.inner
            .next_task()
            .filter(|_| self.bug != Bug::TaskTimerForgotten)
    }

    fn tasks(&self, source: QueueId) -> Vec<MoveTask> {
        let mut tasks: Vec<MoveTask> = self.inner.move_tasks(source).cloned().collect();
        for task in &mut tasks {
            if let Some((_, destination, rate)) = self.asked.iter().find(|asked| asked.0 == task.id) {
                (task.destination, task.rate) = (destination.clone(), *rate);
            }
        }
        tasks
    }

    fn restart(&mut self) {
        self.restarts += 1;
        match (self.bug, self.now) {
            (Bug::SnapshotForgetsTasks, Some(context)) => {
                let ids = (0..QUEUES).filter_map(|queue| self.inner.queue_id(&key(queue)));
                let running: Vec<MoveTask> = ids.filter_map(|id| self.running(id)).collect();
                for task in running {
                    let (source, task) = (task.source, task.id);
                    self.also(context, &Command::CancelMoveTask { source, task });
                }
            }
            (Bug::StaleSnapshot, _) => {
                let now = restored(&self.inner);
                if let Some(stale) = self.snapshot.replace(now) {
                    self.inner = stale;
                }
            }
            (Bug::SnapshotForgetsDedup, _) => {
                for id in self.ids.values() {
                    *self.renamed.entry(text(id)).or_default() += 1;
                }
            }
            (Bug::SnapshotForgetsLeases, Some(context)) => {
                let tokens = std::mem::take(&mut self.tokens);
                for ((queue, sequence), token) in tokens {
                    for slot in 0..64 {
                        let handle = Handle {
                            queue,
                            slot: types::Slot(slot),
                            sequence,
                            token,
                        };
                        self.also(
                            context,
                            &Command::ChangeVisibility {
                                queue,
                                entries: vec![(handle, 0)],
                            },
                        );
                    }
                }
            }
            _ => self.inner.restart(),
        }
    }

    fn partition(&self) -> &Partition {
        &self.inner
    }

    fn counts(&self, id: QueueId) -> Option<Counters> {
        let counters = self.inner.queue(id)?.counters();
        let drifts = self.bug == Bug::CounterDrift && self.inner.clock().as_millis().is_multiple_of(50);
        Some(Counters {
            in_flight: counters.in_flight + u64::from(drifts),
            ..counters
        })
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        self.inner.next_due().filter(|_| self.bug != Bug::TimerForgotten)
    }
}

fn rewrite_attribute(bug: Bug, attribute: &mut AttributeChange) {
    match (bug, attribute) {
        (
            Bug::DlqEarly,
            AttributeChange::RedrivePolicy(Some(RedrivePolicy {
                max_receive_count, ..
            })),
        ) => {
            *max_receive_count -= 1;
        }
        (
            Bug::DlqLate,
            AttributeChange::RedrivePolicy(Some(RedrivePolicy {
                max_receive_count, ..
            })),
        ) => {
            *max_receive_count += 1;
        }
        (Bug::EarlyExpire, AttributeChange::MessageRetentionPeriod(seconds)) => *seconds -= 1,
        (Bug::LateExpire, AttributeChange::MessageRetentionPeriod(seconds)) => *seconds += 1,
        (Bug::QueueDelayIgnored, AttributeChange::DelaySeconds(seconds)) => *seconds = 0,
        _ => {}
    }
}

/// Returns the text of a deduplication id.
fn text(id: &Deduplication) -> String {
    match id {
        Deduplication::Id(id) => id.to_string(),
        Deduplication::BodyHash(hash) => hash.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn is_wake(effect: &Effect) -> bool {
    matches!(effect, Effect::Available(_))
}

fn is_freed(effect: &Effect) -> bool {
    matches!(effect, Effect::Freed { .. })
}
