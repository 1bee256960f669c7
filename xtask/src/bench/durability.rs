//! What it costs that an answer waits for the disk.

use anyhow::Result;

use super::Bench;
use super::bar::Bar;
use super::load::Scenario;
use super::report::{Report, median};
use super::server::Settings;

const BAR: Bar = Bar::at_least(0.6, 0.85, "");

/// Compares durable sends with those that the operating system alone has.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let durable = bench.server(Settings::signed())?;
    let lax = bench.server(Settings::signed().with("HOLDFAST_FSYNC", "off"))?;
    let scenario = Scenario::Send {
        connections: 64,
        seconds: bench.effort.seconds,
    };
    let (mut with, mut without, mut per_sync) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.effort.runs {
        let before = durable.syncs()?;
        with.push(bench.load.run(&durable, scenario)?.requests_per_second);
        per_sync.push(durable.syncs()?.since(before).messages_per_sync());
        without.push(bench.load.run(&lax, scenario)?.requests_per_second);
    }
    let (with, without) = (median(with), median(without));
    report.bar(
        "sends, 64 connections, durable / off",
        format!(
            "{with:.0} / {without:.0} per s = {:.2}, {:.1} messages per sync",
            with / without,
            median(per_sync)
        ),
        with / without,
        &BAR,
    );
    Ok(())
}
