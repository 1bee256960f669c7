//! What the partition must have asked its owner to do: wake waiters, drop contents, end polls.

use std::collections::BTreeSet;

use queue_core::{Applied, Command, Effect};
use types::QueueId;

use super::check::{New, News, must_be};
use super::{Message, Model, Queue, Verdict};

/// What a waiter can be woken for: a message of a standard queue, a group of a FIFO queue.
pub(super) type Available = BTreeSet<(QueueId, String)>;

impl Model {
    pub(super) fn available(&self) -> Available {
        let mut available = Available::new();
        for queue in &self.queues {
            if queue.is_fifo() {
                available.extend(queue.servable.iter().map(|group| (queue.id, group.clone())));
            } else {
                let messages = queue.messages.iter().filter(|message| !message.hidden);
                available.extend(messages.map(|message| (queue.id, message.uid.to_string())));
            }
        }
        available
    }

    pub(super) fn effects(
        &mut self,
        command: &Command,
        applied: &Applied,
        before: &Available,
        moves: u64,
        news: &News,
    ) -> Verdict {
        let count = |effect: Effect| applied.effects.iter().filter(|other| **other == effect).count();
        let after = self.available();
        for queue in &self.queues {
            let new = after.difference(before).filter(|(id, _)| *id == queue.id).count();
            if count(Effect::Available(queue.id)) < new {
                return Err(format!(
                    "{new} became available in queue {}, effects {:?}",
                    queue.id, applied.effects
                ));
            }
        }
        let moved = applied
            .effects
            .iter()
            .filter(|effect| matches!(effect, Effect::DeadLettered { .. }))
            .count();
        must_be("dead-letter moves", &(moved as u64), &moves)?;
        let deleted = applied.effects.iter().copied();
        let deleted: Vec<Effect> = deleted
            .filter(|effect| matches!(effect, Effect::QueueDeleted(_)))
            .collect();
        let want = if let Command::DeleteQueue { queue } = command
            && applied.outcome.is_ok()
        {
            vec![Effect::QueueDeleted(*queue)]
        } else {
            Vec::new()
        };
        must_be("queue deleted", &deleted, &want)?;
        self.slots(applied, news)
    }

    /// A slot is freed once its message is gone and not before, and filled only when it is free.
    fn slots(&mut self, applied: &Applied, news: &News) -> Verdict {
        for effect in &applied.effects {
            if let Effect::Freed { slot, content_bytes } = effect {
                let Some(at) = self.slots.iter().position(|new| new.slot == slot.0) else {
                    return Err(format!("slot {slot} was freed, but held nothing"));
                };
                let New { uid, payload, .. } = self.slots.swap_remove(at);
                must_be("bytes of a content that was freed", content_bytes, &payload.1)?;
                if !self.expired_at_once(uid) && self.queues.iter().any(|queue| queue.holds(uid)) {
                    return Err(format!("slot {slot} was freed, but its message is still there"));
                }
            }
        }
        for new in news {
            if self.slots.iter().any(|used| used.slot == new.slot) {
                return Err(format!(
                    "slot {} was filled, but its content was not freed",
                    new.slot
                ));
            }
            self.slots.push(*new);
        }
        Ok(())
    }

    /// Removes a message that became too old within a command: it moved to a queue that keeps messages for less time.
    /// The model would have done so at the next command.
    fn expired_at_once(&mut self, uid: u64) -> bool {
        let now = self.now;
        self.queues.iter_mut().any(|queue| {
            let retention = queue.retention_millis();
            let is_gone = |message: &Message| message.uid == uid && now >= message.age_from + retention;
            let held = queue.messages.len();
            queue.messages.retain(|message| !is_gone(message));
            queue.order_groups();
            queue.messages.len() < held
        })
    }

    /// Returns how many slots hold the content of a message that is gone.
    pub(crate) fn unreclaimed(&self) -> usize {
        self.slots.len()
            - self
                .queues
                .iter()
                .map(|queue| queue.messages.len())
                .sum::<usize>()
    }
}

impl Queue {
    fn holds(&self, uid: u64) -> bool {
        self.messages.iter().any(|message| message.uid == uid)
    }
}
