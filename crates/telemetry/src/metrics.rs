//! All metrics of a process, one handle for each line of the table.

use crate::declared::{Family, Page};
use crate::histogram::{BACKGROUND_NANOS, COMMANDS, FSYNC_NANOS, Histogram};
use crate::requests::Requests;
use crate::table;
use crate::value::{Counter, Gauge, Info, Reading, Refusals};

/// All metrics of a process. The table says what each means.
#[derive(Debug)]
pub struct Metrics {
    /// The version of the build.
    pub build: Info,
    /// The durability mode: `always` or `off`.
    pub durability: Info,
    /// Requests by action and code, and how long they took.
    pub requests: Requests,
    /// Client connections that are open.
    pub connections_open: Gauge,
    /// Receives that wait.
    pub long_polls_parked: Gauge,
    /// Messages accepted.
    pub messages_sent: Counter,
    /// Messages handed out.
    pub messages_received: Counter,
    /// Messages deleted by clients.
    pub messages_deleted: Counter,
    /// Messages moved to a dead-letter queue.
    pub messages_dead_lettered: Counter,
    /// Receives answered without a message.
    pub empty_receives: Counter,
    /// Messages put back because their answer could not be written.
    pub takes_given_back: Counter,
    /// Refusals because a limit was reached.
    pub backpressure_refusals: Refusals,
    /// Commands that wait for their commit.
    pub inbox_commands: Gauge,
    /// Commands committed together.
    pub commit_batch_commands: Histogram,
    /// Nanoseconds of a sync.
    pub fsync: Histogram,
    /// Bytes written to the journal.
    pub written_bytes: Counter,
    /// Commits that waited for a segment.
    pub segment_waits: Counter,
    /// Nanoseconds of a snapshot.
    pub snapshot: Histogram,
    /// Nanoseconds for which a snapshot held up commits.
    pub snapshot_pause: Histogram,
    /// Bytes of contents written again.
    pub copied_bytes: Counter,
    /// Contents that were not what had been stored.
    pub damaged_contents: Counter,
    /// Memory of contents that also lie on the disk.
    pub payload_cache: Gauge,
    /// Room on the disk.
    pub disk_available: Gauge,
    /// Whether sends are refused for want of room.
    pub disk_short: Gauge,
    /// Whether this node leads its cluster.
    pub cluster_is_leader: Reading,
    /// The term that this node knows of.
    pub cluster_term: Reading,
    /// The last entry that is applied on this node.
    pub cluster_applied_index: Reading,
    /// Other nodes of the cluster that are in reach.
    pub cluster_peers_reachable: Reading,
    /// Whether links between nodes are not protected.
    pub cluster_insecure: Reading,
    /// The feature level of the cluster.
    pub cluster_feature_level: Reading,
    /// `holdfast_cluster_link_sent_bytes_total`
    pub cluster_link_sent_bytes: Reading,
    /// `holdfast_cluster_link_received_bytes_total`
    pub cluster_link_received_bytes: Reading,
    /// `holdfast_cluster_links_lost_total`
    pub cluster_links_lost: Reading,
    /// `holdfast_cluster_links_refused_total`
    pub cluster_links_refused: Reading,
}

impl Metrics {
    /// The content type of [`Metrics::render`].
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// Makes the metrics of a process that has these actions, all at zero.
    pub fn new(actions: &'static [&'static str]) -> Self {
        Self {
            build: Info::new(&table::BUILD),
            durability: Info::new(&table::DURABILITY),
            requests: Requests::new(actions),
            connections_open: Gauge::new(&table::CONNECTIONS_OPEN),
            long_polls_parked: Gauge::new(&table::LONG_POLLS_PARKED),
            messages_sent: Counter::new(&table::MESSAGES_SENT),
            messages_received: Counter::new(&table::MESSAGES_RECEIVED),
            messages_deleted: Counter::new(&table::MESSAGES_DELETED),
            messages_dead_lettered: Counter::new(&table::MESSAGES_DEAD_LETTERED),
            empty_receives: Counter::new(&table::EMPTY_RECEIVES),
            takes_given_back: Counter::new(&table::TAKES_GIVEN_BACK),
            backpressure_refusals: Refusals::new(&table::BACKPRESSURE_REFUSALS),
            inbox_commands: Gauge::new(&table::INBOX_COMMANDS),
            commit_batch_commands: Histogram::new(&table::COMMIT_BATCH_COMMANDS, &COMMANDS),
            fsync: Histogram::new(&table::FSYNC, &FSYNC_NANOS),
            written_bytes: Counter::new(&table::WRITTEN_BYTES),
            segment_waits: Counter::new(&table::SEGMENT_WAITS),
            snapshot: Histogram::new(&table::SNAPSHOT, &BACKGROUND_NANOS),
            snapshot_pause: Histogram::new(&table::SNAPSHOT_PAUSE, &FSYNC_NANOS),
            copied_bytes: Counter::new(&table::COPIED_BYTES),
            damaged_contents: Counter::new(&table::DAMAGED_CONTENTS),
            payload_cache: Gauge::new(&table::PAYLOAD_CACHE),
            disk_available: Gauge::new(&table::DISK_AVAILABLE),
            disk_short: Gauge::new(&table::DISK_SHORT),
            cluster_is_leader: Reading::new(&table::CLUSTER_IS_LEADER),
            cluster_term: Reading::new(&table::CLUSTER_TERM),
            cluster_applied_index: Reading::new(&table::CLUSTER_APPLIED_INDEX),
            cluster_peers_reachable: Reading::new(&table::CLUSTER_PEERS_REACHABLE),
            cluster_insecure: Reading::new(&table::CLUSTER_INSECURE),
            cluster_feature_level: Reading::new(&table::CLUSTER_FEATURE_LEVEL),
            cluster_link_sent_bytes: Reading::new(&table::CLUSTER_LINK_SENT_BYTES),
            cluster_link_received_bytes: Reading::new(&table::CLUSTER_LINK_RECEIVED_BYTES),
            cluster_links_lost: Reading::new(&table::CLUSTER_LINKS_LOST),
            cluster_links_refused: Reading::new(&table::CLUSTER_LINKS_REFUSED),
        }
    }

    /// Returns all metrics in Prometheus's text format.
    pub fn render(&self) -> String {
        let mut page = Page::default();
        let families: [&dyn Family; table::METRICS.len()] = [
            &self.build,
            &self.durability,
            &self.requests.counts(),
            &self.requests.durations(),
            &self.connections_open,
            &self.long_polls_parked,
            &self.messages_sent,
            &self.messages_received,
            &self.messages_deleted,
            &self.messages_dead_lettered,
            &self.empty_receives,
            &self.takes_given_back,
            &self.backpressure_refusals,
            &self.inbox_commands,
            &self.commit_batch_commands,
            &self.fsync,
            &self.written_bytes,
            &self.segment_waits,
            &self.snapshot,
            &self.snapshot_pause,
            &self.copied_bytes,
            &self.damaged_contents,
            &self.payload_cache,
            &self.disk_available,
            &self.disk_short,
            &self.cluster_is_leader,
            &self.cluster_term,
            &self.cluster_applied_index,
            &self.cluster_peers_reachable,
            &self.cluster_insecure,
            &self.cluster_feature_level,
            &self.cluster_link_sent_bytes,
            &self.cluster_link_received_bytes,
            &self.cluster_links_lost,
            &self.cluster_links_refused,
        ];
        for family in families {
            page.family(family);
        }
        page.into_text()
    }
}
