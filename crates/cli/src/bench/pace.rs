//! Starts the requests of an open loop: a thread that releases each at its time.
//!
//! A thread, because the timers of the runtime tick in milliseconds, which is as long as the requests take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::schedule::Schedule;

/// How soon the thread notices that the run is over.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The requests that were released and not yet started.
#[derive(Debug)]
pub(crate) struct Pace {
    pub(crate) schedule: Schedule,
    released: Arc<Semaphore>,
    started: AtomicU64,
}

impl Pace {
    pub(crate) fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            released: Arc::new(Semaphore::new(0)),
            started: AtomicU64::new(0),
        }
    }

    /// Begins to release requests, the first one now.
    pub(crate) fn begin(&self, start: Instant) {
        let (schedule, released) = (self.schedule, Arc::clone(&self.released));
        thread::spawn(move || {
            let mut count = 0;
            while !released.is_closed() {
                let due = schedule.due(start.elapsed());
                released.add_permits(usize::try_from(due - count).unwrap_or(usize::MAX));
                count = due;
                let wait = schedule.intended(count).saturating_sub(start.elapsed());
                thread::sleep(wait.min(LOOK_AGAIN));
            }
        });
    }

    /// Waits for the next request and returns its intended start, since the first; none after the end.
    pub(crate) async fn next(&self) -> Option<Duration> {
        self.released.acquire().await.ok()?.forget();
        Some(
            self.schedule
                .intended(self.started.fetch_add(1, Ordering::Relaxed)),
        )
    }

    pub(crate) fn end(&self) {
        self.released.close();
    }

    /// Returns how many requests were started.
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_in_order_and_not_before_their_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pace = Pace::new(Schedule::new(2_000, 2));
        let start = Instant::now();
        pace.begin(start);
        runtime.block_on(async {
            for request in 0..20 {
                let intended = pace.next().await.unwrap();
                assert_eq!(intended, Duration::from_millis(request));
                assert!(start.elapsed() >= intended);
            }
            pace.end();
            assert_eq!(pace.next().await, None);
        });
        assert_eq!(pace.started(), 20);
    }
}
