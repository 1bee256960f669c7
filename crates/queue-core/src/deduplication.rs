//! The deduplication memory of a FIFO queue: which ids were accepted in the last five minutes.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use sha2::{Digest, Sha256};
use types::{MessageId, Sequence, Timestamp, limits};

use crate::attributes::DeduplicationScope;
use crate::command::Deduplication;
use crate::cow::CowDeque;

/// The first 16 bytes of SHA-256 over scope and id.
pub(crate) type Key = [u8; 16];

/// A send that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) key: Key,
    pub(crate) at: Timestamp,
    pub(crate) message_id: MessageId,
    pub(crate) sequence: Sequence,
}

/// Accepted sends in order of time, with an index that is rebuilt on load.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) ring: CowDeque<Accepted>,
    index: HashMap<Key, u64, FixedState>,
}

impl Memory {
    pub(crate) fn restore(entries: impl IntoIterator<Item = Accepted>) -> Self {
        let mut memory = Self::default();
        entries.into_iter().for_each(|entry| memory.remember(entry));
        memory
    }

    /// Forgets what was accepted five minutes ago or earlier.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        while let Some(first) = self.ring.front().copied() {
            if first.at.plus_seconds(limits::DEDUPLICATION_SECONDS) > now {
                return;
            }
            self.ring.pop_front();
            self.index.remove(&first.key);
        }
    }

    pub(crate) fn find(&self, key: &Key) -> Option<&Accepted> {
        self.ring.get(*self.index.get(key)?)
    }

    pub(crate) fn remember(&mut self, accepted: Accepted) {
        let position = self.ring.push_back(accepted);
        self.index.insert(accepted.key, position);
    }
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
