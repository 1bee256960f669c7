//! Message move tasks: they take what a dead-letter queue held when they started, a message at a time, as part of the
//! commands that are applied anyway.
//!
//! A task is state: it goes on after a restart where it was, and each message moves once. A moved message is new: new
//! id, new time of sending, counts at zero.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use types::{MessageId, QueueId, QueueKey, Sequence, Slot, Timestamp, WallTime};

use crate::header::{Delivery, NO_GROUP};
use crate::line::Whose;
use crate::{Effect, Partition};

/// Names a task: the bytes of a UUID.
pub type TaskId = MessageId;

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskStatus {
    /// It moves messages, or waits for those that are in flight.
    Running,
    /// Everything was moved, or is gone otherwise.
    Completed,
    /// A client stopped it.
    Cancelled,
    /// A message could not be moved.
    Failed(TaskFailure),
}

/// Why a task failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskFailure {
    /// The destination is gone, or of another type than the source.
    NoDestination,
    /// No destination was named, and a message was not dead-lettered from anywhere.
    NoOrigin,
}

/// One move task, running or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveTask {
    /// Its id.
    pub id: TaskId,
    /// The dead-letter queue.
    pub source: QueueId,
    /// Where messages go; each to the queue that it was dead-lettered from if `None`.
    pub destination: Option<QueueKey>,
    /// Most messages to move in a second.
    pub rate: Option<u32>,
    /// When it started.
    pub started: WallTime,
    /// How it stands.
    pub status: TaskStatus,
    /// Messages that the source held when it started.
    pub to_move: u64,
    /// Messages moved so far.
    pub moved: u64,
    /// When the next message may move.
    pub(crate) next_at: Timestamp,
}

/// What a source knows of the task that empties it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moving {
    /// The number of the task.
    pub(crate) task: u64,
    /// Messages from here on came later and stay.
    pub(crate) boundary: Sequence,
    /// Messages before the boundary that are still in the source.
    pub(crate) remaining: u64,
}

impl Moving {
    pub(crate) fn left(&mut self, sequence: Sequence) {
        self.remaining -= u64::from(sequence < self.boundary);
    }
}

/// How long a task waits for messages in flight before it looks again.
const WAIT_MILLIS: u64 = 1_000;
/// Groups of a FIFO queue that a task looks at to find a message that it may move.
const GROUPS_SEEN_MAX: usize = 1_000;

impl Partition {
    /// Returns the tasks of a source, the newest first.
    pub fn move_tasks(&self, source: QueueId) -> impl Iterator<Item = &MoveTask> {
        self.tasks
            .values()
            .rev()
            .filter(move |task| task.source == source)
    }

    /// Returns when a running task has something to do next.
    pub fn next_task(&self) -> Option<Timestamp> {
        let running = |task: &&MoveTask| task.status == TaskStatus::Running;
        self.tasks.values().filter(running).map(|task| task.next_at).min()
    }

