//! What changes for an owner when it begins or ceases to reign: when the journal lets this process propose, or another.

use std::mem::discriminant;
use std::time::Duration;

use queue_core::Command;

use crate::batch::Batches;
use crate::owner::{Now, Owner, Turn};
use crate::replay::Recovered;
use crate::request::{Input, Reply, Request};
use crate::waiters::Waiter;

impl<R> Owner<R> {
    /// Begins to reign, or goes on after a while in which this process was not sure of it.
    pub fn reign(&mut self) {
        if !std::mem::replace(&mut self.is_reigning, true) {
            self.quiet_until = Duration::ZERO;
        }
    }

    /// Refuses whatever comes, while another process may reign. Receives that wait go on waiting.
    pub fn suspend(&mut self) {
        self.is_reigning = false;
    }

    /// Ends the reign: whoever waits is told how long it has still to wait elsewhere. Batches that are on their way
    /// stay until their outcome is known.
    pub fn end_reign(&mut self, now: Now, turn: &mut Turn<R>) {
        self.is_reigning = false;
        self.monotonic = now.monotonic;
        let woken = std::mem::take(&mut self.woken);
        let parked = std::iter::from_fn(|| self.waiters.pop());
        let sent_on = |waiter: Waiter<R>| {
            let wait_left = Some(waiter.deadline.saturating_sub(now.monotonic));
            (waiter.reply, Reply::NotLeader { wait_left })
        };
        turn.replies.extend(woken.into_iter().chain(parked).map(sent_on));
        let reads = self.reads.drain(..).map(|(_, reply, _)| (reply, NOT_LEADER));
        turn.replies.extend(reads);
        self.refuse(turn);
    }

    /// Goes on with another state, which came from another node. Nobody waits any more, and nothing is on its way.
    pub fn replace(&mut self, recovered: Recovered, now: Now, turn: &mut Turn<R>) {
        self.abandon_all(&Reply::Unknown, turn);
        self.end_reign(now, turn);
        let gone = std::mem::take(&mut self.with_policy).into_values();
        turn.policies.extend(gone.map(|key| (key, None)));
        let mut fresh = Self::new(recovered, self.limits, now);
        fresh.is_reigning = false;
        fresh.batches = std::mem::replace(&mut self.batches, Batches::new(1));
        fresh.releases = std::mem::take(&mut self.releases);
        fresh.last_arrival = self.last_arrival;
        fresh.polls_ended = self.polls_ended;
        fresh.sends_refused = self.sends_refused;
        *self = fresh;
        let policies = self
            .policies()
            .map(|(key, text)| (key.clone(), Some(text.into())));
        turn.policies.extend(policies);
        turn.has_new_seal_keys = true;
    }

    /// Whether a command of this kind is on its way.
    pub(crate) fn is_proposing(&self, command: &Command) -> bool {
        let kind = discriminant(command);
        self.batches.has(|proposed| discriminant(proposed) == kind)
    }

    /// Returns the takes that are to be undone or hidden, for the one that reigns.
    pub(crate) fn take_releases(&mut self) -> Vec<Request> {
        let request = |command| {
            if let Command::GiveBack { queue, handles } = command {
                Some(Request::GiveBack { queue, handles })
            } else if let Command::Withhold { queue, handles } = command {
                Some(Request::Withhold { queue, handles })
            } else {
                None
            }
        };
        self.releases.drain(..).filter_map(request).collect()
    }

    /// Refuses what waits to become a command. What undoes a take is kept.
    pub(crate) fn refuse(&mut self, turn: &mut Turn<R>) {
        for Input { request, reply } in std::mem::take(&mut self.carried) {
            let answer = if let Request::GiveBack { queue, handles } = request {
                self.releases.push(Command::GiveBack { queue, handles });
                Reply::Done
            } else if let Request::Withhold { queue, handles } = request {
                self.releases.push(Command::Withhold { queue, handles });
                Reply::Done
            } else if matches!(request, Request::EndPolls) {
                self.end_polls(turn);
                Reply::Done
            } else {
                NOT_LEADER
            };
            turn.replies.extend(reply.map(|reply| (reply, answer)));
        }
    }
}

/// The answer to whoever was not waiting yet.
const NOT_LEADER: Reply = Reply::NotLeader { wait_left: None };
