//! V1, D1 and C1: who has a message, and what a delete and a receive count mean.

use super::index::{Index, Message, Seen};
use crate::{Call, Rule, Violation};

/// A time in which one client certainly had a message: it had the reply, and the timeout was not over, however early
/// within the receive it began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    pub(super) from: u64,
    pub(super) until: u64,
    /// The receive or visibility change.
    pub(super) operation: usize,
    /// The delivery by its place among those of the message.
    pub(super) delivery: usize,
}

impl Lease {
    /// Returns the leases of a message in the order of their beginnings.
    ///
    /// A lease ends for us where any visibility change was first tried that may have touched it, by whatever handle: an
    /// older one can end the timeout of a newer receive.
    pub(super) fn all(index: &Index<'_>, message: &Message<'_>) -> Vec<Self> {
        let mut tried: Vec<(u64, u64)> = message
            .changes
            .iter()
            .map(|change| {
                let operation = index.operation(change.operation);
                (index.effect_until(operation), operation.invoked_micros)
            })
            .collect();
        tried.sort_unstable();
        // From the back: the earliest start of all that may still take effect.
        let mut earliest = u64::MAX;
        for (_, start) in tried.iter_mut().rev() {
            earliest = earliest.min(*start);
            *start = earliest;
        }
        let mut leases: Vec<Self> = Vec::new();
        for (delivery, seen) in message.deliveries.iter().enumerate() {
            let next = tried.partition_point(|(until, _)| *until <= seen.start);
            let changed = tried.get(next).map_or(u64::MAX, |(_, start)| *start);
            let until = index.lease_end(seen.start, seen.visibility_micros).min(changed);
            leases.push(Self {
                from: seen.end,
                until,
                operation: seen.operation,
                delivery,
            });
        }
        leases.extend(Self::changed(index, message));
        leases.retain(|lease| lease.from < lease.until);
        leases.sort_by_key(|lease| lease.from);
        leases
    }

    /// Returns what accepted visibility changes made of leases that were certain when they were changed.
    fn changed(index: &Index<'_>, message: &Message<'_>) -> Vec<Self> {
        let mut changes = message.changes.clone();
        changes.sort_by_key(|change| index.operation(change.operation).invoked_micros);
        let mut leases: Vec<Self> = Vec::new();
        // Until when an earlier change may still take effect, and the last one that counts with the end of its lease.
        let mut unsettled = 0;
        let mut last: Option<(usize, u64)> = None;
        for (place, change) in changes.iter().enumerate() {
            let operation = index.operation(change.operation);
            let (start, end) = (operation.invoked_micros, index.effect_until(operation));
            let seen = &message.deliveries[change.delivery];
            let held_until = match last {
                Some((delivery, until)) if delivery == change.delivery => until,
                Some(_) | None if unsettled < seen.start => {
                    index.lease_end(seen.start, seen.visibility_micros)
                }
                Some(_) | None => 0,
            };
            let is_certain = operation.is_done() && unsettled < start && end < held_until;
            unsettled = unsettled.max(end);
            last = None;
            let Call::ChangeVisibility {
                visibility_micros, ..
            } = operation.call
            else {
                continue;
            };
            if !is_certain {
                continue;
            }
            let until = index.lease_end(start, visibility_micros);
            last = Some((change.delivery, until));
            let next = changes
                .get(place + 1)
                .map_or(u64::MAX, |next| index.operation(next.operation).invoked_micros);
            leases.push(Self {
                from: end,
                until: until.min(next),
                operation: change.operation,
                delivery: change.delivery,
            });
        }
        leases
    }
}

pub(super) fn check(index: &Index<'_>, violations: &mut Vec<Violation>) {
    for message in &index.messages {
        check_overlaps(index, message, violations);
        check_deletes(index, message, violations);
        check_counts(index, message, violations);
    }
}

/// V1: nobody receives a message from beginning to end within the certain lease of another receive.
fn check_overlaps(index: &Index<'_>, message: &Message<'_>, violations: &mut Vec<Violation>) {
    let mut leases = message.leases.iter().peekable();
    let mut longest: Option<&Lease> = None;
    let mut before: Option<&Seen<'_>> = None;
    for seen in &message.deliveries {
        while let Some(lease) = leases.next_if(|lease| lease.from < seen.start) {
            if longest.is_none_or(|longest| longest.until < lease.until) {
                longest = Some(lease);
            }
        }
        if let Some(lease) = longest.filter(|lease| seen.end < lease.until) {
            let operations = vec![lease.operation, seen.operation];
            let text = "received while somebody else had it";
            violations.push(index.violation(Rule::V1, seen.queue, message.id, operations, text));
        }
        if before.is_some_and(|before| before.operation == seen.operation) {
            let operations = vec![seen.operation];
            let text = "stands twice in one reply";
            violations.push(index.violation(Rule::V1, seen.queue, message.id, operations, text));
        }
        before = Some(seen);
    }
}

/// D1: what was deleted within the certain lease of the handle is never received again. A delete that was accepted
/// later proves nothing: the message may have been gone, or been with somebody else.
fn check_deletes(index: &Index<'_>, message: &Message<'_>, violations: &mut Vec<Violation>) {
    let deleted = message
        .deletes
        .iter()
        .filter(|delete| is_certain(index, message, delete.operation, delete.delivery))
        .map(|delete| {
            (
                index.effect_until(index.operation(delete.operation)),
                delete.operation,
            )
        })
        .min();
    let Some((gone, delete)) = deleted else { return };
    for seen in message.deliveries.iter().filter(|seen| seen.start > gone) {
        let operations = vec![delete, seen.operation];
        let text = "received after it was deleted";
        violations.push(index.violation(Rule::D1, seen.queue, message.id, operations, text));
    }
}

/// Whether an accepted operation happened from beginning to end while its handle certainly had the message.
pub(super) fn is_certain(
    index: &Index<'_>,
    message: &Message<'_>,
    operation: usize,
    delivery: usize,
) -> bool {
    let operation = index.operation(operation);
    let (start, end) = (operation.invoked_micros, index.effect_until(operation));
    operation.is_done()
        && message
            .leases
            .iter()
            .any(|lease| lease.delivery == delivery && lease.from <= start && end < lease.until)
}

/// C1: of two receives, one after the other, the second has the larger count.
fn check_counts(index: &Index<'_>, message: &Message<'_>, violations: &mut Vec<Violation>) {
    let mut ended: Vec<&Seen<'_>> = message.deliveries.iter().collect();
    ended.sort_by_key(|seen| seen.end);
    let mut ended = ended.into_iter().peekable();
    let mut highest: Option<&Seen<'_>> = None;
    for seen in &message.deliveries {
        while let Some(earlier) = ended.next_if(|earlier| earlier.end < seen.start) {
            if highest.is_none_or(|highest| highest.delivery.receive_count < earlier.delivery.receive_count) {
                highest = Some(earlier);
            }
        }
        if let Some(highest) =
            highest.filter(|highest| highest.delivery.receive_count >= seen.delivery.receive_count)
        {
            let operations = vec![highest.operation, seen.operation];
            let text = "the receive count did not grow";
            violations.push(index.violation(Rule::C1, seen.queue, message.id, operations, text));
        }
    }
}
