//! How the cost of a request grows with what stands in its queue.

use anyhow::Result;

use super::Bench;
use super::backlog;
use super::bar::Bar;
use super::operations::{KINDS, MODES, Operations, alternate, disturbance};
use super::report::{Report, grouped};
use super::server::{Server, Settings};

const BAR: Bar = Bar::at_most(0.05, 0.02, "");
const SHALLOW: u32 = 1_000;
const BODY_BYTES: usize = 100;

/// Compares a deep backlog with a shallow one.
pub(super) fn waiting(bench: &Bench, report: &mut Report) -> Result<()> {
    let depths = [SHALLOW, bench.effort.deep];
    for mode in MODES {
        compare(bench, mode, ("waiting", depths), report, |server, depth| {
            // What a turn has in flight is not among those that wait.
            let messages = depth + bench.effort.operations;
            let queue = backlog::fill(&server.url, "depth", messages, BODY_BYTES)?;
            Operations::new(server, queue)
        })?;
    }
    Ok(())
}

/// Compares many messages in flight with few.
pub(super) fn in_flight(bench: &Bench, report: &mut Report) -> Result<()> {
    let depths = [SHALLOW, bench.effort.in_flight];
    for mode in MODES {
        compare(bench, mode, ("in flight", depths), report, |server, depth| {
            let messages = depth + SHALLOW + bench.effort.operations;
            let queue = backlog::fill(&server.url, "flight", messages, BODY_BYTES)?;
            let mut operations = Operations::new(server, queue)?;
            operations.hold(depth)?;
            Ok(operations)
        })?;
    }
    Ok(())
}

/// Prepares a server for each of two depths and compares what requests cost there.
fn compare(
    bench: &Bench,
    mode: &str,
    (what, depths): (&str, [u32; 2]),
    report: &mut Report,
    prepare: impl for<'a> Fn(&'a Server, u32) -> Result<Operations<'a>>,
) -> Result<()> {
    // A turn holds a few more than the limit of SQS, which is what is to be measured.
    let settings = Settings::dev()
        .with("HOLDFAST_FSYNC", mode)
        .with("HOLDFAST_IN_FLIGHT_MAX", 1_000_000);
    // A server each: the deep one must not leave its log to the shallow one.
    let servers = [bench.server(settings.clone())?, bench.server(settings)?];
    let mut low = prepare(&servers[0], depths[0])?;
    let mut high = prepare(&servers[1], depths[1])?;
    alternate([&mut low, &mut high], bench.effort.runs, bench.effort.operations)?;
    let disturbed = disturbance([&servers[1], &servers[0]])?;
    for (kind, name) in KINDS.iter().enumerate() {
        let [(low, low_p50), (high, high_p50)] = [low.cost(kind), high.cost(kind)];
        let exponent = exponent(low, high, depths);
        report.bar(
            &format!(
                "{name}, {} / {} {what}: growth b of the server's CPU, cost ~ depth^b (--dev, fsync {mode}, 1 connection, 1 core)",
                grouped(depths[1]),
                grouped(depths[0])
            ),
            format!("{high:.1} / {low:.1} us: b = {exponent:.3}; p50 {high_p50:.0} / {low_p50:.0} us{disturbed}"),
            exponent,
            &BAR,
        );
    }
    Ok(())
}

/// Returns b of cost ~ depth^b.
fn exponent(low: f64, high: f64, depths: [u32; 2]) -> f64 {
    (high / low).ln() / (f64::from(depths[1]) / f64::from(depths[0])).ln()
}

#[cfg(test)]
mod tests {
    use super::exponent;

    #[test]
    fn the_exponent_is_the_slope_in_a_log_log_plot() {
        assert!(exponent(5.0, 5.0, [1_000, 1_000_000]).abs() < 1e-9);
        assert!((exponent(5.0, 5_000.0, [1_000, 1_000_000]) - 1.0).abs() < 1e-9);
        assert!((exponent(1.0, 10.0, [1_000, 100_000]) - 0.5).abs() < 1e-9);
    }
}
