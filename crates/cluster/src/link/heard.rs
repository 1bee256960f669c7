//! When something was last heard.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A time that many may read while one sets it.
#[derive(Debug)]
pub(super) struct Heard {
    base: Instant,
    /// Milliseconds after `base`, plus one; 0 for never.
    millis: AtomicU64,
}

impl Heard {
    pub(super) fn never() -> Self {
        Self {
            base: Instant::now(),
            millis: AtomicU64::new(0),
        }
    }

    pub(super) fn now(&self) {
        let millis = u64::try_from(self.base.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.millis.store(millis + 1, Ordering::Relaxed);
    }

    pub(super) fn last(&self) -> Option<Instant> {
        let millis = self.millis.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.base + Duration::from_millis(millis))
    }
}
