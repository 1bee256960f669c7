//! The clocks of a simulated machine.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use broker::Clock;
use types::WallTime;

/// What every machine's time of day begins with, in milliseconds.
const WALL_MILLIS: u64 = 1_700_000_000_000;

/// Time that passes when the run says so, and a time of day that jumps.
#[derive(Debug)]
pub(crate) struct SimClock {
    micros: AtomicU64,
    wall_offset_millis: AtomicI64,
    /// The bug that leases follow the time of day.
    leaps: bool,
}

impl SimClock {
    pub(crate) fn new(leaps: bool) -> Self {
        Self {
            micros: AtomicU64::new(0),
            wall_offset_millis: AtomicI64::new(0),
            leaps,
        }
    }

    pub(crate) fn pass(&self, micros: u64) {
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Sets by how much the time of day is wrong.
    pub(crate) fn set_offset(&self, millis: i64) {
        self.wall_offset_millis.store(millis, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn monotonic(&self) -> Duration {
        let micros = self.micros.load(Ordering::Relaxed);
        let offset = self.wall_offset_millis.load(Ordering::Relaxed);
        let leap = if self.leaps {
            u64::try_from(offset).unwrap_or(0)
        } else {
            0
        };
        Duration::from_micros(micros) + Duration::from_millis(leap)
    }

    fn wall(&self) -> WallTime {
        let millis = WALL_MILLIS + self.micros.load(Ordering::Relaxed) / 1_000;
        let offset = self.wall_offset_millis.load(Ordering::Relaxed);
        WallTime::from_millis(millis.saturating_add_signed(offset))
    }
}
