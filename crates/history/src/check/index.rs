//! A history by message, by body and by queue.

use std::collections::BTreeMap;

use super::leases::Lease;
use crate::{Call, Delivery, History, Operation, Reply, Rule, Violation};

/// What the rules look things up in.
pub(super) struct Index<'a> {
    pub(super) history: &'a History,
    pub(super) messages: Vec<Message<'a>>,
    /// All attempts to send a body, in the order of the history.
    pub(super) attempts: BTreeMap<&'a str, Vec<usize>>,
    /// All attempts to send under a deduplication id, in the order of the history.
    pub(super) keys: BTreeMap<(usize, &'a str), Vec<usize>>,
    /// Of each queue, receives of which nobody knows what they took.
    pub(super) unseen_receives: Vec<Vec<usize>>,
    /// Of each queue, purges that were not refused.
    pub(super) purges: Vec<Vec<usize>>,
    /// Of each queue, the end of the last receive that was answered.
    pub(super) last_receives: Vec<u64>,
    by_id: BTreeMap<&'a str, usize>,
}

/// Everything about one message id.
#[derive(Default)]
pub(super) struct Message<'a> {
    pub(super) id: &'a str,
    /// Sends that were answered with this id.
    pub(super) sends: Vec<usize>,
    /// The earliest start of any attempt that may have made the message: a retry may be answered with what an earlier,
    /// unanswered attempt did.
    pub(super) born_micros: u64,
    /// Its deliveries in the order of their starts.
    pub(super) deliveries: Vec<Seen<'a>>,
    /// Deletes by any of its handles, with the delivery whose handle it is.
    pub(super) deletes: Vec<ByHandle>,
    /// Visibility changes by any of its handles, with the delivery whose handle it is.
    pub(super) changes: Vec<ByHandle>,
    /// The times in which it was certainly with somebody.
    pub(super) leases: Vec<Lease>,
}

impl Message<'_> {
    /// Whether a receive that began at this time or later brought the message.
    pub(super) fn is_received_from(&self, from_micros: u64) -> bool {
        self.deliveries.iter().any(|seen| seen.start >= from_micros)
    }
}

/// An operation on one delivery.
#[derive(Clone, Copy)]
pub(super) struct ByHandle {
    pub(super) operation: usize,
    pub(super) delivery: usize,
}

/// One delivery.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) operation: usize,
    pub(super) queue: usize,
    pub(super) delivery: &'a Delivery,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) visibility_micros: u64,
}

