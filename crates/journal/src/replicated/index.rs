//! Where the entries of a replicated log lie, and who proposed them: small, as entries are many.

use std::collections::{BTreeMap, VecDeque};

use types::{LogIndex, NodeId, Term};

use crate::contract::Place;
use crate::log_id::LogId;
use crate::segment::{Segment, number};

/// Where the payload of an entry lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) place: Place,
    pub(crate) bytes: u32,
}

/// Entries that follow each other and have the same proposer in the same term.
#[derive(Debug, Clone, Copy)]
struct Reign {
    first: LogIndex,
    term: Term,
    node: NodeId,
}

/// The entries of the log, in memory.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The entry before the first one.
    purged: LogId,
    entries: VecDeque<Stored>,
    /// The first one may begin at an entry that is purged.
    reigns: VecDeque<Reign>,
    segments: BTreeMap<u32, Segment>,
}

impl Index {
    /// Makes the index of a log that begins behind an entry.
    pub(crate) fn behind(purged: LogId) -> Self {
        Self {
            purged,
            ..Self::default()
        }
    }

    pub(crate) fn purged(&self) -> LogId {
        self.purged
    }

    pub(crate) fn last(&self) -> LogId {
        let last = self.purged.index.0 + self.entries.len() as u64;
        self.id(LogIndex(last)).unwrap_or(self.purged)
    }

    /// Returns the id of an entry that is there, or of the one before the first.
    pub(crate) fn id(&self, index: LogIndex) -> Option<LogId> {
        if index == self.purged.index {
            return Some(self.purged);
        }
        self.stored(index)?;
        let after = self.reigns.partition_point(|reign| reign.first <= index);
        let Reign { term, node, .. } = *self.reigns.get(after.checked_sub(1)?)?;
        Some(LogId { term, node, index })
    }

    pub(crate) fn stored(&self, index: LogIndex) -> Option<Stored> {
        let at = index.0.checked_sub(self.purged.index.0 + 1)?;
        self.entries.get(usize::try_from(at).ok()?).copied()
    }

    /// Returns an entry that is there, and the segment it lies in.
    pub(crate) fn find(&self, index: LogIndex) -> Option<(LogId, Stored, Segment)> {
        let stored = self.stored(index)?;
        let segment = self.segment(stored.place.segment)?;
        Some((self.id(index)?, stored, segment))
    }

    pub(crate) fn segment(&self, segment: u32) -> Option<Segment> {
        self.segments.get(&segment).cloned()
    }

    pub(crate) fn has_segment(&self, segment: u32) -> bool {
        self.segments.contains_key(&segment)
    }

    /// Takes the next entry.
    pub(crate) fn push(&mut self, id: LogId, stored: Stored) {
        let LogId { term, node, index } = id;
        debug_assert_eq!(index, self.last().index.next(), "entries follow each other");
        let is_same = |reign: &Reign| (reign.term, reign.node) == (term, node);
        if !self.reigns.back().is_some_and(is_same) {
            self.reigns.push_back(Reign {
                first: index,
                term,
                node,
            });
        }
        self.entries.push_back(stored);
    }

    /// Forgets the entries behind one, which is the last from now on.
    pub(crate) fn truncate(&mut self, last: LogId) {
        let Some(entries) = last.index.0.checked_sub(self.purged.index.0) else {
            let segments = std::mem::take(&mut self.segments);
            *self = Self::behind(last);
            self.segments = segments;
            return;
        };
        self.entries
            .truncate(usize::try_from(entries).unwrap_or(usize::MAX));
        while self.reigns.back().is_some_and(|reign| reign.first > last.index) {
            self.reigns.pop_back();
        }
    }

    /// Forgets the entries up to one.
    pub(crate) fn purge(&mut self, index: LogIndex) {
        let Some(id) = self.id(index) else { return };
        let purged = index.0 - self.purged.index.0;
        self.entries
            .drain(..usize::try_from(purged).unwrap_or(usize::MAX));
        self.purged = id;
        while self.reigns.get(1).is_some_and(|next| next.first <= index) {
            self.reigns.pop_front();
        }
        self.entries.shrink_to(2 * self.entries.len());
    }

    /// Takes the segments that there are now. Others can be used for something else from here on.
    pub(crate) fn set_segments<'a>(&mut self, segments: impl Iterator<Item = &'a Segment>) {
        self.segments = segments
            .map(|segment| (number(segment.id), segment.clone()))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(term: u64, index: u64) -> LogId {
        LogId {
            term: Term(term),
            node: NodeId(10 * term),
            index: LogIndex(index),
        }
    }

    fn stored(index: u64) -> Stored {
        Stored {
            place: Place {
                segment: 1,
                offset: index as u32,
            },
            bytes: 1,
        }
    }

    /// Entries 6 to 9 of term 2, 10 and 11 of term 3, behind entry 5 of term 1.
    fn index() -> Index {
        let mut index = Index::behind(id(1, 5));
        for (term, at) in [(2, 6), (2, 7), (2, 8), (2, 9), (3, 10), (3, 11)] {
            index.push(id(term, at), stored(at));
        }
        index
    }

    fn check(index: &Index, expected: &[(u64, u64)]) {
        let found: Vec<_> = (0..20).filter_map(|at| index.id(LogIndex(at))).collect();
        let expected: Vec<_> = expected.iter().map(|(term, at)| id(*term, *at)).collect();
        assert_eq!(found, expected);
        assert_eq!((index.purged(), index.last()), (found[0], found[found.len() - 1]));
        for id in &found[1..] {
            assert_eq!(index.stored(id.index), Some(stored(id.index.0)));
        }
    }

    #[test]
    fn ids_are_found_before_and_after_purging_and_truncating() {
        let all = [(1, 5), (2, 6), (2, 7), (2, 8), (2, 9), (3, 10), (3, 11)];
        check(&index(), &all);
        for purged in 5..=11 {
            let mut index = index();
            index.purge(LogIndex(purged));
            check(&index, &all[purged as usize - 5..]);
            for last in purged..=11 {
                let mut index = self::index();
                index.purge(LogIndex(purged));
                index.truncate(id(all[last as usize - 5].0, last));
                check(&index, &all[purged as usize - 5..=last as usize - 5]);
                index.push(id(4, last + 1), stored(last + 1));
                assert_eq!(index.last(), id(4, last + 1));
            }
        }
    }

    #[test]
    fn a_log_that_is_cut_before_its_first_entry_begins_there() {
        let mut index = index();
        index.truncate(id(1, 3));
        check(&index, &[(1, 3)]);
        index.push(id(4, 4), stored(4));
        check(&index, &[(1, 3), (4, 4)]);
    }

    #[test]
    fn an_entry_takes_twelve_bytes() {
        assert_eq!(size_of::<Stored>(), 12);
    }
}
