//! The product's own state machine as the server of a simulated world, with bugs planted around it.

use std::collections::BTreeMap;

use history::{Call, Delivery, Reply};
use queue_core::{
    AttributeChange, Command, Context, Deduplication, Effect, EnqueueEntry, Handle, Outcome, Partition,
    PartitionSnapshot, PayloadId, QueueError, RedrivePolicy,
};
use simulator::Random;
use types::{LogIndex, MessageId, QueueId, QueueKey, Timestamp, WallTime};

use crate::planted::Bug;
use crate::setting::{
    DEAD, DEAD_LINE, MAX_RECEIVE_COUNT, NAMES, SHORT, SHORT_RETENTION_SECONDS, SOURCES, dead_letters,
};

/// What the server keeps of a message beside the state.
#[derive(Debug, Clone)]
struct Content {
    id: MessageId,
    body: String,
    group: Option<String>,
}

pub(crate) struct Server {
    partition: Partition,
    queues: Vec<QueueId>,
    contents: BTreeMap<PayloadId, Content>,
    handles: BTreeMap<String, Handle>,
    /// The newest handle of each message, and how often it was received.
    newest: BTreeMap<MessageId, (Handle, u32)>,
    index: u64,
    random: Random,
    bug: Option<Bug>,
    failovers: u64,
    /// What receive counts had come to at the last failover.
    counted: BTreeMap<MessageId, u32>,
    deleted_bodies: BTreeMap<String, u64>,
    older: Option<PartitionSnapshot>,
}

