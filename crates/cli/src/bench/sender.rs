//! A connection that sends.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::answer::{self, BatchResult};
use super::load::Shared;
use super::request;
use super::stamp::Stamp;
use super::tally::Operation;
use crate::sqs::{Action, CallError, Client};

/// How long a connection waits after a request without an answer.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// One sender of a run.
pub(crate) struct Sender {
    load: Shared,
    client: Client,
    /// Its number in the ledger.
    producer: u16,
    /// Its place among the senders at work with it, and how many they are.
    place: (u16, u16),
}

impl Sender {
    /// Returns a sender of the part that is measured.
    pub(crate) fn measured(load: Shared, place: u16) -> Self {
        let of = load.scenario.senders();
        Self::new(load, place, (place, of))
    }

    /// Returns a sender of the backlog.
    pub(crate) fn untimed(load: Shared, place: u16) -> Self {
        let producer = load.scenario.senders() + place;
        let of = load.untimed_connections();
        Self::new(load, producer, (place, of))
    }

    fn new(load: Shared, producer: u16, place: (u16, u16)) -> Self {
        Self {
            client: load.target.client(),
            load,
            producer,
            place,
        }
    }

    /// Sends until everything was sent or the time is over.
    pub(crate) async fn run(mut self) {
        let batch = u64::from(self.load.scenario.batch);
        while let Some(intended) = self.turn().await {
            let count = self.load.take(batch);
            if count == 0 {
                return;
            }
            let sent = self.send(count, intended).await;
            if let Some(surplus) = &self.load.surplus {
                surplus.add_permits(usize::try_from(sent).unwrap_or_default());
            }
            if let Some(room) = &self.load.room {
                // Nobody will receive those that were not sent, nor those that the last batch was short of.
                room.add_permits(usize::try_from(batch - sent).unwrap_or_default());
            }
        }
    }

    /// Waits until the next request may start, and returns when it was to.
    async fn turn(&self) -> Option<Instant> {
        if let Some(pace) = &self.load.pace {
            let since_opened = pace.next().await?;
            let opened = self.load.window()?.opened();
            return Some(opened + since_opened);
        }
        if let Some(room) = &self.load.room {
            room.acquire_many(u32::from(self.load.scenario.batch))
                .await
                .ok()?
                .forget();
        }
        self.load.is_running().then(Instant::now)
    }

    /// Sends so many messages in one request, and returns how many were acknowledged.
    pub(crate) async fn send(&mut self, count: u64, intended: Instant) -> u64 {
        let load = &self.load;
        let first = load.ledger().begin(self.producer, count);
        let stamps: Vec<Stamp> = (first..first + count)
            .map(|sequence| self.stamp(sequence, intended))
            .collect();
        let (action, input) = request::send(&load.queue.url, &load.bodies, &stamps, load.scenario.fifo);
        match self.client.call(action, input).await {
            Ok(output) => {
                let load = &self.load;
                let acknowledged = acknowledged(action, &output, count);
                let (acknowledged, errors) = acknowledged.unwrap_or_else(|error| (Vec::new(), vec![error]));
                let sent = acknowledged.len() as u64;
                // Those that are refused as part of an answer come after the success of the whole.
                load.note_request(Operation::Send, intended, sent);
                errors.iter().for_each(|error| load.note_error(error));
                let mut ledger = load.ledger();
                acknowledged
                    .iter()
                    .for_each(|place| ledger.acknowledge(self.producer, first + place));
                drop(ledger);
                sent
            }
            Err(error) => {
                self.load.note_error(&error);
                pause_after(&error).await;
                0
            }
        }
    }

    fn stamp(&self, sequence: u64, intended: Instant) -> Stamp {
        let (place, of) = self.place;
        Stamp {
            run: self.load.run,
            producer: self.producer,
            sequence,
            group: group_of(sequence, place, of, self.load.scenario.groups.unwrap_or(1)),
            intended: self.load.since_origin(intended),
        }
    }
}

