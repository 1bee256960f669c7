//! What is counted while it is measured.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::report::{Errors, Latency};
use crate::sqs::CallError;

/// Latencies are kept in nanoseconds with an error of at most a thousandth.
const SIGNIFICANT_DIGITS: u8 = 3;
/// A day, which is as long as a run; longer ones count as about this.
const LATENCY_NANOS_MAX: u64 = 86_400_000_000_000;

/// What a latency is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Send,
    Receive,
    Delete,
    /// From the intended start of a send to the answer that brought the message.
    EndToEnd,
}

impl Operation {
    pub(crate) const ALL: [Self; 4] = [Self::Send, Self::Receive, Self::Delete, Self::EndToEnd];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Delete => "delete",
            Self::EndToEnd => "end_to_end",
        }
    }
}

/// Counts of one run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    latencies: BTreeMap<Operation, Histogram<u64>>,
    pub(crate) requests: u64,
    pub(crate) empty_receives: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Messages in each second of the measurement: those received, or those sent where nothing is received.
    pub(crate) each_second: Vec<u64>,
    errors: BTreeMap<String, u64>,
    first_error: Option<String>,
}

impl Tally {
    pub(crate) fn note_latency(&mut self, operation: Operation, latency: Duration) {
        let histogram = self.latencies.entry(operation).or_insert_with(empty);
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        histogram.saturating_record(nanos);
    }

    pub(crate) fn note_second(&mut self, elapsed: Duration, messages: u64) {
        let second = usize::try_from(elapsed.as_secs()).unwrap_or(usize::MAX);
        if self.each_second.len() <= second {
            self.each_second.resize(second + 1, 0);
        }
        self.each_second[second] += messages;
    }

    pub(crate) fn note_error(&mut self, error: &CallError) {
        *self.errors.entry(error.code().to_owned()).or_default() += 1;
        self.first_error.get_or_insert_with(|| error.to_string());
    }

    pub(crate) fn errors(&self) -> Errors {
        Errors {
            total: self.errors.values().sum(),
            by_code: self.errors.clone(),
            first: self.first_error.clone(),
        }
    }

    pub(crate) fn latencies(&self) -> BTreeMap<String, Latency> {
        self.latencies
            .iter()
            .map(|(operation, histogram)| (operation.name().to_owned(), Latency::of(histogram)))
            .collect()
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_NANOS_MAX, SIGNIFICANT_DIGITS)
        .expect("the bounds are constant and allowed")
}

impl Latency {
    fn of(nanos: &Histogram<u64>) -> Self {
        let us = |nanos: u64| (nanos as f64 / 100.0).round() / 10.0;
        Self {
            count: nanos.len(),
            mean: (nanos.mean() / 100.0).round() / 10.0,
            p50: us(nanos.value_at_quantile(0.5)),
            p90: us(nanos.value_at_quantile(0.9)),
            p99: us(nanos.value_at_quantile(0.99)),
            p999: us(nanos.value_at_quantile(0.999)),
            max: us(nanos.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut tally = Tally::default();
        for micros in 1..=10_000 {
            tally.note_latency(Operation::Send, Duration::from_micros(micros));
        }
        let latencies = tally.latencies();
        let send = latencies["send"];
        assert_eq!(send.count, 10_000);
        for (found, expected) in [
            (send.mean, 5_000.5),
            (send.p50, 5_000.0),
            (send.p90, 9_000.0),
            (send.p99, 9_900.0),
            (send.p999, 9_990.0),
            (send.max, 10_000.0),
        ] {
            assert!(
                (found - expected).abs() <= expected / 1_000.0,
                "{found} is not {expected}"
            );
        }
        assert_eq!(latencies.len(), 1);
    }

    #[test]
    fn extreme_latencies_are_kept() {
        let mut tally = Tally::default();
        tally.note_latency(Operation::Receive, Duration::ZERO);
        tally.note_latency(Operation::Receive, Duration::MAX);
        let receive = tally.latencies()["receive"];
        assert_eq!(receive.count, 2);
        assert!(receive.max >= 8.64e10, "{}", receive.max);
    }

    #[test]
    fn errors_are_counted_by_code_and_the_first_is_kept() {
        let mut tally = Tally::default();
        for code in ["connect", "timeout", "connect"] {
            tally.note_error(&CallError::NoAnswer {
                code,
                reason: format!("by {code}"),
            });
        }
        let errors = tally.errors();
        assert_eq!(
            (errors.total, errors.by_code["connect"], errors.by_code["timeout"]),
            (3, 2, 1)
        );
        assert_eq!(errors.first.as_deref(), Some("by connect"));
    }

    #[test]
    fn seconds_without_messages_are_there() {
        let mut tally = Tally::default();
        tally.note_second(Duration::from_millis(900), 2);
        tally.note_second(Duration::from_millis(2_100), 3);
        assert_eq!(tally.each_second, [2, 0, 3]);
    }
}
