//! What the owner answers from applied state, without an entry.

use types::{QueueKey, QueueName, TenantId, Timestamp};

use crate::owner::{Owner, Turn, missing};
use crate::request::{QueueDescription, QueuePage, Reply, Request};

impl<R> Owner<R> {
    /// Answers a request that only reads.
    pub(crate) fn read(&mut self, request: Request, reply: R, at: Timestamp, turn: &mut Turn<R>) {
        let answer = match request {
            Request::FindQueue { key } if self.partition.queue_id(&key).is_some() => Reply::Done,
            Request::ListQueues {
                tenant,
                prefix,
                after,
                max,
            } => Reply::Page(self.list(tenant, &prefix, after.as_ref(), max)),
            Request::DescribeQueue { key } => {
                self.describe(key, reply, at, turn);
                return;
            }
            Request::ListMoveTasks { source, max } => self.move_tasks(&source, max),
            Request::ListDeadLetterSources { key, after, max } => {
                self.dead_letter_sources(&key, after.as_ref(), max)
            }
            Request::FindQueue { .. }
            | Request::CreateQueue { .. }
            | Request::DeleteQueue { .. }
            | Request::SetQueueAttributes { .. }
            | Request::PurgeQueue { .. }
            | Request::Enqueue { .. }
            | Request::Receive(_)
            | Request::Delete { .. }
            | Request::ChangeVisibility { .. }
            | Request::TagQueue { .. }
            | Request::UntagQueue { .. }
            | Request::StartMoveTask { .. }
            | Request::CancelMoveTask { .. }
            | Request::GiveBack { .. }
            | Request::Withhold { .. }
            | Request::Cancel { .. }
            | Request::AdvanceClock { .. }
            | Request::Internal(_)
            | Request::EndPolls => missing(),
        };
        turn.replies.push((reply, answer));
    }

    fn move_tasks(&self, source: &QueueKey, max: usize) -> Reply {
        match self.partition.queue_id(source) {
            Some(id) => Reply::Tasks(self.partition.move_tasks(id).take(max).cloned().collect()),
            None => missing(),
        }
    }

    fn dead_letter_sources(&self, key: &QueueKey, after: Option<&QueueName>, max: usize) -> Reply {
        if self.partition.queue_id(key).is_none() {
            return missing();
        }
        let names = self
            .partition
            .dead_letter_sources(key)
            .filter(|name| after.is_none_or(|after| *name > after));
        Reply::Page(page(names, max))
    }

    fn list(&self, tenant: TenantId, prefix: &str, after: Option<&QueueName>, max: usize) -> QueuePage {
        let names = self.partition.queue_names(tenant, after);
        page(names.filter(|name| name.as_str().starts_with(prefix)), max)
    }

    /// Answers a read of attributes and counters, or puts it off until due timers are applied.
    pub(crate) fn describe(&mut self, key: QueueKey, reply: R, at: Timestamp, turn: &mut Turn<R>) {
        let is_due = |time: Option<Timestamp>| time.is_some_and(|time| time <= at);
        let Some(queue) = self
            .partition
            .queue_id(&key)
            .and_then(|id| self.partition.queue(id))
        else {
            turn.replies.push((reply, missing()));
            return;
        };
        if is_due(self.partition.next_due()) || is_due(self.partition.next_expiry()) {
            self.reads.push((key, reply, at));
            return;
        }
        let description = QueueDescription {
            attributes: queue.attributes().clone(),
            tags: queue
                .tags()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            counters: queue.counters(),
            created: queue.created(),
            modified: queue.modified(),
        };
        turn.replies
            .push((reply, Reply::Description(Box::new(description))));
    }
}

fn page<'a>(names: impl Iterator<Item = &'a QueueName>, max: usize) -> QueuePage {
    let mut names: Vec<_> = names.take(max.saturating_add(1)).cloned().collect();
    let has_more = names.len() > max;
    names.truncate(max);
    QueuePage { names, has_more }
}
