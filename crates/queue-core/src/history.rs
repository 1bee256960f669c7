//! What a message has only after a delay, a receive or a move: a record beside its header, made when it is first needed
//! and freed with the message.

use types::{LeaseToken, MessageId, QueueId, Timestamp, WallTime};

use crate::cow::CowVec;

/// The history of one message. A message without one is as if it had [`History::NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct History {
    /// When a delay or lease ends; says nothing of an available message.
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
    /// The id that a move task gave the message, instead of the one in its content.
    pub(crate) message_id: Option<MessageId>,
    /// The time under which the message stands in the timer heap; `NEVER` if it does not. Not part of the state:
    /// rebuilt on load.
    pub(crate) timer_at: Timestamp,
}

/// Where the history of a message lies that has none.
pub(crate) const NO_HISTORY: u32 = u32::MAX;

impl History {
    /// That of a message to which nothing has happened yet.
    pub(crate) const NONE: Self = Self {
        visible_at: Timestamp::ZERO,
        leased_at: Timestamp::ZERO,
        first_received: WallTime::from_millis(0),
        token: LeaseToken(0),
        origin: QueueId(0),
        receive_count: 0,
        receives_here: 0,
        message_id: None,
        timer_at: Timestamp::NEVER,
    };
}

/// All histories, at places that headers name. A place says nothing: after a restart a message has another.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    pub(crate) records: CowVec<History>,
    pub(crate) free: Vec<u32>,
}

impl Histories {
    /// Adds a history and returns its place.
    pub(crate) fn insert(&mut self, history: History) -> u32 {
        let place = self.take_place();
        *self.get_mut(place) = history;
        place
    }

    /// Returns a place that is free. What stands there is of no message.
    pub(crate) fn take_place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let place = u32::try_from(self.records.len()).expect("there are no more histories than slots");
            self.records.push(History::NONE);
            place
        })
    }

    /// Frees the place of a history, if it is one.
    pub(crate) fn release(&mut self, place: u32) {
        if place != NO_HISTORY {
            self.free.push(place);
        }
    }

    pub(crate) fn get(&self, place: u32) -> &History {
        read(&self.records, place)
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut History {
        self.records
            .get_mut(place as usize)
            .expect("places come from this table")
    }

    /// Returns the bytes that are allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.records.memory_bytes() + self.free.capacity() * size_of::<u32>()
    }
}

/// Returns the history at a place of these records.
pub(crate) fn read(records: &CowVec<History>, place: u32) -> &History {
    if place == NO_HISTORY {
        return &History::NONE;
    }
    records.get(place as usize).expect("places come from this table")
}
