//! When the requests of an open loop are to start, as arithmetic: no clock in here.

use std::time::Duration;

/// Equal distances between requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedule {
    messages_per_second: u64,
    batch: u64,
}

const NANOS: u128 = 1_000_000_000;

impl Schedule {
    pub(crate) fn new(messages_per_second: u64, batch: u16) -> Self {
        Self {
            messages_per_second,
            batch: u64::from(batch),
        }
    }

    /// Returns when a request is to start, since the start of the run; the first is number 0.
    pub(crate) fn intended(&self, request: u64) -> Duration {
        let nanos =
            u128::from(request) * u128::from(self.batch) * NANOS / u128::from(self.messages_per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns how many requests were to start until now.
    pub(crate) fn due(&self, elapsed: Duration) -> u64 {
        // One more than fit by division, but for the rounding of `intended`, which is downwards.
        let fitting = (elapsed.as_nanos() + 1) * u128::from(self.messages_per_second);
        let due = fitting.div_ceil(u128::from(self.batch) * NANOS);
        u64::try_from(due).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_evenly_spread() {
        let schedule = Schedule::new(1_000, 1);
        assert_eq!(schedule.intended(0), Duration::ZERO);
        assert_eq!(schedule.intended(1), Duration::from_millis(1));
        assert_eq!(schedule.intended(3_600_000_000), Duration::from_secs(3_600_000));
        assert_eq!(Schedule::new(1_000, 10).intended(1), Duration::from_millis(10));
    }

    #[test]
    fn a_request_is_due_from_its_start_on_and_not_before() {
        for schedule in [
            Schedule::new(1, 1),
            Schedule::new(3, 1),
            Schedule::new(7, 10),
            Schedule::new(1_000, 3),
            Schedule::new(9_999_991, 1),
        ] {
            for request in [0, 1, 2, 3, 10, 999, 1_000_003, 123_456_789] {
                let intended = schedule.intended(request);
                assert_eq!(schedule.due(intended), request + 1, "{schedule:?} {request}");
                if let Some(before) = intended.checked_sub(Duration::from_nanos(1)) {
                    assert_eq!(schedule.due(before), request, "{schedule:?} {request}");
                }
            }
        }
    }
}
