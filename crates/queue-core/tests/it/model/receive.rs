//! The receive: which messages it takes, in which order, and which of them go to the dead-letter queue instead.

use std::collections::BTreeSet;

use queue_core::{Context, Delivery, Outcome, QueueError};
use types::{MessageId, QueueId};

use super::attempts::Attempt;
use super::check::must_be;
use super::{Message, Model, NewId, Verdict};

/// Most messages that one receive moves to a dead-letter queue.
const MOVES_MAX: usize = 100;

impl Model {
    pub(super) fn receive(
        &mut self,
        context: &Context,
        id: QueueId,
        max: u32,
        visibility: Option<u32>,
        attempt: Option<[u8; 16]>,
        answer: &Result<Outcome, QueueError>,
    ) -> Verdict {
        let Some(at) = self.queues.iter().position(|queue| queue.id == id) else {
            return must_be("receive", answer, &Err(QueueError::NoSuchQueue));
        };
        let visibility = u64::from(visibility.unwrap_or(self.queues[at].visibility_seconds())) * 1_000;
        let is_fifo = self.queues[at].is_fifo();
        self.seen.attempts_ignored += u64::from(attempt.is_some() && !is_fifo);
        let attempt = attempt.filter(|_| is_fifo);
        if let Some(key) = attempt
            && let Some(verdict) = self.repeat(at, key, visibility, answer)
        {
            return verdict;
        }
        let Ok(Outcome::Received(deliveries)) = answer else {
            return Err(format!("receive: got {answer:?}, the model delivers"));
        };
        let max = max as usize;
        let taken = if self.queues[at].is_fifo() {
            self.take_fifo(at, max)
        } else {
            self.take_standard(at, max, visibility > 0)
        };
        // A standard queue hands out in the order in which messages were sent, whatever the order of the takes.
        let mut shown = taken.clone();
        if !is_fifo {
            shown.sort_by_key(|uid| self.queues[at].place(*uid));
        }
        let want: Vec<u32> = shown
            .iter()
            .map(|uid| self.queues[at].by_uid(*uid).slot)
            .collect();
        let got: Vec<u32> = deliveries.iter().map(|delivery| delivery.handle.slot.0).collect();
        must_be("slots of the messages received", &got, &want)?;
        let now = self.now;
        for uid in &taken {
            let place = shown.iter().position(|other| other == uid).unwrap_or_default();
            self.deliver(context, at, *uid, now + visibility, &deliveries[place])?;
        }
        let queue = &mut self.queues[at];
        if let Some(key) = attempt
            && !deliveries.is_empty()
        {
            queue.attempts.push(Attempt {
                key,
                at: now,
                until: now + visibility,
                handles: deliveries.iter().map(|delivery| delivery.handle).collect(),
            });
        }
        // The groups that were served enter again at the tail, in the order in which they were served.
        queue.order_groups();
        let served: Vec<String> = taken
            .iter()
            .filter_map(|uid| queue.by_uid(*uid).group.clone())
            .collect();
        for group in served {
            if let Some(place) = queue.servable.iter().position(|other| *other == group) {
                queue.servable.remove(place);
                queue.servable.push(group);
            }
        }
        Ok(())
    }

    /// The oldest that can be received; with message groups those whose turn it is, unless they stay available anyway.
    fn take_standard(&mut self, at: usize, max: usize, hides: bool) -> Vec<u64> {
        let mut taken = Vec::new();
        let mut moves = 0;
        while taken.len() < max {
            let can = |message: &&Message| !message.hidden && !taken.contains(&message.uid);
            let oldest = self.queues[at].messages.iter().find(can);
            let oldest = oldest.map(|message| message.uid);
            let next = if hides {
                self.queues[at].next_in_turn(&taken)
            } else {
                oldest
            };
            let Some(uid) = next else { break };
            if hides && !self.queues[at].shares.is_empty() {
                self.seen.fair_takes += u64::from(next != oldest);
                self.seen.oldest_takes += u64::from(next == oldest && self.queues[at].takes == 0);
            }
            if !self.dead_letters(at, uid, &mut moves) {
                taken.push(uid);
            }
        }
        taken
    }

    /// Group after group as they became servable, of each as many as stand before its first hidden message.
    fn take_fifo(&mut self, at: usize, max: usize) -> Vec<u64> {
        let queue = &self.queues[at];
        self.seen.blocked_groups += u64::from(queue.messages.iter().any(|message| {
            !message.hidden
                && !queue
                    .servable
                    .iter()
                    .any(|group| Some(group) == message.group.as_ref())
        }));
        let mut taken = Vec::new();
        let mut moves = 0;
        for group in queue.servable.clone() {
            let of_group = self.queues[at]
                .messages
                .iter()
                .filter(|m| m.group.as_ref() == Some(&group));
            let before_hidden: Vec<u64> = of_group.take_while(|m| !m.hidden).map(|m| m.uid).collect();
            for uid in before_hidden {
                if taken.len() == max {
                    return taken;
                }
                if !self.dead_letters(at, uid, &mut moves) {
                    taken.push(uid);
                }
            }
        }
        taken
    }

