//! What the owner tells whoever counts. The owner itself knows no metrics.

use std::fmt::Debug;
use std::time::Duration;

use journal::Space;
use queue_core::{Command, Enqueued, Outcome, QueueError};

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

impl Commit {
    /// Adds what one command came to.
    pub(crate) fn count(&mut self, command: &Command, outcome: &Result<Outcome, QueueError>) {
        match outcome {
            Ok(Outcome::Enqueued(results)) => {
                let added = |result: &Result<Enqueued, _>| {
                    result.as_ref().is_ok_and(|enqueued| enqueued.slot.is_some())
                };
                self.sent += results.iter().filter(|result| added(result)).count() as u64;
            }
            Ok(Outcome::Received(deliveries)) => self.received += deliveries.len() as u64,
            Ok(Outcome::Entries(results)) if matches!(command, Command::Delete { .. }) => {
                self.deleted += results.iter().filter(|result| result.is_ok()).count() as u64;
            }
            Ok(Outcome::Done) => {
                if let Command::GiveBack { handles, .. } = command {
                    self.given_back += handles.len() as u64;
                }
            }
            Ok(Outcome::Entries(_) | Outcome::Queue(_) | Outcome::Moved(_)) | Err(_) => {}
        }
    }
}

/// Hears what happens on the commit thread. Must not block.
pub trait Observer: Debug + Send + Sync {
    /// A batch was committed and applied.
    fn committed(&self, commit: &Commit);
    /// So many long polls are parked.
    fn parked(&self, polls: usize);
    /// A snapshot was begun, which held up the owner for so long.
    fn snapshot_begun(&self, pause: Duration);
    /// A snapshot became durable.
    fn snapshot(&self, bytes: u64, seconds: f64);
    /// So many bytes of contents were copied forward out of an old segment.
    fn copied(&self, bytes: u64);
    /// So many contents were found that are not what was stored.
    fn damaged(&self, contents: u64);
    /// Contents that also lie on the disk take so many bytes of memory.
    fn cached(&self, bytes: usize);
    /// There is so much room on the disk, and sends are refused if it is short.
    fn room(&self, space: Space, is_short: bool);
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn committed(&self, _commit: &Commit) {}
    fn parked(&self, _polls: usize) {}
    fn snapshot_begun(&self, _pause: Duration) {}
    fn snapshot(&self, _bytes: u64, _seconds: f64) {}
    fn copied(&self, _bytes: u64) {}
    fn damaged(&self, _contents: u64) {}
    fn cached(&self, _bytes: usize) {}
    fn room(&self, _space: Space, _is_short: bool) {}
}
