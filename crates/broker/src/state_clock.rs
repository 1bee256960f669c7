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

/// An entry whose wall time is not further off was made just now. Wall clocks of nodes differ by less.
const LIVE_MILLIS: u64 = 5_000;

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

    /// Goes on from the time of an entry that another proposer made. One that was made a while ago, and is only caught up
    /// with, does not take the clock back: the time since is past.
    pub(crate) fn follow(
        &mut self,
        at: Timestamp,
        entry_wall: WallTime,
        wall: WallTime,
        monotonic: Duration,
    ) {
        let is_live = wall.as_millis().abs_diff(entry_wall.as_millis()) < LIVE_MILLIS;
        let own = self.now(monotonic);
        self.base = if is_live { at } else { own.max(at) };
        self.base_monotonic = monotonic;
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
    fn entries_of_others_set_the_clock_unless_they_were_missed() {
        let (at, wall) = (Timestamp::from_millis, WallTime::from_millis);
        let seconds = Duration::from_secs;
        let mut clock = StateClock::restart(at(5_000), wall(100_000), wall(200_000), seconds(1));
        clock.follow(at(6_000), wall(101_000), wall(200_000), seconds(1));
        assert_eq!(
            clock.now(seconds(1)),
            at(105_000),
            "99 seconds passed since the entry"
        );
        clock.follow(at(100_000), wall(195_001), wall(200_000), seconds(1));
        assert_eq!(clock.now(seconds(2)), at(101_000), "that one is of now");
        clock.follow(at(101_500), wall(201_000), wall(500_000), seconds(300));
        assert_eq!(
            clock.now(seconds(300)),
            at(399_000),
            "it came late, and time went on"
        );
        clock.follow(at(500_000), wall(900_000), wall(500_000), seconds(300));
        assert_eq!(
            clock.now(seconds(300)),
            at(500_000),
            "never behind what is applied"
        );
    }

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
