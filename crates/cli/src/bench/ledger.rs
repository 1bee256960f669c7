//! Who was promised what: every message from the start of its send to its receipt.
//!
//! Only an acknowledged send counts as sent; one without an answer may have happened or not, and its message may
//! come. Order is that in which one sender sent to one message group: it waited for each answer before the next send,
//! so nothing else is promised between senders.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::stamp::Stamp;

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checked {
    /// Sends that were acknowledged.
    pub(crate) sent: u64,
    /// Sends without an acknowledgement; their messages may come.
    pub(crate) unacknowledged: u64,
    /// Different messages that were received.
    pub(crate) received: u64,
    /// Messages that were acknowledged and never received; none where that was not looked for.
    pub(crate) lost: Option<u64>,
    /// Receipts of a message that was received before.
    pub(crate) duplicated: u64,
    /// Messages that came after a later one of the same sender and group; none on a standard queue.
    pub(crate) out_of_order: Option<u64>,
    /// Messages whose body is not, in every byte, one that was sent.
    pub(crate) wrong_body: u64,
}

/// What a receipt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receipt {
    First,
    Again,
    /// Nobody sent it.
    Unknown,
}

/// One bit for each message of a sender.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

#[derive(Debug, Default)]
struct Producer {
    begun: u64,
    acknowledged: Bits,
    received: Bits,
}

/// The messages of one run.
#[derive(Debug)]
pub(crate) struct Ledger {
    is_fifo: bool,
    producers: Vec<Producer>,
    /// The latest sequence received, by sender and group.
    latest: HashMap<(u16, u32), u64>,
    /// Acknowledged and not yet received.
    missing: u64,
    checked: Checked,
}

