//! Message move tasks: what they take, where they move it, and when they end.

use queue_core::{Context, Outcome, QueueError, TaskFailure, TaskId, TaskStatus};
use types::{QueueId, QueueKey};

use super::{Message, Model, NewId};

/// A task that finds nothing which it can move looks again when the clock comes to a multiple of this.
const WAIT_MILLIS: u64 = 1_000;
/// Tasks of a source that can be listed.
const KEPT: usize = 10;

/// One task, running or ended.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) source: QueueId,
    pub(crate) destination: Option<QueueKey>,
    pub(crate) rate: Option<u32>,
    pub(crate) started: u64,
    pub(crate) status: TaskStatus,
    pub(crate) to_move: u64,
    pub(crate) moved: u64,
    pub(crate) next_at: u64,
    /// What the source held at the start and the task has not moved.
    left: Vec<u64>,
}

impl Task {
    pub(crate) fn is_running(&self) -> bool {
        self.status == TaskStatus::Running
    }
}

impl Model {
    /// Returns the tasks of a source, the newest first.
    pub(crate) fn tasks_of(&self, source: QueueId) -> Vec<&Task> {
        let of_source = self.tasks.iter().rev();
        of_source.filter(|task| task.source == source).collect()
    }

    /// Returns when running tasks have something to do.
    pub(crate) fn task_times(&self) -> impl Iterator<Item = u64> {
        self.tasks
            .iter()
            .filter(|task| task.is_running())
            .map(|task| task.next_at)
    }

    pub(super) fn start_task(
        &mut self,
        context: &Context,
        source: QueueId,
        id: TaskId,
        destination: Option<&QueueKey>,
        rate: Option<u32>,
    ) -> Result<Outcome, QueueError> {
        let refused = self.refuses_task(source, destination);
        if let Some(error) = refused {
            self.seen.tasks_refused += 1;
            return Err(error);
        }
        let queue = self.queue_mut(source).ok_or(QueueError::NoSuchQueue)?;
        let left: Vec<u64> = queue.messages.iter().map(|message| message.uid).collect();
        if self.tasks_of(source).len() == KEPT
            && let Some(oldest) = self.tasks.iter().position(|task| task.source == source)
        {
            self.tasks.remove(oldest);
        }
        self.tasks.push(Task {
            id,
            source,
            destination: destination.cloned(),
            rate,
            started: context.wall.as_millis(),
            status: TaskStatus::Running,
            to_move: left.len() as u64,
            moved: 0,
            next_at: self.now,
            left,
        });
        self.seen.tasks_started += 1;
        Ok(Outcome::Done)
    }

    fn refuses_task(&self, source: QueueId, destination: Option<&QueueKey>) -> Option<QueueError> {
        let Some(queue) = self.queues.iter().find(|queue| queue.id == source) else {
            return Some(QueueError::NoSuchQueue);
        };
        let names_it = |other: &super::Queue| {
            other
                .redrive_policy()
                .is_some_and(|policy| policy.dead_letter_queue == queue.key)
        };
        if !self
            .queues
            .iter()
            .any(|other| other.key.tenant == queue.key.tenant && names_it(other))
        {
            return Some(QueueError::NotADeadLetterQueue);
        }
        if let Some(destination) = destination {
            match self.find(destination) {
                None => return Some(QueueError::NoSuchDestination),
                Some(target) if target.is_fifo() != queue.is_fifo() => {
                    return Some(QueueError::WrongDestinationType);
                }
                Some(_) => {}
            }
        }
        let mut of_source = self.tasks.iter().filter(|task| task.source == source);
        of_source.any(Task::is_running).then_some(QueueError::TaskRunning)
    }

    pub(super) fn cancel_task(&mut self, source: QueueId, id: TaskId) -> Result<Outcome, QueueError> {
        self.queue_mut(source).ok_or(QueueError::NoSuchQueue)?;
        let task = self
            .tasks
            .iter_mut()
            .find(|task| task.source == source && task.id == id && task.is_running())
            .ok_or(QueueError::NoSuchTask)?;
        task.status = TaskStatus::Cancelled;
        self.seen.tasks_cancelled += 1;
        Ok(Outcome::Moved(task.moved))
    }

