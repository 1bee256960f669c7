//! Counts what the commit thread does.

use std::sync::Arc;

use broker::{Commit, Observer};
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

    fn snapshot(&self, _bytes: u64, seconds: f64) {
        self.0
            .snapshot
            .observe_duration(std::time::Duration::from_secs_f64(seconds));
    }
}
