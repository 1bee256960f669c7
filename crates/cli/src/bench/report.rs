//! What was found, in the form in which it is printed as JSON and read again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ledger::Checked;
use super::load::Load;
use super::run::Ended;
use super::scenario::Scenario;
use crate::failure::{Failure, Kind};

/// The name and version of the form. A field may be added; a change of one makes another version.
pub(crate) const SCHEMA: &str = "holdfast.bench/v1";

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) schema: String,
    /// The version of the client.
    pub(crate) version: String,
    pub(crate) scenario: Scenario,
    pub(crate) server: Server,
    /// Whether everything was done: measured, received and checked.
    pub(crate) complete: bool,
    pub(crate) elapsed_seconds: f64,
    pub(crate) requests: Requests,
    pub(crate) messages: Messages,
    /// By operation; only those that succeeded.
    pub(crate) latency_us: BTreeMap<String, Latency>,
    pub(crate) errors: Errors,
    pub(crate) client: Client,
    pub(crate) checked: Checked,
    /// What is wrong, in words; empty when all is well.
    pub(crate) findings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Server {
    pub(crate) endpoint: String,
    pub(crate) queue: String,
    /// As the server says it, or `unknown`.
    pub(crate) durability: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Requests {
    /// Those that succeeded while it was measured.
    pub(crate) count: u64,
    pub(crate) per_second: f64,
    pub(crate) empty_receives: u64,
    /// In an open loop: those that were to start and had no free connection until the end.
    pub(crate) not_started: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Messages {
    pub(crate) sent: u64,
    pub(crate) sent_per_second: f64,
    pub(crate) received: u64,
    pub(crate) received_per_second: f64,
    /// Those received in each second, or those sent where nothing is received.
    pub(crate) each_second: Vec<u64>,
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Errors {
    pub(crate) total: u64,
    /// By the code of the API, or `connect`, `connection`, `timeout`, `unreadable`.
    pub(crate) by_code: BTreeMap<String, u64>,
    pub(crate) first: Option<String>,
}

/// What the client itself took while it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) cpu_seconds: f64,
    pub(crate) cpu_us_per_request: f64,
    /// CPU seconds a second.
    pub(crate) cores: f64,
}

impl Report {
    pub(crate) fn new(load: &Load, durability: String, ended: &Ended) -> Self {
        let spent = load.window().and_then(|window| window.closed);
        let (elapsed, cpu) = spent.unwrap_or_default();
        let seconds = elapsed.as_secs_f64();
        let per_second = |count: u64| ratio(count as f64, seconds);
        let checked = load.ledger().checked(*ended == Ended::Complete);
        let tally = load.tally();
        let not_started = load.pace.as_ref().map(|pace| {
            let due = pace.schedule.due(elapsed);
            let wanted = load.scenario.messages.map_or(u64::MAX, |messages| {
                messages.div_ceil(u64::from(load.scenario.batch))
            });
            due.min(wanted).saturating_sub(pace.started())
        });
        let mut report = Self {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: load.scenario.clone(),
            server: Server {
                endpoint: load.target.endpoint.to_string(),
                queue: load.queue.name.clone(),
                durability,
            },
            complete: *ended == Ended::Complete,
            elapsed_seconds: seconds,
            requests: Requests {
                count: tally.requests,
                per_second: per_second(tally.requests),
                empty_receives: tally.empty_receives,
                not_started,
            },
            messages: Messages {
                sent: tally.sent,
                sent_per_second: per_second(tally.sent),
                received: tally.received,
                received_per_second: per_second(tally.received),
                each_second: tally.each_second.clone(),
            },
            latency_us: tally.latencies(),
            errors: tally.errors(),
            client: Client {
                cpu_seconds: cpu.as_secs_f64(),
                cpu_us_per_request: ratio(cpu.as_secs_f64() * 1e6, tally.requests as f64),
                cores: ratio(cpu.as_secs_f64(), seconds),
            },
            checked,
            findings: Vec::new(),
        };
        report.findings = report.damage();
        if report.errors.total > 0 {
            report
                .findings
                .push(format!("{} requests failed", report.errors.total));
        }
        report
    }

    /// Returns what must not happen, whatever went wrong otherwise.
    fn damage(&self) -> Vec<String> {
        let checked = &self.checked;
        let is_fifo = self.scenario.fifo;
        // After an error a message may rightly come twice: its delete may not have happened.
        let doubled = if is_fifo && self.errors.total == 0 {
            checked.duplicated
        } else {
            0
        };
        [
            (checked.lost.unwrap_or_default(), "were acknowledged and lost"),
            (checked.wrong_body, "have a body that was not sent"),
            (
                checked.out_of_order.unwrap_or_default(),
                "came out of the order of their group",
            ),
            (doubled, "came twice from a FIFO queue"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} messages {what}"))
        .collect()
    }

    /// Returns the failure that the run ends with, if it does.
    pub(crate) fn verdict(&self, ended: &Ended) -> Result<(), Failure> {
        let damage = self.damage();
        if !damage.is_empty() {
            let what = format!("the check of {} found damage", self.server.queue);
            let hint = "keep the server's log and data, and report this with the scenario";
            return Err(Failure::new(Kind::Damage, what, damage.join("; "), hint));
        }
        let endpoint = &self.server.endpoint;
        match ended {
            Ended::Interrupted => Err(Self::interrupted()),
            Ended::Unreachable(error) => Err(Failure::new(
                Kind::Unavailable,
                format!("{endpoint} does not answer any more"),
                error,
                "look whether the server runs, and what its log says; nothing was checked",
            )),
            Ended::GaveUp(error) => Err(Failure::new(
                Kind::Failed,
                format!("{endpoint} refuses every request"),
                error,
                "look at the server's log; nothing was checked",
            )),
            Ended::Complete if self.errors.total > 0 => Err(Failure::new(
                Kind::Failed,
                format!("{} requests failed", self.errors.total),
                self.errors.first.clone().unwrap_or_default(),
                "look at the errors by code, and at the server's log",
            )),
            Ended::Complete => Ok(()),
        }
    }

    /// Returns the failure of a run that the user ended.
    pub(crate) fn interrupted() -> Failure {
        let cause = "a signal came before everything was done; what is missing was not looked for";
        Failure::new(
            Kind::Interrupted,
            "interrupted",
            cause,
            "let it run to its end to have it checked",
        )
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("plain values always encode")
    }
}

fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with round figures.
    pub(crate) fn sample() -> Report {
        let text = include_str!("sample.json");
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_form_is_stable() {
        let text = include_str!("sample.json");
        let expected: serde_json::Value = serde_json::from_str(text).unwrap();
        let found: serde_json::Value = serde_json::from_str(&sample().json()).unwrap();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_reference_names_every_field() {
        fn names(value: &serde_json::Value, into: &mut Vec<String>) {
            if let serde_json::Value::Object(fields) = value {
                for (name, value) in fields {
                    into.push(name.clone());
                    names(value, into);
                }
            }
        }
        let reference = include_str!("../../../../docs/reference/bench.md");
        let mut all = Vec::new();
        names(&serde_json::from_str(&sample().json()).unwrap(), &mut all);
        assert!(all.len() > 50, "{all:?}");
        for name in all {
            assert!(
                reference.contains(&format!("`{name}`")),
                "{name} is not in docs/reference/bench.md"
            );
        }
    }

    fn verdict(change: impl FnOnce(&mut Report), ended: &Ended) -> Option<(Kind, String)> {
        let mut report = sample();
        change(&mut report);
        report
            .verdict(ended)
            .err()
            .map(|failure| (failure.kind, failure.cause))
    }

    #[test]
    fn a_run_succeeds_when_nothing_is_wrong_and_only_then() {
        let complete = Ended::Complete;
        assert_eq!(verdict(|_| (), &complete), None);
        let damage = |text: &str| Some((Kind::Damage, text.to_owned()));
        let lost = |report: &mut Report| report.checked.lost = Some(2);
        assert_eq!(
            verdict(lost, &complete),
            damage("2 messages were acknowledged and lost")
        );
        let wrong = |report: &mut Report| report.checked.wrong_body = 1;
        assert_eq!(
            verdict(wrong, &Ended::Interrupted),
            damage("1 messages have a body that was not sent")
        );
        let disorder = |report: &mut Report| report.checked.out_of_order = Some(3);
        assert_eq!(
            verdict(disorder, &complete),
            damage("3 messages came out of the order of their group")
        );
        // At least once is all that a standard queue promises.
        let doubled = |report: &mut Report| report.checked.duplicated = 4;
        assert_eq!(verdict(doubled, &complete), None);
        let doubled = |report: &mut Report| {
            report.checked.duplicated = 4;
            report.scenario.fifo = true;
        };
        assert_eq!(
            verdict(doubled, &complete),
            damage("4 messages came twice from a FIFO queue")
        );
        let errors = |report: &mut Report| {
            report.errors.total = 5;
            report.errors.first = Some("first".to_owned());
        };
        assert_eq!(
            verdict(errors, &complete),
            Some((Kind::Failed, "first".to_owned()))
        );
        let gone = Ended::Unreachable("refused".to_owned());
        assert_eq!(
            verdict(errors, &gone),
            Some((Kind::Unavailable, "refused".to_owned()))
        );
        assert!(verdict(|_| (), &Ended::GaveUp("no".to_owned())).is_some());
        assert!(verdict(|_| (), &Ended::Interrupted).is_some());
    }
}
