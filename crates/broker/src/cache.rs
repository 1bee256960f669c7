//! Contents kept in memory: small fresh ones within a budget, and those that lie nowhere else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use types::Slot;

/// Longest content that is kept for speed alone. A longer one costs its client more time than the read from the disk.
const CACHED_BYTES_MAX: usize = 16 * 1024;
/// Memory that one content costs beyond its bytes, as measured: the counters of the `Arc`, what the allocator rounds up,
/// its place in the order with what that has free.
const OVERHEAD_BYTES: usize = 168;
/// Slots in one block.
const BLOCK: usize = 64;
const BLOCK_BYTES: usize = size_of::<Block>();
/// Places in the order below which it is never cleaned.
const CLEAN_FLOOR: usize = 1_024;

#[derive(Debug)]
struct Cached {
    bytes: Arc<[u8]>,
    /// Tells this content from an earlier one of the same slot.
    stamp: u64,
}

/// Neighbouring slots: those that are filled one after the other have their contents here together.
#[derive(Debug)]
struct Block {
    contents: [Option<Cached>; BLOCK],
    filled: usize,
}

/// Contents by slot. The one that came first goes first.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Only those blocks are there that hold something.
    blocks: Vec<Option<Box<Block>>>,
    count: usize,
    order: VecDeque<(Slot, u64)>,
    last_stamp: u64,
    /// What contents, blocks and order take.
    bytes: usize,
    bytes_max: usize,
    /// Contents that lie nowhere else. Usually there is none.
    pinned: BTreeMap<Slot, Arc<[u8]>>,
}

impl Cache {
    /// Changes how much memory contents may take that also lie on the disk.
    pub(crate) fn set_budget(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.evict();
    }

    /// Returns how much memory contents take that also lie on the disk.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a content that also lies on the disk, if it is small.
    pub(crate) fn add(&mut self, slot: Slot, bytes: Arc<[u8]>) {
        self.remove(slot);
        if bytes.len() > CACHED_BYTES_MAX || self.bytes_max == 0 {
            return;
        }
        self.last_stamp += 1;
        self.bytes += bytes.len() + OVERHEAD_BYTES;
        let stamp = self.last_stamp;
        self.fill(slot, Cached { bytes, stamp });
        self.order.push_back((slot, stamp));
        self.evict();
        if self.order.len() > 2 * self.count + CLEAN_FLOOR {
            let mut order = std::mem::take(&mut self.order);
            order.retain(|(slot, stamp)| self.is_at(*slot, *stamp));
            self.order = order;
        }
    }

    /// Keeps a content that lies nowhere else, until its slot gets another or none.
    pub(crate) fn pin(&mut self, slot: Slot, bytes: Arc<[u8]>) {
        self.remove(slot);
        self.pinned.insert(slot, bytes);
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Arc<[u8]>> {
        match self.cached(slot) {
            Some(cached) => Some(&cached.bytes),
            None => self.pinned.get(&slot),
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        if let Some(removed) = self.empty(slot) {
            self.bytes -= removed.bytes.len() + OVERHEAD_BYTES;
        } else if !self.pinned.is_empty() {
            self.pinned.remove(&slot);
        }
    }

    /// Returns the contents that lie nowhere else.
    pub(crate) fn pinned(&self) -> &BTreeMap<Slot, Arc<[u8]>> {
        &self.pinned
    }

    fn evict(&mut self) {
        while self.bytes > self.bytes_max {
            let Some((slot, stamp)) = self.order.pop_front() else {
                return;
            };
            if self.is_at(slot, stamp) {
                self.remove(slot);
            }
        }
    }

    fn is_at(&self, slot: Slot, stamp: u64) -> bool {
        self.cached(slot).is_some_and(|cached| cached.stamp == stamp)
    }

    fn cached(&self, slot: Slot) -> Option<&Cached> {
        let (block, place) = place_of(slot);
        self.blocks.get(block)?.as_ref()?.contents[place].as_ref()
    }

    fn fill(&mut self, slot: Slot, cached: Cached) {
        let (block, place) = place_of(slot);
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, || None);
        }
        let block = self.blocks[block].get_or_insert_with(|| {
            self.bytes += BLOCK_BYTES;
            Box::new(Block {
                contents: [const { None }; BLOCK],
                filled: 0,
            })
        });
        block.contents[place] = Some(cached);
        block.filled += 1;
        self.count += 1;
    }

    fn empty(&mut self, slot: Slot) -> Option<Cached> {
        let (at, place) = place_of(slot);
        let block = self.blocks.get_mut(at)?.as_mut()?;
        let cached = block.contents[place].take()?;
        block.filled -= 1;
        self.count -= 1;
        if block.filled == 0 {
            self.blocks[at] = None;
            self.bytes -= BLOCK_BYTES;
        }
        Some(cached)
    }
}

fn place_of(slot: Slot) -> (usize, usize) {
    (slot.0 as usize / BLOCK, slot.0 as usize % BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: usize) -> Arc<[u8]> {
        vec![7; bytes].into()
    }

    #[test]
    fn the_oldest_goes_when_the_budget_is_used_up() {
        let mut cache = Cache::default();
        cache.set_budget(BLOCK_BYTES + 3 * (100 + OVERHEAD_BYTES));
        (0..4).for_each(|slot| cache.add(Slot(slot), content(100)));
        let kept: Vec<_> = (0..4).filter(|slot| cache.get(Slot(*slot)).is_some()).collect();
        assert_eq!(kept, [1, 2, 3]);
        // A slot that is used again is a new content: its old place in the order means nothing.
        cache.remove(Slot(1));
        cache.add(Slot(1), content(100));
        cache.add(Slot(5), content(100));
        let kept: Vec<_> = (0..6).filter(|slot| cache.get(Slot(*slot)).is_some()).collect();
        assert_eq!(kept, [1, 3, 5]);
        cache.set_budget(0);
        assert_eq!((cache.count, cache.bytes), (0, 0));
    }

    #[test]
    fn long_contents_are_not_kept_unless_they_lie_nowhere_else() {
        let mut cache = Cache::default();
        cache.set_budget(1 << 20);
        cache.add(Slot(1), content(CACHED_BYTES_MAX + 1));
        cache.pin(Slot(2), content(CACHED_BYTES_MAX + 1));
        cache.set_budget(0);
        cache.pin(Slot(0), content(1));
        cache.add(Slot(0), content(1));
        assert!(cache.get(Slot(1)).is_none() && cache.get(Slot(0)).is_none());
        let pinned: Vec<_> = cache.pinned().keys().copied().collect();
        assert_eq!(pinned, [Slot(2)]);
    }

    #[test]
    fn the_order_does_not_grow_with_what_came_and_went() {
        let mut cache = Cache::default();
        cache.set_budget(1 << 20);
        for round in 0..100_000 {
            cache.add(Slot(round % 3), content(10));
            cache.remove(Slot(round % 3));
        }
        assert!(cache.order.len() <= CLEAN_FLOOR + 8, "{}", cache.order.len());
        assert_eq!(cache.bytes, 0);
    }
}
