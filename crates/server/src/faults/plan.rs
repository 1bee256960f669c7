//! What is to fail, read again while the process runs.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tracing::warn;

/// How long a look at the file is good for.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What the file says. Counts begin when the file changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Faults {
    /// Which sync of a file fails, the next being 1.
    pub(super) fail_sync: Option<u64>,
    /// How many bytes files can still grow by.
    pub(super) free_bytes: Option<u64>,
    /// In which read one bit is another, the next being 1.
    pub(super) flip_read: Option<u64>,
    /// How much longer every sync takes, in milliseconds.
    pub(super) stall_sync_millis: u64,
    /// How far the wall clock is from the right time, in milliseconds.
    pub(super) wall_clock_millis: i64,
}

/// The file, what it said last, and what has been counted since.
#[derive(Debug)]
pub(super) struct Plan {
    file: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    looked: Option<Instant>,
    text: String,
    faults: Faults,
    syncs: u64,
    reads: u64,
    grown_bytes: u64,
}

impl Plan {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            state: Mutex::default(),
        }
    }

    /// Whether the sync that is about to happen fails.
    pub(super) fn next_sync_fails(&self) -> bool {
        let mut state = self.state();
        state.syncs += 1;
        state.faults.fail_sync == Some(state.syncs)
    }

    /// Whether the read that has just happened has a wrong bit.
    pub(super) fn flips_read(&self) -> bool {
        let mut state = self.state();
        state.reads += 1;
        state.faults.flip_read == Some(state.reads)
    }

    /// Returns how many bytes files can still grow by; `None` if nothing is said.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let state = self.state();
        let free = state.faults.free_bytes?;
        Some(free.saturating_sub(state.grown_bytes))
    }

    /// Counts what a file has grown by.
    pub(super) fn grow(&self, bytes: u64) {
        self.state().grown_bytes += bytes;
    }

    /// Counts what a file that is gone had.
    pub(super) fn shrink(&self, bytes: u64) {
        let mut state = self.state();
        state.grown_bytes = state.grown_bytes.saturating_sub(bytes);
    }

    /// Returns how much longer a sync takes.
    pub(super) fn sync_stall(&self) -> Duration {
        Duration::from_millis(self.state().faults.stall_sync_millis)
    }

    /// Returns how far the wall clock is from the right time, in milliseconds.
    pub(super) fn wall_clock_millis(&self) -> i64 {
        self.state().faults.wall_clock_millis
    }

    /// Looks into the file if the last look is too old. A file that is not there says nothing; one that cannot be read
    /// changes nothing.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.is_some_and(|looked| looked.elapsed() < LOOK_AGAIN) {
            return state;
        }
        state.looked = Some(Instant::now());
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                warn!(%error, "the file of faults cannot be read");
                return state;
            }
        };
        if text == state.text {
            return state;
        }
        match toml::from_str(&text) {
            Ok(faults) => {
                warn!(?faults, "faults");
                let looked = state.looked;
                *state = State {
                    looked,
                    text,
                    faults,
                    ..State::default()
                };
            }
            Err(error) => warn!(%error, "the file of faults is not understood"),
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_begin_when_the_file_changes() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("faults.toml");
        let plan = Plan::new(file.clone());
        assert!(!plan.next_sync_fails());
        assert_eq!(plan.free_bytes(), None);
        // A look may be as old as this.
        let say = |text: &str| {
            fs::write(&file, text).unwrap();
            plan.state.lock().unwrap().looked = None;
        };
        say("fail_sync = 2\nfree_bytes = 10\nwall_clock_millis = -5");
        assert!(!plan.next_sync_fails());
        assert!(plan.next_sync_fails());
        assert!(!plan.next_sync_fails());
        plan.grow(4);
        assert_eq!(plan.free_bytes(), Some(6));
        plan.shrink(40);
        assert_eq!(plan.free_bytes(), Some(10));
        assert_eq!(plan.wall_clock_millis(), -5);
        say("fail_sink = 1");
        assert_eq!(
            plan.wall_clock_millis(),
            -5,
            "what is not understood changes nothing"
        );
        say("fail_sync = 1");
        assert!(plan.next_sync_fails());
        assert_eq!(plan.wall_clock_millis(), 0);
        fs::remove_file(&file).unwrap();
        plan.state.lock().unwrap().looked = None;
        assert!(!plan.next_sync_fails());
    }
}
