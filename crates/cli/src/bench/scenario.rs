//! What is measured: arguments that were checked together.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use types::limits::BATCH_BYTES_MAX;

use super::arguments::{Arguments, Verb};
use super::quantity::grouped;
use super::stamp::STAMP_BYTES;
use crate::failure::{Failure, Kind};

const DURATION_SECONDS: f64 = 10.0;
const RECEIVE_MESSAGES: u64 = 20_000;
const GROUPS: u32 = 100;

/// Everything that two runs must have in common to be compared; it is part of the output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) verb: Verb,
    /// Messages per second; none in a closed loop.
    pub(crate) rate: Option<u64>,
    pub(crate) size_bytes: u64,
    pub(crate) connections: u16,
    pub(crate) threads: u16,
    pub(crate) duration_seconds: Option<f64>,
    pub(crate) messages: Option<u64>,
    pub(crate) batch: u16,
    pub(crate) fifo: bool,
    pub(crate) groups: Option<u32>,
    pub(crate) depth: u64,
}

impl Scenario {
    /// Checks what the arguments mean together.
    pub(crate) fn new(verb: Verb, arguments: &Arguments) -> Result<Self, Failure> {
        let is_receive = verb == Verb::Receive;
        let messages = arguments.messages.or(is_receive.then_some(RECEIVE_MESSAGES));
        let scenario = Self {
            verb,
            rate: arguments.rate,
            size_bytes: arguments.size,
            connections: arguments.connections,
            threads: arguments.threads,
            duration_seconds: arguments
                .duration
                .or(messages.is_none().then_some(DURATION_SECONDS)),
            messages,
            batch: arguments.batch,
            fifo: arguments.fifo,
            groups: arguments.fifo.then(|| arguments.groups.unwrap_or(GROUPS)),
            depth: arguments.depth,
        };
        scenario.check()?;
        if let Some(queue) = &arguments.queue
            && queue.is_fifo() != scenario.fifo
        {
            let (is, hint) = if scenario.fifo {
                ("is none", "name one that ends in .fifo, or leave out --fifo")
            } else {
                ("is one", "add --fifo")
            };
            let what = format!("--queue {queue} does not fit the measurement");
            return Err(usage(
                what,
                format!("--fifo says whether it is a FIFO queue, and it {is}"),
                hint,
            ));
        }
        Ok(scenario)
    }

    fn check(&self) -> Result<(), Failure> {
        let stamp = STAMP_BYTES as u64;
        if self.size_bytes < stamp {
            return Err(usage(
                format!("--size {} is too small", self.size_bytes),
                format!("bench writes {stamp} bytes into each body, to know the message again"),
                format!("give at least --size {stamp}"),
            ));
        }
        let request_bytes = self.size_bytes.saturating_mul(u64::from(self.batch));
        if request_bytes > BATCH_BYTES_MAX {
            return Err(usage(
                format!(
                    "--batch {} of --size {} is too large",
                    self.batch, self.size_bytes
                ),
                format!(
                    "the bodies of a request may have {} bytes together, and these have {}",
                    grouped(BATCH_BYTES_MAX),
                    grouped(request_bytes)
                ),
                "make --size or --batch smaller",
            ));
        }
        if self.verb == Verb::Roundtrip && self.connections < 2 {
            return Err(usage(
                "--connections 1 is too few for roundtrip",
                "half of the connections send, the other half receive",
                "give at least --connections 2",
            ));
        }
        Ok(())
    }

    /// Returns how long is measured at most.
    pub(crate) fn duration(&self) -> Option<Duration> {
        self.duration_seconds.map(Duration::from_secs_f64)
    }

    /// Returns how many connections send while it is measured.
    pub(crate) fn senders(&self) -> u16 {
        match self.verb {
            Verb::Send => self.connections,
            Verb::Receive => 0,
            Verb::Roundtrip => self.connections.div_ceil(2),
        }
    }

    /// Returns how many connections receive while it is measured.
    pub(crate) fn receivers(&self) -> u16 {
        self.connections - self.senders()
    }

    /// Returns how many messages are sent before it is measured.
    pub(crate) fn backlog(&self) -> u64 {
        match self.verb {
            Verb::Send | Verb::Roundtrip => self.depth,
            Verb::Receive => self.depth.saturating_add(self.messages.unwrap_or_default()),
        }
    }

    /// Returns how many messages a request of the untimed parts may have.
    pub(crate) fn untimed_batch(&self) -> u16 {
        u16::try_from(BATCH_BYTES_MAX / self.size_bytes).map_or(10, |fitting| fitting.clamp(1, 10))
    }
}

fn usage(what: impl Into<String>, cause: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::new(Kind::Usage, what, cause, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(line: &str) -> Result<Scenario, String> {
        let matches = super::super::command()
            .try_get_matches_from(line.split_whitespace())
            .map_err(|error| error.to_string())?;
        let arguments = super::super::arguments(&matches);
        Scenario::new(arguments.verb.unwrap(), &arguments).map_err(|failure| failure.to_string())
    }

    #[test]
    fn defaults_follow_the_verb() {
        let send = scenario("bench send").unwrap();
        assert_eq!(
            (send.duration_seconds, send.messages, send.groups),
            (Some(10.0), None, None)
        );
        let counted = scenario("bench send --messages 5").unwrap();
        assert_eq!((counted.duration_seconds, counted.messages), (None, Some(5)));
        let receive = scenario("bench receive --depth 7 --fifo").unwrap();
        assert_eq!(
            (receive.duration_seconds, receive.backlog(), receive.groups),
            (None, 20_007, Some(100))
        );
        let roundtrip = scenario("bench roundtrip --connections 5").unwrap();
        assert_eq!((roundtrip.senders(), roundtrip.receivers()), (3, 2));
        assert_eq!(scenario("bench send --size 512KiB").unwrap().untimed_batch(), 2);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (line, reason) in [
            ("bench", "required"),
            ("bench fly", "invalid value 'fly'"),
            ("bench send --batch 11", "11 is not in 1..=10"),
            ("bench send --batch 0", "0 is not in 1..=10"),
            ("bench send --rate 0", "0 is not in 1..="),
            ("bench send --duration 0", "more than 0"),
            ("bench send --messages 0", "0 is not in 1..="),
            ("bench send --connections 0", "0 is not in 1..="),
            ("bench send --groups 5", "--fifo"),
            ("bench send --size 10", "at least --size 50"),
            ("bench send --size 200KiB --batch 10", "1,048,576 bytes together"),
            ("bench roundtrip --connections 1", "at least --connections 2"),
            ("bench send --queue a.fifo", "add --fifo"),
            ("bench send --queue a --fifo", "leave out --fifo"),
            ("bench send --queue a/b", "invalid value 'a/b'"),
            ("bench send --endpoint https://a", "only plain http://"),
            ("bench send --compare a b", "cannot be used with"),
            ("bench --compare a b --rate 5", "cannot be used with"),
            ("bench --compare a", "2 values required"),
        ] {
            let refused = scenario(line).unwrap_err();
            assert!(refused.contains(reason), "{line}: {refused}");
        }
    }
}
