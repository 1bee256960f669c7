//! What nodes compare, to notice that one of them did not come to the same: a running hash of what was applied and of what
//! it came to, and the feature level that all of them understand.

use types::LogIndex;

use crate::codec::DecodeError;
use crate::{Applied, Delivery, Effect, Enqueued, Outcome, Partition, QueueError};

/// The highest feature level that this program understands. A state of a higher one is refused, and so is the command
/// that raises the level beyond it.
pub const LEVEL: u32 = if cfg!(feature = "next-level") { 2 } else { 1 };

/// A hash over entries and outcomes, from one entry on. Two nodes that applied the same entries since the same one have
/// the same; it is compared only between such nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunningHash {
    /// The entry that it begins with; 0 for the first of all.
    pub since: LogIndex,
    /// The hash.
    pub hash: u64,
}

impl RunningHash {
    /// Takes a number in.
    fn add(&mut self, number: u64) {
        // The multiplier of MurmurHash3, and a shift so that high bits reach the low ones.
        let mixed = (self.hash ^ number).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.hash = mixed ^ (mixed >> 32);
    }

    fn add_refusal(&mut self, refusal: &QueueError) {
        let (number, detail) = match refusal {
            QueueError::NoSuchQueue => (1, 0),
            QueueError::QueueDeletedRecently => (2, 0),
            QueueError::AttributeDiffers(_) => (3, 0),
            QueueError::PurgeInProgress => (4, 0),
            QueueError::MessageTooLong { max_bytes } => (5, *max_bytes),
            QueueError::MissingDeduplicationId => (6, 0),
            QueueError::WrongQueueType => (7, 0),
            QueueError::ForeignReceipt => (8, 0),
            QueueError::ReceiptExpired => (9, 0),
            QueueError::VisibilityNotChangeable => (10, 0),
            QueueError::VisibilityTooLong { max_seconds } => (11, *max_seconds),
            QueueError::AttemptChanged => (12, 0),
            QueueError::NotADeadLetterQueue => (13, 0),
            QueueError::NoSuchDestination => (14, 0),
            QueueError::WrongDestinationType => (15, 0),
            QueueError::TaskRunning => (16, 0),
            QueueError::NoSuchTask => (17, 0),
            QueueError::PolicyChanged => (18, 0),
            QueueError::OverLimit => (19, 0),
        };
        self.add(number << 32 | u64::from(detail));
    }

    fn add_delivery(&mut self, delivery: &Delivery) {
        let handle = &delivery.handle;
        self.add(handle.sequence.0);
        self.add(u64::from(handle.slot.0) << 32 | u64::from(delivery.receive_count));
        self.add(handle.token.0);
        self.add(delivery.payload.index.0);
    }

    fn add_enqueued(&mut self, enqueued: &Enqueued) {
        self.add(enqueued.sequence.0);
        self.add(enqueued.slot.map_or(u64::MAX, |slot| u64::from(slot.0)));
    }

    /// Takes in what a command came to.
    pub(crate) fn add_applied(&mut self, applied: &Applied) {
        match &applied.outcome {
            Err(refusal) => self.add_refusal(refusal),
            Ok(Outcome::Done) => self.add(1),
            Ok(Outcome::Queue(queue)) => self.add(queue.0),
            Ok(Outcome::Moved(moved)) => self.add(*moved),
            Ok(Outcome::Enqueued(results)) => {
                for result in results {
                    match result {
                        Ok(enqueued) => self.add_enqueued(enqueued),
                        Err(refusal) => self.add_refusal(refusal),
                    }
                }
            }
            Ok(Outcome::Received(deliveries)) => {
                self.add(deliveries.len() as u64);
                deliveries.iter().for_each(|delivery| self.add_delivery(delivery));
            }
            Ok(Outcome::Entries(results)) => {
                for result in results {
                    match result {
                        Ok(()) => self.add(0),
                        Err(refusal) => self.add_refusal(refusal),
                    }
                }
            }
        }
        for effect in &applied.effects {
            // What was freed says what background work was done, which no outcome tells.
            match effect {
                Effect::Freed { slot, .. } => self.add(u64::from(slot.0)),
                Effect::DeadLettered { from } => self.add(from.0),
                Effect::Available(_) | Effect::QueueDeleted(_) => {}
            }
        }
    }
}

/// Returns the hash of a stored entry, to be told to [`Partition::begin_entry`].
pub fn entry_hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

impl Partition {
    /// Begins an entry whose commands are applied next. What nodes compare includes the entries themselves.
    pub fn begin_entry(&mut self, entry_hash: u64) {
        self.running_hash.add(entry_hash);
    }

    /// Returns the hash of what was applied.
    pub fn running_hash(&self) -> RunningHash {
        self.running_hash
    }

    /// Returns the feature level that every node of the cluster understands; 0 before anybody has said so.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Raises the level; never lowers it. Nodes that ran different versions so far begin to compare here.
    pub(crate) fn raise_level(&mut self, level: u32, index: LogIndex) -> Outcome {
        if level > self.level {
            self.level = level;
            self.running_hash = RunningHash {
                since: index,
                hash: 0,
            };
        }
        Outcome::Done
    }
}

/// Refuses a level that this program does not understand.
pub(crate) fn check_level(level: u32) -> Result<u32, DecodeError> {
    if level > LEVEL {
        return Err(DecodeError::Level { level });
    }
    Ok(level)
}