    /// Moves the message to the dead-letter queue if it was received too often and there is one to move it to.
    fn dead_letters(&mut self, at: usize, uid: u64, moves: &mut usize) -> bool {
        let queue = &self.queues[at];
        let place = queue.place(uid);
        let Some(policy) = queue.redrive_policy() else {
            return false;
        };
        if queue.messages[place].receives_here < policy.max_receive_count || *moves == MOVES_MAX {
            return false;
        }
        let target = self
            .queues
            .iter()
            .position(|other| other.key == policy.dead_letter_queue);
        let Some(target) = target.filter(|other| self.queues[*other].is_fifo() == queue.is_fifo()) else {
            self.seen.moves_refused += 1;
            return false;
        };
        let source = queue.key.clone();
        let message = self.queues[at].messages.remove(place);
        let is_fifo = self.queues[at].is_fifo();
        self.leaves_tasks(uid);
        self.queues[target].enter(Message {
            sequence: None,
            age_from: if is_fifo { self.now } else { message.age_from },
            hidden: false,
            leased: false,
            receives_here: 0,
            token: None,
            source: Some(source),
            ..message
        });
        self.queues[at].order_groups();
        self.queues[target].order_groups();
        *moves += 1;
        self.seen.moves += 1;
        true
    }

    fn deliver(
        &mut self,
        context: &Context,
        at: usize,
        uid: u64,
        visible_at: u64,
        delivery: &Delivery,
    ) -> Verdict {
        let now = self.now;
        let queue = &mut self.queues[at];
        let place = queue.place(uid);
        must_be("queue of a handle", &delivery.handle.queue, &queue.id)?;
        queue.learn_sequence(place, delivery.handle.sequence.0)?;
        if delivery.handle.token.0 <= queue.top_token {
            return Err(format!(
                "lease token {} after {}",
                delivery.handle.token, queue.top_token
            ));
        }
        queue.top_token = delivery.handle.token.0;
        let message = &mut queue.messages[place];
        message.token = Some(delivery.handle.token.0);
        message.receive_count += 1;
        message.receives_here += 1;
        message.received_at = now;
        message.visible_at = visible_at;
        message.hidden = visible_at > now;
        message.leased = true;
        let first_received = *message.first_received.get_or_insert(context.wall.as_millis());
        must_be("receive count", &delivery.receive_count, &message.receive_count)?;
        must_be("sent time", &delivery.sent.as_millis(), &message.sent)?;
        must_be(
            "first receive time",
            &delivery.first_received.as_millis(),
            &first_received,
        )?;
        must_be(
            "dead-letter source",
            &delivery.dead_letter_source,
            &message.source,
        )?;
        must_be(
            "payload",
            &(delivery.payload, delivery.content_bytes),
            &message.payload,
        )?;
        message.learn_id(&mut self.ids, delivery.message_id)?;
        self.seen.deliveries += 1;
        self.seen.redeliveries += u64::from(message.receive_count > 1);
        self.seen.received_from_dlq += u64::from(message.source.is_some());
        Ok(())
    }
}

impl Message {
    /// Takes note of the id that the message shows: a new one if a task moved it, and then always the same.
    fn learn_id(&mut self, used: &mut BTreeSet<[u8; 16]>, shown: Option<MessageId>) -> Verdict {
        match (self.new_id, shown) {
            (NewId::None, None) => Ok(()),
            (NewId::Known(known), Some(id)) if known == id => Ok(()),
            (NewId::Unknown, Some(id)) if used.insert(*id.as_bytes()) => {
                self.new_id = NewId::Known(id);
                Ok(())
            }
            (expected, shown) => Err(format!("shows the id {shown:?} where {expected:?} was expected")),
        }
    }
}

impl super::Queue {
    fn place(&self, uid: u64) -> usize {
        self.messages
            .iter()
            .position(|message| message.uid == uid)
            .expect("the message is in the queue")
    }

    fn by_uid(&self, uid: u64) -> &Message {
        &self.messages[self.place(uid)]
    }

    /// Takes note of the sequence that a message shows, which must fit between its neighbours and never change.
    fn learn_sequence(&mut self, place: usize, sequence: u64) -> Verdict {
        let (before, after) = self.messages.split_at(place);
        let known = after[0].sequence;
        let lower = before.iter().filter_map(|message| message.sequence).max();
        let higher = after[1..].iter().filter_map(|message| message.sequence).min();
        if known.is_some_and(|known| known != sequence)
            || lower.is_some_and(|lower| lower >= sequence)
            || higher.is_some_and(|higher| higher <= sequence)
        {
            return Err(format!(
                "sequence {sequence} where {known:?} stood, between {lower:?} and {higher:?}"
            ));
        }
        self.messages[place].sequence = Some(sequence);
        self.top_sequence = self.top_sequence.max(sequence);
        Ok(())
    }
}
