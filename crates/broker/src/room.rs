//! Room on the disk: below a reserve no message is taken any more, so that receiving and deleting can go on.

use std::time::Duration;

use journal::Space;
use tracing::{info, warn};

/// The reserve is at most this, if nobody chose another.
const RESERVE_BYTES_MAX: u64 = 2 << 30;
/// And at most this part of the file system, in percent.
const RESERVE_PERCENT: u64 = 15;
/// A segment is at most one part in so many of the reserve, so that what is reserved suffices for many.
const SEGMENTS_IN_RESERVE: u64 = 16;
/// How often the room is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Returns how many bytes are kept free on a file system of this size, unless somebody chose another number.
pub fn reserve_bytes(chosen: Option<u64>, total: u64) -> u64 {
    chosen.unwrap_or_else(|| RESERVE_BYTES_MAX.min(total / 100 * RESERVE_PERCENT))
}

/// Returns how long a segment may be beside this reserve.
pub fn segment_bytes_max(reserve_bytes: u64) -> u64 {
    reserve_bytes / SEGMENTS_IN_RESERVE
}

/// How much room there was when somebody looked last.
#[derive(Debug)]
pub(crate) struct Room {
    chosen: Option<u64>,
    next_look: Duration,
    /// How much was written to the log when somebody looked.
    written_bytes: u64,
    is_short: bool,
}

impl Room {
    pub(crate) fn new(reserve_bytes: Option<u64>) -> Self {
        Self {
            chosen: reserve_bytes,
            next_look: Duration::ZERO,
            written_bytes: 0,
            is_short: false,
        }
    }

    /// Whether it is time to look: some time has passed, or a good part of a segment was written.
    pub(crate) fn is_due(&mut self, now: Duration, written_bytes: u64, segment_bytes: u64) -> bool {
        let is_due = now >= self.next_look || written_bytes - self.written_bytes >= segment_bytes / 4;
        if is_due {
            // Also if the look fails: it is not tried again with every turn.
            self.next_look = now + LOOK_EVERY;
            self.written_bytes = written_bytes;
        }
        is_due
    }

    /// Whether sends are refused.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// How long until somebody has to look although nothing happens: room can come back by itself.
    pub(crate) fn sleep(&self, now: Duration) -> Option<Duration> {
        self.is_short.then(|| self.next_look.saturating_sub(now))
    }

    /// Takes a look into account. `state_bytes` is what the next snapshot takes, without which nothing is given back.
    pub(crate) fn look(&mut self, space: Space, state_bytes: u64) {
        if self.chosen == Some(0) {
            return;
        }
        let reserve = reserve_bytes(self.chosen, space.total).saturating_add(state_bytes);
        // A little more than the reserve to begin again, so that it does not go to and fro with every segment.
        let needed = if self.is_short {
            reserve.saturating_add(2 * segment_bytes_max(reserve))
        } else {
            reserve
        };
        let is_short = space.available < needed;
        if is_short && !self.is_short {
            warn!(
                available_bytes = space.available,
                reserve_bytes = reserve,
                "the disk is almost full: sends are refused until there is room again"
            );
        } else if !is_short && self.is_short {
            info!(
                available_bytes = space.available,
                "there is room on the disk again: sends are taken"
            );
        }
        self.is_short = is_short;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_reserve_is_a_part_of_a_small_disk_and_bounded_on_a_large_one() {
        assert_eq!(reserve_bytes(None, 1_000 * GIB), 2 * GIB);
        assert_eq!(reserve_bytes(None, 100 << 20), 15 << 20);
        assert_eq!(reserve_bytes(Some(7), 100 * GIB), 7);
    }

    #[test]
    fn sends_stop_below_the_reserve_and_begin_again_above_it() {
        let mut room = Room::new(Some(160));
        let mut look = |available, state_bytes| {
            let space = Space {
                total: 1_000,
                available,
            };
            room.look(space, state_bytes);
            room.is_short()
        };
        assert!(!look(160, 0));
        assert!(look(159, 0));
        assert!(look(179, 0), "it does not begin again at once");
        assert!(!look(180, 0));
        assert!(look(180, 100), "the next snapshot needs room too");

        let mut room = Room::new(Some(0));
        let space = Space {
            total: 1_000,
            available: 0,
        };
        room.look(space, 100);
        assert!(!room.is_short(), "without a reserve the disk is used up");
    }

    #[test]
    fn somebody_looks_again_while_room_is_short() {
        let mut room = Room::new(Some(160));
        let now = Duration::from_secs(1);
        assert!(room.is_due(now, 0, 100));
        assert!(!room.is_due(now, 24, 100), "it was due just now");
        assert_eq!(room.sleep(now), None);
        let space = Space {
            total: 1_000,
            available: 0,
        };
        room.look(space, 0);
        assert!(!room.is_due(now, 24, 100));
        assert!(room.is_due(now, 25, 100) && !room.is_due(now, 26, 100));
        assert_eq!(room.sleep(now), Some(LOOK_EVERY));
    }
}
