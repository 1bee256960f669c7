//! X1: a message is in one queue, and in the dead-letter queue only after it was received often enough.

use super::index::{Index, Message};
use crate::{Rule, Violation};

pub(super) fn check(index: &Index<'_>, violations: &mut Vec<Violation>) {
    for message in &index.messages {
        let Some(source) = index.sent_to(message) else {
            continue;
        };
        let mut source = source;
        for queue in index.reachable(source).into_iter().skip(1) {
            check_move(index, message, source, queue, violations);
            source = queue;
        }
    }
}

fn check_move(
    index: &Index<'_>,
    message: &Message<'_>,
    source: usize,
    target: usize,
    violations: &mut Vec<Violation>,
) {
    let moved = message
        .deliveries
        .iter()
        .filter(|seen| seen.queue == target)
        .min_by_key(|seen| seen.end);
    let Some(moved) = moved else { return };
    let after = message
        .deliveries
        .iter()
        .find(|seen| seen.queue == source && seen.start > moved.end);
    if let Some(after) = after {
        let operations = vec![moved.operation, after.operation];
        let text = "received from the queue that it had left for the dead-letter queue";
        violations.push(index.violation(Rule::X1, source, message.id, operations, text));
    }
    let Some(policy) = &index.history.queues[source].dead_letters else {
        return;
    };
    let possible = receives_before(index, message, source, moved.end, policy.max_receive_count);
    if possible < policy.max_receive_count {
        let text = "in the dead-letter queue after too few receives";
        let mut operations: Vec<usize> = message
            .deliveries
            .iter()
            .filter(|seen| seen.queue == source)
            .map(|seen| seen.operation)
            .collect();
        operations.push(moved.operation);
        violations.push(index.violation(Rule::X1, source, message.id, operations, text));
    }
}

/// Returns how often a message may have been received from a queue before an instant, as far as `enough`: also every
/// receive that nobody saw the reply of may have taken it.
fn receives_before(index: &Index<'_>, message: &Message<'_>, queue: usize, at: u64, enough: u32) -> u32 {
    let seen = message
        .deliveries
        .iter()
        .filter(|seen| seen.queue == queue && seen.start < at)
        .map(|seen| seen.start);
    let count = seen
        .chain(unseen(index, message, queue, at))
        .take(enough as usize)
        .count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns the starts of receives without a reply that may have taken the message before an instant, in order.
fn unseen(index: &Index<'_>, message: &Message<'_>, queue: usize, at: u64) -> impl Iterator<Item = u64> {
    let born = message.born_micros;
    let start = |receive: &usize| index.operation(*receive).invoked_micros;
    // Sorted by their starts: those that were over before the message was there stand in front.
    let receives = &index.unseen_receives[queue];
    let first = receives
        .partition_point(|receive| start(receive).saturating_add(index.history.straggle_micros) < born);
    receives[first..]
        .iter()
        .map(start)
        .take_while(move |start| *start < at)
}

/// Returns from when on a message may have left a queue for the dead-letter queue; never if there is none.
pub(super) fn may_move_from(index: &Index<'_>, message: &Message<'_>, queue: usize) -> u64 {
    let Some(policy) = &index.history.queues[queue].dead_letters else {
        return u64::MAX;
    };
    let enough = policy.max_receive_count as usize;
    let seen = message
        .deliveries
        .iter()
        .filter(|seen| seen.queue == queue)
        .map(|seen| seen.start);
    let mut starts: Vec<u64> = seen
        .chain(unseen(index, message, queue, u64::MAX).take(enough))
        .collect();
    starts.sort_unstable();
    starts.get(enough.saturating_sub(1)).copied().unwrap_or(u64::MAX)
}
