//! One queue: its attributes, its counters, and the orders in which its messages are received and expire.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use types::{QueueId, QueueKey, Sequence, Slot, Timestamp, WallTime, limits};

use crate::attributes::QueueAttributes;
use crate::deduplication::Memory;
use crate::header::{Delivery, Header};
use crate::slab::Slab;

/// How many messages a queue holds, each counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that can be received, or would be if their group were not blocked.
    pub visible: u64,
    /// Messages whose delay still runs.
    pub delayed: u64,
    /// Messages received and neither deleted nor lapsed.
    pub in_flight: u64,
}

impl Counters {
    /// Returns the number of all messages.
    pub const fn total(&self) -> u64 {
        self.visible + self.delayed + self.in_flight
    }

    pub(crate) fn of(&mut self, delivery: Delivery) -> &mut u64 {
        match delivery {
            Delivery::Delayed => &mut self.delayed,
            Delivery::Available => &mut self.visible,
            Delivery::InFlight => &mut self.in_flight,
        }
    }
}

/// What a client sees of a queue and can set. Shared with snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) key: QueueKey,
    pub(crate) attributes: QueueAttributes,
    pub(crate) tags: BTreeMap<Box<str>, Box<str>>,
    pub(crate) created: WallTime,
    pub(crate) modified: WallTime,
}

/// The stored part of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) id: QueueId,
    pub(crate) settings: Arc<Settings>,
    pub(crate) next_sequence: Sequence,
    /// Messages before this sequence were purged.
    pub(crate) floor: Sequence,
    /// Counts purges: groups of an older generation are gone.
    pub(crate) generation: u32,
    pub(crate) purged_at: Option<Timestamp>,
}

/// A message in a list of its queue; kept small, because there are two lists with every message in them.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
struct Entry {
    sequence: Sequence,
    slot: Slot,
}

/// One queue.
#[derive(Debug)]
pub struct Queue {
    pub(crate) record: Record,
    pub(crate) counters: Counters,
    pub(crate) deduplication: Memory,
    /// FIFO: groups that can be served, by ticket.
    pub(crate) ready: BTreeMap<i64, u32>,
    /// Standard: messages that became available when they were added, in order.
    fresh: VecDeque<Entry>,
    /// Standard: messages that became available later.
    returned: BinaryHeap<Reverse<(Sequence, Slot)>>,
    /// All messages in the order of age, but for the late ones.
    ages: VecDeque<Entry>,
    /// Messages that came with an age: dead-letter moves.
    late_ages: BinaryHeap<Reverse<(Timestamp, Sequence, Slot)>>,
    /// The age of the last of `ages`.
    last_age: Timestamp,
    /// The time under which the queue stands in the expiry heap; `NEVER` if it does not.
    pub(crate) expiry_at: Timestamp,
}

/// Stale entries below which the list of ages is never cleaned.
const CLEAN_FLOOR: usize = 1_024;

impl Queue {
    pub(crate) fn new(record: Record) -> Self {
        Self {
            record,
            counters: Counters::default(),
            deduplication: Memory::default(),
            ready: BTreeMap::new(),
            fresh: VecDeque::new(),
            returned: BinaryHeap::new(),
            ages: VecDeque::new(),
            late_ages: BinaryHeap::new(),
            last_age: Timestamp::ZERO,
            expiry_at: Timestamp::NEVER,
        }
    }

    /// Returns the queue's incarnation.
    pub fn id(&self) -> QueueId {
        self.record.id
    }

    /// Returns the queue's tenant and name.
    pub fn key(&self) -> &QueueKey {
        &self.record.settings.key
    }

    /// Returns the attributes that a client can set.
    pub fn attributes(&self) -> &QueueAttributes {
        &self.record.settings.attributes
    }

    /// Returns the tags in the order of their keys.
    pub fn tags(&self) -> impl Iterator<Item = (&str, &str)> {
        self.record
            .settings
            .tags
            .iter()
            .map(|(key, value)| (&**key, &**value))
    }

    /// Returns when the queue was created.
    pub fn created(&self) -> WallTime {
        self.record.settings.created
    }

    /// Returns when an attribute was last changed.
    pub fn modified(&self) -> WallTime {
        self.record.settings.modified
    }

    /// Returns the exact number of messages in each state, due timers aside.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether the queue is a FIFO queue.
    pub fn is_fifo(&self) -> bool {
        self.attributes().fifo.is_some()
    }

    /// Whether a receive would find a message now.
    pub(crate) fn has_available(&self) -> bool {
        let available = if self.is_fifo() {
            !self.ready.is_empty()
        } else {
            self.counters.visible > 0
        };
        available && !self.is_at_limit()
    }

