//! The fixed-size header of a message in the slab.

use types::{LeaseToken, LogIndex, MessageId, QueueId, Sequence, Timestamp, WallTime};

use crate::PayloadId;

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

/// One message. A slot whose `queue` is 0 is free.
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
    /// When a delay or lease ends; in the past for an available message.
    pub(crate) visible_at: Timestamp,
    /// When the present lease began, for the 12-hour rule.
    pub(crate) leased_at: Timestamp,
    /// 0 until the first receive.
    pub(crate) first_received: WallTime,
    /// The current lease; 0 if there is none to prove.
    pub(crate) token: LeaseToken,
    /// The queue it was dead-lettered from; 0 if it was not.
    pub(crate) origin: QueueId,
    /// Shown to clients; goes on through a dead-letter move.
    pub(crate) receive_count: u32,
    /// Compared with maxReceiveCount; 0 after any move.
    pub(crate) receives_here: u32,
    /// Index of the message group; `NO_GROUP` on standard queues.
    pub(crate) group: u32,
    pub(crate) delivery: Delivery,
    /// The id that a move task gave the message.
    pub(crate) message_id: Option<MessageId>,
}

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
        visible_at: Timestamp::ZERO,
        leased_at: Timestamp::ZERO,
        first_received: WallTime::from_millis(0),
        token: LeaseToken(0),
        origin: QueueId(0),
        receive_count: 0,
        receives_here: 0,
        group: NO_GROUP,
        delivery: Delivery::Available,
        message_id: None,
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
