//! Message move tasks: they take what a dead-letter queue held when they started, a message at a time, as part of the
//! commands that are applied anyway.
//!
//! A task is state: it goes on after a restart where it was, and each message moves once. A moved message is new: new
//! id, new time of sending, counts at zero.

use std::collections::VecDeque;
use std::ops::Bound;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use types::{MessageId, QueueId, QueueKey, Sequence, Slot, Timestamp, WallTime};

use crate::Partition;
use crate::line::Whose;

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
    /// FIFO: groups up to this place in the order of service begin with a message that stays.
    pub(crate) passed: i64,
}

impl Moving {
    pub(crate) const fn new(task: u64, boundary: Sequence, remaining: u64) -> Self {
        Self {
            task,
            boundary,
            remaining,
            passed: i64::MIN,
        }
    }

    pub(crate) fn left(&mut self, sequence: Sequence) {
        self.remaining -= u64::from(sequence < self.boundary);
    }

    /// Takes note of a group that takes a place in the order of service.
    pub(crate) fn enters(&mut self, ticket: i64) {
        self.passed = self.passed.min(ticket - 1);
    }
}

/// How long a task waits for messages in flight at most before it looks again, and most that it catches up when it was
/// late.
const WAIT_MILLIS: u64 = 1_000;
/// Groups of a FIFO queue that one step looks at.
const GROUPS_SEEN_MAX: usize = 16;

/// What a step of a task found.
enum Found {
    Message(Slot),
    /// Nothing so far; there are more groups to look at.
    NotYet,
    /// What is left cannot be received now.
    Nothing,
}

impl Partition {
    /// Returns the tasks of a source, the newest first.
    pub fn move_tasks(&self, source: QueueId) -> impl Iterator<Item = &MoveTask> {
        let of_source = self.tasks.range((source, 0)..=(source, u64::MAX));
        of_source.rev().map(|(_, task)| task)
    }

    /// Returns when a running task has something to do next.
    pub fn next_task(&self) -> Option<Timestamp> {
        self.running.first().map(|(at, _)| *at)
    }

    /// Lets due tasks take a step each, again and again; at most `budget` steps in all.
    pub(crate) fn run_tasks(&mut self, budget: u32) {
        if self.next_task().is_none_or(|at| at > self.clock) {
            return;
        }
        let due = self.running.iter().take_while(|(at, _)| *at <= self.clock);
        let mut due: VecDeque<QueueId> = due.take(budget as usize).map(|(_, source)| *source).collect();
        let mut left = budget;
        while left > 0
            && let Some(source) = due.pop_front()
        {
            left -= 1;
            if self.step_task(source) {
                due.push_back(source);
            }
        }
    }

    /// Moves one message. Returns whether the task can go on at once.
    fn step_task(&mut self, source: QueueId) -> bool {
        let Some(moving) = self.queues.get(&source).and_then(|queue| queue.record.moving) else {
            return false;
        };
        if moving.remaining == 0 {
            self.end_task(source, TaskStatus::Completed);
            return false;
        }
        let slot = match self.find_movable(source, moving) {
            Found::Message(slot) => slot,
            Found::NotYet => return true,
            Found::Nothing => {
                // All that wait look at the same instants, so that many cost no more ticks than one.
                let at = (self.clock.as_millis() / WAIT_MILLIS + 1) * WAIT_MILLIS;
                self.schedule_task((source, moving.task), Timestamp::from_millis(at));
                return false;
            }
        };
        match self.task_target((source, moving.task), slot) {
            Ok(target) => self.move_one((source, moving.task), slot, target),
            Err(failure) => {
                self.end_task(source, TaskStatus::Failed(failure));
                return false;
            }
        }
        self.after_move((source, moving.task))
    }

