//! How far a start has come with reading the log.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracing::info;

/// Longest that a start says nothing in the log.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// Bytes of the log that were read, and of how many.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    said: Mutex<Option<Instant>>,
}

impl Progress {
    /// Returns the bytes of the log that were read, and those of all files that may hold some: most of the last file
    /// is usually empty.
    pub fn log_bytes(&self) -> (u64, u64) {
        (
            self.done.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }

    pub(crate) fn reached(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        let Ok(mut said) = self.said.lock() else { return };
        let now = Instant::now();
        if said.is_none_or(|said| now - said >= SAY_EVERY) {
            *said = Some(now);
            info!(log_bytes = done, of_log_bytes = total, "reading the log");
        }
    }
}
