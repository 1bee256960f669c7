//! The state that this node sends to others: held for a while, so that a node whose link broke goes on where it was.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker::Export;
use tokio::time::Instant;

use super::log_store;
use super::types::{SnapshotMeta, journal_index};

/// How long a state is held that nobody is being sent.
const HELD_FOR: Duration = Duration::from_secs(30);

/// A state that is being sent, or was a moment ago.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) meta: SnapshotMeta,
    pub(crate) export: Export,
    pub(crate) state_crc: u32,
}

#[derive(Debug)]
struct Held {
    state: Arc<Outgoing>,
    used_at: Instant,
    is_given_up: bool,
}

/// The state that is held. As long as there is one, it is the last snapshot that Raft knows, so that the entries behind it
/// stay in the log for whoever gets it.
#[derive(Debug, Default)]
pub(crate) struct Outgoings {
    held: Mutex<Option<Held>>,
    /// Whether a content of this node could not be read for another one.
    is_damaged: AtomicBool,
}

impl Outgoings {
    /// Returns what the held state stands for.
    pub(crate) fn meta(&self) -> Option<SnapshotMeta> {
        self.lock().as_ref().map(|held| held.state.meta.clone())
    }

    /// Returns the state that Raft means: the held one, or that of the last snapshot, which is held from now on. A later
    /// snapshot than Raft means would bring what the entries after the earlier one bring again. Reads from the disk.
    pub(crate) fn open(&self, store: &log_store::Shared, meta: &SnapshotMeta) -> io::Result<Arc<Outgoing>> {
        if let Some(held) = self.lock().as_ref().filter(|held| held.state.meta == *meta) {
            return Ok(Arc::clone(&held.state));
        }
        let stored = store.log().stored_snapshot().ok_or(io::ErrorKind::NotFound)?;
        if meta.last_log_id.map(|last| journal_index(last.index)) != Some(stored.index()) {
            return Err(io::Error::other(
                "a later snapshot has taken the place of this one",
            ));
        }
        let reader = store.reader();
        let export = stored
            .read(|content| Export::read(content, &|segment| reader.file(segment)))
            .map_err(io::Error::other)?;
        let state = Arc::new(Outgoing {
            meta: meta.clone(),
            state_crc: crc32c::crc32c(export.state()),
            export,
        });
        *self.lock() = Some(Held {
            state: Arc::clone(&state),
            used_at: Instant::now(),
            is_given_up: false,
        });
        Ok(state)
    }

    /// Lets a state go that nobody was sent for a while, or whose room is needed. Returns whether Raft may hear of later
    /// snapshots from now on.
    pub(crate) fn settle(&self, now: Instant) -> bool {
        let mut held = self.lock();
        if let Some(held) = held.as_mut().filter(|held| Arc::strong_count(&held.state) > 1) {
            held.used_at = now;
        }
        let is_over = |held: &mut Held| held.is_given_up || now - held.used_at >= HELD_FOR;
        held.take_if(is_over).is_some()
    }

    /// Gives the state up: its log takes room that is needed.
    pub(crate) fn give_up(&self) {
        if let Some(held) = self.lock().as_mut() {
            held.is_given_up = true;
        }
    }

    /// Takes note that a content could not be read as it was stored.
    pub(crate) fn damaged(&self) {
        self.is_damaged.store(true, Ordering::Relaxed);
    }

    /// Whether a content could not be read since this was asked last.
    pub(crate) fn take_damaged(&self) -> bool {
        self.is_damaged.swap(false, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        // Every change of it is whole.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
