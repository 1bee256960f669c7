//! O1 and O2: the order of FIFO queues.

use std::collections::BTreeMap;

use super::dead_letters;
use super::index::{Index, Message};
use super::range_max::RangeMax;
use crate::{Call, Reply, Rule, Violation};

/// A message in one FIFO queue: a dead-letter move gives it a new place.
struct Placed<'a, 'i> {
    message: &'i Message<'a>,
    sequence: u64,
    group: Option<&'a str>,
    /// From when on it may be gone from the queue.
    gone_from: u64,
}

pub(super) fn check(index: &Index<'_>, violations: &mut Vec<Violation>) {
    for queue in 0..index.history.queues.len() {
        if !index.history.queues[queue].is_fifo() {
            continue;
        }
        let mut placed = placed(index, queue, violations);
        check_real_time(index, queue, violations);
        placed.sort_by_key(|placed| (placed.group, placed.sequence));
        check_groups(index, queue, &placed, violations);
    }
}

/// Returns what is known of the places of a queue. O2: a place has one message, and a message one place.
fn placed<'a, 'i>(
    index: &'i Index<'a>,
    queue: usize,
    violations: &mut Vec<Violation>,
) -> Vec<Placed<'a, 'i>> {
    let mut owners: BTreeMap<u64, (&str, usize)> = BTreeMap::new();
    let mut all = Vec::new();
    for message in &index.messages {
        let mut place: Option<(u64, Option<&str>, usize)> = None;
        for (sequence, group, operation) in sequences(index, message, queue) {
            let (owner, first) = *owners.entry(sequence).or_insert((message.id, operation));
            if owner != message.id {
                let text = "its sequence number is that of another message";
                let operations = vec![first, operation];
                violations.push(index.violation(Rule::O2, queue, message.id, operations, text));
            }
            let (earlier, _, first) = *place.get_or_insert((sequence, group, operation));
            if earlier != sequence {
                let text = "its sequence number changed";
                let operations = vec![first, operation];
                violations.push(index.violation(Rule::O2, queue, message.id, operations, text));
            }
        }
        if let Some((sequence, group, _)) = place {
            all.push(Placed {
                message,
                sequence,
                group,
                gone_from: gone_from(index, message, queue),
            });
        }
    }
    all
}

/// Returns the sequence numbers that a message was seen with in a queue.
fn sequences<'a, 'i>(
    index: &'i Index<'a>,
    message: &'i Message<'a>,
    queue: usize,
) -> impl Iterator<Item = (u64, Option<&'a str>, usize)> + use<'a, 'i> {
    let sent = message.sends.iter().filter_map(move |send| {
        let operation = index.operation(*send);
        match (&operation.call, &operation.reply) {
            (Call::Send { queue: to, group, .. }, Reply::Sent { sequence, .. }) if *to == queue => {
                Some(((*sequence)?, group.as_deref(), *send))
            }
            _ => None,
        }
    });
    let received = message
        .deliveries
        .iter()
        .filter(move |seen| seen.queue == queue)
        .filter_map(|seen| {
            Some((
                seen.delivery.sequence?,
                seen.delivery.group.as_deref(),
                seen.operation,
            ))
        });
    sent.chain(received)
}

/// Returns from when on a message may be gone from a queue: somebody tried to delete it or to purge the queue, it may be
/// too old, or it may have been received too often.
fn gone_from(index: &Index<'_>, message: &Message<'_>, queue: usize) -> u64 {
    let deletes = message
        .deletes
        .iter()
        .map(|delete| index.operation(delete.operation).invoked_micros);
    let purges = index.purges[queue]
        .iter()
        .map(|purge| index.operation(*purge))
        .filter(|purge| index.effect_until(purge) >= message.born_micros)
        .map(|purge| purge.invoked_micros);
    let retention = index.history.queues[queue].retention_micros;
    let expiry = message
        .born_micros
        .saturating_add(retention)
        .saturating_sub(index.history.clock_error_micros);
    let moves = dead_letters::may_move_from(index, message, queue);
    deletes
        .chain(purges)
        .chain([expiry, moves])
        .min()
        .unwrap_or(u64::MAX)
}

/// O2: what was sent after another send was answered has the larger number.
fn check_real_time(index: &Index<'_>, queue: usize, violations: &mut Vec<Violation>) {
    let mut sends: Vec<(u64, u64, u64, &Message<'_>, usize)> = Vec::new();
    for message in &index.messages {
        for send in &message.sends {
            let operation = index.operation(*send);
            if let (
                Call::Send { queue: to, .. },
                Reply::Sent {
                    sequence: Some(sequence),
                    ..
                },
            ) = (&operation.call, &operation.reply)
                && *to == queue
            {
                let end = index.effect_until(operation);
                sends.push((message.born_micros, end, *sequence, message, *send));
            }
        }
    }
    let mut ended: Vec<(u64, u64, usize)> = sends
        .iter()
        .map(|(_, end, sequence, _, send)| (*end, *sequence, *send))
        .collect();
    ended.sort_unstable();
    sends.sort_by_key(|(start, ..)| *start);
    let mut ended = ended.into_iter().peekable();
    let mut highest: Option<(u64, usize)> = None;
    for (start, _, sequence, message, send) in sends {
        while let Some((_, sequence, send)) = ended.next_if(|(end, ..)| *end < start) {
            highest = highest.max(Some((sequence, send)));
        }
        if let Some((_, first)) = highest.filter(|(highest, _)| *highest >= sequence) {
            let text = "its sequence number is not above that of a message sent before";
            violations.push(index.violation(Rule::O2, queue, message.id, vec![first, send], text));
        }
    }
}

/// O1: when a message arrives, each one before it in its group may be gone, or stands before it in the same reply.
fn check_groups(index: &Index<'_>, queue: usize, placed: &[Placed<'_, '_>], violations: &mut Vec<Violation>) {
    let gone = RangeMax::new(placed.iter().map(|placed| placed.gone_from));
    // Of each reply and group the place that came last.
    let mut last: BTreeMap<(usize, Option<&str>), usize> = BTreeMap::new();
    let mut by_id: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, placed) in placed.iter().enumerate() {
        by_id.insert(placed.message.id, at);
    }
    for operation in 0..index.history.operations.len() {
        let entry = index.operation(operation);
        if !matches!(entry.call, Call::Receive { queue: from, .. } if from == queue) {
            continue;
        }
        let end = index.effect_until(entry);
        for delivery in entry.deliveries() {
            let Some(at) = by_id.get(delivery.message.as_str()).copied() else {
                continue;
            };
            let group = placed[at].group;
            let start = placed.partition_point(|placed| placed.group < group);
            let before = last.insert((operation, group), at);
            if before.is_some_and(|before| before > at) {
                let text = "stands behind a later message of its group in one reply";
                violations.push(index.violation(
                    Rule::O1,
                    queue,
                    placed[at].message.id,
                    vec![operation],
                    text,
                ));
            }
            let from = before.map_or(start, |before| (before + 1).min(at));
            if let Some((gone, earlier)) = gone.of(from, at)
                && gone > end
            {
                let mut operations = placed[earlier].message.sends.clone();
                operations.push(operation);
                let text = format!(
                    "received before {} of its group was done with",
                    placed[earlier].message.id
                );
                violations.push(index.violation(Rule::O1, queue, placed[at].message.id, operations, &text));
            }
        }
    }
}