impl Server {
    pub(crate) fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut server = Self {
            partition: Partition::default(),
            queues: Vec::new(),
            contents: BTreeMap::new(),
            handles: BTreeMap::new(),
            newest: BTreeMap::new(),
            index: 0,
            random: Random::new(seed ^ 0x5eed),
            bug,
            failovers: 0,
            counted: BTreeMap::new(),
            deleted_bodies: BTreeMap::new(),
            older: None,
        };
        for queue in 0..NAMES.len() {
            server.create(queue);
        }
        server
    }

    fn create(&mut self, queue: usize) {
        let mut attributes = Vec::new();
        if let Some(target) = dead_letters(queue) {
            attributes.push(AttributeChange::RedrivePolicy(Some(RedrivePolicy {
                dead_letter_queue: key(target),
                max_receive_count: MAX_RECEIVE_COUNT,
            })));
        }
        if queue == SHORT {
            let seconds = if self.has(Bug::EarlyExpire) {
                SHORT_RETENTION_SECONDS / 8
            } else {
                SHORT_RETENTION_SECONDS
            };
            attributes.push(AttributeChange::MessageRetentionPeriod(seconds));
        }
        let command = Command::CreateQueue {
            key: key(queue),
            attributes,
            tags: Vec::new(),
            deleted_name_wait_seconds: 0,
        };
        match self.apply(0, &command).0 {
            Ok(Outcome::Queue(id)) => self.queues.push(id),
            other => panic!("created nothing: {other:?}"),
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether a bug that strikes so often in a hundred strikes now.
    fn strikes(&mut self, bug: Bug, percent: u64) -> bool {
        self.has(bug) && self.random.percent(percent)
    }

    fn apply(&mut self, now_micros: u64, command: &Command) -> (Result<Outcome, QueueError>, Vec<Effect>) {
        self.index += 1;
        let context = Context {
            at: Timestamp::from_millis(now_micros / 1_000),
            wall: WallTime::from_millis(1_700_000_000_000 + now_micros / 1_000),
            index: LogIndex(self.index),
            ordinal: 0,
        };
        let applied = self.partition.apply(context, command);
        (applied.outcome, applied.effects)
    }

    /// Does what a client asks for.
    pub(crate) fn execute(&mut self, now: u64, call: &Call, max: u32) -> Reply {
        match call {
            Call::Send {
                queue,
                body,
                group,
                deduplication,
            } => self.send(now, *queue, body, group.clone(), deduplication.clone()),
            Call::Receive {
                queue,
                visibility_micros,
            } => self.receive(now, *queue, max, *visibility_micros),
            Call::Delete { queue, handle } => self.delete(now, *queue, handle),
            Call::ChangeVisibility {
                queue,
                handle,
                visibility_micros,
            } => {
                let entries = vec![(self.handles[handle], seconds(*visibility_micros))];
                let queue = self.queues[*queue];
                self.entries(now, &Command::ChangeVisibility { queue, entries })
            }
            Call::Purge { queue } => {
                if self.strikes(Bug::PurgeKeep, 60) {
                    return Reply::Done;
                }
                let queue = self.queues[*queue];
                let command = Command::PurgeQueue {
                    queue,
                    purge_wait_seconds: 0,
                };
                match self.apply(now, &command).0 {
                    Ok(_) => Reply::Done,
                    Err(error) => Reply::Refused(error.to_string()),
                }
            }
        }
    }

    fn send(
        &mut self,
        now: u64,
        queue: usize,
        body: &str,
        group: Option<String>,
        key: Option<String>,
    ) -> Reply {
        let id = self.new_id();
        if self.strikes(Bug::LoseAck, 1) {
            let sequence = None;
            return Reply::Sent {
                message: id.to_string(),
                sequence,
            };
        }
        let mut key = key;
        if self.has(Bug::DedupLost) {
            key = key.map(|key| format!("{key}#{}", self.failovers));
        }
        if self.has(Bug::DedupAfterDel) {
            let deleted = self.deleted_bodies.get(body).copied().unwrap_or_default();
            key = key.map(|key| format!("{key}#{deleted}"));
        }
        let stored_group = group.clone().map(|group| match self.has(Bug::FifoBlock) {
            true => format!("{group}#{}", self.random.below(2)),
            false => group,
        });
        let entry = EnqueueEntry {
            message_id: id,
            content: body.as_bytes().into(),
            size_bytes: u32::try_from(body.len()).unwrap(),
            delay_seconds: None,
            group: stored_group.map(Into::into),
            deduplication: key.map(|key| Deduplication::Id(key.into())),
        };
        let is_fifo = entry.group.is_some();
        let command = Command::Enqueue {
            queue: self.queues[queue],
            entries: vec![entry],
        };
        let Ok(Outcome::Enqueued(results)) = self.apply(now, &command).0 else {
            panic!("a send of the test was refused");
        };
        let enqueued = *results[0].as_ref().unwrap();
        let payload = PayloadId {
            index: LogIndex(self.index),
            ordinal: 0,
        };
        self.contents.insert(
            payload,
            Content {
                id,
                body: body.to_owned(),
                group,
            },
        );
        let sequence = is_fifo.then(|| self.shown_sequence(enqueued.sequence.0));
        Reply::Sent {
            message: enqueued.message_id.to_string(),
            sequence,
        }
    }

    fn shown_sequence(&self, sequence: u64) -> u64 {
        let back = if self.has(Bug::SeqReuse) {
            self.failovers * 8
        } else {
            0
        };
        (1_000 + sequence).saturating_sub(back)
    }

    fn new_id(&mut self) -> MessageId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.random.next_u64().to_le_bytes());
        bytes[8..].copy_from_slice(&self.random.next_u64().to_le_bytes());
        MessageId::from_random(bytes)
    }

    fn receive(&mut self, now: u64, queue: usize, max: u32, visibility_micros: u64) -> Reply {
        let mut from = queue;
        if self.strikes(Bug::CrossQ, 2) {
            from = SOURCES[usize::try_from(self.random.below(SOURCES.len() as u64)).unwrap()];
        }
        let (mut taken, effects) = self.take(now, from, max, visibility_micros);
        for effect in effects {
            if let Effect::DeadLettered { from } = effect {
                self.spoil_move(now, from);
            }
        }
        if self.has(Bug::FifoSkip) && taken.len() > 1 && self.random.percent(30) {
            let first = taken.remove(0);
            let command = Command::GiveBack {
                queue: first.handle.queue,
                handles: vec![first.handle],
            };
            assert!(self.apply(now, &command).0.is_ok());
        }
        Reply::Received(taken.into_iter().map(|taken| self.delivery(&taken)).collect())
    }

    fn take(
        &mut self,
        now: u64,
        queue: usize,
        max: u32,
        visibility_micros: u64,
    ) -> (Vec<queue_core::Delivery>, Vec<Effect>) {
        let command = Command::Receive {
            queue: self.queues[queue],
            max,
            visibility_timeout_seconds: Some(seconds(visibility_micros)),
            is_long_poll: true,
            attempt: None,
        };
        match self.apply(now, &command) {
            (Ok(Outcome::Received(taken)), effects) => (taken, effects),
            other => panic!("a receive of the test was refused: {other:?}"),
        }
    }

    /// What is wrong with dead-letter moves.
    fn spoil_move(&mut self, now: u64, from: QueueId) {
        let source = self.queues.iter().position(|queue| *queue == from).unwrap();
        let target = if source == crate::setting::JOBS {
            DEAD_LINE
        } else {
            DEAD
        };
        if self.strikes(Bug::DlqLose, 50) {
            let (taken, _) = self.take(now, target, 10, 43_200_000_000);
            let mut handles: Vec<Handle> = taken.iter().map(|delivery| delivery.handle).collect();
            let lost = handles.pop();
            let queue = self.queues[target];
            let give_back = Command::GiveBack { queue, handles };
            assert!(self.apply(now, &give_back).0.is_ok());
            let delete = Command::Delete {
                queue,
                handles: lost.into_iter().collect(),
            };
            assert!(self.apply(now, &delete).0.is_ok());
        }
        if self.has(Bug::DlqDup) && target == DEAD {
            let (taken, _) = self.take(now, target, 1, 1_000_000);
            let Some(first) = taken.first() else { return };
            let Content { id, body, group } = self.contents[&first.payload].clone();
            let entry = EnqueueEntry {
                message_id: id,
                content: body.as_bytes().into(),
                size_bytes: 1,
                delay_seconds: None,
                group: None,
                deduplication: None,
            };
            assert!(
                self.apply(
                    now,
                    &Command::Enqueue {
                        queue: from,
                        entries: vec![entry]
                    }
                )
                .0
                .is_ok()
            );
            let payload = PayloadId {
                index: LogIndex(self.index),
                ordinal: 0,
            };
            self.contents.insert(payload, Content { id, body, group });
            let give_back = Command::GiveBack {
                queue: first.handle.queue,
                handles: vec![first.handle],
            };
            assert!(self.apply(now, &give_back).0.is_ok());
        }
    }

    fn delivery(&mut self, taken: &queue_core::Delivery) -> Delivery {
        let Content { id, mut body, group } = self.contents[&taken.payload].clone();
        let handle = format!("{:?}", taken.handle);
        self.handles.insert(handle.clone(), taken.handle);
        self.newest.insert(id, (taken.handle, taken.receive_count));
        if self.strikes(Bug::Corrupt, 1) {
            body.push('!');
        }
        let before = self.counted.get(&id).copied().unwrap_or_default();
        let reset = if self.has(Bug::RcReset) {
            before.min(taken.receive_count - 1)
        } else {
            0
        };
        Delivery {
            message: id.to_string(),
            handle,
            body,
            receive_count: taken.receive_count - reset,
            sequence: group
                .is_some()
                .then(|| self.shown_sequence(taken.handle.sequence.0)),
            group,
        }
    }

    fn delete(&mut self, now: u64, queue: usize, handle: &str) -> Reply {
        if self.strikes(Bug::Resurrect, 2) {
            return Reply::Done;
        }
        let mut handle = self.handles[handle];
        let queue = self.queues[queue];
        if self.has(Bug::UnfencedDel) {
            let newest = self
                .newest
                .values()
                .find(|(newest, _)| newest.queue == handle.queue && newest.sequence == handle.sequence);
            handle = newest.map_or(handle, |(newest, _)| *newest);
        }
        if self.has(Bug::DedupAfterDel) {
            let gone = self
                .partition
                .payload(handle.slot)
                .filter(|payload| payload.sequence == handle.sequence);
            if let Some(content) = gone.and_then(|payload| self.contents.get(&payload.id)) {
                *self.deleted_bodies.entry(content.body.clone()).or_default() += 1;
            }
        }
        self.entries(
            now,
            &Command::Delete {
                queue,
                handles: vec![handle],
            },
        )
    }

    fn entries(&mut self, now: u64, command: &Command) -> Reply {
        match self.apply(now, command).0 {
            Ok(Outcome::Entries(results)) => match &results[0] {
                Ok(()) => Reply::Done,
                Err(error) => Reply::Refused(error.to_string()),
            },
            Ok(other) => panic!("not a list of entries: {other:?}"),
            Err(error) => Reply::Refused(error.to_string()),
        }
    }

    /// Another node takes over with the same state.
    pub(crate) fn fail_over(&mut self, now: u64) {
        self.failovers += 1;
        let snapshot = self.partition.snapshot();
        let restored = if self.has(Bug::StaleSnap) {
            self.older
                .replace(snapshot)
                .unwrap_or_else(|| self.partition.snapshot())
        } else {
            snapshot
        };
        let mut bytes = Vec::new();
        restored.write(&mut bytes).unwrap();
        self.partition = Partition::restore(&mut bytes.as_slice()).unwrap();
        self.counted = self.newest.iter().map(|(id, (_, count))| (*id, *count)).collect();
        if self.has(Bug::LeaseLost) {
            let handles: Vec<Handle> = self.newest.values().map(|(handle, _)| *handle).collect();
            for handle in handles {
                let queue = handle.queue;
                let command = Command::ChangeVisibility {
                    queue,
                    entries: vec![(handle, 0)],
                };
                assert!(self.apply(now, &command).0.is_ok());
            }
        }
    }

    /// Takes the copy that a stale snapshot comes from.
    pub(crate) fn take_older(&mut self) {
        if self.has(Bug::StaleSnap) {
            self.older = Some(self.partition.snapshot());
        }
    }
}

fn key(queue: usize) -> QueueKey {
    QueueKey {
        tenant: "000000000001".parse().unwrap(),
        name: NAMES[queue].parse().unwrap(),
    }
}

fn seconds(micros: u64) -> u32 {
    u32::try_from(micros / 1_000_000).unwrap()
}
