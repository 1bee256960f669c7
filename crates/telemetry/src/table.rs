//! The table of metrics. A new metric is a new entry here, a line in [`METRICS`] and a handle in `metrics`.

use crate::declared::{Declared, Kind};

const fn metric(name: &'static str, kind: Kind, unit: &'static str, meaning: &'static str) -> Declared {
    Declared {
        name,
        kind,
        unit,
        meaning,
        labels: &[],
        since: "0.1",
    }
}

pub(crate) static BUILD: Declared = Declared {
    labels: &["version"],
    ..metric("holdfast_build_info", Kind::Gauge, "1", "Which build this is.")
};

pub(crate) static DURABILITY: Declared = Declared {
    labels: &["fsync"],
    ..metric(
        "holdfast_durability_info",
        Kind::Gauge,
        "1",
        "Whether requests are answered when the disk has them (always) or when the operating system has them (off).",
    )
};

pub(crate) static REQUESTS: Declared = Declared {
    labels: &["action", "code"],
    ..metric(
        "holdfast_requests_total",
        Kind::Counter,
        "requests",
        "Requests answered, by action and error code; the code of a success is ok.",
    )
};

pub(crate) static REQUEST_DURATION: Declared = Declared {
    labels: &["action"],
    ..metric(
        "holdfast_request_duration_seconds",
        Kind::Histogram,
        "seconds",
        "Time from the whole request to its answer, by action; the wait of a long poll is part of it.",
    )
};

pub(crate) static CONNECTIONS_OPEN: Declared = metric(
    "holdfast_connections_open",
    Kind::Gauge,
    "connections",
    "Client connections that are open.",
);

pub(crate) static LONG_POLLS_PARKED: Declared = metric(
    "holdfast_long_polls_parked",
    Kind::Gauge,
    "requests",
    "Receives that wait for a message.",
);

pub(crate) static MESSAGES_SENT: Declared = metric(
    "holdfast_messages_sent_total",
    Kind::Counter,
    "messages",
    "Messages accepted into a queue; a FIFO message that repeats an earlier one is not among them.",
);

pub(crate) static MESSAGES_RECEIVED: Declared = metric(
    "holdfast_messages_received_total",
    Kind::Counter,
    "messages",
    "Messages handed out, each time anew.",
);

pub(crate) static MESSAGES_DELETED: Declared = metric(
    "holdfast_messages_deleted_total",
    Kind::Counter,
    "messages",
    "Messages deleted by clients; those purged or past their retention are not among them.",
);

pub(crate) static MESSAGES_DEAD_LETTERED: Declared = metric(
    "holdfast_messages_dead_lettered_total",
    Kind::Counter,
    "messages",
    "Messages moved to a dead-letter queue.",
);

pub(crate) static EMPTY_RECEIVES: Declared = metric(
    "holdfast_empty_receives_total",
    Kind::Counter,
    "requests",
    "Receives answered without a message.",
);

pub(crate) static TAKES_GIVEN_BACK: Declared = metric(
    "holdfast_takes_given_back_total",
    Kind::Counter,
    "messages",
    "Messages put back in their place because the answer that carried them could not be written.",
);

pub(crate) static BACKPRESSURE_REFUSALS: Declared = Declared {
    labels: &["reason"],
    ..metric(
        "holdfast_backpressure_refusals_total",
        Kind::Counter,
        "requests",
        "Requests or connections refused because a limit was reached, by the limit.",
    )
};

pub(crate) static INBOX_COMMANDS: Declared = metric(
    "holdfast_inbox_commands",
    Kind::Gauge,
    "commands",
    "Commands that wait for their commit, as of the last commit.",
);

pub(crate) static COMMIT_BATCH_COMMANDS: Declared = metric(
    "holdfast_commit_batch_commands",
    Kind::Histogram,
    "commands",
    "Commands committed together; the count is the number of commits.",
);

pub(crate) static FSYNC: Declared = metric(
    "holdfast_wal_fsync_seconds",
    Kind::Histogram,
    "seconds",
    "Time that the disk took to make a commit durable; the count is the number of syncs.",
);

pub(crate) static WRITTEN_BYTES: Declared = metric(
    "holdfast_wal_written_bytes_total",
    Kind::Counter,
    "bytes",
    "Bytes written to the journal, headers and padding included.",
);

pub(crate) static SEGMENT_WAITS: Declared = metric(
    "holdfast_wal_segment_waits_total",
    Kind::Counter,
    "waits",
    "Commits that had to wait because the journal's next segment was not ready.",
);

pub(crate) static SNAPSHOT: Declared = metric(
    "holdfast_snapshot_seconds",
    Kind::Histogram,
    "seconds",
    "Time from the start of a snapshot until it was durable; the count is the number of snapshots.",
);

pub(crate) static SNAPSHOT_PAUSE: Declared = metric(
    "holdfast_snapshot_pause_seconds",
    Kind::Histogram,
    "seconds",
    "Time for which a snapshot held up commits when it began.",
);

