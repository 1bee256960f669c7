//! P0, S1 and H1: what is received is what was sent, once, and each receive is one of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::index::{Index, Message, Seen};
use crate::{Call, Operation, Reply, Rule, Violation};

pub(super) fn check(index: &Index<'_>, violations: &mut Vec<Violation>) {
    for message in &index.messages {
        for seen in &message.deliveries {
            if let Some(text) = foreign(index, message, seen) {
                let operations = vec![seen.operation];
                violations.push(index.violation(Rule::P0, seen.queue, message.id, operations, text));
            }
        }
        check_answers(index, message, violations);
    }
    check_copies(index, violations);
    check_handles(index, violations);
}

/// Says what a delivery has that was not sent so.
fn foreign(index: &Index<'_>, message: &Message<'_>, seen: &Seen<'_>) -> Option<&'static str> {
    let Some(attempts) = index.attempts.get(seen.delivery.body.as_str()) else {
        return Some("received a body that nobody sent");
    };
    let first = index.operation(*attempts.first()?);
    let Call::Send { queue, group, .. } = &first.call else {
        return None;
    };
    if !index.reachable(*queue).contains(&seen.queue) {
        return Some("received from a queue that it was not sent to");
    }
    if *group != seen.delivery.group {
        return Some("received with another message group");
    }
    let started = attempts
        .iter()
        .map(|at| index.operation(*at).invoked_micros)
        .min();
    if started.is_some_and(|started| seen.end < started) {
        return Some("received before it was sent");
    }
    let all_answered = attempts
        .iter()
        .all(|at| index.operation(*at).reply != Reply::Unknown);
    let is_named = attempts
        .iter()
        .any(|at| matches!(&index.operation(*at).reply, Reply::Sent { message: id, .. } if id == message.id));
    (all_answered && !is_named).then_some("received under an id that no send of this body was given")
}

/// S1: one id is answered for one message.
fn check_answers(index: &Index<'_>, message: &Message<'_>, violations: &mut Vec<Violation>) {
    let Some((first, others)) = message.sends.split_first() else {
        return;
    };
    let is_same = |a: &Operation, b: &Operation| match (&a.call, &b.call) {
        (
            Call::Send {
                queue,
                body,
                deduplication,
                ..
            },
            Call::Send {
                queue: other_queue,
                body: other_body,
                deduplication: other,
                ..
            },
        ) => {
            queue == other_queue
                && (body == other_body || (deduplication.is_some() && deduplication == other))
        }
        _ => false,
    };
    for other in others {
        let (a, b) = (index.operation(*first), index.operation(*other));
        let Call::Send { queue, .. } = b.call else {
            continue;
        };
        // A standard queue makes a new message of every attempt.
        let is_standard = !index.history.queues[queue].is_fifo();
        if is_standard || !is_same(a, b) {
            let operations = vec![*first, *other];
            let text = "two sends were given the same id";
            violations.push(index.violation(Rule::S1, queue, message.id, operations, text));
        }
    }
}

/// S1: of a body there are no more messages than there were attempts to send it.
fn check_copies(index: &Index<'_>, violations: &mut Vec<Violation>) {
    let mut ids: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for message in &index.messages {
        for send in &message.sends {
            if let Call::Send { body, .. } = &index.operation(*send).call {
                ids.entry(body).or_default().insert(message.id);
            }
        }
        for seen in &message.deliveries {
            ids.entry(&seen.delivery.body).or_default().insert(message.id);
        }
    }
    for (body, attempts) in &index.attempts {
        let made = ids.get(body).map_or(0, BTreeSet::len);
        let tried: Vec<usize> = attempts
            .iter()
            .copied()
            .filter(|at| !index.operation(*at).is_refused())
            .collect();
        let Some(Call::Send { queue, .. }) = attempts.first().map(|at| &index.operation(*at).call) else {
            continue;
        };
        if made > tried.len() {
            let text = "more messages than attempts to send it";
            violations.push(index.violation(Rule::S1, *queue, body, tried, text));
        }
    }
}

/// H1: a handle proves one receive.
fn check_handles(index: &Index<'_>, violations: &mut Vec<Violation>) {
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for message in &index.messages {
        for seen in &message.deliveries {
            let earlier = *first.entry(&seen.delivery.handle).or_insert(seen.operation);
            if earlier != seen.operation {
                let operations = vec![earlier, seen.operation];
                let text = "two receives gave the same handle";
                violations.push(index.violation(Rule::H1, seen.queue, message.id, operations, text));
            }
        }
    }
}
