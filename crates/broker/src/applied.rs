//! What an owner does when the journal says what became of entries: it applies those that are durable, whoever proposed
//! them, and answers the clients of its own.

use std::time::Duration;

use journal::{Place, ReplayError, Ticket};
use queue_core::{Command, Effect, Entry, Outcome, QueueError, entry_hash};
use types::{LogIndex, QueueKey, Timestamp};

use crate::agreement::COMPARED_EVERY;
use crate::batch::{Batch, Origin, Pending};
use crate::owner::{Now, Owner, QUIET, Turn, missing};
use crate::request::{Reply, Taken};
use crate::waiters::Waiter;
use crate::written::Written;

impl<R> Owner<R> {
    /// Names the batch that was made last: the journal has taken it.
    pub fn proposed(&mut self, ticket: Ticket) {
        self.batches.name_newest(ticket);
    }

    /// Applies the oldest batch, which is now durable under `index`, and answers its clients. `place` is where the bytes
    /// of its entry lie on this node.
    pub fn commit(&mut self, index: LogIndex, place: Option<Place>, now: Now, turn: &mut Turn<R>) {
        if let Some(batch) = self.batches.pop_oldest() {
            self.apply_batch(batch, index, place, now, turn);
        }
    }

    /// Does the same for the batch of a proposal. Returns whether there is one.
    pub fn commit_proposal(
        &mut self,
        ticket: Ticket,
        (index, place): (LogIndex, Option<Place>),
        now: Now,
        turn: &mut Turn<R>,
    ) -> bool {
        let batch = self.batches.take(ticket);
        let is_known = batch.is_some();
        if let Some(batch) = batch {
            self.apply_batch(batch, index, place, now, turn);
        }
        is_known
    }

    fn apply_batch(
        &mut self,
        batch: Batch<R>,
        index: LogIndex,
        place: Option<Place>,
        now: Now,
        turn: &mut Turn<R>,
    ) {
        self.monotonic = now.monotonic;
        self.quiet_until = Duration::ZERO;
        turn.commit.commands += batch.commands.len() as u64;
        turn.commit.entry_bytes += batch.entry_bytes;
        let is_compared = self.advance_to(index);
        self.last_wall = batch.wall;
        let times = (batch.at, batch.wall);
        let written = (index, place);
        let mut written = Written::begin(&mut self.partition, batch.entry_hash, written, batch.contents);
        let mut received_from = Vec::new();
        let mut commands = batch.commands;
        for Pending { command, origin } in commands.drain(..) {
            let applied = written.apply(&mut self.partition, &mut self.contents, times, &command);
            self.follow(&command, &applied.effects, turn);
            turn.commit.count(&command, &applied.outcome);
            if let Command::Receive { queue, .. } = command {
                received_from.push(queue);
            }
            self.answer(origin, applied.outcome, now, turn);
        }
        self.reuse(commands);
        self.wake_for_the_rest(received_from);
        self.settle(batch.at, batch.has_tick, turn);
        if is_compared {
            turn.checkpoints.extend(self.checkpoint());
        }
    }

    /// Applies the entry of another proposer. What it asks for outside the state is done, and nobody is answered.
    pub fn commit_foreign(
        &mut self,
        index: LogIndex,
        bytes: &[u8],
        place: Option<Place>,
        now: Now,
        turn: &mut Turn<R>,
    ) -> Result<(), ReplayError> {
        let (entry, contents) = Entry::decode_with_places(bytes)?;
        self.monotonic = now.monotonic;
        let is_compared = self.advance_to(index);
        self.last_wall = entry.wall;
        // Its proposer counts it.
        let counted = turn.commit;
        let hash = entry_hash(bytes);
        let mut written = Written::begin(&mut self.partition, hash, (index, place), contents);
        for command in &entry.commands {
            let times = (entry.at, entry.wall);
            let applied = written.apply(&mut self.partition, &mut self.contents, times, command);
            self.follow(command, &applied.effects, turn);
        }
        turn.commit = counted;
        self.clock
            .follow(self.partition.clock(), entry.wall, now.wall, now.monotonic);
        let has_tick = entry
            .commands
            .iter()
            .any(|command| matches!(command, Command::Tick));
        self.settle(entry.at, has_tick, turn);
        if is_compared {
            turn.checkpoints.extend(self.checkpoint());
        }
        Ok(())
    }

