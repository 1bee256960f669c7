//! A state that comes from another node, until it is whole: see [`Export`](crate::Export).

use journal::{JournalError, Place, ReplayError, SnapshotReceipt, SnapshotSink};

use crate::contents::Contents;
use crate::copies::Copies;
use crate::house::store;

/// What was received so far. The state is kept in memory until it takes the place of this node's own; contents lie where
/// they were written as they came.
#[derive(Debug, Default)]
pub struct Import {
    state: Vec<u8>,
    contents: Contents,
    count: u64,
    next: u64,
}

impl Import {
    /// Takes the next bytes of the state.
    pub fn state(&mut self, bytes: &[u8]) {
        self.state.extend_from_slice(bytes);
    }

    /// Returns what came of the state.
    pub fn received_state(&self) -> &[u8] {
        &self.state
    }

    /// Returns the slot from which on contents have not come yet.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns how many contents have come.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes contents in the stored form of copies, which lie at `place`; those behind them begin at the slot `next`. An
    /// error if they are not the next ones.
    pub fn contents(&mut self, copies: &[u8], place: Place, next: u64) -> Result<(), ReplayError> {
        let copies = Copies::decode(copies)?;
        let slots = copies.slots().map(|slot| u64::from(slot.0));
        if slots.clone().any(|slot| slot < self.next || slot >= next) || !slots.clone().is_sorted() {
            return Err("contents out of order".into());
        }
        self.count += slots.count() as u64;
        copies.put(&mut self.contents, place);
        self.next = next;
        Ok(())
    }

    /// Returns the segments of this node that hold contents of it.
    pub fn segments(&self) -> Vec<u32> {
        self.contents.segments()
    }

    /// Stores it as a snapshot of this node, which names [`Import::segments`].
    pub fn store(&self, mut sink: Box<dyn SnapshotSink>) -> Result<SnapshotReceipt, JournalError> {
        store(&mut *sink, |out| {
            out.write_all(&self.state)?;
            self.contents.snapshot().write(out)
        })?;
        sink.finish()
    }
}

#[cfg(test)]
mod tests {
    use queue_core::PayloadId;
    use types::{LogIndex, Slot};

    use super::*;
    use crate::copies;

    fn contents_of(slots: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        copies::begin(&mut bytes);
        for slot in slots {
            let id = PayloadId {
                index: LogIndex(1),
                ordinal: *slot,
            };
            copies::push(&mut bytes, Slot(*slot), id, b"content");
        }
        bytes
    }

    #[test]
    fn contents_come_in_the_order_of_their_slots_and_once() {
        let mut import = Import::default();
        let place = |offset| Place { segment: 3, offset };
        import.contents(&contents_of(&[1, 4]), place(64), 5).unwrap();
        for (slots, next) in [(&[4][..], 6), (&[7, 6], 8), (&[6], 6), (&[1, 4], 5)] {
            let refused = import.contents(&contents_of(slots), place(512), next);
            assert!(refused.is_err(), "{slots:?}");
            assert_eq!((import.next(), import.count()), (5, 2));
        }
        import.contents(&contents_of(&[5, 9]), place(512), 10).unwrap();
        assert_eq!((import.next(), import.count()), (10, 4));
        assert_eq!(import.segments(), [3]);
    }
}
