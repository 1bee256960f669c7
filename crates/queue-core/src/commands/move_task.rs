//! StartMoveTask and CancelMoveTask: what a task does between them is in `task.rs`.

use types::{QueueId, QueueKey};

use crate::task::{MoveTask, Moving, TaskId, TaskStatus};
use crate::{Context, Outcome, Partition, QueueError};

/// Tasks of one source that are kept to be listed, the newest and a running one among them.
const KEPT: usize = 10;

pub(super) fn start(
    partition: &mut Partition,
    context: Context,
    source: QueueId,
    task: TaskId,
    destination: Option<&QueueKey>,
    rate: Option<u32>,
) -> Result<Outcome, QueueError> {
    let queue = partition.queue(source).ok_or(QueueError::NoSuchQueue)?;
    if partition.dead_letter_sources(queue.key()).next().is_none() {
        return Err(QueueError::NotADeadLetterQueue);
    }
    if let Some(destination) = destination {
        let target = partition.queue_id(destination).and_then(|id| partition.queue(id));
        let target = target.ok_or(QueueError::NoSuchDestination)?;
        if target.is_fifo() != queue.is_fifo() {
            return Err(QueueError::WrongDestinationType);
        }
    }
    if queue.record.moving.is_some() {
        return Err(QueueError::TaskRunning);
    }
    let (to_move, boundary) = (queue.counters().total(), queue.record.next_sequence);
    forget_oldest(partition, source);
    partition.last_task += 1;
    let number = partition.last_task;
    partition.running.insert((partition.clock, source));
    if let Some(queue) = partition.queues.get_mut(&source) {
        queue.record.moving = Some(Moving::new(number, boundary, to_move));
    }
    let task = MoveTask {
        id: task,
        source,
        destination: destination.cloned(),
        rate,
        started: context.wall,
        status: TaskStatus::Running,
        to_move,
        moved: 0,
        next_at: partition.clock,
    };
    partition.tasks.insert((source, number), task);
    Ok(Outcome::Done)
}

pub(super) fn cancel(
    partition: &mut Partition,
    source: QueueId,
    task: &TaskId,
) -> Result<Outcome, QueueError> {
    let queue = partition.queue(source).ok_or(QueueError::NoSuchQueue)?;
    let moving = queue.record.moving.ok_or(QueueError::NoSuchTask)?;
    let moved = partition
        .tasks
        .get(&(source, moving.task))
        .filter(|running| running.id == *task)
        .map(|task| task.moved);
    let moved = moved.ok_or(QueueError::NoSuchTask)?;
    partition.end_task(source, TaskStatus::Cancelled);
    Ok(Outcome::Moved(moved))
}

fn forget_oldest(partition: &mut Partition, source: QueueId) {
    let mut kept = partition.tasks.range((source, 0)..=(source, u64::MAX));
    let oldest = kept.next().map(|(key, _)| *key);
    // One is gone from the iterator.
    if let Some(key) = oldest.filter(|_| kept.count() + 1 >= KEPT) {
        partition.tasks.remove(&key);
    }
}
