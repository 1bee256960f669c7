//! What queues cost that nobody uses.

use std::thread;

use anyhow::Result;

use super::Bench;
use super::backlog;
use super::bar::Bar;
use super::client::Client;
use super::operations::{KINDS, MODES, Operations, alternate, disturbance};
use super::report::Report;
use super::server::Settings;

const QUEUES: u32 = 10_000;
const MAKERS: u32 = 8;
const WAITING: u32 = 1_000;
const BODY_BYTES: usize = 100;
/// What two equal servers differ by on a quiet machine.
const BAR: Bar = Bar::bound(1.05, "x (noise)");

/// Compares a server that has 10,000 other queues with one that has none.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    MODES.iter().try_for_each(|mode| compare(bench, mode, report))
}

fn compare(bench: &Bench, mode: &str, report: &mut Report) -> Result<()> {
    let settings = Settings::dev().with("HOLDFAST_FSYNC", mode);
    let servers = [bench.server(settings.clone())?, bench.server(settings)?];
    create_queues(&servers[1].url)?;
    let operations = |at: usize| {
        let server = &servers[at];
        let queue = backlog::fill(&server.url, "busy", WAITING + bench.effort.operations, BODY_BYTES)?;
        Operations::new(server, queue)
    };
    let (mut alone, mut among) = (operations(0)?, operations(1)?);
    alternate(
        [&mut alone, &mut among],
        bench.effort.runs,
        bench.effort.operations,
    )?;
    let disturbed = disturbance([&servers[1], &servers[0]])?;
    for (kind, name) in KINDS.iter().enumerate() {
        let ((without, without_p50), (with, with_p50)) = (alone.cost(kind), among.cost(kind));
        report.bar(
            &format!(
                "{name}: server CPU per request with 10,000 idle queues / without (--dev, fsync {mode}, 1 connection, 1 core)"
            ),
            format!(
                "{with:.1} / {without:.1} us = {:.2}; p50 {with_p50:.0} / {without_p50:.0} us{disturbed}",
                with / without
            ),
            with / without,
            &BAR,
        );
    }
    Ok(())
}

/// Makes the queues that nobody uses, from as many connections as share a sync well.
fn create_queues(url: &str) -> Result<()> {
    thread::scope(|scope| {
        let makers: Vec<_> = (0..MAKERS)
            .map(|maker| {
                scope.spawn(move || {
                    let mut client = Client::connect(url)?;
                    for number in (maker..QUEUES).step_by(MAKERS as usize) {
                        client.create_queue(&format!("idle-{number}"))?;
                    }
                    Ok::<_, anyhow::Error>(())
                })
            })
            .collect();
        makers
            .into_iter()
            .try_for_each(|maker| maker.join().expect("a maker does not panic"))
    })
}
