//! Q1: what a repeated send is answered with.

use std::collections::BTreeMap;

use super::index::Index;
use crate::{Call, Reply, Rule, Violation};

pub(super) fn check(index: &Index<'_>, violations: &mut Vec<Violation>) {
    let received = received_by_body(index);
    for ((queue, key), attempts) in &index.keys {
        let window = index.history.queues[*queue].deduplication_micros;
        if window == 0 {
            continue;
        }
        check_within(index, *queue, key, attempts, window, &received, violations);
        check_beyond(index, *queue, key, attempts, window, violations);
    }
}

/// Returns the ids and one receive of each body.
fn received_by_body<'a>(index: &Index<'a>) -> BTreeMap<&'a str, Vec<(&'a str, usize)>> {
    let mut received: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for message in &index.messages {
        if let Some(seen) = message.deliveries.first() {
            received
                .entry(&seen.delivery.body)
                .or_default()
                .push((message.id, seen.operation));
        }
    }
    received
}

/// Whatever is done within a window from the start of the very first attempt makes one message: the id is remembered
/// from some instant after that start. A purge clears the memory, so where one may have happened nothing is certain.
fn check_within(
    index: &Index<'_>,
    queue: usize,
    key: &str,
    attempts: &[usize],
    window: u64,
    received: &BTreeMap<&str, Vec<(&str, usize)>>,
    violations: &mut Vec<Violation>,
) {
    let start = |at: &usize| index.operation(*at).invoked_micros;
    let Some(first) = attempts.iter().map(start).min() else {
        return;
    };
    let over = first
        .saturating_add(window)
        .saturating_sub(index.history.clock_error_micros);
    let is_cleared = index.purges[queue]
        .iter()
        .any(|purge| index.effect_until(index.operation(*purge)) >= first && start(purge) < over);
    if is_cleared {
        return;
    }
    let is_within = |at: &usize| index.effect_until(index.operation(*at)) < over;
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    for at in attempts.iter().filter(|at| is_within(at)) {
        if let Reply::Sent { message, .. } = &index.operation(*at).reply {
            ids.entry(message).or_insert(*at);
        }
    }
    // Also what was received counts, if all attempts that can have made it were within.
    if attempts.iter().all(is_within) {
        let bodies = attempts.iter().filter_map(|at| {
            let Call::Send { body, .. } = &index.operation(*at).call else {
                return None;
            };
            received.get(body.as_str())
        });
        for (id, receive) in bodies.flatten() {
            ids.entry(id).or_insert(*receive);
        }
    }
    if ids.len() > 1 {
        let text = "one deduplication id made several messages within its window";
        let operations = ids.values().copied().collect();
        violations.push(index.violation(Rule::Q1, queue, key, operations, text));
    }
}

/// After a window from the first answer the id is forgotten, so it makes a new message.
fn check_beyond(
    index: &Index<'_>,
    queue: usize,
    key: &str,
    attempts: &[usize],
    window: u64,
    violations: &mut Vec<Violation>,
) {
    let mut answered: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for at in attempts {
        let operation = index.operation(*at);
        let Reply::Sent { message, .. } = &operation.reply else {
            continue;
        };
        let end = index.effect_until(operation);
        let earliest = answered.entry(message).or_insert((end, *at));
        *earliest = (*earliest).min((end, *at));
    }
    for at in attempts {
        let operation = index.operation(*at);
        let Reply::Sent { message, .. } = &operation.reply else {
            continue;
        };
        if let Some((end, first)) = answered.get(message.as_str())
            && operation.invoked_micros > end.saturating_add(window + index.history.clock_error_micros)
        {
            let text = "a deduplication id was remembered beyond its window";
            violations.push(index.violation(Rule::Q1, queue, key, vec![*first, *at], text));
        }
    }
}
