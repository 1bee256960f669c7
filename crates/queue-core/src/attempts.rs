//! Receives of a FIFO queue that can be repeated under the id of their attempt, for five minutes.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use types::{Timestamp, limits};

use crate::cow::CowDeque;
use crate::{Delivery, Handle};

/// The first 16 bytes of SHA-256 over the id that the client gave.
pub(crate) type Key = [u8; 16];

/// What a receive with an attempt id handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) key: Key,
    /// When the receive was; repetitions do not count.
    pub(crate) at: Timestamp,
    /// When the leases end that the receive, or its last repetition, began.
    pub(crate) visible_at: Timestamp,
    pub(crate) handles: Vec<Handle>,
}

impl Attempt {
    /// Whether it can no longer be repeated: it is five minutes old, or its leases have ended.
    fn is_over(&self, now: Timestamp) -> bool {
        self.at.plus_seconds(limits::DEDUPLICATION_SECONDS) <= now || self.visible_at <= now
    }
}

/// Receives and repetitions in the order in which they came, with an index that is rebuilt on load. The newest of a key
/// counts.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    pub(crate) ring: CowDeque<Attempt>,
    index: HashMap<Key, u64, FixedState>,
}

impl Attempts {
    pub(crate) fn restore(attempts: impl IntoIterator<Item = Attempt>) -> Self {
        let mut restored = Self::default();
        attempts
            .into_iter()
            .for_each(|attempt| restored.remember(attempt));
        restored
    }

    /// Forgets the oldest receives as far as they are over. One behind them may be over too.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        while let Some(first) = self.ring.front() {
            if !first.is_over(now) {
                return;
            }
            let (key, position) = (first.key, self.ring.first_position());
            self.ring.pop_front();
            if self.index.get(&key) == Some(&position) {
                self.index.remove(&key);
            }
        }
    }

    /// Returns the receive of this attempt, unless it is over.
    pub(crate) fn find(&self, key: &Key, now: Timestamp) -> Option<&Attempt> {
        self.ring
            .get(*self.index.get(key)?)
            .filter(|attempt| !attempt.is_over(now))
    }

    pub(crate) fn remember(&mut self, attempt: Attempt) {
        let key = attempt.key;
        let position = self.ring.push_back(attempt);
        self.index.insert(key, position);
    }

    /// Remembers what a receive handed out.
    pub(crate) fn remember_taken(
        &mut self,
        key: Key,
        at: Timestamp,
        visible_at: Timestamp,
        taken: &[Delivery],
    ) {
        let handles = taken.iter().map(|delivery| delivery.handle).collect();
        self.remember(Attempt {
            key,
            at,
            visible_at,
            handles,
        });
    }
}