    /// Lets the tasks that are due move a message each, again and again until none is.
    pub(super) fn run_tasks(&mut self, context: &Context) {
        let mut due: Vec<usize> = (0..self.tasks.len())
            .filter(|at| self.tasks[*at].is_running() && self.tasks[*at].next_at <= self.now)
            .collect();
        due.sort_by_key(|at| (self.tasks[*at].next_at, self.tasks[*at].source));
        while !due.is_empty() {
            let at = due.remove(0);
            if self.step_task(context, at) {
                due.push(at);
            }
        }
    }

    /// Moves one message. Returns whether the task goes on at once.
    fn step_task(&mut self, context: &Context, at: usize) -> bool {
        let source = self.place_of(self.tasks[at].source);
        if self.is_done(at, source) {
            self.end_task(at, TaskStatus::Completed);
            return false;
        }
        let Some(place) = self.movable(at, source) else {
            self.tasks[at].next_at = (self.now / WAIT_MILLIS + 1) * WAIT_MILLIS;
            return false;
        };
        let message = &self.queues[source].messages[place];
        let Some(key) = self.tasks[at].destination.as_ref().or(message.source.as_ref()) else {
            self.end_task(at, TaskStatus::Failed(TaskFailure::NoOrigin));
            return false;
        };
        let same_type =
            |other: &super::Queue| other.key == *key && other.is_fifo() == self.queues[source].is_fifo();
        let Some(target) = self.queues.iter().position(same_type) else {
            self.end_task(at, TaskStatus::Failed(TaskFailure::NoDestination));
            return false;
        };
        let message = self.queues[source].messages.remove(place);
        self.tasks[at].left.retain(|uid| *uid != message.uid);
        // A FIFO queue may be its own destination: then a group that had no other message comes back at the tail.
        self.queues[source].order_servable();
        self.queues[target].enter(Message {
            new_id: NewId::Unknown,
            sequence: None,
            sent: context.wall.as_millis(),
            age_from: self.now,
            visible_at: self.now,
            hidden: false,
            leased: false,
            receive_count: 0,
            receives_here: 0,
            first_received: None,
            token: None,
            source: None,
            ..message
        });
        self.queues[source].order_groups();
        self.queues[target].order_groups();
        self.seen.task_moves += 1;
        self.schedule_task(at, source)
    }

    /// Says when the task moves the next message, and whether that is now.
    fn schedule_task(&mut self, at: usize, source: usize) -> bool {
        self.tasks[at].moved += 1;
        if self.is_done(at, source) {
            self.end_task(at, TaskStatus::Completed);
            return false;
        }
        let now = self.now;
        let task = &mut self.tasks[at];
        task.next_at = match task.rate {
            Some(rate) => {
                let each = 1_000_u64.div_ceil(u64::from(rate));
                // A task that was late catches up at most what belongs into one second.
                task.next_at.max((now + each).saturating_sub(1_000)) + each
            }
            None => now,
        };
        task.next_at <= now
    }

    fn is_done(&self, at: usize, source: usize) -> bool {
        let left = &self.tasks[at].left;
        !self.queues[source]
            .messages
            .iter()
            .any(|message| left.contains(&message.uid))
    }

    /// Returns the place of the message that the task moves next: of a standard queue the oldest, of a FIFO queue the
    /// first of the first group that can be served; each only if it was there at the start.
    fn movable(&self, at: usize, source: usize) -> Option<usize> {
        let (queue, left) = (&self.queues[source], &self.tasks[at].left);
        if !queue.is_fifo() {
            return queue
                .messages
                .iter()
                .position(|message| !message.hidden && left.contains(&message.uid));
        }
        queue.servable.iter().find_map(|group| {
            let first = queue
                .messages
                .iter()
                .position(|message| message.group.as_ref() == Some(group))?;
            left.contains(&queue.messages[first].uid).then_some(first)
        })
    }

    /// A message that a dead-letter move took is no longer one of the start.
    pub(super) fn leaves_tasks(&mut self, uid: u64) {
        for task in &mut self.tasks {
            task.left.retain(|left| *left != uid);
        }
    }

    fn end_task(&mut self, at: usize, status: TaskStatus) {
        self.tasks[at].status = status;
        match status {
            TaskStatus::Completed => self.seen.tasks_completed += 1,
            TaskStatus::Failed(_) => self.seen.tasks_failed += 1,
            TaskStatus::Running | TaskStatus::Cancelled => {}
        }
    }

    fn place_of(&self, id: QueueId) -> usize {
        self.queues
            .iter()
            .position(|queue| queue.id == id)
            .expect("a running task has a source")
    }
}
