//! A connection that receives, checks and deletes.

use std::time::Instant;

use bytes::Bytes;

use super::answer::{self, BatchResult, Received};
use super::ledger::Receipt;
use super::load::{Phase, Shared};
use super::queue::VISIBILITY_SECONDS;
use super::request;
use super::sender::pause_after;
use super::tally::Operation;
use crate::sqs::{Action, CallError, Client};

/// How long a receive waits for a message.
const WAIT_SECONDS: u32 = 1;

/// One receiver of a run.
pub(crate) struct Receiver {
    load: Shared,
    client: Client,
}

/// Permits for messages of one receive; those that are not used go back.
struct Turn {
    intended: Instant,
    count: u16,
    is_counted: bool,
}

impl Receiver {
    pub(crate) fn new(load: Shared) -> Self {
        Self {
            client: load.target.client(),
            load,
        }
    }

    /// Receives until there is nothing more to receive, or the time is over.
    pub(crate) async fn run(mut self) {
        while let Some(turn) = self.turn().await {
            let input = request::receive(&self.load.queue.url, turn.count, VISIBILITY_SECONDS, WAIT_SECONDS);
            let answer = tokio::select! {
                biased;
                answer = self.client.call(Action::ReceiveMessage, input) => answer,
                () = self.load.over() => return,
            };
            let received = self.take(answer, turn.intended).await;
            if let (true, Some(surplus)) = (turn.is_counted, &self.load.surplus) {
                surplus.add_permits(usize::from(turn.count).saturating_sub(received));
            }
            self.end_if_complete();
        }
    }

    /// Receives all there is without waiting for more.
    pub(crate) async fn drain(mut self) {
        while self.receive_untimed(0).await > 0 {}
    }

    /// Receives once, and returns how many messages that were.
    pub(crate) async fn receive_untimed(&mut self, wait_seconds: u32) -> usize {
        let started = Instant::now();
        let input = request::receive(&self.load.queue.url, 10, VISIBILITY_SECONDS, wait_seconds);
        let answer = self.client.call(Action::ReceiveMessage, input).await;
        self.take(answer, started).await
    }

    /// Asks the server how many messages there are.
    pub(crate) async fn messages_left(&mut self) -> Option<u64> {
        let left = self.load.queue.messages(&mut self.client).await;
        left.inspect_err(|error| self.load.note_error(error)).ok()
    }

    /// Waits until the next receive may start.
    async fn turn(&self) -> Option<Turn> {
        let load = &self.load;
        let batch = load.scenario.batch;
        let is_paced = load.scenario.senders() == 0;
        let intended = match &load.pace {
            Some(pace) if is_paced => load.window()?.opened() + pace.next().await?,
            Some(_) | None => Instant::now(),
        };
        let last = if is_paced { Phase::Running } else { Phase::AllSent };
        if load.phase() > last {
            return None;
        }
        let mut turn = Turn {
            intended,
            count: batch,
            is_counted: false,
        };
        if let Some(surplus) = &load.surplus
            && let Ok(permit) = surplus.acquire().await
        {
            permit.forget();
            turn.intended = Instant::now();
            turn.is_counted = true;
            turn.count = 1;
            while turn.count < batch
                && let Ok(permit) = surplus.try_acquire()
            {
                permit.forget();
                turn.count += 1;
            }
        }
        Some(turn)
    }

    /// Checks and deletes what a receive brought, and returns how many messages that were.
    async fn take(&mut self, answer: Result<Bytes, CallError>, intended: Instant) -> usize {
        match self.try_take(answer, intended).await {
            Ok(count) => count,
            Err(error) => {
                self.load.note_error(&error);
                pause_after(&error).await;
                0
            }
        }
    }

    async fn try_take(
        &mut self,
        answer: Result<Bytes, CallError>,
        intended: Instant,
    ) -> Result<usize, CallError> {
        let output = answer?;
        let received: Received<'_> = answer::read(&output)?;
        let count = received.messages.len();
        self.load.note_request(Operation::Receive, intended, count as u64);
        let handles = self.check(&received);
        if !handles.is_empty() {
            self.delete(&handles).await?;
        }
        Ok(count)
    }

    /// Enters messages into the ledger and returns the handles of those to delete.
    fn check<'a>(&self, received: &'a Received<'_>) -> Vec<&'a str> {
        let load = &self.load;
        let now = load.since_origin(Instant::now());
        let (mut handles, mut first) = (Vec::new(), 0);
        let mut ledger = load.ledger();
        for message in &received.messages {
            let stamp = load.bodies.read(&message.body);
            let receipt = stamp.map_or(Receipt::Unknown, |stamp| ledger.receive(&stamp));
            if stamp.is_none() {
                ledger.receive_wrong();
            }
            // What is not ours is left alone in a queue that is not ours.
            if receipt != Receipt::Unknown || load.queue.is_own {
                handles.push(&*message.receipt_handle);
            }
            let (Receipt::First, Some(stamp)) = (receipt, stamp) else {
                continue;
            };
            first += 1;
            if stamp.producer < load.scenario.senders() && load.scenario.receivers() > 0 {
                let latency = now.saturating_sub(stamp.intended);
                load.tally().note_latency(Operation::EndToEnd, latency);
            }
        }
        drop(ledger);
        if let Some(room) = load.room.as_ref().filter(|room| !room.is_closed()) {
            room.add_permits(first);
        }
        handles
    }

    async fn delete(&mut self, handles: &[&str]) -> Result<(), CallError> {
        let started = Instant::now();
        let (action, input) = request::delete(&self.load.queue.url, handles);
        let output = self.client.call(action, input).await?;
        self.load.note_request(Operation::Delete, started, 0);
        if action == Action::DeleteMessageBatch {
            let result: BatchResult = answer::read(&output)?;
            result
                .failed
                .iter()
                .for_each(|failed| self.load.note_error(&failed.into()));
        }
        Ok(())
    }

    /// Ends the run when everything that was to be received was.
    fn end_if_complete(&self) {
        let load = &self.load;
        if load.scenario.senders() > 0 {
            if load.phase() == Phase::AllSent && load.ledger().missing() == 0 {
                load.end();
            }
            return;
        }
        let is_enough = load
            .scenario
            .messages
            .is_some_and(|messages| load.tally().received >= messages);
        if is_enough {
            load.stop();
        }
        if load.ledger().missing() == 0 {
            load.end();
        }
    }
}