    /// Ends a task that moved its last message, or says when it moves the next. Returns whether that is now.
    fn after_move(&mut self, key: (QueueId, u64)) -> bool {
        let remaining = self.queues[&key.0].record.moving.map(|moving| moving.remaining);
        if remaining == Some(0) {
            self.end_task(key.0, TaskStatus::Completed);
            return false;
        }
        let Some(task) = self.tasks.get(&key) else {
            return false;
        };
        let clock = self.clock.as_millis();
        let next_at = task.rate.map_or(clock, |rate| {
            let each = 1_000_u64.div_ceil(u64::from(rate.max(1)));
            // From when the last one was due, so that the rate holds however often commands come; but a task that was
            // late catches up no more than belongs into one second.
            let due = task.next_at.as_millis();
            due.max((clock + each).saturating_sub(WAIT_MILLIS)) + each
        });
        self.schedule_task(key, Timestamp::from_millis(next_at));
        next_at <= clock
    }

    fn schedule_task(&mut self, key: (QueueId, u64), at: Timestamp) {
        let Some(task) = self.tasks.get_mut(&key).filter(|task| task.next_at != at) else {
            return;
        };
        self.running.remove(&(task.next_at, key.0));
        task.next_at = at;
        self.running.insert((at, key.0));
    }

    /// Ends the task that empties a source.
    pub(crate) fn end_task(&mut self, source: QueueId, status: TaskStatus) {
        let queue = self.queues.get_mut(&source);
        let Some(moving) = queue.and_then(|queue| queue.record.moving.take()) else {
            return;
        };
        if let Some(task) = self.tasks.get_mut(&(source, moving.task)) {
            task.status = status;
            self.running.remove(&(task.next_at, source));
        }
    }

    /// Looks for an available message of the source that was there when the task started.
    fn find_movable(&mut self, source: QueueId, moving: Moving) -> Found {
        let Self {
            queues, slab, groups, ..
        } = self;
        let Some(queue) = queues.get_mut(&source) else {
            return Found::Nothing;
        };
        if !queue.is_fifo() {
            let oldest = queue.line.peek(Whose::Queue, slab, source);
            let oldest = oldest.filter(|slot| slab.header(*slot).sequence < moving.boundary);
            return oldest.map_or(Found::Nothing, Found::Message);
        }
        let mut passed = moving.passed;
        let ahead = (Bound::Excluded(passed), Bound::Unbounded);
        for (ticket, group) in queue.ready.range(ahead).take(GROUPS_SEEN_MAX) {
            let head = groups.head(*group);
            match head.filter(|slot| slab.header(*slot).sequence < moving.boundary) {
                Some(slot) => return Found::Message(slot),
                None => passed = *ticket,
            }
        }
        if passed == moving.passed {
            return Found::Nothing;
        }
        queue.record.moving = Some(Moving { passed, ..moving });
        Found::NotYet
    }

    fn task_target(&self, key: (QueueId, u64), slot: Slot) -> Result<QueueId, TaskFailure> {
        let destination = self.tasks.get(&key).and_then(|task| task.destination.as_ref());
        let origin = self.slab.history(slot).origin;
        let name = match destination {
            Some(name) => name,
            None => self
                .origins
                .get(&origin)
                .map(|origin| &origin.key)
                .ok_or(TaskFailure::NoOrigin)?,
        };
        let target = self
            .queue_id(name)
            .and_then(|id| self.queue(id))
            .ok_or(TaskFailure::NoDestination)?;
        let is_same_type = self.queues[&key.0].is_fifo() == target.is_fifo();
        if is_same_type {
            Ok(target.id())
        } else {
            Err(TaskFailure::NoDestination)
        }
    }

    /// Moves one message to its target, where it is new.
    fn move_one(&mut self, key: (QueueId, u64), slot: Slot, target: QueueId) {
        let Some(task) = self.tasks.get_mut(&key) else {
            return;
        };
        task.moved += 1;
        let message_id = new_id(&task.id, task.moved);
        let (clock, wall) = (self.clock, self.wall);
        let origin = self.slab.history(slot).origin;
        self.transfer(slot, target, |header, history| {
            header.sent = wall;
            header.age_from = clock;
            history.first_received = WallTime::from_millis(0);
            history.receive_count = 0;
            history.origin = QueueId(0);
            history.message_id = Some(message_id);
        });
        self.release_origin(origin);
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
