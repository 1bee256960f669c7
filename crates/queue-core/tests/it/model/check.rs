//! Every command except the receive: what it does to the model, and what it must have answered.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem::discriminant;

use queue_core::attributes::{DeduplicationScope, FifoThroughputLimit};
use queue_core::{
    AttributeChange, Command, Context, Deduplication, EnqueueEntry, Enqueued, Handle, Outcome, PayloadId,
    QueueError,
};
use types::{QueueId, QueueKey};

use super::{Message, Model, NewId, Queue, Remembered, Verdict};

/// Slots that a command filled, each with its message.
pub(crate) type News = Vec<New>;

/// A message that was added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct New {
    pub(super) slot: u32,
    pub(super) uid: u64,
    /// Its content, and the length of that.
    pub(super) payload: (PayloadId, u32),
}

type Answer = Result<Outcome, QueueError>;

/// Says that `got` must be `want`.
pub(crate) fn must_be<T: PartialEq + Debug>(what: &str, got: &T, want: &T) -> Verdict {
    if got == want {
        Ok(())
    } else {
        Err(format!("{what}: got {got:?}, the model has {want:?}"))
    }
}

impl Model {
    pub(super) fn command(
        &mut self,
        context: &Context,
        command: &Command,
        answer: &Answer,
    ) -> Result<News, String> {
        match command {
            Command::CreateQueue {
                key,
                attributes,
                tags,
                deleted_name_wait_seconds,
            } => {
                self.create(key, attributes, tags, *deleted_name_wait_seconds, answer)?;
            }
            Command::DeleteQueue { queue } => {
                let want = self.delete_queue(*queue);
                must_be("delete queue", answer, &want)?;
            }
            Command::SetQueueAttributes { queue, attributes } => {
                let want = self.set_attributes(*queue, attributes);
                must_be("set attributes", answer, &want)?;
            }
            Command::PurgeQueue {
                queue,
                purge_wait_seconds,
            } => {
                let want = self.purge(*queue, *purge_wait_seconds);
                must_be("purge", answer, &want)?;
            }
            Command::Enqueue { queue, entries } => return self.enqueue(context, *queue, entries, answer),
            Command::Receive {
                queue,
                max,
                visibility_timeout_seconds,
                is_long_poll: _,
                attempt,
            } => {
                let timeout = *visibility_timeout_seconds;
                self.receive(context, *queue, *max, timeout, *attempt, answer)?;
            }
            Command::Delete { queue, handles } => {
                let want = self.each(*queue, handles, Self::delete);
                must_be("delete", answer, &want)?;
            }
            Command::ChangeVisibility { queue, entries } => {
                let want = self.each(*queue, entries, |model, queue, (handle, seconds)| {
                    model.change_visibility(queue, handle, *seconds)
                });
                must_be("change visibility", answer, &want)?;
            }
            Command::GiveBack { queue, handles } => {
                let want = match self.queue_mut(*queue) {
                    Some(_) => {
                        // The last first, so that the groups at the head stand as they stood.
                        handles
                            .iter()
                            .rev()
                            .for_each(|handle| self.give_back(*queue, handle));
                        Ok(Outcome::Done)
                    }
                    None => Err(QueueError::NoSuchQueue),
                };
                must_be("give back", answer, &want)?;
            }
            Command::Withhold { queue, handles } => {
                let want = match self.queue_mut(*queue) {
                    Some(_) => {
                        handles.iter().for_each(|handle| self.withhold(*queue, handle));
                        Ok(Outcome::Done)
                    }
                    None => Err(QueueError::NoSuchQueue),
                };
                must_be("withhold", answer, &want)?;
            }
            Command::Discard { queue, handles } => {
                let want = match self.queue_mut(*queue) {
                    Some(_) => {
                        handles.iter().for_each(|handle| self.discard(*queue, handle));
                        Ok(Outcome::Done)
                    }
                    None => Err(QueueError::NoSuchQueue),
                };
                must_be("discard", answer, &want)?;
            }
            Command::TagQueue { queue, tags } => {
                let want = self.change_tags(*queue, |known| {
                    for (tag, value) in tags {
                        known.insert(tag.to_string(), value.to_string());
                    }
                });
                must_be("tag", answer, &want)?;
            }
            Command::UntagQueue { queue, keys } => {
                let want = self.change_tags(*queue, |known| {
                    known.retain(|tag, _| !keys.iter().any(|key| **key == **tag));
                });
                must_be("untag", answer, &want)?;
            }
            Command::StartMoveTask {
                source,
                task,
                destination,
                rate,
            } => {
                let want = self.start_task(context, *source, *task, destination.as_ref(), *rate);
                must_be("start a task", answer, &want)?;
            }
            Command::CancelMoveTask { source, task } => {
                let want = self.cancel_task(*source, *task);
                must_be("cancel a task", answer, &want)?;
            }
            Command::Tick
            | Command::AddSealKey { .. }
            | Command::SetLimits { .. }
            | Command::RaiseLevel { .. }
            | Command::Compare => must_be("tick", answer, &Ok(Outcome::Done))?,
        }
        Ok(News::new())
    }

