//! What the owner tells whoever counts. The owner itself knows no metrics.

use std::fmt::Debug;

/// One commit of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Commit {
    /// Commands in the batch.
    pub commands: u64,
    /// Bytes of the entry.
    pub entry_bytes: u64,
    /// Bytes that the journal wrote for it.
    pub journal_bytes: u64,
    /// Syncs that the batch waited for: 1, or 0 with syncs off.
    pub syncs: u64,
    /// How long they took.
    pub sync_nanos: u64,
    /// Segments that were not ready in time.
    pub segments_waited_for: u64,
    /// Messages added.
    pub sent: u64,
    /// Messages handed out.
    pub received: u64,
    /// Messages deleted by a client.
    pub deleted: u64,
    /// Messages moved to a dead-letter queue.
    pub dead_lettered: u64,
    /// Messages of receives that were undone.
    pub given_back: u64,
}

/// Hears what happens on the commit thread. Must not block.
pub trait Observer: Debug + Send + Sync {
    /// A batch was committed and applied.
    fn committed(&self, commit: &Commit);
    /// So many long polls are parked.
    fn parked(&self, polls: usize);
    /// A snapshot became durable.
    fn snapshot(&self, bytes: u64, seconds: f64);
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn committed(&self, _commit: &Commit) {}
    fn parked(&self, _polls: usize) {}
    fn snapshot(&self, _bytes: u64, _seconds: f64) {}
}