    /// Lets running tasks move messages, at most `budget`. Returns how many moved.
    pub(crate) fn run_tasks(&mut self, budget: u32) -> u32 {
        if self.running_tasks == 0 {
            return 0;
        }
        let due: Vec<u64> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.status == TaskStatus::Running && task.next_at <= self.clock)
            .map(|(number, _)| *number)
            .collect();
        let mut left = budget;
        for number in due {
            while left > 0 && self.step_task(number) {
                left -= 1;
            }
        }
        budget - left
    }

    /// Moves one message. Returns whether the task can go on at once.
    fn step_task(&mut self, number: u64) -> bool {
        let Some(task) = self
            .tasks
            .get(&number)
            .filter(|task| task.status == TaskStatus::Running)
        else {
            return false;
        };
        if task.next_at > self.clock {
            return false;
        }
        let (source, destination, rate) = (task.source, task.destination.clone(), task.rate);
        let Some(moving) = self.queues.get(&source).and_then(|queue| queue.record.moving) else {
            return false;
        };
        if moving.remaining == 0 {
            self.end_task(number, TaskStatus::Completed);
            return false;
        }
        let Some(slot) = self.find_movable(source, moving.boundary) else {
            self.put_task_off(number, self.clock, WAIT_MILLIS);
            return false;
        };
        let target = self.task_target(source, slot, destination.as_ref());
        match target {
            Ok(target) => self.move_one(number, slot, target),
            Err(failure) => {
                self.put_back(slot);
                self.end_task(number, TaskStatus::Failed(failure));
                return false;
            }
        }
        if let Some(rate) = rate {
            // From when the last one was due, so that the rate holds however often commands come.
            let due = self.tasks[&number].next_at.max(Timestamp::from_millis(
                self.clock.as_millis().saturating_sub(WAIT_MILLIS),
            ));
            self.put_task_off(number, due, 1_000_u64.div_ceil(u64::from(rate.max(1))));
        }
        true
    }

    fn put_task_off(&mut self, number: u64, from: Timestamp, millis: u64) {
        if let Some(task) = self.tasks.get_mut(&number) {
            task.next_at = Timestamp::from_millis(from.as_millis() + millis);
        }
    }

    /// Ends a running task.
    pub(crate) fn end_task(&mut self, number: u64, status: TaskStatus) {
        let Some(task) = self
            .tasks
            .get_mut(&number)
            .filter(|task| task.status == TaskStatus::Running)
        else {
            return;
        };
        task.status = status;
        self.running_tasks -= 1;
        let source = task.source;
        if let Some(queue) = self.queues.get_mut(&source) {
            queue.record.moving = None;
        }
    }

    /// Returns an available message of the source that was there when the task started, off the queue's line.
    fn find_movable(&mut self, source: QueueId, boundary: Sequence) -> Option<Slot> {
        let queue = self.queues.get_mut(&source)?;
        if queue.is_fifo() {
            let mut heads = queue
                .ready
                .values()
                .take(GROUPS_SEEN_MAX)
                .filter_map(|group| self.groups.head(*group));
            return heads.find(|slot| self.slab.header(*slot).sequence < boundary);
        }
        let slot = queue.line.pop(Whose::Queue, &mut self.slab, source)?;
        if self.slab.header(slot).sequence < boundary {
            return Some(slot);
        }
        self.put_back(slot);
        None
    }

    /// Puts an available message of a standard queue on the lines again that it was taken off.
    pub(crate) fn put_back(&mut self, slot: Slot) {
        let header = *self.slab.header(slot);
        debug_assert_eq!(
            header.delivery,
            Delivery::Available,
            "only an available message stands in a line"
        );
        let Self {
            queues, slab, groups, ..
        } = self;
        let Some(queue) = queues.get_mut(&header.queue).filter(|queue| !queue.is_fifo()) else {
            return;
        };
        queue
            .line
            .push_returned(Whose::Queue, slab, header.sequence, slot);
        if header.group != NO_GROUP {
            groups
                .share(header.group)
                .line
                .push_returned(Whose::Group, slab, header.sequence, slot);
        }
    }

    fn task_target(
        &self,
        source: QueueId,
        slot: Slot,
        destination: Option<&QueueKey>,
    ) -> Result<QueueId, TaskFailure> {
        let origin = self.slab.header(slot).origin;
        let key = match destination {
            Some(key) => key,
            None => self
                .origins
                .get(&origin)
                .map(|origin| &origin.key)
                .ok_or(TaskFailure::NoOrigin)?,
        };
        let target = self
            .queue_id(key)
            .and_then(|id| self.queue(id))
            .ok_or(TaskFailure::NoDestination)?;
        let is_same_type = self.queues[&source].is_fifo() == target.is_fifo();
        if is_same_type {
            Ok(target.id())
        } else {
            Err(TaskFailure::NoDestination)
        }
    }

    /// Moves one message to its target, where it is new.
    fn move_one(&mut self, number: u64, slot: Slot, target: QueueId) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        task.moved += 1;
        let message_id = new_id(&task.id, task.moved);
        let (clock, wall) = (self.clock, self.wall);
        let origin = self.slab.header(slot).origin;
        self.transfer(slot, target, |header| {
            header.sent = wall;
            header.age_from = clock;
            header.first_received = WallTime::from_millis(0);
            header.receive_count = 0;
            header.origin = QueueId(0);
        });
        self.release_origin(origin);
        self.effects.push(Effect::Renamed { slot, message_id });
    }
}

/// Returns the id of the nth message that a task moves: every node finds the same, and nobody can guess it who does
/// not know the task's.
fn new_id(task: &TaskId, number: u64) -> MessageId {
    let hash = Sha256::new()
        .chain_update(task.as_bytes())
        .chain_update(number.to_le_bytes())
        .finalize();
    MessageId::from_random(hash.first_chunk().copied().unwrap_or_default())
}
