//! A partition with a clock that only the test moves, for tests that name what they do.

use std::sync::Arc;

use queue_core::attributes::RedrivePolicy;
use queue_core::{
    Applied, AttributeChange, Command, Context, Counters, Deduplication, Delivery, EnqueueEntry, Handle,
    Outcome, Partition, QueueError, TaskId, TaskStatus,
};
use types::{LogIndex, MessageId, QueueId, Sequence, Timestamp, WallTime};

use crate::steps::key;

/// A partition with a clock that only the test moves.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) partition: Partition,
    pub(crate) at: u64,
    index: u64,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self {
            partition: Partition::default(),
            at: 1_000,
            index: 0,
        }
    }

    pub(crate) fn apply(&mut self, command: &Command) -> Applied {
        self.index += 1;
        let context = Context {
            at: Timestamp::from_millis(self.at),
            wall: WallTime::from_millis(1_700_000_000_000),
            index: LogIndex(self.index),
            ordinal: 0,
        };
        self.partition.apply(context, command)
    }

    pub(crate) fn create(&mut self, queue: usize, attributes: Vec<AttributeChange>) -> QueueId {
        let command = Command::CreateQueue {
            key: key(queue),
            attributes,
            tags: Vec::new(),
            deleted_name_wait_seconds: 60,
        };
        match self.apply(&command).outcome {
            Ok(Outcome::Queue(id)) => id,
            other => panic!("created nothing: {other:?}"),
        }
    }

    /// Sends messages, each in a group of its own on a FIFO queue unless `group` says otherwise.
    pub(crate) fn send(&mut self, queue: QueueId, count: u32, delay_seconds: u32, group: Option<&str>) {
        let is_fifo = self.partition.queue(queue).unwrap().is_fifo();
        let entry = |n: u32| EnqueueEntry {
            message_id: MessageId::from_random([1; 16]),
            content: Arc::from(*b"content"),
            size_bytes: 7,
            delay_seconds: Some(delay_seconds),
            group: is_fifo.then(|| group.map_or_else(|| format!("{n}").into(), Into::into)),
            deduplication: is_fifo.then(|| Deduplication::Id(format!("{n}").into())),
        };
        let command = Command::Enqueue {
            queue,
            entries: (0..count).map(entry).collect(),
        };
        assert!(self.apply(&command).outcome.is_ok());
    }

    /// Sends one message; group and deduplication id count on a FIFO queue.
    pub(crate) fn send_as(&mut self, queue: QueueId, group: &str, id: &str) {
        let is_fifo = self.partition.queue(queue).unwrap().is_fifo();
        let entry = EnqueueEntry {
            message_id: MessageId::from_random([2; 16]),
            content: Arc::from(*b"content"),
            size_bytes: 7,
            delay_seconds: None,
            group: is_fifo.then(|| group.into()),
            deduplication: is_fifo.then(|| Deduplication::Id(id.into())),
        };
        assert!(
            self.apply(&Command::Enqueue {
                queue,
                entries: vec![entry]
            })
            .outcome
            .is_ok()
        );
    }

    /// Sends one message of a group, or of none, to a queue of any type.
    pub(crate) fn send_to(&mut self, queue: QueueId, group: Option<&str>) -> Sequence {
        let is_fifo = self.partition.queue(queue).unwrap().is_fifo();
        let entry = EnqueueEntry {
            message_id: MessageId::from_random([3; 16]),
            content: Arc::from(*b"content"),
            size_bytes: 7,
            delay_seconds: None,
            group: group.map(Into::into),
            deduplication: is_fifo.then(|| Deduplication::Id(format!("{}", self.index).into())),
        };
        let command = Command::Enqueue {
            queue,
            entries: vec![entry],
        };
        match self.apply(&command).outcome {
            Ok(Outcome::Enqueued(results)) => results[0].as_ref().unwrap().sequence,
            other => panic!("sent nothing: {other:?}"),
        }
    }

    /// Receives at most so many.
    pub(crate) fn take(&mut self, queue: QueueId, max: u32, seconds: u32) -> Vec<Delivery> {
        self.take_as(queue, max, seconds, None).unwrap()
    }

    /// Receives under an attempt id.
    pub(crate) fn take_as(
        &mut self,
        queue: QueueId,
        max: u32,
        seconds: u32,
        attempt: Option<[u8; 16]>,
    ) -> Result<Vec<Delivery>, QueueError> {
        let command = Command::Receive {
            queue,
            max,
            visibility_timeout_seconds: Some(seconds),
            is_long_poll: true,
            attempt,
        };
        match self.apply(&command).outcome {
            Ok(Outcome::Received(deliveries)) => Ok(deliveries),
            Ok(other) => panic!("not a receive: {other:?}"),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn give_back(&mut self, handle: Handle) {
        let (queue, handles) = (handle.queue, vec![handle]);
        let applied = self.apply(&Command::GiveBack { queue, handles });
        assert_eq!(applied.outcome, Ok(Outcome::Done));
    }

    /// Starts a move task.
    pub(crate) fn start(&mut self, source: QueueId, destination: Option<usize>, rate: Option<u32>) -> TaskId {
        self.index += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.index.to_le_bytes());
        let task = TaskId::from_random(id);
        let command = Command::StartMoveTask {
            source,
            task,
            destination: destination.map(key),
            rate,
        };
        assert_eq!(self.apply(&command).outcome, Ok(Outcome::Done));
        task
    }

    /// Returns how the newest task of a source stands, and how many messages it moved.
    pub(crate) fn task(&self, source: QueueId) -> (TaskStatus, u64) {
        let task = self.partition.move_tasks(source).next().unwrap();
        (task.status, task.moved)
    }

    /// Lets time go on by a tick.
    pub(crate) fn tick(&mut self, millis: u64) -> Applied {
        self.at += millis;
        self.apply(&Command::Tick)
    }

    pub(crate) fn receive_as(
        &mut self,
        queue: QueueId,
        seconds: u32,
        long: bool,
    ) -> Result<Vec<Delivery>, QueueError> {
        let command = Command::Receive {
            queue,
            max: 10,
            visibility_timeout_seconds: Some(seconds),
            is_long_poll: long,
            attempt: None,
        };
        match self.apply(&command).outcome {
            Ok(Outcome::Received(deliveries)) => Ok(deliveries),
            Ok(other) => panic!("not a receive: {other:?}"),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn receive(&mut self, queue: QueueId, seconds: u32) -> Vec<Delivery> {
        self.receive_as(queue, seconds, true).unwrap()
    }

    /// Receives until nothing comes, and returns how many came.
    pub(crate) fn drain(&mut self, queue: QueueId, seconds: u32) -> usize {
        std::iter::repeat_with(|| self.receive(queue, seconds).len())
            .take_while(|count| *count > 0)
            .sum()
    }

    pub(crate) fn delete(&mut self, handle: Handle) -> Applied {
        self.apply(&Command::Delete {
            queue: handle.queue,
            handles: vec![handle],
        })
    }

    pub(crate) fn counters(&self, queue: QueueId) -> Counters {
        self.partition.queue(queue).unwrap().counters()
    }
}

pub(crate) fn counters(visible: u64, delayed: u64, in_flight: u64) -> Counters {
    Counters {
        visible,
        delayed,
        in_flight,
    }
}

pub(crate) fn redrive(queue: usize) -> AttributeChange {
    AttributeChange::RedrivePolicy(Some(RedrivePolicy {
        dead_letter_queue: key(queue),
        max_receive_count: 1,
    }))
}
