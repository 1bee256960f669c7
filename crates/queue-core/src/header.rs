//! The fixed-size header of a message in the slab.

use types::{LogIndex, QueueId, Sequence, Timestamp, WallTime};

use crate::PayloadId;
use crate::history::NO_HISTORY;

/// What a message is to a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Sent with a delay that still runs.
    Delayed,
    /// Can be received.
    Available,
    /// Received, and neither deleted nor lapsed.
    InFlight,
}

/// What every message has. A slot whose `queue` is 0 is free. What a message has only after a delay, a receive or a
/// move is its [`History`](crate::history::History), so that a message that waits stays small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) sequence: Sequence,
    pub(crate) queue: QueueId,
    /// With `ordinal` the id of the content: the journal entry that brought it, and its place among all contents
    /// of that entry.
    pub(crate) index: LogIndex,
    pub(crate) ordinal: u32,
    /// The length of the content.
    pub(crate) content_bytes: u32,
    pub(crate) sent: WallTime,
    /// What the message's age is counted from.
    pub(crate) age_from: Timestamp,
    /// Index of the message group; `NO_GROUP` on standard queues.
    pub(crate) group: u32,
    /// Where the history lies; `NO_HISTORY` if there is none. Not part of the state: nothing depends on the place.
    pub(crate) history: u32,
    pub(crate) delivery: Delivery,
    /// For each line that the message can stand in, whether it stands among the returned messages there. Not part of
    /// the state: rebuilt on load.
    pub(crate) marks: u8,
}

// There is one for each message, received or not.
const _: () = assert!(size_of::<Header>() <= 64);

/// The group of a message that has none.
pub(crate) const NO_GROUP: u32 = u32::MAX;

impl Header {
    /// What a free slot holds.
    pub(crate) const FREE: Self = Self {
        sequence: Sequence(0),
        queue: QueueId(0),
        index: LogIndex(0),
        ordinal: 0,
        content_bytes: 0,
        sent: WallTime::from_millis(0),
        age_from: Timestamp::ZERO,
        group: NO_GROUP,
        history: NO_HISTORY,
        delivery: Delivery::Available,
        marks: 0,
    };

    pub(crate) fn is_free(&self) -> bool {
        self.queue == QueueId(0)
    }

    pub(crate) fn payload(&self) -> PayloadId {
        PayloadId {
            index: self.index,
            ordinal: self.ordinal,
        }
    }
}

impl Delivery {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Delayed => 0,
            Self::Available => 1,
            Self::InFlight => 2,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Delayed),
            1 => Some(Self::Available),
            2 => Some(Self::InFlight),
            _ => None,
        }
    }
}