    fn set_attributes(&mut self, id: QueueId, changes: &[AttributeChange]) -> Answer {
        let now = self.now;
        let queue = self.queue_mut(id).ok_or(QueueError::NoSuchQueue)?;
        let before = queue.delay_seconds();
        for change in changes {
            if let AttributeChange::PolicyFrom { from, .. } = change
                && !queue.has(&AttributeChange::Policy(from.clone()))
            {
                self.seen.policies_refused += 1;
                return Err(QueueError::PolicyChanged);
            }
        }
        changes.iter().for_each(|change| queue.change(change));
        let delay = queue.delay_seconds();
        if queue.is_fifo() && delay != before {
            // What still waits for its delay waits for the new one, since it was sent.
            for at in 0..queue.messages.len() {
                let message = &mut queue.messages[at];
                if message.hidden && !message.leased {
                    message.visible_at = message.age_from + u64::from(delay) * 1_000;
                    message.hidden = message.visible_at > now;
                    queue.order_groups();
                }
            }
        }
        Ok(Outcome::Done)
    }

    fn change_tags(&mut self, id: QueueId, change: impl FnOnce(&mut BTreeMap<String, String>)) -> Answer {
        let queue = self.queue_mut(id).ok_or(QueueError::NoSuchQueue)?;
        change(&mut queue.tags);
        self.seen.tags += 1;
        Ok(Outcome::Done)
    }

    fn create(
        &mut self,
        key: &QueueKey,
        passed: &[AttributeChange],
        tags: &[(Box<str>, Box<str>)],
        wait: u32,
        answer: &Answer,
    ) -> Verdict {
        if let Some(queue) = self.find(key) {
            let is_so = |passed: &AttributeChange| {
                if let AttributeChange::PolicyFrom { to, .. } = passed {
                    queue.has(&AttributeChange::Policy(to.clone()))
                } else {
                    queue.has(passed)
                }
            };
            let differs = passed.iter().find(|attribute| !is_so(attribute));
            let want = match differs {
                Some(attribute) => Err(QueueError::AttributeDiffers(attribute.name())),
                None => Ok(Outcome::Queue(queue.id)),
            };
            return must_be("create an existing queue", answer, &want);
        }
        let wait = u64::from(wait) * 1_000;
        if self
            .deleted
            .iter()
            .any(|(name, at)| name == key && self.now < at + wait)
        {
            self.seen.names_refused += 1;
            return must_be(
                "create a name too early",
                answer,
                &Err(QueueError::QueueDeletedRecently),
            );
        }
        let Ok(Outcome::Queue(id)) = answer else {
            return Err(format!("create: got {answer:?}, the model has a new queue"));
        };
        if id.0 <= self.top_queue {
            return Err(format!("create: queue id {id} was used before"));
        }
        self.top_queue = id.0;
        let mut queue = Queue::new(*id, key.clone());
        passed.iter().for_each(|change| queue.change(change));
        let tags = tags.iter();
        queue.tags = tags
            .map(|(tag, value)| (tag.to_string(), value.to_string()))
            .collect();
        let scope = AttributeChange::DeduplicationScope(DeduplicationScope::MessageGroup);
        if queue.attribute(&scope) == Some(&scope) {
            queue.scope = DeduplicationScope::MessageGroup;
        }
        self.queues.push(queue);
        Ok(())
    }

    fn delete_queue(&mut self, id: QueueId) -> Answer {
        let at = self
            .queues
            .iter()
            .position(|queue| queue.id == id)
            .ok_or(QueueError::NoSuchQueue)?;
        let queue = self.queues.remove(at);
        self.deleted.push((queue.key, self.now));
        self.tasks.retain(|task| task.source != id);
        self.seen.queues_deleted += 1;
        Ok(Outcome::Done)
    }

