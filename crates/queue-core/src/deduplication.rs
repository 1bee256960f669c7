//! The deduplication memory of a FIFO queue: which ids were accepted in the last five minutes.

use hashbrown::HashTable;
use sha2::{Digest, Sha256};
use types::{MessageId, Sequence, Timestamp, limits};

use crate::attributes::DeduplicationScope;
use crate::command::Deduplication;
use crate::cow::CowDeque;

/// The first 16 bytes of SHA-256 over scope and id.
///
/// Two ids of one key would count as one: the later message would be answered as a repetition and not be added. Among a
/// billion ids within five minutes the chance of that is below 1 in 10^20; on purpose it takes some 2^64 hashes, and
/// whoever does that loses a message of their own.
pub(crate) type Key = [u8; 16];

/// A send that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) key: Key,
    pub(crate) at: Timestamp,
    pub(crate) message_id: MessageId,
    pub(crate) sequence: Sequence,
}

impl Accepted {
    fn is_over(&self, now: Timestamp) -> bool {
        self.at.plus_seconds(limits::DEDUPLICATION_SECONDS) <= now
    }
}

/// Accepted sends in order of time, with an index that is rebuilt on load.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) ring: CowDeque<Accepted>,
    /// Positions in the ring, the low 32 bits of each: there are never more than that at a time.
    index: HashTable<u32>,
}

impl Memory {
    pub(crate) fn restore(entries: impl IntoIterator<Item = Accepted>) -> Self {
        let mut memory = Self::default();
        entries.into_iter().for_each(|entry| memory.remember(entry));
        memory
    }

    /// Frees what was accepted five minutes ago or earlier, at most so many; returns how many it was.
    pub(crate) fn forget(&mut self, now: Timestamp, most: u32) -> u32 {
        for forgotten in 0..most {
            let Some(first) = self.ring.front().copied().filter(|first| first.is_over(now)) else {
                return forgotten;
            };
            let position = low_bits(self.ring.first_position());
            if let Ok(entry) = self
                .index
                .find_entry(hash(&first.key), |other| *other == position)
            {
                entry.remove();
            }
            self.ring.pop_front();
        }
        most
    }

    /// Whether there is something to free.
    pub(crate) fn has_forgotten(&self, now: Timestamp) -> bool {
        self.ring.front().is_some_and(|first| first.is_over(now))
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Returns the send of this key in the last five minutes.
    pub(crate) fn find(&self, key: &Key, now: Timestamp) -> Option<&Accepted> {
        let ring = &self.ring;
        // One that is over and not freed yet may stand beside one of the same key.
        let position = self.index.find(hash(key), |position| {
            at(ring, *position).is_some_and(|accepted| accepted.key == *key && !accepted.is_over(now))
        });
        at(ring, *position?)
    }

    /// Remembers an id that is not known.
    pub(crate) fn remember(&mut self, accepted: Accepted) {
        let position = low_bits(self.ring.push_back(accepted));
        let ring = &self.ring;
        let hash_at = |position: &u32| at(ring, *position).map_or(0, |accepted| hash(&accepted.key));
        self.index.insert_unique(hash(&accepted.key), position, hash_at);
    }

    /// Returns the bytes that are allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.ring.memory_bytes() + self.index.allocation_size()
    }
}

/// Returns the element at the position of these low bits.
fn at(ring: &CowDeque<Accepted>, position: u32) -> Option<&Accepted> {
    let first = ring.first_position();
    ring.get(first + u64::from(position.wrapping_sub(low_bits(first))))
}

fn low_bits(position: u64) -> u32 {
    (position & u64::from(u32::MAX)) as u32
}

