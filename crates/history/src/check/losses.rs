//! L1 and F1: what was accepted is there until somebody deletes it who may.

use super::index::{ByHandle, Index, Message};
use crate::{Rule, Violation};

pub(super) fn check(index: &Index<'_>, violations: &mut Vec<Violation>) {
    let Some(drained_from) = index.history.drained_from_micros else {
        return;
    };
    for message in &index.messages {
        let Some(queue) = index.sent_to(message) else {
            continue;
        };
        let is_drained = message.is_received_from(drained_from);
        if is_drained || !was_accepted(message) || may_be_gone(index, message, queue) {
            continue;
        }
        let overtaken = message.deletes.iter().map(|delete| delete.operation);
        let mut operations = message.sends.clone();
        let (rule, text) = if message.deletes.is_empty() {
            (Rule::L1, "accepted, never deleted, and not there at the end")
        } else {
            operations.extend(overtaken);
            (Rule::F1, "deleted by a handle that a newer receive had overtaken")
        };
        operations.extend(message.deliveries.iter().map(|seen| seen.operation));
        violations.push(index.violation(rule, queue, message.id, operations, text));
    }
}

/// Whether a client knows of the message: its send was answered, or it was received.
fn was_accepted(message: &Message<'_>) -> bool {
    !message.sends.is_empty() || !message.deliveries.is_empty()
}

/// Whether there is a reason for which the message may rightly be gone.
fn may_be_gone(index: &Index<'_>, message: &Message<'_>, queue: usize) -> bool {
    may_have_expired(index, message, queue, last_look(index, queue))
        || may_be_purged(index, message, queue)
        || message
            .deletes
            .iter()
            .any(|delete| !is_overtaken(index, message, *delete))
}

/// Whether the message may be older than its retention at an instant. Of the queues that it may be in, the shortest
/// counts: age goes on through a dead-letter move.
pub(super) fn may_have_expired(index: &Index<'_>, message: &Message<'_>, queue: usize, at: u64) -> bool {
    let retention = index
        .reachable(queue)
        .into_iter()
        .map(|queue| index.history.queues[queue].retention_micros)
        .min()
        .unwrap_or(u64::MAX);
    let expiry = message.born_micros.saturating_add(retention);
    expiry.saturating_sub(index.history.clock_error_micros) <= at
}

fn may_be_purged(index: &Index<'_>, message: &Message<'_>, queue: usize) -> bool {
    index
        .reachable(queue)
        .into_iter()
        .flat_map(|queue| &index.purges[queue])
        .any(|purge| index.effect_until(index.operation(*purge)) >= message.born_micros)
}

/// Whether a delete was answered while a newer receive certainly had the message, so that it had no effect.
pub(super) fn is_overtaken(index: &Index<'_>, message: &Message<'_>, delete: ByHandle) -> bool {
    let operation = index.operation(delete.operation);
    let end = index.effect_until(operation);
    let own_end = message.deliveries[delete.delivery].end;
    operation.is_done()
        && message.leases.iter().any(|lease| {
            let newer = &message.deliveries[lease.delivery];
            newer.start > own_end && lease.from <= operation.invoked_micros && end < lease.until
        })
}

/// Returns when a queue and those that its messages may move to were looked into for the last time.
pub(super) fn last_look(index: &Index<'_>, queue: usize) -> u64 {
    let looks = index
        .reachable(queue)
        .into_iter()
        .map(|queue| index.last_receives[queue]);
    looks.max().unwrap_or_default()
}