    /// Returns whether nodes compare what they came to after this entry.
    fn advance_to(&mut self, index: LogIndex) -> bool {
        assert!(index > self.index, "entry {index} after {}", self.index);
        let before = std::mem::replace(&mut self.index, index);
        index.0 / COMPARED_EVERY != before.0 / COMPARED_EVERY
    }

    /// Does what follows every entry: more ticks while one was not enough, and reads that waited for timers.
    fn settle(&mut self, at: Timestamp, has_ticked: bool, turn: &mut Turn<R>) {
        let is_backlog = self.partition.next_expiry().is_some_and(|expiry| expiry <= at);
        if has_ticked && is_backlog {
            // One tick was not enough for what has expired: go on at once.
            self.cleanup_from = Timestamp::ZERO;
        }
        for (key, reply, asked_at) in std::mem::take(&mut self.reads) {
            self.describe(key, reply, asked_at, turn);
        }
    }

    /// Answers the clients of the batch that was made last: the journal has not taken it.
    pub fn abandon(&mut self, reply: &Reply, turn: &mut Turn<R>) {
        if let Some(batch) = self.batches.pop_newest() {
            self.give_up(batch, reply, turn);
        }
    }

    /// Does the same for the batch of a proposal that was not committed. Returns whether there is one.
    pub fn abandon_proposal(&mut self, ticket: Ticket, reply: &Reply, turn: &mut Turn<R>) -> bool {
        let batch = self.batches.take(ticket);
        let is_known = batch.is_some();
        if let Some(batch) = batch {
            self.give_up(batch, reply, turn);
        }
        is_known
    }

    /// Does the same for all batches that have no outcome.
    pub fn abandon_all(&mut self, reply: &Reply, turn: &mut Turn<R>) {
        while let Some(batch) = self.batches.pop_oldest() {
            self.give_up(batch, reply, turn);
        }
    }

    fn give_up(&mut self, batch: Batch<R>, reply: &Reply, turn: &mut Turn<R>) {
        self.quiet_until = batch.monotonic + QUIET;
        let mut woken_for = Vec::new();
        for Pending { command, origin } in batch.commands {
            match (origin, command) {
                // Tried again: a second time does nothing if the first one counts after all.
                (Origin::Nobody, command @ (Command::GiveBack { .. } | Command::Withhold { .. })) => {
                    self.releases.push(command);
                }
                (Origin::Nobody, _) => {}
                (Origin::Client(client), _) => {
                    turn.replies.push((client, self.refusal(reply, None)));
                }
                (Origin::Waiter(waiter), _) => {
                    woken_for.push(waiter.queue);
                    let reply = self.refusal(reply, Some(&waiter));
                    turn.replies.push((waiter.reply, reply));
                }
            }
        }
        self.wake_for_the_rest(woken_for);
        if batch.has_tick {
            for (_, client, _) in std::mem::take(&mut self.reads) {
                turn.replies.push((client, self.refusal(reply, None)));
            }
        }
    }

    /// Says of what was not done where it can be done, if that is not here.
    fn refusal(&self, reply: &Reply, waiter: Option<&Waiter<R>>) -> Reply {
        if *reply == Reply::NotTaken && !self.is_reigning {
            let wait_left = waiter.map(|waiter| waiter.deadline.saturating_sub(self.monotonic));
            return Reply::NotLeader { wait_left };
        }
        reply.clone()
    }

    /// Does outside the state what a command asks for.
    fn follow(&mut self, command: &Command, effects: &[Effect], turn: &mut Turn<R>) {
        for effect in effects {
            match effect {
                Effect::Available(queue) => self.woken.extend(self.waiters.wake(*queue)),
                Effect::Freed { .. } => {}
                Effect::DeadLettered { .. } => turn.commit.dead_lettered += 1,
                Effect::QueueDeleted(queue) => {
                    while let Some(waiter) = self.waiters.wake(*queue) {
                        turn.replies.push((waiter.reply, missing()));
                    }
                }
            }
        }
        if matches!(command, Command::Compare) {
            turn.states.push((self.index, self.partition.snapshot()));
        }
        turn.has_new_seal_keys |= matches!(command, Command::AddSealKey { .. });
        self.follow_policy(command, turn);
    }

