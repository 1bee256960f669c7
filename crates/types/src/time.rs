//! The two times of a batch: the state clock that decides, and the wall clock that users read.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A reading of the state clock in milliseconds. It drives leases, delays, deduplication and retention, only moves
/// forward, and is no wall-clock time.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The first instant of the state clock.
    pub const ZERO: Self = Self(0);
    /// An instant that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// Takes a number of milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the number of milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the instant so many seconds later.
    #[must_use]
    pub const fn plus_seconds(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(seconds as u64 * 1000))
    }

    /// Returns the instant so much later, rounded down to a millisecond.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// Returns how long after `earlier` this is; zero if it is not.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// A wall-clock time in milliseconds since 1970. Users read it; nothing is decided by it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(transparent)]
pub struct WallTime(u64);

impl WallTime {
    /// Takes milliseconds since 1970.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns milliseconds since 1970.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns whole seconds since 1970.
    pub const fn as_seconds(self) -> u64 {
        self.0 / 1000
    }
}

impl fmt::Debug for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wall {}ms", self.0)
    }
}