    fn purge(&mut self, id: QueueId, wait: u32) -> Answer {
        let now = self.now;
        let queue = self.queue_mut(id).ok_or(QueueError::NoSuchQueue)?;
        if queue
            .purged_at
            .is_some_and(|at| now < at + u64::from(wait) * 1_000)
        {
            self.seen.purges_refused += 1;
            return Err(QueueError::PurgeInProgress);
        }
        queue.purged_at = Some(now);
        let had = queue.messages.len() + queue.remembered.len();
        queue.messages.clear();
        queue.remembered.clear();
        queue.attempts.clear();
        queue.is_fair = false;
        queue.order_groups();
        self.seen.purges += u64::from(had > 0);
        Ok(Outcome::Done)
    }

    fn enqueue(
        &mut self,
        context: &Context,
        id: QueueId,
        entries: &[EnqueueEntry],
        answer: &Answer,
    ) -> Result<News, String> {
        let Some(at) = self.queues.iter().position(|queue| queue.id == id) else {
            must_be("send", answer, &Err(QueueError::NoSuchQueue))?;
            return Ok(News::new());
        };
        if let Some(error) = entries.iter().find_map(|entry| self.queues[at].refuses(entry)) {
            must_be("send", answer, &Err(error))?;
            return Ok(News::new());
        }
        let Ok(Outcome::Enqueued(results)) = answer else {
            return Err(format!("send: got {answer:?}, the model accepts it"));
        };
        must_be("number of results of a send", &results.len(), &entries.len())?;
        let mut news = News::new();
        for (ordinal, (entry, result)) in (context.ordinal..).zip(entries.iter().zip(results)) {
            if let Some(new) = self.enqueue_one(&Context { ordinal, ..*context }, at, entry, result)? {
                news.push(new);
            }
        }
        Ok(news)
    }

    fn enqueue_one(
        &mut self,
        context: &Context,
        at: usize,
        entry: &EnqueueEntry,
        result: &Result<Enqueued, QueueError>,
    ) -> Result<Option<New>, String> {
        let now = self.now;
        let queue = &mut self.queues[at];
        let max_bytes = queue.maximum_bytes();
        if entry.size_bytes > max_bytes {
            must_be(
                "too long a message",
                result,
                &Err(QueueError::MessageTooLong { max_bytes }),
            )?;
            return Ok(None);
        }
        let known = entry
            .deduplication
            .as_ref()
            .map(|deduplication| queue.known(entry, deduplication));
        if let Some((_, _, Some(first))) = &known {
            self.seen.duplicates += 1;
            let want = Enqueued {
                message_id: first.message_id,
                sequence: types::Sequence(first.sequence),
                slot: None,
            };
            must_be("duplicate", result, &Ok(want))?;
            return Ok(None);
        }
        let Ok(Enqueued {
            message_id,
            sequence,
            slot: Some(slot),
        }) = result
        else {
            return Err(format!("send: got {result:?}, the model adds the message"));
        };
        must_be("message id", message_id, &entry.message_id)?;
        queue.take_sequence(sequence.0)?;
        if let Some((group, id, None)) = known {
            let (message_id, sequence) = (*message_id, sequence.0);
            queue.remembered.push(Remembered {
                group,
                id,
                accepted_at: now,
                message_id,
                sequence,
            });
        }
        let delay = if queue.is_fifo() {
            None
        } else {
            entry.delay_seconds
        };
        let delay = u64::from(delay.unwrap_or(queue.delay_seconds())) * 1_000;
        let id = PayloadId {
            index: context.index,
            ordinal: context.ordinal,
        };
        let content_bytes = u32::try_from(entry.content.len()).expect("contents are small");
        let payload = (id, content_bytes);
        self.top_uid += 1;
        self.ids.insert(*message_id.as_bytes());
        queue.enter(Message {
            uid: self.top_uid,
            slot: slot.0,
            message_id: *message_id,
            new_id: NewId::None,
            payload,
            sequence: Some(sequence.0),
            group: entry.group.as_deref().map(str::to_owned),
            sent: context.wall.as_millis(),
            age_from: now,
            visible_at: now + delay,
            hidden: delay > 0,
            leased: false,
            received_at: 0,
            receive_count: 0,
            receives_here: 0,
            first_received: None,
            token: None,
            source: None,
        });
        queue.order_groups();
        self.seen.sends += 1;
        Ok(Some(New {
            slot: slot.0,
            uid: self.top_uid,
            payload,
        }))
    }

