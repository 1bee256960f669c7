//! Fair queues: which message of a standard queue with message groups is next.

use super::{Message, Queue};

/// A message group of a standard queue that has messages, and when it was served last: 0 if it never was.
#[derive(Debug, Clone)]
pub(super) struct Share {
    name: String,
    served: u64,
}

impl Queue {
    /// Adds a message at the end. In a standard queue that ever had a group since its last purge, messages without one
    /// share the group "".
    pub(super) fn enter(&mut self, message: Message) {
        let mut message = message;
        if !self.is_fifo() {
            let named = message.group.take().filter(|name| !name.is_empty());
            self.is_fair |= named.is_some();
            message.group = named.or(self.is_fair.then(String::new));
            if let Some(name) = &message.group
                && !self.shares.iter().any(|share| share.name == *name)
            {
                let (name, served) = (name.clone(), 0);
                self.shares.push(Share { name, served });
            }
        }
        self.messages.push(message);
    }

    /// A group without messages is forgotten.
    pub(super) fn forget_shares(&mut self) {
        let Self { shares, messages, .. } = self;
        shares.retain(|share| messages.iter().any(|m| m.group.as_ref() == Some(&share.name)));
    }

    /// Returns the message that a take hands out, those of `taken` being in flight already.
    pub(super) fn next_in_turn(&mut self, taken: &[u64]) -> Option<u64> {
        let is_in_flight = |m: &Message| (m.hidden && m.leased) || taken.contains(&m.uid);
        let can = |m: &&Message| !m.hidden && !taken.contains(&m.uid);
        let of_share = |m: &&Message, share: &Share| m.group.as_ref() == Some(&share.name);
        let oldest = self.messages.iter().find(can)?;
        let oldest = (oldest.uid, oldest.group.clone());
        let waiting = self
            .shares
            .iter()
            .filter(|share| self.messages.iter().any(|m| can(&m) && of_share(&m, share)));
        let turn = |share: &&Share| {
            let of_share = self.messages.iter().filter(|m| of_share(m, share));
            (of_share.filter(|m| is_in_flight(m)).count(), share.served)
        };
        // Of groups that are equal here the one whose message came first.
        let Some(first) = waiting.min_by_key(turn) else {
            return Some(oldest.0);
        };
        let (first, of_first) = (first.name.clone(), |m: &&Message| can(m) && of_share(m, first));
        let next = self.messages.iter().find(of_first)?.uid;
        self.takes = (self.takes + 1) % 4;
        let (uid, group) = if self.takes == 0 {
            oldest
        } else {
            (next, Some(first))
        };
        self.turns += 1;
        if let Some(share) = self
            .shares
            .iter_mut()
            .find(|share| Some(&share.name) == group.as_ref())
        {
            share.served = self.turns;
        }
        Some(uid)
    }
}
