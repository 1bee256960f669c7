//! One queue: its attributes, its counters, and the orders in which its messages are received and expire.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use types::{QueueId, QueueKey, Sequence, Slot, Timestamp, WallTime, limits};

use crate::attempts::Attempts;
use crate::attributes::QueueAttributes;
use crate::chunked::ChunkedDeque;
use crate::deduplication::Memory;
use crate::header::Delivery;
use crate::line::{Entry, Line};
use crate::slab::Slab;
use crate::task::Moving;

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
    /// Standard: whether a message ever had a group, so that groups are served in turn.
    pub(crate) is_fair: bool,
    /// Standard: takes so far, modulo four. Every fourth is the oldest message whatever its group.
    pub(crate) takes: u8,
    /// The move task that empties the queue.
    pub(crate) moving: Option<Moving>,
}

/// The place of a message group of a standard queue in the order of service: fewest in flight first, then the one
/// that was served longest ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FairPlace {
    pub(crate) in_flight: u32,
    pub(crate) ticket: i64,
    pub(crate) group: u32,
}

/// One queue.
#[derive(Debug)]
pub struct Queue {
    pub(crate) record: Record,
    pub(crate) counters: Counters,
    /// Most messages that may be in flight: the partition's limit.
    pub(crate) in_flight_max: u64,
    pub(crate) deduplication: Memory,
    /// FIFO: receives that can be repeated.
    pub(crate) attempts: Attempts,
    /// FIFO: groups that can be served, by ticket.
    pub(crate) ready: BTreeMap<i64, u32>,
    /// Standard: the available messages.
    pub(crate) line: Line,
    /// Standard: groups that have available messages, in the order in which they are to be served.
    pub(crate) fair: BTreeSet<FairPlace>,
    /// All messages in the order of age, but for the late ones.
    ages: ChunkedDeque<Entry>,
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
            in_flight_max: limits::IN_FLIGHT_MAX,
            deduplication: Memory::default(),
            attempts: Attempts::default(),
            ready: BTreeMap::new(),
            line: Line::default(),
            fair: BTreeSet::new(),
            ages: ChunkedDeque::default(),
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
        self.counters.in_flight >= self.in_flight_max
    }

    pub(crate) fn take_sequence(&mut self) -> Sequence {
        let sequence = self.record.next_sequence;
        self.record.next_sequence = sequence.next();
        sequence
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

    /// Returns the bytes that the lists of messages and the deduplication memory take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let late = self.late_ages.capacity() * size_of::<Reverse<(Timestamp, Sequence, Slot)>>();
        self.line.memory_bytes() + self.ages.memory_bytes() + late + self.deduplication.memory_bytes()
    }

    #[cfg(test)]
    pub(crate) fn late_ages_len(&self) -> usize {
        self.late_ages.len()
    }

    /// Returns the messages whose delay still runs, in the order in which they were sent.
    pub(crate) fn delayed(&self, slab: &Slab) -> Vec<Slot> {
        if self.counters.delayed == 0 {
            return Vec::new();
        }
        let id = self.id();
        let late = self
            .late_ages
            .iter()
            .map(|Reverse((_, sequence, slot))| (*sequence, *slot));
        let all = self.ages.iter().map(|entry| (entry.sequence, entry.slot));
        let is_delayed = |(sequence, slot): &(Sequence, Slot)| {
            slab.find(id, *sequence, *slot)
                .is_some_and(|header| header.delivery == Delivery::Delayed)
        };
        let mut delayed: Vec<_> = all.chain(late).filter(is_delayed).collect();
        delayed.sort_unstable();
        delayed.dedup();
        delayed.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Forgets every message: they were purged.
    pub(crate) fn clear(&mut self) {
        self.record.floor = self.record.next_sequence;
        self.record.generation += 1;
        self.counters = Counters::default();
        self.deduplication = Memory::default();
        self.attempts = Attempts::default();
        self.record.is_fair = false;
        if let Some(moving) = &mut self.record.moving {
            moving.remaining = 0;
        }
        self.ready.clear();
        self.line = Line::default();
        self.fair.clear();
        self.ages = ChunkedDeque::default();
        self.late_ages = BinaryHeap::new();
    }
}