pub(crate) static COPIED_BYTES: Declared = metric(
    "holdfast_store_copied_bytes_total",
    Kind::Counter,
    "bytes",
    "Message contents that were written again so that an old file of the journal could go.",
);

pub(crate) static DAMAGED_CONTENTS: Declared = metric(
    "holdfast_store_damaged_contents_total",
    Kind::Counter,
    "contents",
    "Message contents that were read and were not what had been stored. Each time a message is left out of an answer \
     counts.",
);

pub(crate) static PAYLOAD_CACHE: Declared = metric(
    "holdfast_payload_cache_bytes",
    Kind::Gauge,
    "bytes",
    "Memory of message contents that also lie on the disk, as of the last look at the room.",
);

pub(crate) static DISK_AVAILABLE: Declared = metric(
    "holdfast_disk_available_bytes",
    Kind::Gauge,
    "bytes",
    "Room on the file system of the data directory.",
);

pub(crate) static DISK_SHORT: Declared = metric(
    "holdfast_disk_short",
    Kind::Gauge,
    "",
    "1 while sends are refused because the disk is almost full, else 0.",
);

pub(crate) static CLUSTER_IS_LEADER: Declared = metric(
    "holdfast_cluster_is_leader",
    Kind::Gauge,
    "",
    "1 while this node leads its cluster with a quorum behind it, else 0. A server without a cluster has no sample.",
);

pub(crate) static CLUSTER_TERM: Declared = metric(
    "holdfast_cluster_term",
    Kind::Gauge,
    "terms",
    "Raft's term, as this node knows it: every election raises it.",
);

pub(crate) static CLUSTER_APPLIED_INDEX: Declared = metric(
    "holdfast_cluster_applied_index",
    Kind::Gauge,
    "entries",
    "The last entry of the log that is applied on this node; what it is below that of the leader is its lag.",
);

pub(crate) static CLUSTER_PEERS_REACHABLE: Declared = metric(
    "holdfast_cluster_peers_reachable",
    Kind::Gauge,
    "nodes",
    "Other nodes of the cluster, with a vote or without, that this one has heard within the last two seconds.",
);

pub(crate) static CLUSTER_INSECURE: Declared = metric(
    "holdfast_cluster_insecure",
    Kind::Gauge,
    "",
    "1 if links between nodes have neither a secret nor certificates, else 0.",
);

pub(crate) static CLUSTER_FEATURE_LEVEL: Declared = metric(
    "holdfast_cluster_feature_level",
    Kind::Gauge,
    "levels",
    "The feature level of the cluster: nodes of a lower one are refused. 0 until this node has heard of one.",
);

pub(crate) static CLUSTER_LINK_SENT_BYTES: Declared = metric(
    "holdfast_cluster_link_sent_bytes_total",
    Kind::Counter,
    "bytes",
    "Bytes that this node has written to the links with other nodes.",
);

pub(crate) static CLUSTER_LINK_RECEIVED_BYTES: Declared = metric(
    "holdfast_cluster_link_received_bytes_total",
    Kind::Counter,
    "bytes",
    "Bytes that this node has read from the links with other nodes.",
);

pub(crate) static CLUSTER_LINKS_LOST: Declared = metric(
    "holdfast_cluster_links_lost_total",
    Kind::Counter,
    "connections",
    "Connections with other nodes that have ended, for whatever reason.",
);

pub(crate) static CLUSTER_LINKS_REFUSED: Declared = metric(
    "holdfast_cluster_links_refused_total",
    Kind::Counter,
    "connections",
    "Connections that this node or another one refused: another secret, cluster or version, a node id twice.",
);

/// Every metric.
pub static METRICS: [&Declared; 35] = [
    &BUILD,
    &DURABILITY,
    &REQUESTS,
    &REQUEST_DURATION,
    &CONNECTIONS_OPEN,
    &LONG_POLLS_PARKED,
    &MESSAGES_SENT,
    &MESSAGES_RECEIVED,
    &MESSAGES_DELETED,
    &MESSAGES_DEAD_LETTERED,
    &EMPTY_RECEIVES,
    &TAKES_GIVEN_BACK,
    &BACKPRESSURE_REFUSALS,
    &INBOX_COMMANDS,
    &COMMIT_BATCH_COMMANDS,
    &FSYNC,
    &WRITTEN_BYTES,
    &SEGMENT_WAITS,
    &SNAPSHOT,
    &SNAPSHOT_PAUSE,
    &COPIED_BYTES,
    &DAMAGED_CONTENTS,
    &PAYLOAD_CACHE,
    &DISK_AVAILABLE,
    &DISK_SHORT,
    &CLUSTER_IS_LEADER,
    &CLUSTER_TERM,
    &CLUSTER_APPLIED_INDEX,
    &CLUSTER_PEERS_REACHABLE,
    &CLUSTER_INSECURE,
    &CLUSTER_FEATURE_LEVEL,
    &CLUSTER_LINK_SENT_BYTES,
    &CLUSTER_LINK_RECEIVED_BYTES,
    &CLUSTER_LINKS_LOST,
    &CLUSTER_LINKS_REFUSED,
];
