//! Runs a sequence on a partition beside the model.

use std::collections::BTreeMap;

use queue_core::{
    Applied, Command, Context, Counters, Effect, Entry, EntryEncoder, MoveTask, Outcome, Partition,
};
use types::{MessageId, QueueId, Slot, Timestamp};

use crate::model::check::must_be;
use crate::model::{Coverage, Model, Verdict};
use crate::play::Play;
use crate::steps::{Op, QUEUES, Step, key};

/// What is tested: a partition, or one with a planted bug.
pub(crate) trait Subject {
    fn apply(&mut self, context: Context, command: &Command) -> Applied;
    /// Writes the state, reads it back and goes on with the copy.
    fn restart(&mut self);
    fn partition(&self) -> &Partition;

    // The names of reads differ from those of the partition, so that none can call itself.
    fn counts(&self, id: QueueId) -> Option<Counters> {
        self.partition().queue(id).map(|queue| queue.counters())
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        self.partition().next_due()
    }

    fn task_at(&self) -> Option<Timestamp> {
        self.partition().next_task()
    }

    fn tasks(&self, source: QueueId) -> Vec<MoveTask> {
        self.partition().move_tasks(source).cloned().collect()
    }
}

impl Subject for Partition {
    fn apply(&mut self, context: Context, command: &Command) -> Applied {
        self.apply(context, command)
    }

    fn restart(&mut self) {
        let restored = restored(self);
        assert_eq!(
            restored.state_hash(),
            self.state_hash(),
            "hash of a restored partition"
        );
        *self = restored;
    }

    fn partition(&self) -> &Partition {
        self
    }
}

/// Returns the partition as it is read back from its snapshot.
pub(crate) fn restored(partition: &Partition) -> Partition {
    let mut bytes = Vec::new();
    partition
        .snapshot()
        .write(&mut bytes)
        .expect("a vector takes every write");
    let mut rest = bytes.as_slice();
    let restored = Partition::restore(&mut rest).expect("a snapshot that was just written can be read");
    assert!(rest.is_empty(), "a snapshot is read to its end");
    restored
}

/// One subject, the model beside it, and what the clients know.
struct Run<S> {
    subject: S,
    /// The same commands on a partition that is never restored: another node. Not beside planted bugs, which the
    /// model has to find alone.
    twin: Option<Partition>,
    model: Model,
    play: Play,
    /// The id in the content of every slot, as the owner keeps it.
    contents: BTreeMap<u32, MessageId>,
}

impl<S: Subject> Run<S> {
    fn step(&mut self, step: &Step) -> Verdict {
        let context = self.play.context(step.clock, &self.model);
        if let Op::Restart = step.op {
            self.subject.restart();
            self.model.restarted();
        }
        let command = self.play.command(&step.op, &self.model);
        self.apply(context, &command)?;
        // Reads are of a state whose timers were settled.
        self.apply(context, &Command::Tick)?;
        self.compare()
    }

    fn apply(&mut self, context: Context, command: &Command) -> Verdict {
        let command = through_bytes(context, command)?;
        let applied = self.subject.apply(context, &command);
        self.model
            .step(&context, &command, &applied)
            .map_err(|error| format!("{error}\nat {command:?}"))?;
        self.play.learn(&command, &applied);
        self.keep_contents(&command, &applied);
        if let Some(twin) = &mut self.twin {
            let other = twin.apply(context, &command);
            if other != applied {
                return Err(format!(
                    "a second partition made {other:?} of {command:?}, the first {applied:?}"
                ));
            }
        }
        Ok(())
    }

    /// Does what the owner does: drops and adds contents, in this order.
    fn keep_contents(&mut self, command: &Command, applied: &Applied) {
        for effect in &applied.effects {
            match effect {
                Effect::Freed { slot, .. } => drop(self.contents.remove(&slot.0)),
                Effect::Available(_) | Effect::DeadLettered { .. } | Effect::QueueDeleted(_) => {}
            }
        }
        if let (Command::Enqueue { entries, .. }, Ok(Outcome::Enqueued(results))) =
            (command, &applied.outcome)
        {
            for (entry, result) in entries.iter().zip(results) {
                if let Some(slot) = result.as_ref().ok().and_then(|enqueued| enqueued.slot) {
                    self.contents.insert(slot.0, entry.message_id);
                }
            }
        }
    }