    /// Says which queue's policy a command changed.
    fn follow_policy(&mut self, command: &Command, turn: &mut Turn<R>) {
        let id = match command {
            Command::CreateQueue { key, .. } => self.partition.queue_id(key),
            Command::SetQueueAttributes { queue, .. } | Command::DeleteQueue { queue } => Some(*queue),
            Command::PurgeQueue { .. }
            | Command::Enqueue { .. }
            | Command::Receive { .. }
            | Command::Delete { .. }
            | Command::ChangeVisibility { .. }
            | Command::GiveBack { .. }
            | Command::Withhold { .. }
            | Command::Discard { .. }
            | Command::TagQueue { .. }
            | Command::UntagQueue { .. }
            | Command::StartMoveTask { .. }
            | Command::CancelMoveTask { .. }
            | Command::Tick
            | Command::SetLimits { .. }
            | Command::AddSealKey { .. }
            | Command::RaiseLevel { .. }
            | Command::Compare => None,
            #[cfg(feature = "next-level")]
            Command::OfNextLevel => None,
        };
        let Some(id) = id else { return };
        let queue = self.partition.queue(id);
        let policy = queue.and_then(|queue| Some((queue.key(), queue.attributes().policy.as_deref()?)));
        if let Some((key, policy)) = policy {
            turn.policies.push((key.clone(), Some(policy.into())));
            self.with_policy.insert(id, key.clone());
        } else if let Some(key) = self.with_policy.remove(&id) {
            turn.policies.push((key, None));
        }
    }

    /// Returns the policies of all queues that have one.
    pub fn policies(&self) -> impl Iterator<Item = (&QueueKey, &str)> {
        let queues = self.with_policy.keys().filter_map(|id| self.partition.queue(*id));
        queues.filter_map(|queue| Some((queue.key(), queue.attributes().policy.as_deref()?)))
    }

    /// Tells whoever waits for a command what it came to.
    fn answer(
        &mut self,
        origin: Origin<R>,
        outcome: Result<Outcome, QueueError>,
        now: Now,
        turn: &mut Turn<R>,
    ) {
        let reply = match outcome {
            Err(error) => Reply::Refused(error),
            Ok(Outcome::Done | Outcome::Queue(_)) => Reply::Done,
            Ok(Outcome::Enqueued(results)) => Reply::Enqueued(results),
            Ok(Outcome::Entries(results)) => Reply::Entries(results),
            Ok(Outcome::Moved(moved)) => Reply::Moved(moved),
            Ok(Outcome::Received(deliveries)) => {
                let with_content = |delivery: queue_core::Delivery| {
                    let content = self.contents.get(delivery.handle.slot, delivery.content_bytes);
                    Taken {
                        delivery,
                        content,
                        file: None,
                    }
                };
                Reply::Received(deliveries.into_iter().map(with_content).collect())
            }
        };
        match origin {
            Origin::Nobody => {}
            Origin::Client(client) => turn.replies.push((client, reply)),
            Origin::Waiter(waiter) => self.answer_waiter(waiter, reply, now, turn),
        }
    }

    fn answer_waiter(&mut self, waiter: Waiter<R>, reply: Reply, now: Now, turn: &mut Turn<R>) {
        let found_nothing = matches!(&reply, Reply::Received(messages) if messages.is_empty());
        if !found_nothing || self.polls_ended || waiter.deadline <= now.monotonic {
            turn.replies.push((waiter.reply, reply));
        } else if !self.is_reigning {
            let reply = self.refusal(&Reply::NotTaken, Some(&waiter));
            turn.replies.push((waiter.reply, reply));
        } else {
            self.waiters.park(waiter);
        }
    }
}
