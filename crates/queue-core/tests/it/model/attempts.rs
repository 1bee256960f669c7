//! Receives of a FIFO queue that are repeated under the id of their attempt.

use queue_core::{Delivery, Handle, Outcome, QueueError};

use super::check::must_be;
use super::{Model, NewId, Queue, Verdict};

/// A receive that can be repeated.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(super) key: [u8; 16],
    /// When the receive was; repetitions do not count.
    pub(crate) at: u64,
    /// When the leases end that it or its last repetition began.
    pub(crate) until: u64,
    pub(super) handles: Vec<Handle>,
}

/// What became of the messages of an attempt.
enum Fate {
    Unchanged,
    /// Deleted, or their visibility was changed.
    Changed,
    /// The receive was undone, as if it had never been.
    GivenBack,
}

impl Model {
    /// Repeats the receive, if it is one that has to be; `None` if the receive is a new one.
    pub(super) fn repeat(
        &mut self,
        at: usize,
        key: [u8; 16],
        millis: u64,
        answer: &Result<Outcome, QueueError>,
    ) -> Option<Verdict> {
        let now = self.now;
        let queue = &self.queues[at];
        let newest = queue.attempts.iter().rev().find(|attempt| attempt.key == key);
        let earlier = newest
            .filter(|attempt| now < attempt.at + 300_000 && now < attempt.until)?
            .clone();
        match queue.fate(&earlier) {
            Fate::GivenBack => {
                self.seen.attempts_undone += 1;
                return None;
            }
            Fate::Changed => {
                self.seen.attempts_refused += 1;
                return Some(must_be(
                    "a repeated receive",
                    answer,
                    &Err(QueueError::AttemptChanged),
                ));
            }
            Fate::Unchanged => self.seen.attempts_repeated += 1,
        }
        let queue = &mut self.queues[at];
        let mut want = Vec::new();
        for handle in &earlier.handles {
            want.extend(queue.begin_anew(handle, now, now + millis));
        }
        queue.attempts.push(Attempt {
            until: now + millis,
            ..earlier
        });
        Some(must_be(
            "a repeated receive",
            answer,
            &Ok(Outcome::Received(want)),
        ))
    }
}

impl Queue {
    fn fate(&self, attempt: &Attempt) -> Fate {
        let message = |handle: &Handle| self.position(handle).map(|at| &self.messages[at]);
        let found: Vec<_> = attempt
            .handles
            .iter()
            .map(|handle| (handle, message(handle)))
            .collect();
        if found
            .iter()
            .any(|(_, message)| message.is_some_and(|m| m.token.is_none()))
        {
            return Fate::GivenBack;
        }
        let is_unchanged = |handle: &Handle, message: &super::Message| {
            let is_leased = message.hidden && message.leased && message.visible_at == attempt.until;
            message.token == Some(handle.token.0) && is_leased
        };
        if found
            .iter()
            .all(|(handle, message)| message.is_some_and(|m| is_unchanged(handle, m)))
        {
            Fate::Unchanged
        } else {
            Fate::Changed
        }
    }

    /// Begins the lease of a message again and returns what is answered for it.
    fn begin_anew(&mut self, handle: &Handle, now: u64, until: u64) -> Option<Delivery> {
        let at = self.position(handle)?;
        let message = &mut self.messages[at];
        message.received_at = now;
        message.visible_at = until;
        message.hidden = until > now;
        let delivery = Delivery {
            handle: *handle,
            receive_count: message.receive_count,
            sent: types::WallTime::from_millis(message.sent),
            first_received: types::WallTime::from_millis(message.first_received.unwrap_or_default()),
            dead_letter_source: message.source.clone(),
            payload: message.payload.0,
            content_bytes: message.payload.1,
            message_id: match message.new_id {
                NewId::Known(id) => Some(id),
                NewId::None | NewId::Unknown => None,
            },
        };
        self.order_groups();
        Some(delivery)
    }
}