    /// Makes a command of entries that each succeed or fail alone.
    fn each<T>(
        &mut self,
        id: QueueId,
        entries: &[T],
        mut one: impl FnMut(&mut Self, QueueId, &T) -> Result<(), QueueError>,
    ) -> Answer {
        if self.queue_mut(id).is_none() {
            return Err(QueueError::NoSuchQueue);
        }
        Ok(Outcome::Entries(
            entries.iter().map(|entry| one(self, id, entry)).collect(),
        ))
    }

    fn delete(&mut self, id: QueueId, handle: &Handle) -> Result<(), QueueError> {
        if handle.queue != id {
            self.seen.foreign_receipts += 1;
            return Err(QueueError::ForeignReceipt);
        }
        let queue = self.queue_mut(id).ok_or(QueueError::NoSuchQueue)?;
        let is_fifo = queue.is_fifo();
        let Some(at) = queue.position(handle) else {
            return Ok(());
        };
        let message = &queue.messages[at];
        let is_current = message.token == Some(handle.token.0);
        let in_flight = message.hidden && message.leased;
        if is_fifo && !(is_current && in_flight) {
            self.seen.expired_receipts += 1;
            return Err(QueueError::ReceiptExpired);
        }
        if !is_current && in_flight {
            self.seen.stale_deletes += 1;
            return Ok(());
        }
        queue.messages.remove(at);
        queue.order_groups();
        self.seen.deletes += 1;
        Ok(())
    }

    fn change_visibility(&mut self, id: QueueId, handle: &Handle, seconds: u32) -> Result<(), QueueError> {
        if handle.queue != id {
            self.seen.foreign_receipts += 1;
            return Err(QueueError::ForeignReceipt);
        }
        let now = self.now;
        let queue = self.queue_mut(id).ok_or(QueueError::NoSuchQueue)?;
        let is_fifo = queue.is_fifo();
        let found = queue.position(handle).map(|at| &mut queue.messages[at]);
        let Some(message) = found else {
            self.seen.visibility_refused += 1;
            return Err(QueueError::VisibilityNotChangeable);
        };
        let is_current = message.token == Some(handle.token.0);
        let in_flight = message.hidden && message.leased;
        if is_fifo && !(is_current && in_flight) {
            self.seen.visibility_refused += 1;
            return Err(QueueError::VisibilityNotChangeable);
        }
        if !is_current && !in_flight {
            return Ok(());
        }
        if now - message.received_at + u64::from(seconds) * 1_000 > 43_200_000 {
            self.seen.visibility_too_long += 1;
            return Err(QueueError::VisibilityTooLong { max_seconds: 43_200 });
        }
        message.visible_at = now + u64::from(seconds) * 1_000;
        message.hidden = seconds > 0;
        queue.order_groups();
        self.seen.visibility_changes += 1;
        Ok(())
    }

    fn withhold(&mut self, id: QueueId, handle: &Handle) {
        if self.uncount(id, handle).is_some() {
            self.seen.withheld += 1;
        }
    }

    fn discard(&mut self, id: QueueId, handle: &Handle) {
        let queue = self.queue_mut(id).filter(|_| handle.queue == id);
        if let Some((queue, at)) = queue.and_then(|queue| queue.position(handle).map(|at| (queue, at))) {
            queue.messages.remove(at);
            queue.order_groups();
            self.seen.discarded += 1;
        }
    }

    /// Takes back the counts of one receive; returns where its message stands.
    fn uncount(&mut self, id: QueueId, handle: &Handle) -> Option<usize> {
        let queue = self.queue_mut(id).filter(|_| handle.queue == id)?;
        let at = queue.position(handle)?;
        let message = &mut queue.messages[at];
        if message.token != Some(handle.token.0) {
            return None;
        }
        message.token = None;
        message.receive_count -= 1;
        message.receives_here -= 1;
        if message.receive_count == 0 {
            message.first_received = None;
        }
        Some(at)
    }

    fn give_back(&mut self, id: QueueId, handle: &Handle) {
        let now = self.now;
        let Some(at) = self.uncount(id, handle) else {
            return;
        };
        let Some(queue) = self.queue_mut(id) else { return };
        let message = &mut queue.messages[at];
        if message.hidden {
            message.hidden = false;
            message.visible_at = now;
            let group = message.group.clone();
            queue.order_groups();
            if let Some(place) = queue
                .servable
                .iter()
                .position(|other| Some(other) == group.as_ref())
            {
                let group = queue.servable.remove(place);
                queue.servable.insert(0, group);
            }
        }
        self.seen.give_backs += 1;
    }
}

