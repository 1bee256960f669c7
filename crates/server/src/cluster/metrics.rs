//! What `/metrics` says of the cluster. It is read when somebody asks, so a node that only serves pays nothing for it.

use ::cluster::Cluster;
use telemetry::Metrics;

/// Takes the readings of a node. One that has not read its log yet knows only how its links are protected.
pub(crate) fn measure(cluster: &Cluster, metrics: &Metrics) {
    metrics.cluster_insecure.set(u64::from(cluster.is_insecure()));
    let links = cluster.link_counts();
    metrics.cluster_link_sent_bytes.set(links.sent_bytes);
    metrics.cluster_link_received_bytes.set(links.received_bytes);
    metrics.cluster_links_lost.set(links.lost);
    metrics.cluster_links_refused.set(links.refused);
    let Some(node) = cluster.started() else {
        return;
    };
    let view = node.view();
    // By the lease, not by what Raft calls itself: a leader that is cut off does not know of the next one.
    let is_leader = view.leader == Some(view.id);
    let others = view.members.keys().filter(|id| **id != view.id);
    let reachable = others.filter(|id| cluster.reaches(**id)).count();
    metrics.cluster_is_leader.set(u64::from(is_leader));
    metrics.cluster_term.set(view.term);
    metrics.cluster_applied_index.set(view.applied);
    metrics.cluster_peers_reachable.set(reachable as u64);
    metrics
        .cluster_feature_level
        .set(u64::from(cluster.feature_level()));
}
