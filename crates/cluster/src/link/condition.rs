//! A value that tasks wait on.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A value that tasks wait on. They wake in the order in which they began to wait, so that a simulated run can be
/// repeated; those of tokio's `watch` wake in random order.
#[derive(Debug, Default)]
pub(super) struct Condition<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Condition<T> {
    pub(super) fn new(value: T) -> Self {
        let value = Mutex::new(value);
        let changed = Notify::new();
        Self { value, changed }
    }

    fn value(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the value.
    pub(super) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.value())
    }

    /// Changes the value, and wakes who waits for it.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.value());
        self.changed.notify_waiters();
        result
    }

    /// Waits until the value gives a result.
    pub(super) async fn wait<R>(&self, mut result_of: impl FnMut(&T) -> Option<R>) -> R {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            if let Some(result) = self.look(&mut result_of) {
                return result;
            }
            changed.await;
        }
    }
}