impl Queue {
    fn new(id: QueueId, key: QueueKey) -> Self {
        let mut attributes = vec![
            AttributeChange::VisibilityTimeout(30),
            AttributeChange::DelaySeconds(0),
            AttributeChange::MessageRetentionPeriod(345_600),
            AttributeChange::MaximumMessageSize(1_048_576),
            AttributeChange::ReceiveMessageWaitTimeSeconds(0),
            AttributeChange::Policy(None),
            AttributeChange::RedrivePolicy(None),
            AttributeChange::RedriveAllowPolicy(None),
            AttributeChange::KmsMasterKeyId(None),
            AttributeChange::KmsDataKeyReusePeriodSeconds(300),
            AttributeChange::SqsManagedSseEnabled(true),
        ];
        if key.name.is_fifo() {
            attributes.push(AttributeChange::ContentBasedDeduplication(false));
            attributes.push(AttributeChange::DeduplicationScope(DeduplicationScope::Queue));
            attributes.push(AttributeChange::FifoThroughputLimit(
                FifoThroughputLimit::PerQueue,
            ));
        }
        Self {
            id,
            key,
            attributes,
            scope: DeduplicationScope::Queue,
            messages: Vec::new(),
            tags: BTreeMap::new(),
            servable: Vec::new(),
            is_fair: false,
            takes: 0,
            turns: 0,
            shares: Vec::new(),
            remembered: Vec::new(),
            attempts: Vec::new(),
            purged_at: None,
            top_sequence: 0,
            top_token: 0,
        }
    }

    fn has(&self, value: &AttributeChange) -> bool {
        self.attribute(value) == Some(value)
    }

    /// Sets an attribute; one that the queue's type does not have is passed over.
    fn change(&mut self, change: &AttributeChange) {
        for attribute in &mut self.attributes {
            if discriminant(attribute) == discriminant(change) {
                *attribute = change.clone();
            }
        }
        if let AttributeChange::PolicyFrom { to, .. } = change {
            self.change(&AttributeChange::Policy(to.clone()));
        }
        if let AttributeChange::KmsMasterKeyId(Some(_)) = change {
            self.change(&AttributeChange::SqsManagedSseEnabled(false));
        }
    }

    /// Returns why the whole send is refused, if this entry is a reason.
    fn refuses(&self, entry: &EnqueueEntry) -> Option<QueueError> {
        if self.is_fifo() {
            let by_content = AttributeChange::ContentBasedDeduplication(true);
            match &entry.deduplication {
                _ if entry.group.is_none() => Some(QueueError::WrongQueueType),
                Some(Deduplication::Id(_)) => None,
                Some(Deduplication::BodyHash(_)) if self.attribute(&by_content) == Some(&by_content) => None,
                Some(Deduplication::BodyHash(_)) | None => Some(QueueError::MissingDeduplicationId),
            }
        } else {
            entry
                .deduplication
                .is_some()
                .then_some(QueueError::WrongQueueType)
        }
    }

    /// Returns the scope and id of an entry, and what is remembered under them.
    fn known(
        &self,
        entry: &EnqueueEntry,
        deduplication: &Deduplication,
    ) -> (Option<String>, String, Option<Remembered>) {
        let id = match deduplication {
            Deduplication::Id(id) => id.to_string(),
            // A client that hashes the body itself says the same as one that leaves it to the queue.
            Deduplication::BodyHash(hash) => hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let group = match self.scope {
            DeduplicationScope::Queue => None,
            DeduplicationScope::MessageGroup => entry.group.as_deref().map(str::to_owned),
        };
        let found = self
            .remembered
            .iter()
            .find(|other| other.group == group && other.id == id)
            .cloned();
        (group, id, found)
    }

    pub(super) fn position(&self, handle: &Handle) -> Option<usize> {
        self.messages
            .iter()
            .position(|message| message.sequence == Some(handle.sequence.0))
    }

    /// Says that a sequence is new to the queue and remembers it.
    fn take_sequence(&mut self, sequence: u64) -> Verdict {
        if sequence <= self.top_sequence {
            return Err(format!("sequence {sequence} after {}", self.top_sequence));
        }
        self.top_sequence = sequence;
        Ok(())
    }
}
