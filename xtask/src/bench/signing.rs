//! What it costs the server to verify a signature.

use anyhow::Result;

use super::Bench;
use super::bar::Bar;
use super::load::Scenario;
use super::report::{Report, median};
use super::server::Settings;

const BAR: Bar = Bar::at_most(3.0, 2.0, "us");

/// Compares a server that verifies with one that is started with `--dev`; the client signs for both.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let verifying = bench.server(Settings::signed())?;
    let trusting = bench.server(Settings::dev())?;
    let scenario = Scenario::SendKibibyte {
        connections: 64,
        seconds: bench.effort.seconds,
    };
    let (mut with, mut without, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.effort.runs {
        let pair = [&verifying, &trusting].map(|server| bench.load.run(server, scenario));
        let [verified, trusted] = pair;
        let (verified, trusted) = (verified?.server_cpu_us, trusted?.server_cpu_us);
        with.push(verified);
        without.push(trusted);
        // Within a pair, so that what disturbs a few runs drops out.
        added.push(verified - trusted);
    }
    let added = median(added);
    report.bar(
        "server CPU that SigV4 adds to a send of 1 KiB, 64 connections",
        format!(
            "{:.1} - {:.1} us, median of the pairs {added:.1} us",
            median(with),
            median(without)
        ),
        added,
        &BAR,
    );
    Ok(())
}
