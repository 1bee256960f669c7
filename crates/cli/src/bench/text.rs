//! A report for people.

use std::fmt::{self, Write};

use super::ledger::Checked;
use super::quantity::{grouped, rate};
use super::report::{Latency, Report};
use super::scenario::Scenario;
use super::tally::Operation;

/// From here on the client is likely to be what was measured.
const BUSY_CORES_PER_THREAD: f64 = 0.9;

/// Returns the lines of a report, the last of them too with a line end.
pub(crate) fn report(report: &Report) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut out, report);
    out
}

fn write(out: &mut String, report: &Report) -> fmt::Result {
    writeln!(out, "{}", scenario(&report.scenario))?;
    writeln!(
        out,
        "server      {}, durability {}",
        report.server.endpoint, report.server.durability
    )?;
    writeln!(out, "queue       {}", report.server.queue)?;
    let unfinished = if report.complete { "" } else { ", ended early" };
    writeln!(out, "measured    {:.3} s{unfinished}", report.elapsed_seconds)?;
    write_rates(out, report)?;
    writeln!(out, "{}", latency_head())?;
    for operation in Operation::ALL {
        if let Some(latency) = report.latency_us.get(operation.name()) {
            writeln!(out, "{}", latency_line(operation, latency))?;
        }
    }
    let client = &report.client;
    writeln!(
        out,
        "client      {:.2} CPU s, {:.1} us a request, {:.2} cores{}",
        client.cpu_seconds,
        client.cpu_us_per_request,
        client.cores,
        busy(report)
    )?;
    writeln!(out, "errors      {}", errors(report))?;
    writeln!(out, "checked     {}", checked(&report.checked))?;
    let mut findings = report.findings.iter();
    findings.try_for_each(|finding| writeln!(out, "found       {finding}"))
}

fn write_rates(out: &mut String, report: &Report) -> fmt::Result {
    let (requests, messages) = (&report.requests, &report.messages);
    writeln!(
        out,
        "requests    {} per s ({}; {} receives were empty)",
        rate(requests.per_second),
        grouped(requests.count),
        grouped(requests.empty_receives)
    )?;
    writeln!(
        out,
        "messages    {} sent per s ({}), {} received per s ({})",
        rate(messages.sent_per_second),
        grouped(messages.sent),
        rate(messages.received_per_second),
        grouped(messages.received)
    )?;
    // The last few are due when the time is over, however quick the server is.
    match requests.not_started.filter(|count| *count > requests.count / 100) {
        Some(count) => writeln!(
            out,
            "behind      {} requests were due and never started: the rate was not reached",
            grouped(count)
        ),
        None => Ok(()),
    }
}

fn errors(report: &Report) -> String {
    let by_code = report.errors.by_code.iter();
    let parts: Vec<String> = by_code
        .map(|(code, count)| format!("{code} {}", grouped(*count)))
        .collect();
    if parts.is_empty() {
        "none".to_owned()
    } else {
        parts.join(", ")
    }
}

fn checked(checked: &Checked) -> String {
    format!(
        "sent {}, received {}, lost {}, duplicated {}, out of order {}, wrong body {}, unacknowledged {}",
        grouped(checked.sent),
        grouped(checked.received),
        checked.lost.map_or("not checked".to_owned(), grouped),
        grouped(checked.duplicated),
        checked
            .out_of_order
            .map_or("not checked (no FIFO queue)".to_owned(), grouped),
        grouped(checked.wrong_body),
        grouped(checked.unacknowledged)
    )
}

/// Returns a scenario in one line.
pub(crate) fn scenario(scenario: &Scenario) -> String {
    let mut parts = vec![
        format!("{} connections", scenario.connections),
        format!("{} B bodies", scenario.size_bytes),
        format!("{} a request", scenario.batch),
        scenario.rate.map_or("closed loop".to_owned(), |rate| {
            format!("{} messages per s wanted", grouped(rate))
        }),
    ];
    parts.extend(scenario.groups.map(|groups| format!("FIFO with {groups} groups")));
    parts.extend((scenario.depth > 0).then(|| format!("backlog {}", grouped(scenario.depth))));
    parts.extend(
        scenario
            .messages
            .map(|messages| format!("{} messages", grouped(messages))),
    );
    parts.extend(scenario.duration_seconds.map(|seconds| format!("{seconds} s")));
    parts.extend((scenario.threads > 1).then(|| format!("{} threads", scenario.threads)));
    format!("{:<12}{}", scenario.verb.name(), parts.join(", "))
}

fn busy(report: &Report) -> &'static str {
    if report.client.cores > BUSY_CORES_PER_THREAD * f64::from(report.scenario.threads) {
        ": the client itself may be the limit"
    } else {
        ""
    }
}

fn latency_head() -> String {
    let mut line = format!("{:<12}", "latency ms");
    for name in ["p50", "p90", "p99", "p99.9", "max"] {
        line += &format!("{name:>10}");
    }
    line
}

fn latency_line(operation: Operation, latency: &Latency) -> String {
    let mut line = format!("  {:<10}", operation.name());
    for us in [latency.p50, latency.p90, latency.p99, latency.p999, latency.max] {
        line += &format!("{:>10.3}", us / 1_000.0);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn a_report_for_people() {
        let expected = "\
roundtrip   16 connections, 1024 B bodies, 1 a request, 5,000 messages per s wanted, 10 s
server      http://127.0.0.1:4100, durability always
queue       holdfast-bench-0badcafe
measured    10.000 s
requests    15,000 per s (150,000; 12 receives were empty)
messages    5,000 sent per s (50,000), 5,000 received per s (50,000)
latency ms         p50       p90       p99     p99.9       max
  send           0.812     1.200     3.700     9.000    12.346
  receive        0.812     1.200     3.700     9.000    12.346
  delete         0.812     1.200     3.700     9.000    12.346
  end_to_end     1.613     2.400     5.700    19.800    22.346
client      4.50 CPU s, 30.0 us a request, 0.45 cores
errors      none
checked     sent 50,000, received 50,000, lost 0, duplicated 0, out of order not checked (no FIFO queue), wrong body 0, unacknowledged 0
";
        assert_eq!(report(&sample()), expected);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut bad = sample();
        bad.complete = false;
        bad.checked.lost = None;
        bad.requests.not_started = Some(12_000);
        bad.client.cores = 0.95;
        bad.errors.by_code.insert("connect".to_owned(), 1_001);
        bad.findings.push("1,001 requests failed".to_owned());
        let text = report(&bad);
        for expected in [
            "10.000 s, ended early\n",
            "behind      12,000 requests were due",
            "0.95 cores: the client itself may be the limit\n",
            "errors      connect 1,001\n",
            "lost not checked,",
            "found       1,001 requests failed\n",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
    }
}
