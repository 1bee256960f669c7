//! P1: a purge removes what was there before.

use super::index::{Index, Message};
use crate::{Call, Rule, Violation};

/// An accepted purge: when it was asked for and when it was answered.
struct Purge {
    start: u64,
    end: u64,
    operation: usize,
}

pub(super) fn check(index: &Index<'_>, violations: &mut Vec<Violation>) {
    for (queue, purges) in index.purges.iter().enumerate() {
        let mut purges: Vec<Purge> = purges
            .iter()
            .filter(|purge| index.operation(**purge).is_done())
            .map(|purge| Purge {
                start: index.operation(*purge).invoked_micros,
                end: index.effect_until(index.operation(*purge)),
                operation: *purge,
            })
            .collect();
        purges.sort_by_key(|purge| purge.start);
        if purges.is_empty() {
            continue;
        }
        for message in &index.messages {
            check_message(index, message, queue, &purges, violations);
        }
    }
}

/// A message that was certainly in the queue before a purge began is not received from it after the purge. If it had
/// moved to the dead-letter queue meanwhile it does not come back either.
fn check_message(
    index: &Index<'_>,
    message: &Message<'_>,
    queue: usize,
    purges: &[Purge],
    violations: &mut Vec<Violation>,
) {
    let sent = message.sends.iter().filter_map(|send| {
        let operation = index.operation(*send);
        let is_here = matches!(operation.call, Call::Send { queue: to, .. } if to == queue);
        is_here.then(|| index.effect_until(operation))
    });
    let received = message
        .deliveries
        .iter()
        .filter(|seen| seen.queue == queue)
        .map(|seen| seen.end);
    let Some(known) = sent.chain(received).min() else {
        return;
    };
    let first = purges.partition_point(|purge| purge.start <= known);
    let Some(purge) = purges[first..].iter().min_by_key(|purge| purge.end) else {
        return;
    };
    for seen in message
        .deliveries
        .iter()
        .filter(|seen| seen.queue == queue && seen.start > purge.end)
    {
        let operations = vec![purge.operation, seen.operation];
        let text = "received after the queue was purged";
        violations.push(index.violation(Rule::P1, queue, message.id, operations, text));
    }
}
