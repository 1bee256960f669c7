//! Counts what the commit thread does.

use std::sync::Arc;
use std::time::Duration;

use broker::{Commit, Observer};
use journal::Space;
use telemetry::Metrics;

#[derive(Debug)]
pub(crate) struct MetricsObserver(pub(crate) Arc<Metrics>);

impl Observer for MetricsObserver {
    fn committed(&self, commit: &Commit) {
        let metrics = &self.0;
        metrics.commit_batch_commands.observe(commit.commands);
        metrics.written_bytes.add(commit.journal_bytes);
        metrics.messages_sent.add(commit.sent);
        metrics.messages_received.add(commit.received);
        metrics.messages_deleted.add(commit.deleted);
        metrics.messages_dead_lettered.add(commit.dead_lettered);
        metrics.takes_given_back.add(commit.given_back);
        metrics.segment_waits.add(commit.segments_waited_for);
        if commit.syncs > 0 {
            metrics.fsync.observe(commit.sync_nanos);
        }
    }

    fn parked(&self, polls: usize) {
        self.0
            .long_polls_parked
            .set(i64::try_from(polls).unwrap_or(i64::MAX));
    }

    fn snapshot_begun(&self, pause: Duration) {
        self.0.snapshot_pause.observe_duration(pause);
    }

    fn snapshot(&self, _bytes: u64, seconds: f64) {
        self.0.snapshot.observe_duration(Duration::from_secs_f64(seconds));
    }

    fn copied(&self, bytes: u64) {
        self.0.copied_bytes.add(bytes);
    }

    fn damaged(&self, contents: u64) {
        self.0.damaged_contents.add(contents);
    }

    fn cached(&self, bytes: usize) {
        self.0.payload_cache.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn room(&self, space: Space, is_short: bool) {
        let available = i64::try_from(space.available).unwrap_or(i64::MAX);
        self.0.disk_available.set(available);
        self.0.disk_short.set(i64::from(is_short));
    }
}
