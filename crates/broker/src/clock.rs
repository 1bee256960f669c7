//! The clocks of a machine, as a trait, so that tests and the simulator can turn them.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use types::WallTime;

/// A machine's two clocks.
pub trait Clock: Debug + Send + Sync {
    /// Returns the time since some fixed instant, time in suspension included. Never goes back.
    fn monotonic(&self) -> Duration;
    /// Returns the time of day, which anybody can set.
    fn wall(&self) -> WallTime;
}

/// The clocks of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsClock;

impl Clock for OsClock {
    fn monotonic(&self) -> Duration {
        let now = clock_gettime(ClockId::Boottime);
        Duration::new(
            now.tv_sec.cast_unsigned(),
            u32::try_from(now.tv_nsec).unwrap_or(0),
        )
    }

    fn wall(&self) -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Clocks that move when they are told to.
#[derive(Debug)]
pub struct ManualClock {
    monotonic_nanos: AtomicU64,
    wall_millis: AtomicU64,
}

impl ManualClock {
    /// Makes clocks that stand at this time of day.
    pub fn new(wall: WallTime) -> Self {
        Self {
            monotonic_nanos: AtomicU64::new(0),
            wall_millis: AtomicU64::new(wall.as_millis()),
        }
    }

    /// Moves both clocks forward.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.monotonic_nanos.fetch_add(nanos, Ordering::SeqCst);
        self.wall_millis.fetch_add(nanos / 1_000_000, Ordering::SeqCst);
    }

    /// Sets the time of day alone, as an operator would.
    pub fn set_wall(&self, wall: WallTime) {
        self.wall_millis.store(wall.as_millis(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.monotonic_nanos.load(Ordering::SeqCst))
    }

    fn wall(&self) -> WallTime {
        WallTime::from_millis(self.wall_millis.load(Ordering::SeqCst))
    }
}
