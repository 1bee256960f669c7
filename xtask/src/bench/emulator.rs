//! Batches, a drain and FIFO queues, alternating with an emulator that holds everything in memory.

use anyhow::Result;

use super::Bench;
use super::bar::Bar;
use super::fauxqs::Fauxqs;
use super::load::Scenario;
use super::report::{Report, grouped, median};
use super::server::Settings;

const BAR: Bar = Bar::at_least(2.5, 3.5, "x");

/// Compares messages a second.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let seconds = bench.effort.seconds;
    let depth = bench.effort.drained;
    let scenarios = [
        (
            "SendMessageBatch of 10, 16 connections".to_owned(),
            Scenario::Batch { seconds },
        ),
        (
            format!(
                "receive(10) + delete batch of {} waiting, 16 connections",
                grouped(depth)
            ),
            Scenario::Drain { depth },
        ),
        (
            "FIFO, 100 groups, batches of 10, 16 connections".to_owned(),
            Scenario::Fifo { seconds },
        ),
    ];
    let names = scenarios.map(|(name, scenario)| (format!("{name}: messages, ours / fauxqs"), scenario));
    let peer = match Fauxqs::start(&bench.load) {
        Ok(peer) => peer,
        Err(error) => {
            for (name, _) in names {
                report.missing(&name, &format!("{error:#}"), &BAR);
            }
            return Ok(());
        }
    };
    let server = bench.server(Settings::signed())?;
    for (name, scenario) in names {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..bench.effort.runs {
            ours.push(bench.load.run(&server, scenario)?.messages_per_second);
            theirs.push(peer.run(&bench.load, scenario)?.messages_per_second);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        report.bar(
            &name,
            format!("{ours:.0} / {theirs:.0} per s = {:.2}", ours / theirs),
            ours / theirs,
            &BAR,
        );
    }
    Ok(())
}
