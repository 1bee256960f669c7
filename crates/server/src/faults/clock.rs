//! A wall clock that somebody sets.

use std::sync::Arc;
use std::time::Duration;

use broker::{Clock, OsClock};
use types::WallTime;

use super::plan::Plan;

/// The clocks of the system, the wall clock off by what the plan says.
#[derive(Debug)]
pub(super) struct FaultyClock {
    plan: Arc<Plan>,
}

impl FaultyClock {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        Self { plan }
    }
}

impl Clock for FaultyClock {
    fn monotonic(&self) -> Duration {
        OsClock.monotonic()
    }

    fn wall(&self) -> WallTime {
        let off = self.plan.wall_clock_millis();
        WallTime::from_millis(OsClock.wall().as_millis().saturating_add_signed(off))
    }
}