    fn compare(&self) -> Verdict {
        for (slot, id) in self.model.message_ids() {
            must_be("id in a content", &self.contents.get(&slot), &Some(&id))?;
        }
        self.compare_payloads()?;
        self.subject.partition().check_invariants();
        for queue in 0..QUEUES {
            let found = self.subject.partition().queue_id(&key(queue));
            let want = self.model.find(&key(queue));
            if found != want.map(|queue| queue.id) {
                return Err(format!(
                    "queue {}: found {found:?}, the model has {want:?}",
                    key(queue)
                ));
            }
            let Some(want) = want else { continue };
            let counters = self.subject.counts(want.id);
            if counters != Some(want.counters()) {
                let want = want.counters();
                return Err(format!(
                    "counters of {}: {counters:?}, the model has {want:?}",
                    key(queue)
                ));
            }
            let available = self.subject.partition().has_available(want.id);
            if available != want.has_available() {
                return Err(format!("{} has available: {available}", key(queue)));
            }
            let queue = self.subject.partition().queue(want.id);
            let tags: Vec<_> = queue.iter().flat_map(|queue| queue.tags()).collect();
            let known = want.tags.iter();
            must_be(
                "tags",
                &tags,
                &known.map(|(tag, value)| (&**tag, &**value)).collect(),
            )?;
            self.compare_tasks(want.id)?;
        }
        self.compare_timers()?;
        match &self.twin {
            Some(twin) if twin.state_hash() != self.subject.partition().state_hash() => {
                Err("the state hash of a second partition differs".to_owned())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Every message that is there names its content, and no other slot that a content is kept for does.
    fn compare_payloads(&self) -> Verdict {
        let partition = self.subject.partition();
        let shown = self.contents.keys().filter_map(|slot| {
            let payload = partition.payload(Slot(*slot))?;
            Some((*slot, payload.queue, (payload.id, payload.content_bytes)))
        });
        let mut known: Vec<_> = self.model.payloads().collect();
        known.sort_unstable_by_key(|(slot, ..)| *slot);
        for (slot, _, sequence, _) in &known {
            let payload = partition.payload(Slot(*slot));
            let shown = payload.map(|payload| payload.sequence.0);
            must_be("sequence of a payload", &shown, &sequence.or(shown))?;
        }
        let known = known
            .into_iter()
            .map(|(slot, queue, _, payload)| (slot, queue, payload));
        must_be("payloads", &shown.collect::<Vec<_>>(), &known.collect())
    }

    fn compare_tasks(&self, source: QueueId) -> Verdict {
        let tasks = self.subject.tasks(source).into_iter();
        let shown = tasks.map(|task| {
            let place = (task.id, task.source, task.destination, task.rate);
            let state = (task.started.as_millis(), task.status, task.to_move, task.moved);
            (place, state)
        });
        let known = self.model.tasks_of(source).into_iter().map(|task| {
            let place = (task.id, task.source, task.destination.clone(), task.rate);
            (place, (task.started, task.status, task.to_move, task.moved))
        });
        must_be("move tasks", &shown.collect(), &known.collect::<Vec<_>>())
    }

    /// The owner must be woken no later than something happens by itself.
    fn compare_timers(&self) -> Verdict {
        let millis = |at: Option<Timestamp>| at.map_or(u64::MAX, Timestamp::as_millis);
        let (due, expiry) = (
            millis(self.subject.wakes_at()),
            millis(self.subject.partition().next_expiry()),
        );
        let task = self.subject.task_at().map(Timestamp::as_millis);
        must_be("next step of a task", &task, &self.model.task_times().min())?;
        let messages = || {
            self.model
                .queues
                .iter()
                .flat_map(|queue| queue.messages.iter().map(move |m| (queue, m)))
        };
        let shown = messages()
            .filter(|(_, m)| m.hidden)
            .map(|(_, m)| m.visible_at)
            .min()
            .unwrap_or(u64::MAX);
        let expired = messages()
            .map(|(queue, m)| m.age_from + queue.retention_millis())
            .min()
            .unwrap_or(u64::MAX);
        if due > shown || expiry > expired {
            return Err(format!(
                "the next timers stand at {due} and {expiry}, but something happens at {shown} or {expired}"
            ));
        }
        Ok(())
    }

    /// What is purged, deleted or expired gives its slot back in the end, and every attribute is what was set last: a
    /// queue is found again by all of them.
    fn finish(&mut self) -> Verdict {
        for (key, attributes) in self.model.attributes() {
            let command = Command::CreateQueue {
                key,
                attributes,
                tags: Vec::new(),
                deleted_name_wait_seconds: 60,
            };
            let context = self.play.context(crate::steps::Clock::Stay, &self.model);
            self.apply(context, &command)?;
        }
        for _ in 0..100 {
            if !self.subject.partition().has_garbage() {
                break;
            }
            let context = self.play.context(crate::steps::Clock::Stay, &self.model);
            self.apply(context, &Command::Tick)?;
        }
        match self.model.unreclaimed() {
            0 => Ok(()),
            slots => Err(format!(
                "{slots} slots of messages that are gone were never freed"
            )),
        }
    }
}

/// Runs the steps and says what went wrong, and what was seen.
pub(crate) fn run(subject: impl Subject, twin: Option<Partition>, steps: &[Step]) -> (Verdict, Coverage) {
    let mut run = Run {
        subject,
        twin,
        model: Model::default(),
        play: Play::new(),
        contents: BTreeMap::new(),
    };
    let mut verdict = Ok(());
    for (at, step) in steps.iter().enumerate() {
        verdict = run
            .step(step)
            .map_err(|error| format!("step {at}, {step:?}:\n{error}"));
        if verdict.is_err() {
            break;
        }
    }
    let verdict = verdict.and_then(|()| run.finish());
    (verdict, run.model.seen)
}

/// Every command is applied as the journal gives it back.
pub(crate) fn through_bytes(context: Context, command: &Command) -> Result<Command, String> {
    let mut bytes = Vec::new();
    let mut encoder = EntryEncoder::begin(&mut bytes, context.at, context.wall);
    encoder.push(command);
    encoder.finish();
    let mut entry = Entry::decode(&bytes).map_err(|error| format!("{command:?} does not decode: {error}"))?;
    let read_back = entry.commands.pop();
    if (entry.at, entry.wall, entry.commands.len()) != (context.at, context.wall, 0)
        || read_back.as_ref() != Some(command)
    {
        return Err(format!("{command:?} came back as {read_back:?}"));
    }
    read_back.ok_or_else(|| "an entry of one command came back empty".to_owned())
}