/// A key is a hash already.
fn hash(key: &Key) -> u64 {
    key.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the key of an id in its scope, or `None` if the queue has no id to go by.
pub(crate) fn key(
    scope: DeduplicationScope,
    is_content_based: bool,
    group: &str,
    deduplication: &Deduplication,
) -> Option<Key> {
    let mut hash = Sha256::new();
    match scope {
        DeduplicationScope::Queue => hash.update([0]),
        DeduplicationScope::MessageGroup => {
            hash.update([1]);
            hash.update((group.len() as u64).to_le_bytes());
            hash.update(group.as_bytes());
        }
    }
    match deduplication {
        Deduplication::Id(id) => hash.update(id.as_bytes()),
        // The id of a body is the hexadecimal text of its hash, so an explicit id of that text is the same id.
        Deduplication::BodyHash(body) if is_content_based => {
            body.iter()
                .for_each(|byte| hash.update([hex(byte >> 4), hex(byte & 15)]));
        }
        Deduplication::BodyHash(_) => return None,
    }
    hash.finalize().first_chunk().copied()
}

const fn hex(nibble: u8) -> u8 {
    if nibble < 10 {
        b'0' + nibble
    } else {
        b'a' + nibble - 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Deduplication {
        Deduplication::Id(text.into())
    }

    fn accepted(n: u64, seconds: u64) -> Accepted {
        Accepted {
            key: key(DeduplicationScope::Queue, false, "", &id(&n.to_string())).unwrap(),
            at: Timestamp::from_millis(seconds * 1_000),
            message_id: MessageId::default(),
            sequence: Sequence(n),
        }
    }

    #[test]
    fn an_id_takes_at_most_64_bytes_however_many_there_are() {
        let mut memory = Memory::default();
        for n in 1..=300_000 {
            memory.remember(accepted(n, 0));
            let each = memory.memory_bytes() as u64 / n;
            assert!(n < 1_000 || each <= 64, "{n} ids take {each} bytes each");
        }
    }

    #[test]
    fn what_is_forgotten_is_not_found_and_the_rest_is() {
        let mut memory = Memory::default();
        // Seven ids a second, of which those of five minutes are known.
        for n in 0..20_000 {
            let now = Timestamp::from_millis(n / 7 * 1_000);
            // Whether it was freed or not, what is over is not found.
            memory.forget(now, if n % 100 == 0 { u32::MAX } else { 1 });
            let new = accepted(n, n / 7);
            assert_eq!(memory.find(&new.key, now), None);
            memory.remember(new);
            let oldest = (n / 7).saturating_sub(299) * 7;
            for known in [n, oldest, n.midpoint(oldest)] {
                assert_eq!(
                    memory
                        .find(&accepted(known, known / 7).key, now)
                        .map(|found| found.sequence.0),
                    Some(known)
                );
            }
            let gone = oldest.checked_sub(1).map(|gone| accepted(gone, 0).key);
            assert_eq!(gone.and_then(|key| memory.find(&key, now)), None);
        }
        assert!(
            memory.index.len() <= 301 * 7,
            "{} in the index",
            memory.index.len()
        );
    }

    #[test]
    fn an_id_that_comes_again_is_known_by_its_last_time() {
        let mut memory = Memory::default();
        for round in 0..5 {
            let (now, new) = (300 * round, accepted(7, 300 * round));
            let now = Timestamp::from_millis(now * 1_000);
            assert_eq!(
                memory.find(&new.key, now),
                None,
                "the one before is over and not freed"
            );
            memory.remember(new);
            assert_eq!(memory.find(&new.key, now), Some(&new));
        }
        let now = Timestamp::from_millis(1_499_999);
        assert_eq!((memory.forget(now, 2), memory.len()), (2, 3));
        assert_eq!((memory.forget(now, u32::MAX), memory.len()), (2, 1));
        assert!(memory.find(&accepted(7, 0).key, now).is_some());
    }

    #[test]
    fn the_scope_is_part_of_the_key() {
        let key_of = |scope, group: &str, text: &str| key(scope, false, group, &id(text)).unwrap();
        let (queue, group) = (DeduplicationScope::Queue, DeduplicationScope::MessageGroup);
        assert_eq!(key_of(queue, "a", "x"), key_of(queue, "b", "x"));
        assert_ne!(key_of(group, "a", "x"), key_of(group, "b", "x"));
        assert_ne!(key_of(group, "a", "bx"), key_of(group, "ab", "x"));
    }

    #[test]
    fn a_body_hash_counts_only_with_content_based_deduplication() {
        let body = Deduplication::BodyHash([0xab; 32]);
        assert_eq!(key(DeduplicationScope::Queue, false, "g", &body), None);
        let by_text = key(DeduplicationScope::Queue, false, "g", &id(&"ab".repeat(32)));
        assert_eq!(key(DeduplicationScope::Queue, true, "g", &body), by_text);
    }
}
