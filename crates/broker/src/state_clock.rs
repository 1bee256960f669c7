//! The state clock: the last applied time plus the monotonic time since. It never follows the wall clock, but for one
//! step at a full restart.

use std::time::Duration;

use types::{Timestamp, WallTime};

/// Gives each batch its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateClock {
    base: Timestamp,
    base_monotonic: Duration,
}

impl StateClock {
    /// Goes on from the last applied time, with the wall time that passed since as one step forward.
    pub(crate) fn restart(last: Timestamp, last_wall: WallTime, wall: WallTime, monotonic: Duration) -> Self {
        let passed = wall.as_millis().saturating_sub(last_wall.as_millis());
        let step = if last_wall.as_millis() == 0 { 0 } else { passed };
        Self {
            base: last.plus(Duration::from_millis(step)),
            base_monotonic: monotonic,
        }
    }

    pub(crate) fn now(&self, monotonic: Duration) -> Timestamp {
        self.base.plus(monotonic.saturating_sub(self.base_monotonic))
    }

    /// Moves the clock forward, for tests of time.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.base = self.base.plus(by);
    }

    /// Returns the monotonic time at which the clock will show `at`.
    pub(crate) fn monotonic_at(&self, at: Timestamp) -> Duration {
        self.base_monotonic.saturating_add(at.since(self.base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_steps_forward_by_the_wall_time_that_passed_and_never_back() {
        let second = Duration::from_secs(1);
        let at = |last_wall: u64, wall: u64| {
            let clock = StateClock::restart(
                Timestamp::from_millis(5_000),
                WallTime::from_millis(last_wall),
                WallTime::from_millis(wall),
                second,
            );
            clock.now(second * 2).as_millis()
        };
        assert_eq!(at(100_000, 107_000), 13_000, "seven seconds down, one second up");
        assert_eq!(at(100_000, 40_000), 6_000, "the wall clock went back");
        assert_eq!(at(0, 1_700_000_000_000), 6_000, "nothing was ever applied");
    }
}
