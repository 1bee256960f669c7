//! How long a server takes to come back after a crash.

use anyhow::Result;

use super::Bench;
use super::backlog;
use super::bar::Bar;
use super::report::{Report, grouped, median};
use super::server::Settings;

const BODY_BYTES: usize = 1_024;

/// Kills a server that holds messages of 1 KiB and starts it again.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    for &(messages, limit_seconds) in bench.effort.recovered {
        let mut server = bench.server(Settings::dev())?;
        let queue = backlog::fill(&server.url, "recovery", messages, BODY_BYTES)?;
        let disk_bytes = server.data_bytes()?;
        let mut seconds = Vec::new();
        for _ in 0..bench.effort.runs {
            server.crash_and_restart()?;
            seconds.push(server.started_in().as_secs_f64());
            // The next one has something to find that no snapshot has.
            backlog::add(&server.url, &queue, 10, BODY_BYTES)?;
        }
        let (first, median) = (seconds[0], median(seconds));
        report.bar(
            &format!(
                "recovery after kill -9, {} waiting of 1 KiB, files in the page cache (spawn to /ready 200, --dev)",
                grouped(messages)
            ),
            format!(
                "{median:.2} s, the first {first:.2} s; {:.2} GB on disk",
                disk_bytes as f64 / 1e9
            ),
            median,
            &Bar::bound(limit_seconds, "s"),
        );
    }
    Ok(())
}
