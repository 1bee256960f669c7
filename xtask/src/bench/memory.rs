//! What a message that waits holds of the memory.

use anyhow::Result;

use super::Bench;
use super::backlog;
use super::bar::Bar;
use super::report::{Report, grouped};
use super::server::{Server, Settings};
use super::start::settled_bytes;

const BODY_BYTES: usize = 100;
const BAR: Bar = Bar::bound(128.0, "B");
/// What the payload cache holds, where a server has one.
const CACHE: &str = "holdfast_payload_cache_bytes";

/// Weighs backlogs of messages of 100 bytes.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let server = bench.server(Settings::dev())?;
    let empty = settled_bytes(&server)?;
    let [few, many] = bench.effort.weighed;
    let queue = backlog::fill(&server.url, "memory", few, BODY_BYTES)?;
    weigh(&server, few, empty, report)?;
    backlog::add(&server.url, &queue, many - few, BODY_BYTES)?;
    weigh(&server, many, empty, report)
}

fn weigh(server: &Server, messages: u32, empty: u64, report: &mut Report) -> Result<()> {
    let grown = settled_bytes(server)?.saturating_sub(empty) as f64;
    let cache = server.metrics()?.sum(CACHE).ok();
    let each = (grown - cache.unwrap_or_default()) / f64::from(messages);
    let cached = cache.map_or("no payload cache reported".to_owned(), |bytes| {
        format!("of which {:.0} MB payload cache left out", bytes / 1e6)
    });
    report.bar(
        &format!(
            "resident memory per waiting message of 100 B, {} waiting (--dev)",
            grouped(messages)
        ),
        format!("{each:.0} B; {:.0} MB in all, {cached}", grown / 1e6),
        each,
        &BAR,
    );
    Ok(())
}
