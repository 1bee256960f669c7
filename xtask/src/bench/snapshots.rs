//! How long everybody waits for a snapshot.

use anyhow::{Result, ensure};

use super::Bench;
use super::backlog;
use super::bar::Bar;
use super::load::Scenario;
use super::metrics::Page;
use super::report::{Report, grouped};
use super::server::{Server, Settings};

const BODY_BYTES: usize = 100;
const SNAPSHOTS: &str = "holdfast_snapshot_seconds_count";
const PAUSE: &str = "holdfast_snapshot_pause_seconds";
const BAR: Bar = Bar::bound(2.0, "ms");
/// Messages that pass through between two looks at the number of snapshots.
const STEP: u32 = 50_000;
/// Looks after which a server is taken not to write snapshots.
const STEPS_MAX: u32 = 100;

/// Lets a server with a deep backlog write a snapshot.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let name = format!(
        "pause of the owner for a snapshot, {} waiting (--dev)",
        grouped(bench.effort.deep)
    );
    let server = bench.server(Settings::dev())?;
    backlog::fill(&server.url, "snapshots", bench.effort.deep, BODY_BYTES)?;
    let before = server.metrics()?;
    if Pauses::of(&before).is_err() {
        let why = format!("not reported, no {PAUSE} in /metrics");
        report.missing(&name, &why, &BAR);
        return Ok(());
    }
    let after = pass_until_snapshot(bench, &server, before.sum(SNAPSHOTS)?)?;
    let pauses = Pauses::of(&after)?.since(&Pauses::of(&before)?);
    let mean = pauses.mean_millis();
    report.bar(
        &name,
        format!(
            "{mean:.2} ms on average of {}, none above {} s",
            pauses.count,
            pauses.longest()
        ),
        mean,
        &BAR,
    );
    Ok(())
}

fn pass_until_snapshot(bench: &Bench, server: &Server, count: f64) -> Result<Page> {
    for _ in 0..STEPS_MAX {
        bench.load.run(server, Scenario::Pass { messages: STEP })?;
        let page = server.metrics()?;
        // One may have begun before the backlog was whole.
        if page.sum(SNAPSHOTS)? >= count + 2.0 {
            return Ok(page);
        }
    }
    ensure!(
        server.metrics()?.sum(SNAPSHOTS)? > count,
        "no snapshot was written while {} messages passed through",
        grouped(STEP * STEPS_MAX)
    );
    server.metrics()
}

/// The pauses since the start of a server, or between two moments.
#[derive(Debug)]
struct Pauses {
    count: f64,
    seconds: f64,
    /// The upper bound of each bucket, and how many pauses are at most that.
    buckets: Vec<(String, f64)>,
}

impl Pauses {
    fn of(page: &Page) -> Result<Self> {
        Ok(Self {
            count: page.sum(&format!("{PAUSE}_count"))?,
            seconds: page.sum(&format!("{PAUSE}_sum"))?,
            buckets: page.buckets(PAUSE),
        })
    }

    fn since(self, before: &Self) -> Self {
        let buckets = self.buckets.into_iter().zip(&before.buckets);
        Self {
            count: self.count - before.count,
            seconds: self.seconds - before.seconds,
            buckets: buckets
                .map(|((bound, count), (_, earlier))| (bound, count - earlier))
                .collect(),
        }
    }

    fn mean_millis(&self) -> f64 {
        self.seconds / self.count * 1e3
    }

    /// Returns the bound of the smallest bucket that has them all.
    fn longest(&self) -> &str {
        let found = self.buckets.iter().find(|(_, count)| *count >= self.count);
        found.map_or("?", |(bound, _)| bound)
    }
}

#[cfg(test)]
mod tests {
    use super::{Page, Pauses};

    fn pauses(counts: [u32; 3], seconds: f64) -> Pauses {
        let bucket = |(bound, count): (&str, u32)| {
            format!("holdfast_snapshot_pause_seconds_bucket{{le=\"{bound}\"}} {count}\n")
        };
        let mut text: String = ["0.001", "0.002", "+Inf"]
            .into_iter()
            .zip(counts)
            .map(bucket)
            .collect();
        text += &format!("holdfast_snapshot_pause_seconds_sum {seconds}\n");
        text += &format!("holdfast_snapshot_pause_seconds_count {}\n", counts[2]);
        Pauses::of(&Page::new(text)).unwrap()
    }

    #[test]
    fn only_pauses_after_the_first_look_count() {
        let before = pauses([1, 1, 2], 5.0);
        let added = pauses([2, 3, 4], 5.003).since(&before);
        assert!((added.count - 2.0).abs() < 1e-9);
        assert!((added.mean_millis() - 1.5).abs() < 1e-6);
        assert_eq!(added.longest(), "0.002");
        assert_eq!(pauses([2, 3, 5], 5.1).since(&before).longest(), "+Inf");
        assert!(Pauses::of(&Page::new(String::new())).is_err());
    }
}
