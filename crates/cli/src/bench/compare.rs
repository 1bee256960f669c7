//! Two results side by side. Only what was measured the same way can be compared.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::report::{Latency, Report, SCHEMA};
use super::tally::Operation;
use super::text;
use crate::failure::{Failure, Kind};

const COMPARISON_SCHEMA: &str = "holdfast.bench.compare/v1";

/// Two results of one scenario.
#[derive(Debug, Serialize)]
struct Comparison<'a> {
    schema: &'static str,
    scenario: &'a super::scenario::Scenario,
    durability: [&'a str; 2],
    rows: Vec<Row>,
}

/// One figure of both.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    figure: String,
    a: f64,
    b: f64,
    /// B / A; none where A is 0.
    ratio: Option<f64>,
}

/// Reads two results and prints them side by side.
pub(crate) fn print(files: &[PathBuf], as_json: bool) -> Result<(), Failure> {
    let [a, b] = files else {
        let what = format!("--compare takes two files, not {}", files.len());
        return Err(Failure::new(
            Kind::Usage,
            what,
            "it shows one beside the other",
            "name two files",
        ));
    };
    let (a, b) = (read(a)?, read(b)?);
    let comparison = Comparison::new(&a, &b)?;
    if as_json {
        println!(
            "{}",
            serde_json::to_string(&comparison).expect("plain values always encode")
        );
    } else {
        print!("{}", comparison.table());
    }
    Ok(())
}

fn read(path: &Path) -> Result<Report, Failure> {
    let name = path.display();
    let unreadable = |cause: String| {
        let hint = "name a file that holds the output of holdfast bench --json";
        Failure::new(Kind::Failed, format!("cannot read {name}"), cause, hint)
    };
    let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    if value["schema"] != SCHEMA {
        return Err(unreadable(format!(
            "its schema is {}, not {SCHEMA:?}",
            value["schema"]
        )));
    }
    serde_json::from_value(value).map_err(|error| unreadable(error.to_string()))
}

impl<'a> Comparison<'a> {
    fn new(a: &'a Report, b: &'a Report) -> Result<Self, Failure> {
        let differences = differences(a, b);
        if !differences.is_empty() {
            return Err(Failure::new(
                Kind::Precondition,
                "these are results of different scenarios",
                differences.join("; "),
                "measure both in the same way",
            ));
        }
        Ok(Self {
            schema: COMPARISON_SCHEMA,
            scenario: &a.scenario,
            durability: [&a.server.durability, &b.server.durability],
            rows: rows(a, b),
        })
    }

    fn table(&self) -> String {
        let [a, b] = self.durability;
        let mut lines = vec![
            text::scenario(self.scenario),
            format!("durability  A {a}, B {b}"),
            format!("{:<26}{:>14}{:>14}{:>9}", "", "A", "B", "B / A"),
        ];
        lines.extend(self.rows.iter().map(|row| {
            let ratio = row.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            format!("{:<26}{:>14.1}{:>14.1}{ratio:>9}", row.figure, row.a, row.b)
        }));
        lines.join("\n") + "\n"
    }
}

/// Names what differs between two scenarios, with both values.
fn differences(a: &Report, b: &Report) -> Vec<String> {
    let fields = |report: &Report| match serde_json::to_value(&report.scenario) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => unreachable!("a scenario is an object of plain values"),
    };
    let (a, b) = (fields(a), fields(b));
    let differing = a.iter().filter(|(name, value)| b.get(*name) != Some(value));
    differing
        .map(|(name, value)| format!("{name} is {value} in A and {} in B", b[name]))
        .collect()
}

fn rows(a: &Report, b: &Report) -> Vec<Row> {
    let row = |figure: &str, of: &dyn Fn(&Report) -> f64| Row::new(figure, of(a), of(b));
    let mut rows = vec![
        row("requests per s", &|report| report.requests.per_second),
        row("messages sent per s", &|report| report.messages.sent_per_second),
        row("messages received per s", &|report| {
            report.messages.received_per_second
        }),
    ];
    for operation in Operation::ALL {
        let name = operation.name();
        if let (Some(a), Some(b)) = (a.latency_us.get(name), b.latency_us.get(name)) {
            rows.extend(percentiles(name, a, b));
        }
    }
    rows.extend([
        row("client CPU us a request", &|report| {
            report.client.cpu_us_per_request
        }),
        row("errors", &|report| report.errors.total as f64),
        row("lost", &|report| report.checked.lost.unwrap_or_default() as f64),
        row("duplicated", &|report| report.checked.duplicated as f64),
        row("out of order", &|report| {
            report.checked.out_of_order.unwrap_or_default() as f64
        }),
        row("wrong body", &|report| report.checked.wrong_body as f64),
    ]);
    rows
}

fn percentiles(operation: &str, a: &Latency, b: &Latency) -> [Row; 5] {
    [
        ("p50", a.p50, b.p50),
        ("p90", a.p90, b.p90),
        ("p99", a.p99, b.p99),
        ("p99.9", a.p999, b.p999),
        ("max", a.max, b.max),
    ]
    .map(|(name, a, b)| Row::new(&format!("{operation} {name} us"), a, b))
}

impl Row {
    fn new(figure: &str, a: f64, b: f64) -> Self {
        Self {
            figure: figure.to_owned(),
            a,
            b,
            ratio: (a > 0.0).then(|| b / a),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn ratios_are_b_over_a() {
        let (a, mut b) = (sample(), sample());
        b.requests.per_second = 30_000.0;
        b.latency_us.get_mut("send").unwrap().p99 = 1_850.0;
        b.errors.total = 3;
        b.server.durability = "off".to_owned();
        let table = Comparison::new(&a, &b).unwrap().table();
        for expected in [
            "durability  A always, B off\n",
            "                                       A             B    B / A\n",
            "requests per s                   15000.0       30000.0     2.00\n",
            "send p99 us                       3700.0        1850.0     0.50\n",
            "end_to_end max us                22345.6       22345.6     1.00\n",
            "errors                               0.0           3.0        -\n",
        ] {
            assert!(table.contains(expected), "{expected:?} is not in\n{table}");
        }
    }

    #[test]
    fn different_scenarios_are_refused_with_what_differs() {
        let (a, mut b) = (sample(), sample());
        b.scenario.size_bytes = 100;
        b.scenario.rate = None;
        let refused = Comparison::new(&a, &b).unwrap_err();
        assert_eq!(refused.kind, Kind::Precondition);
        assert_eq!(
            refused.cause,
            "rate is 5000 in A and null in B; size_bytes is 1024 in A and 100 in B"
        );
    }
}
