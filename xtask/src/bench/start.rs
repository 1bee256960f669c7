//! What a server costs before it does anything.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::report::{Report, median};
use super::server::{Server, Settings};

/// Measures the start with an empty directory, and the memory after it.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let (mut starts, mut resident) = (Vec::new(), Vec::new());
    for _ in 0..bench.effort.runs {
        let server = bench.server(Settings::signed())?;
        starts.push(server.started_in().as_secs_f64() * 1e3);
        resident.push(settled_bytes(&server)? as f64 / 1e6);
    }
    report.line(
        "start with an empty directory (spawn to /ready 200)",
        format!("{:.0} ms", median(starts)),
    );
    report.line(
        "resident memory of an idle server",
        format!("{:.1} MB", median(resident)),
    );
    Ok(())
}

/// Returns the memory that a server holds once it has given back what it needed only for a moment.
pub(super) fn settled_bytes(server: &Server) -> Result<u64> {
    thread::sleep(Duration::from_millis(500));
    server.resident_bytes()
}