    /// Whether as many messages are in flight as may be.
    pub(crate) fn is_at_limit(&self) -> bool {
        self.counters.in_flight >= limits::IN_FLIGHT_MAX
    }

    pub(crate) fn take_sequence(&mut self) -> Sequence {
        let sequence = self.record.next_sequence;
        self.record.next_sequence = sequence.next();
        sequence
    }

    /// Enters a message that is available from the start; it is the newest of the queue.
    pub(crate) fn push_fresh(&mut self, sequence: Sequence, slot: Slot) {
        self.fresh.push_back(Entry { sequence, slot });
    }

    /// Enters a message that became available again, or after its delay.
    pub(crate) fn push_returned(&mut self, slab: &mut Slab, sequence: Sequence, slot: Slot) {
        if !std::mem::replace(&mut slab.links_mut(slot).is_returned, true) {
            self.returned.push(Reverse((sequence, slot)));
        }
    }

    /// Takes the oldest available message of a standard queue off its list.
    pub(crate) fn pop_available(&mut self, slab: &mut Slab) -> Option<Slot> {
        let id = self.id();
        let is_available =
            |header: Option<&Header>| header.is_some_and(|header| header.delivery == Delivery::Available);
        while let Some(Entry { sequence, slot }) = self.fresh.front().copied() {
            if is_available(slab.find(id, sequence, slot)) {
                break;
            }
            self.fresh.pop_front();
        }
        while let Some(Reverse((sequence, slot))) = self.returned.peek().copied() {
            let header = slab.find(id, sequence, slot);
            if is_available(header) {
                break;
            }
            if header.is_some() {
                slab.links_mut(slot).is_returned = false;
            }
            self.returned.pop();
        }
        let fresh = self.fresh.front().map(|entry| entry.sequence);
        let returned = self.returned.peek().map(|entry| entry.0);
        match (fresh, returned) {
            (Some(fresh), returned) if returned.is_none_or(|(sequence, _)| fresh < sequence) => {
                self.fresh.pop_front().map(|entry| entry.slot)
            }
            (_, Some((_, slot))) => {
                self.returned.pop();
                slab.links_mut(slot).is_returned = false;
                Some(slot)
            }
            (_, None) => None,
        }
    }

    /// Enters a message in the order of expiry.
    pub(crate) fn push_age(&mut self, slab: &Slab, age_from: Timestamp, sequence: Sequence, slot: Slot) {
        let id = self.record.id;
        let live = usize::try_from(self.counters.total()).unwrap_or(usize::MAX / 4);
        let entries_max = 2 * live + CLEAN_FLOOR;
        if age_from < self.last_age {
            if self.late_ages.len() > entries_max {
                self.late_ages
                    .retain(|Reverse((_, sequence, slot))| slab.find(id, *sequence, *slot).is_some());
            }
            self.late_ages.push(Reverse((age_from, sequence, slot)));
            return;
        }
        self.last_age = age_from;
        if self.ages.len() > entries_max {
            self.ages
                .retain(|entry| slab.find(id, entry.sequence, entry.slot).is_some());
        }
        self.ages.push_back(Entry { sequence, slot });
    }

    /// Returns the oldest message and what its age is counted from.
    pub(crate) fn oldest(&mut self, slab: &Slab) -> Option<(Timestamp, Slot)> {
        let id = self.id();
        let mut oldest = None;
        while let Some(Entry { sequence, slot }) = self.ages.front().copied() {
            if let Some(header) = slab.find(id, sequence, slot) {
                oldest = Some((header.age_from, sequence, slot));
                break;
            }
            self.ages.pop_front();
        }
        while let Some(Reverse((age_from, sequence, slot))) = self.late_ages.peek().copied() {
            if slab.find(id, sequence, slot).is_some() {
                let late = (age_from, sequence, slot);
                oldest = Some(oldest.map_or(late, |first| first.min(late)));
                break;
            }
            self.late_ages.pop();
        }
        oldest.map(|(age_from, _, slot)| (age_from, slot))
    }

    #[cfg(test)]
    pub(crate) fn late_ages_len(&self) -> usize {
        self.late_ages.len()
    }

    /// Forgets every message: they were purged.
    pub(crate) fn clear(&mut self) {
        self.record.floor = self.record.next_sequence;
        self.record.generation += 1;
        self.counters = Counters::default();
        self.deduplication = Memory::default();
        self.ready.clear();
        self.fresh = VecDeque::new();
        self.returned = BinaryHeap::new();
        self.ages = VecDeque::new();
        self.late_ages = BinaryHeap::new();
    }
}
