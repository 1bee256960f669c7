//! How often what the rules are about has happened.

use std::collections::BTreeMap;

use super::index::Index;
use super::{leases, losses};
use crate::coverage::{
    CHANGED, DEAD_LETTERED, DEDUPLICATED, DELETED, EXPIRED, ORDERED, PURGED, RECEIVED, REDELIVERED, SENT,
    STALE_DELETE, UNKNOWN,
};
use crate::{Call, Reply};

pub(super) fn count(index: &Index<'_>) -> BTreeMap<String, u64> {
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |name: &str, more: usize| {
        *counted.entry(name.to_owned()).or_default() += more as u64;
    };
    for operation in &index.history.operations {
        match (&operation.call, &operation.reply) {
            (_, Reply::Unknown) => add(UNKNOWN, 1),
            (Call::Send { .. }, Reply::Sent { .. }) => add(SENT, 1),
            (Call::Receive { .. }, Reply::Received(deliveries)) => add(RECEIVED, deliveries.len()),
            (Call::ChangeVisibility { .. }, Reply::Done) => add(CHANGED, 1),
            (Call::Purge { .. }, Reply::Done) => add(PURGED, 1),
            (_, Reply::Sent { .. } | Reply::Received(_) | Reply::Done | Reply::Refused(_)) => {}
        }
    }
    let mut groups: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for message in &index.messages {
        let again = message
            .deliveries
            .iter()
            .filter(|seen| seen.delivery.receive_count > 1);
        add(REDELIVERED, again.count());
        let Some(queue) = index.sent_to(message) else {
            continue;
        };
        let moved = message.deliveries.iter().any(|seen| seen.queue != queue);
        add(DEAD_LETTERED, usize::from(moved));
        add(DEDUPLICATED, message.sends.len().saturating_sub(1));
        for delete in &message.deletes {
            let is_certain = leases::is_certain(index, message, delete.operation, delete.delivery);
            add(DELETED, usize::from(is_certain));
            add(
                STALE_DELETE,
                usize::from(losses::is_overtaken(index, message, *delete)),
            );
        }
        let has_expired = message.deletes.is_empty()
            && index
                .history
                .drained_from_micros
                .is_some_and(|from| !message.is_received_from(from))
            && losses::may_have_expired(index, message, queue, losses::last_look(index, queue));
        add(EXPIRED, usize::from(has_expired));
        if let Some(group) = message
            .deliveries
            .first()
            .and_then(|seen| seen.delivery.group.as_deref())
        {
            *groups.entry((queue, group)).or_default() += 1;
        }
    }
    let fifo = groups
        .iter()
        .filter(|((queue, _), _)| index.history.queues[*queue].is_fifo());
    add(
        ORDERED,
        fifo.map(|(_, received)| received.saturating_sub(1)).sum(),
    );
    for fault in &index.history.faults {
        add(&fault.name, 1);
    }
    counted
}
