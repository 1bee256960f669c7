//! The batches that were given to the journal and have no outcome yet.

use std::collections::VecDeque;
use std::time::Duration;

use journal::Ticket;
use queue_core::Command;
use types::{Timestamp, WallTime};

use crate::request::WaiterId;
use crate::waiters::Waiter;

/// A command of a batch, with who waits for its outcome.
#[derive(Debug)]
pub(crate) struct Pending<R> {
    pub(crate) command: Command,
    pub(crate) origin: Origin<R>,
}

#[derive(Debug)]
pub(crate) enum Origin<R> {
    /// Nobody is told.
    Nobody,
    /// A client that is told the outcome.
    Client(R),
    /// A receive that goes on waiting if it finds nothing.
    Waiter(Waiter<R>),
}

/// Commands that became one entry.
#[derive(Debug)]
pub(crate) struct Batch<R> {
    /// The proposal; none before the journal has taken it.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) commands: Vec<Pending<R>>,
    /// Where in the entry each content begins.
    pub(crate) contents: Vec<u32>,
    pub(crate) entry_bytes: u64,
    pub(crate) entry_hash: u64,
    pub(crate) at: Timestamp,
    pub(crate) wall: WallTime,
    /// When it was made.
    pub(crate) monotonic: Duration,
    /// Whether it ends with a tick.
    pub(crate) has_tick: bool,
}

/// Batches without an outcome, the oldest first.
#[derive(Debug)]
pub(crate) struct Batches<R> {
    in_flight: VecDeque<Batch<R>>,
    max: usize,
}

impl<R> Batches<R> {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            in_flight: VecDeque::new(),
            max,
        }
    }

    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max.max(1);
    }

    pub(crate) fn len(&self) -> usize {
        self.in_flight.len()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.in_flight.len() < self.max
    }

    /// Whether a tick is on its way: what is due will be done by it.
    pub(crate) fn has_tick(&self) -> bool {
        self.in_flight.iter().any(|batch| batch.has_tick)
    }

    /// Whether such a command is on its way.
    pub(crate) fn has(&self, is_it: impl Fn(&Command) -> bool) -> bool {
        let mut commands = self.in_flight.iter().flat_map(|batch| &batch.commands);
        commands.any(|pending| is_it(&pending.command))
    }

    pub(crate) fn push(&mut self, batch: Batch<R>) {
        self.in_flight.push_back(batch);
    }

    /// Names the newest batch.
    pub(crate) fn name_newest(&mut self, ticket: Ticket) {
        if let Some(batch) = self.in_flight.back_mut() {
            batch.ticket = Some(ticket);
        }
    }

    pub(crate) fn pop_oldest(&mut self) -> Option<Batch<R>> {
        self.in_flight.pop_front()
    }

    pub(crate) fn pop_newest(&mut self) -> Option<Batch<R>> {
        self.in_flight.pop_back()
    }

    /// Takes the batch of a proposal.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Batch<R>> {
        let is_it = |batch: &Batch<R>| batch.ticket == Some(ticket);
        let at = self.in_flight.iter().position(is_it)?;
        self.in_flight.remove(at)
    }

    /// Lets a receive end with its command: its client has gone, so it is not to wait again if it finds nothing.
    pub(crate) fn cancel(&mut self, is_gone: impl Fn(WaiterId) -> bool) {
        let commands = self.in_flight.iter_mut().flat_map(|batch| &mut batch.commands);
        for pending in commands {
            let origin = std::mem::replace(&mut pending.origin, Origin::Nobody);
            pending.origin = match origin {
                Origin::Waiter(waiter) if is_gone(waiter.id) => Origin::Client(waiter.reply),
                kept @ (Origin::Nobody | Origin::Client(_) | Origin::Waiter(_)) => kept,
            };
        }
    }
}