impl<'a> Index<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        let mut index = Self {
            history,
            messages: Vec::new(),
            attempts: BTreeMap::new(),
            keys: BTreeMap::new(),
            unseen_receives: vec![Vec::new(); history.queues.len()],
            purges: vec![Vec::new(); history.queues.len()],
            last_receives: vec![0; history.queues.len()],
            by_id: BTreeMap::new(),
        };
        for (at, operation) in history.operations.iter().enumerate() {
            index.enter(at, operation);
        }
        for message in &mut index.messages {
            message.deliveries.sort_by_key(|seen| seen.start);
        }
        for receives in &mut index.unseen_receives {
            receives.sort_by_key(|receive| history.operations[*receive].invoked_micros);
        }
        index.enter_handles();
        let born: Vec<u64> = index.messages.iter().map(|message| index.born(message)).collect();
        for (message, born) in index.messages.iter_mut().zip(born) {
            message.born_micros = born;
        }
        let leases: Vec<Vec<Lease>> = index
            .messages
            .iter()
            .map(|message| Lease::all(&index, message))
            .collect();
        for (message, leases) in index.messages.iter_mut().zip(leases) {
            message.leases = leases;
        }
        index
    }

    fn enter(&mut self, at: usize, operation: &'a Operation) {
        match (&operation.call, &operation.reply) {
            (
                Call::Send {
                    queue,
                    body,
                    deduplication,
                    ..
                },
                reply,
            ) => {
                self.attempts.entry(body).or_default().push(at);
                if let Some(id) = deduplication {
                    self.keys.entry((*queue, id)).or_default().push(at);
                }
                if let Reply::Sent { message, .. } = reply {
                    self.message(message).sends.push(at);
                }
            }
            (
                Call::Receive {
                    queue,
                    visibility_micros,
                },
                Reply::Received(deliveries),
            ) => {
                let last = &mut self.last_receives[*queue];
                *last = (*last).max(operation.returned_micros.unwrap_or_default());
                for delivery in deliveries {
                    let seen = Seen {
                        operation: at,
                        queue: *queue,
                        delivery,
                        start: operation.invoked_micros,
                        end: self.effect_until(operation),
                        visibility_micros: *visibility_micros,
                    };
                    self.message(&delivery.message).deliveries.push(seen);
                }
            }
            (Call::Receive { queue, .. }, Reply::Unknown) => self.unseen_receives[*queue].push(at),
            (Call::Purge { queue }, Reply::Unknown | Reply::Done) => self.purges[*queue].push(at),
            (
                Call::Receive { .. }
                | Call::Purge { .. }
                | Call::Delete { .. }
                | Call::ChangeVisibility { .. },
                Reply::Refused(_) | Reply::Done | Reply::Unknown | Reply::Sent { .. } | Reply::Received(_),
            ) => {}
        }
    }

    fn message(&mut self, id: &'a str) -> &mut Message<'a> {
        let next = self.messages.len();
        let at = *self.by_id.entry(id).or_insert(next);
        if at == next {
            self.messages.push(Message {
                id,
                ..Message::default()
            });
        }
        &mut self.messages[at]
    }

    /// Gives deletes and visibility changes to the messages of their handles. A handle that nobody received is none of
    /// the server's making.
    fn enter_handles(&mut self) {
        let mut handles: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (message, entry) in self.messages.iter().enumerate() {
            for (delivery, seen) in entry.deliveries.iter().enumerate() {
                handles
                    .entry(&seen.delivery.handle)
                    .or_insert((message, delivery));
            }
        }
        for (at, operation) in self.history.operations.iter().enumerate() {
            let (handle, is_delete) = match &operation.call {
                Call::Delete { handle, .. } => (handle, true),
                Call::ChangeVisibility { handle, .. } => (handle, false),
                Call::Send { .. } | Call::Receive { .. } | Call::Purge { .. } => continue,
            };
            let Some((message, delivery)) = handles.get(handle.as_str()).copied() else {
                continue;
            };
            let entry = ByHandle {
                operation: at,
                delivery,
            };
            let message = &mut self.messages[message];
            if operation.is_refused() {
                continue;
            }
            if is_delete {
                message.deletes.push(entry);
            } else {
                message.changes.push(entry);
            }
        }
    }

    fn born(&self, message: &Message<'a>) -> u64 {
        let from_body = message
            .deliveries
            .first()
            .and_then(|seen| self.attempts.get(seen.delivery.body.as_str()))
            .and_then(|attempts| attempts.first());
        let Some(first) = message.sends.first().or(from_body) else {
            return message.deliveries.first().map_or(0, |seen| seen.start);
        };
        let Call::Send {
            queue,
            body,
            deduplication,
            ..
        } = &self.operation(*first).call
        else {
            return 0;
        };
        let by_key = deduplication
            .as_ref()
            .and_then(|key| self.keys.get(&(*queue, key.as_str())));
        let attempts = by_key
            .into_iter()
            .chain(self.attempts.get(body.as_str()))
            .flatten();
        attempts
            .map(|at| self.operation(*at).invoked_micros)
            .min()
            .unwrap_or_default()
    }

    /// Returns an operation by its place in the history.
    pub(super) fn operation(&self, at: usize) -> &'a Operation {
        &self.history.operations[at]
    }

    /// Returns until when an operation may take effect.
    pub(super) fn effect_until(&self, operation: &Operation) -> u64 {
        let unanswered = operation
            .invoked_micros
            .saturating_add(self.history.straggle_micros);
        match (&operation.reply, operation.returned_micros) {
            (Reply::Unknown, _) | (_, None) => unanswered,
            (Reply::Refused(_) | Reply::Sent { .. } | Reply::Received(_) | Reply::Done, Some(at)) => at,
        }
    }

    /// Returns when a lease of this length certainly still runs that began no earlier than `start`.
    pub(super) fn lease_end(&self, start: u64, visibility_micros: u64) -> u64 {
        (start + visibility_micros).saturating_sub(self.history.clock_error_micros)
    }

    /// Returns a queue, its dead-letter queue, that one's and so on, each once.
    pub(super) fn reachable(&self, queue: usize) -> Vec<usize> {
        let mut queues = vec![queue];
        let mut last = queue;
        while let Some(next) = self.history.queues[last].dead_letters.as_ref()
            && !queues.contains(&next.queue)
        {
            last = next.queue;
            queues.push(last);
        }
        queues
    }

    /// Returns the queue that a message was sent to, if any attempt to send it is known.
    pub(super) fn sent_to(&self, message: &Message<'a>) -> Option<usize> {
        let by_body = || {
            let body = message.deliveries.first()?.delivery.body.as_str();
            self.attempts.get(body)?.first()
        };
        match &self.operation(*message.sends.first().or_else(by_body)?).call {
            Call::Send { queue, .. } => Some(*queue),
            Call::Receive { .. }
            | Call::Delete { .. }
            | Call::ChangeVisibility { .. }
            | Call::Purge { .. } => None,
        }
    }

    /// Says what is wrong with a message.
    pub(super) fn violation(
        &self,
        rule: Rule,
        queue: usize,
        message: &str,
        operations: Vec<usize>,
        text: &str,
    ) -> Violation {
        Violation {
            rule,
            queue: self.history.queues[queue].name.clone(),
            message: message.to_owned(),
            operations,
            text: text.to_owned(),
        }
    }
}
