//! What happened, in order, as a hash: two runs of one seed that differ anywhere have different ones.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::Xxh3;

/// What everybody in a run shares: its time, its trace and its findings.
#[derive(Default)]
pub(crate) struct Trace {
    now_micros: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hash: Xxh3,
    line: String,
    lines: u64,
    prints: bool,
    findings: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("now_micros", &self.now())
            .finish_non_exhaustive()
    }
}

impl Trace {
    /// Prints every line from now on.
    pub(crate) fn print(&self) {
        self.state().prints = true;
    }

    /// Returns the time of the run in microseconds.
    pub(crate) fn now(&self) -> u64 {
        self.now_micros.load(Ordering::Relaxed)
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, micros: u64) {
        self.now_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Takes note of something.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let now = self.now();
        let mut state = self.state();
        let mut line = std::mem::take(&mut state.line);
        line.clear();
        // A string takes whatever is written to it.
        let written = writeln!(line, "{}.{:03} {what}", now / 1_000_000, now / 1_000 % 1_000);
        debug_assert!(written.is_ok(), "a string takes everything");
        state.hash.update(line.as_bytes());
        state.lines += 1;
        if state.prints {
            print!("{line}");
        }
        state.line = line;
    }

    /// Takes note of a broken promise.
    pub(crate) fn find(&self, finding: String) {
        self.note(format_args!("FOUND {finding}"));
        self.state().findings.push(finding);
    }

    /// Counts something that a run needs in order to prove anything.
    pub(crate) fn count(&self, what: &'static str) {
        *self.state().counts.entry(what).or_default() += 1;
    }

    /// Returns what was found.
    pub(crate) fn findings(&self) -> Vec<String> {
        self.state().findings.clone()
    }

    /// Returns what was counted.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.state().counts.clone()
    }

    /// Returns the hash and the number of lines so far.
    pub(crate) fn hash(&self) -> (u64, u64) {
        let state = self.state();
        (state.hash.digest(), state.lines)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