impl Bits {
    /// Sets a bit and returns what it was.
    fn set(&mut self, at: u64) -> bool {
        let (word, bit) = ((at / 64) as usize, 1 << (at % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let was = self.0[word] & bit != 0;
        self.0[word] |= bit;
        was
    }

    fn get(&self, at: u64) -> bool {
        self.0
            .get((at / 64) as usize)
            .is_some_and(|word| word & (1 << (at % 64)) != 0)
    }
}

impl Ledger {
    pub(crate) fn new(producers: usize, is_fifo: bool) -> Self {
        Self {
            is_fifo,
            producers: (0..producers).map(|_| Producer::default()).collect(),
            latest: HashMap::new(),
            missing: 0,
            checked: Checked::default(),
        }
    }

    /// Notes that a sender begins to send so many more messages, and returns the sequence of the first.
    pub(crate) fn begin(&mut self, producer: u16, count: u64) -> u64 {
        let producer = &mut self.producers[usize::from(producer)];
        let first = producer.begun;
        producer.begun += count;
        first
    }

    /// Notes that a send was acknowledged. Its message may have been received already.
    pub(crate) fn acknowledge(&mut self, producer: u16, sequence: u64) {
        let producer = &mut self.producers[usize::from(producer)];
        if !producer.acknowledged.set(sequence) {
            self.checked.sent += 1;
            self.missing += u64::from(!producer.received.get(sequence));
        }
    }

    /// Notes that a message was received.
    pub(crate) fn receive(&mut self, stamp: &Stamp) -> Receipt {
        let known = self.producers.get_mut(usize::from(stamp.producer));
        let Some(producer) = known.filter(|producer| stamp.sequence < producer.begun) else {
            self.receive_wrong();
            return Receipt::Unknown;
        };
        if producer.received.set(stamp.sequence) {
            self.checked.duplicated += 1;
            return Receipt::Again;
        }
        self.checked.received += 1;
        self.missing -= u64::from(producer.acknowledged.get(stamp.sequence));
        if self.is_fifo {
            self.check_order(stamp);
        }
        Receipt::First
    }

    /// Notes that a message was received whose body nobody sent.
    pub(crate) fn receive_wrong(&mut self) {
        self.checked.wrong_body += 1;
    }

    /// Returns how many acknowledged messages were not received yet.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns how many different messages were received.
    pub(crate) fn received(&self) -> u64 {
        self.checked.received
    }

    /// Returns what was found. Only when everything that can be received was, what is missing is lost.
    pub(crate) fn checked(&self, is_complete: bool) -> Checked {
        let begun: u64 = self.producers.iter().map(|producer| producer.begun).sum();
        let mut checked = self.checked;
        checked.unacknowledged = begun - checked.sent;
        checked.lost = is_complete.then_some(self.missing);
        if self.is_fifo {
            checked.out_of_order.get_or_insert(0);
        }
        checked
    }

    fn check_order(&mut self, stamp: &Stamp) {
        let latest = self
            .latest
            .entry((stamp.producer, stamp.group))
            .or_insert(stamp.sequence);
        if stamp.sequence < *latest {
            *self.checked.out_of_order.get_or_insert(0) += 1;
        } else {
            *latest = stamp.sequence;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const GROUPS: u32 = 3;

    fn stamp(producer: u16, sequence: u64) -> Stamp {
        Stamp {
            run: 1,
            producer,
            sequence,
            group: sequence as u32 % GROUPS,
            intended: Duration::ZERO,
        }
    }

    /// Two senders of 100 messages each, all acknowledged, received in the order that `disturb` makes of it.
    fn after(disturb: impl FnOnce(&mut Vec<Stamp>)) -> Checked {
        let mut ledger = Ledger::new(2, true);
        let mut arriving = Vec::new();
        for sequence in 0..100 {
            for producer in 0..2 {
                assert_eq!(ledger.begin(producer, 1), sequence);
                ledger.acknowledge(producer, sequence);
                arriving.push(stamp(producer, sequence));
            }
        }
        disturb(&mut arriving);
        for stamp in &arriving {
            ledger.receive(stamp);
        }
        ledger.checked(true)
    }

    const CLEAN: Checked = Checked {
        sent: 200,
        unacknowledged: 0,
        received: 200,
        lost: Some(0),
        duplicated: 0,
        out_of_order: Some(0),
        wrong_body: 0,
    };

    #[test]
    fn nothing_is_found_where_nothing_is_wrong() {
        assert_eq!(after(|_| ()), CLEAN);
        // Other senders and other groups may overtake.
        assert_eq!(
            after(|arriving| arriving.sort_by_key(|stamp| (stamp.group, stamp.producer))),
            CLEAN
        );
    }

    #[test]
    fn a_loss_is_found() {
        let found = after(|arriving| {
            arriving.remove(57);
        });
        assert_eq!(
            found,
            Checked {
                received: 199,
                lost: Some(1),
                ..CLEAN
            }
        );
    }

    #[test]
    fn a_duplicate_is_found_and_is_no_disorder() {
        let found = after(|arriving| arriving.push(arriving[57]));
        assert_eq!(
            found,
            Checked {
                duplicated: 1,
                ..CLEAN
            }
        );
    }

    #[test]
    fn a_reorder_within_a_group_is_found() {
        // Neighbours of one sender and one group.
        let found = after(|arriving| arriving.swap(60, 60 + 2 * GROUPS as usize));
        assert_eq!(
            found,
            Checked {
                out_of_order: Some(1),
                ..CLEAN
            }
        );
        let found = after(|arriving| arriving.reverse());
        // All but the first of each sender and group.
        assert_eq!(found.out_of_order, Some(200 - 2 * u64::from(GROUPS)));
    }

    #[test]
    fn what_nobody_sent_is_found() {
        for unknown in [stamp(0, 100), stamp(2, 0)] {
            let found = after(|arriving| arriving.push(unknown));
            assert_eq!(
                found,
                Checked {
                    wrong_body: 1,
                    ..CLEAN
                }
            );
        }
    }

    #[test]
    fn a_send_without_an_answer_may_have_happened() {
        let mut ledger = Ledger::new(1, false);
        assert_eq!(ledger.begin(0, 3), 0);
        assert_eq!(ledger.receive(&stamp(0, 1)), Receipt::First);
        assert_eq!((ledger.missing(), ledger.checked(true).lost), (0, Some(0)));
        // The answer comes after the message, once more for another.
        ledger.acknowledge(0, 1);
        ledger.acknowledge(0, 2);
        assert_eq!(ledger.missing(), 1);
        let found = ledger.checked(false);
        assert_eq!(
            (found.sent, found.unacknowledged, found.lost, found.out_of_order),
            (2, 1, None, None)
        );
    }
}
