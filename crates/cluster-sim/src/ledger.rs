//! What must hold inside of a cluster at any time, whatever is broken: one reign after the other, one log, one state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::trace::Trace;

/// Hears what all nodes do, and finds what contradicts.
#[derive(Debug)]
pub(crate) struct Ledger {
    trace: Arc<Trace>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By index: term and hash of what was committed there, and the node that was told first.
    entries: BTreeMap<u64, (u64, u64, usize)>,
    /// Who led in which term. Two may in one: the one with the higher id then takes the place of the other.
    leaders: BTreeSet<(u64, u64)>,
    /// The latest reign in which somebody served: its term and the id of its node.
    reign: (u64, u64),
    /// By index: the hash of the state behind it.
    states: BTreeMap<u64, (u64, usize)>,
    /// By node: its term and what it has applied.
    seen: BTreeMap<usize, (u64, u64)>,
}

impl Ledger {
    pub(crate) fn new(trace: Arc<Trace>) -> Arc<Self> {
        Arc::new(Self {
            trace,
            state: Mutex::default(),
        })
    }

    /// A node was told that an entry is committed.
    pub(crate) fn committed(&self, node: usize, index: u64, term: u64, hash: u64) {
        let mut state = self.state();
        let (first_term, first_hash, first) = *state.entries.entry(index).or_insert((term, hash, node));
        if (first_term, first_hash) != (term, hash) {
            self.trace.find(format!(
                "log: entry {index} is {hash:016x} of term {term} on node {node}, and was {first_hash:016x} of term \
                 {first_term} on node {first}"
            ));
        }
    }

    /// Returns the last entry that anybody was told is committed: its index and term.
    pub(crate) fn last_committed(&self) -> Option<(u64, u64)> {
        let state = self.state();
        let (index, (term, _, _)) = state.entries.last_key_value()?;
        Some((*index, *term))
    }

    /// A node says that it may propose in this reign.
    pub(crate) fn reigns(&self, node: usize, term: u64, id: u64) {
        let mut state = self.state();
        state.leaders.insert((term, id));
        let (reign, latest) = ((term, id), state.reign);
        if reign < latest {
            // Once is enough.
            state.reign = reign;
            self.trace.find(format!(
                "lease: node {node} serves in reign {reign:?} after reign {latest:?} has begun"
            ));
        }
        state.reign = state.reign.max(reign);
    }

    /// A node has this state.
    pub(crate) fn state_is(&self, node: usize, index: u64, hash: u64) {
        let mut state = self.state();
        let (first, other) = *state.states.entry(index).or_insert((hash, node));
        if first != hash {
            self.trace.find(format!(
                "state: behind entry {index} it is {hash:016x} on node {node}, and {first:016x} on node {other}"
            ));
        }
    }

    /// A node is in this term and has applied so much.
    pub(crate) fn sees(&self, node: usize, term: u64, applied: u64) {
        let mut state = self.state();
        let (last_term, last_applied) = state.seen.insert(node, (term, applied)).unwrap_or_default();
        if term < last_term || applied < last_applied {
            self.trace.find(format!(
                "order: node {node} went back from term {last_term}, entry {last_applied} to term {term}, entry {applied}"
            ));
        }
    }

    /// A node begins anew: what it has applied it applies again, and its term too if its disk is another.
    pub(crate) fn restarts(&self, node: usize) {
        self.state().seen.remove(&node);
    }

    /// Returns how many reigns there were.
    pub(crate) fn leaders(&self) -> usize {
        self.state().leaders.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