/// Waits a little where the server does not answer, so that it is not flooded with connections.
pub(crate) async fn pause_after(error: &CallError) {
    match error {
        CallError::NoAnswer { .. } => tokio::time::sleep_until(tokio::time::Instant::now() + PAUSE).await,
        CallError::Refused { .. } | CallError::Unreadable(_) => {}
    }
}

/// Returns the places of the messages that an answer acknowledges, and what it says of the others.
fn acknowledged(action: Action, output: &[u8], count: u64) -> Result<(Vec<u64>, Vec<CallError>), CallError> {
    if action != Action::SendMessageBatch {
        return Ok(((0..count).collect(), Vec::new()));
    }
    let result: BatchResult = answer::read(output)?;
    let places = result.successful.iter().filter_map(answer::Successful::place);
    // A set, because an answer may name an entry twice.
    let places: BTreeSet<u64> = places.filter(|place| *place < count).collect();
    let mut errors: Vec<CallError> = result.failed.iter().map(CallError::from).collect();
    if places.len() + errors.len() != usize::try_from(count).unwrap_or_default() {
        errors.push(CallError::Unreadable(
            "an answer to a batch that does not name each entry once".to_owned(),
        ));
    }
    Ok((places.into_iter().collect(), errors))
}

/// Returns the group of a message. With enough groups each has one sender, so that its whole order is known.
fn group_of(sequence: u64, place: u16, of: u16, groups: u32) -> u32 {
    let (place, of) = (u32::from(place), u32::from(of));
    let number = |count: u32| u32::try_from(sequence % u64::from(count)).expect("below a u32");
    if groups < of {
        number(groups)
    } else {
        place + of * number((groups - place).div_ceil(of))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn all_groups_are_used_and_each_has_one_sender_where_there_are_enough() {
        for (of, groups) in [(1, 1), (3, 10), (4, 4), (16, 100)] {
            let mut senders = BTreeMap::new();
            for place in 0..of {
                for sequence in 0..200 {
                    let group = group_of(sequence, place, of, groups);
                    assert_eq!(*senders.entry(group).or_insert(place), place);
                }
            }
            assert_eq!(
                senders.into_keys().collect::<Vec<_>>(),
                (0..groups).collect::<Vec<_>>()
            );
        }
        let shared: Vec<u32> = (0..4).map(|sequence| group_of(sequence, 7, 16, 2)).collect();
        assert_eq!(shared, [0, 1, 0, 1]);
    }

    #[test]
    fn a_batch_may_be_acknowledged_in_part() {
        let output =
            br#"{"Successful":[{"Id":"0"},{"Id":"2"}],"Failed":[{"Id":"1","Code":"InternalError"}]}"#;
        let (places, errors) = acknowledged(Action::SendMessageBatch, output, 3).unwrap();
        assert_eq!(places, [0, 2]);
        assert_eq!(
            errors.iter().map(CallError::code).collect::<Vec<_>>(),
            ["InternalError"]
        );
        let (places, errors) =
            acknowledged(Action::SendMessageBatch, br#"{"Successful":[{"Id":"9"}]}"#, 3).unwrap();
        assert_eq!((places.len(), errors.len()), (0, 1));
        let output = br#"{"Successful":[{"Id":"1"},{"Id":"1"}]}"#;
        let (places, errors) = acknowledged(Action::SendMessageBatch, output, 1).unwrap();
        assert_eq!((places.len(), errors.len()), (0, 1));
        let (places, errors) = acknowledged(Action::SendMessageBatch, output, 2).unwrap();
        assert_eq!((places.len(), errors.len()), (1, 1));
        assert!(acknowledged(Action::SendMessageBatch, b"<html>", 3).is_err());
        assert_eq!(
            acknowledged(Action::SendMessage, b"{}", 1),
            Ok((vec![0], Vec::new()))
        );
    }
}
