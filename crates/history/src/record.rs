//! A whole history, with what its reader has to know.

use serde::{Deserialize, Serialize};

use crate::Operation;

/// What a run did to its servers and what clients saw of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The queues, as they were from the beginning to the end.
    pub queues: Vec<Queue>,
    /// What the clients did, in any order.
    pub operations: Vec<Operation>,
    /// What was done to the servers.
    pub faults: Vec<Fault>,
    /// From when on everything was healed and every queue was emptied until nothing came for longer than the longest
    /// lease; `None` if that was not reached, and then nothing counts as lost.
    pub drained_from_micros: Option<u64>,
    /// How long after its start a call that nobody answered may still take effect.
    pub straggle_micros: u64,
    /// How much the server's clock may be ahead of its own answers (its resolution): leases count as that much shorter.
    pub clock_error_micros: u64,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name, for people.
    pub name: String,
    /// How long it keeps messages, in microseconds.
    pub retention_micros: u64,
    /// How long it recognises a repeated send, in microseconds; 0 on a standard queue.
    pub deduplication_micros: u64,
    /// Where messages go that were received too often.
    pub dead_letters: Option<DeadLetters>,
}

impl Queue {
    /// Whether order and deduplication are promised.
    pub fn is_fifo(&self) -> bool {
        self.deduplication_micros > 0
    }
}

/// The dead-letter queue of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetters {
    /// The dead-letter queue.
    pub queue: usize,
    /// How often a message is received before it moves there.
    pub max_receive_count: u32,
}

/// Something that was done to the servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What it was; runs require a number of each.
    pub name: String,
    /// The node; `None` if it was done to several or to none.
    pub node: Option<u32>,
    /// When it began, in microseconds.
    pub began_micros: u64,
    /// When it was over, in microseconds.
    pub ended_micros: u64,
}
