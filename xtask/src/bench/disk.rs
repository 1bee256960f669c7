//! How much of the disk a server keeps when one message stays and all others go.

use anyhow::{Result, ensure};

use super::Bench;
use super::backlog::body;
use super::bar::Bar;
use super::client::Client;
use super::load::Scenario;
use super::report::{Report, grouped};
use super::server::Settings;

const BODY_BYTES: usize = 1_024;
/// After as many the directory is weighed.
const STEP: u32 = 100_000;
/// Twice the live data, which is one message, and a constant.
const BOUND_MIB: f64 = 512.0 + 2.0 * BODY_BYTES as f64 / MIB;
const MIB: f64 = (1 << 20) as f64;

/// Passes messages through beside one that stays, and weighs the data directory on the way.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let server = bench.server(Settings::dev())?;
    let mut client = Client::connect(&server.url)?;
    let queue = client.create_queue("stays")?;
    client.send(&queue, &body("", BODY_BYTES))?;
    let mut largest = 0_u64;
    for _ in 0..bench.effort.passed / STEP {
        bench.load.run(&server, Scenario::Pass { messages: STEP })?;
        largest = largest.max(server.data_bytes()?);
    }
    let last = server.data_bytes()?;
    ensure!(
        client.receive(&queue, 1)?.len() == 1,
        "the message that was to stay has gone"
    );
    let largest = largest.max(last) as f64 / MIB;
    report.bar(
        &format!(
            "data directory while one message stays and {} of 1 KiB pass through (--dev), largest",
            grouped(bench.effort.passed)
        ),
        format!("{largest:.0} MiB, {:.0} MiB at the end", last as f64 / MIB),
        largest,
        &Bar::bound(BOUND_MIB.round(), "MiB"),
    );
    Ok(())
}
