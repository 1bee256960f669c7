//! When a commit turn is taken, and by whom: the commit thread, or the reactor itself.
//!
//! A batch is what has come when the reactors have run out of work: nothing ready to run, nothing more to read from a
//! socket. It is never held back for more.
//!
//! On a machine with one reactor the clients of a batch all wait for its sync anyway, so the reactor may as well do it:
//! measured, that saves two thread wake-ups a batch, a quarter of the CPU of a send. It does so only while the disk is
//! quick. A slow disk would hold up every connection, so then the commit thread takes over until it is quick again.
//! Timers, housekeeping and what comes from other threads are the commit thread's in any case.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tokio::task::yield_now;
use tracing::{error, info};
use types::LogIndex;

use crate::inbox::KICK_REQUESTS;
use crate::turn::{Committer, Shared};

/// Average sync above which the commit thread takes over.
const SLOW_SYNC: Duration = Duration::from_millis(2);
/// Average sync below which the reactor commits by itself again.
const QUICK_SYNC: Duration = Duration::from_millis(1);
/// How much later than needed the commit thread may wake for a timer before it is told.
const TIMER_SLACK: Duration = Duration::from_millis(5);

/// How long a task lets others go on between two turns: on one thread nothing else happens meanwhile.
const TASK_PAUSE: Duration = Duration::from_millis(1);
/// How often the reactor looks for more work before a commit, at most: it may never run out.
const YIELDS_MAX: usize = 8;

/// The one committer, and what decides who drives it.
#[derive(Debug)]
pub(crate) struct Drivers {
    committer: Mutex<Option<Driven>>,
    /// Whether a reactor may commit by itself at all.
    allows_inline: AtomicBool,
    is_inline: AtomicBool,
}

#[derive(Debug)]
struct Driven {
    committer: Committer,
    /// When the commit thread wakes by itself, in monotonic time.
    armed: Duration,
    average_sync: Duration,
}

impl Drivers {
    pub(crate) fn new(allows_inline: bool) -> Self {
        Self {
            committer: Mutex::new(None),
            allows_inline: AtomicBool::new(allows_inline),
            is_inline: AtomicBool::new(allows_inline),
        }
    }

    /// Leaves all turns to the commit thread.
    fn forbid_inline(&self) {
        self.allows_inline.store(false, Ordering::Relaxed);
        self.is_inline.store(false, Ordering::Relaxed);
    }
}

impl Driven {
    /// Takes a turn, and decides by its sync who takes the next.
    fn take_turn(&mut self, shared: &Shared) {
        self.committer.take_turn();
        let Some(sync) = self
            .committer
            .last_sync()
            .filter(|_| shared.drivers.allows_inline.load(Ordering::Relaxed))
        else {
            return;
        };
        self.average_sync = (self.average_sync * 7 + sync) / 8;
        let is_inline = shared.drivers.is_inline.load(Ordering::Relaxed);
        let becomes = if is_inline {
            self.average_sync <= SLOW_SYNC
        } else {
            self.average_sync < QUICK_SYNC
        };
        if becomes != is_inline {
            shared.drivers.is_inline.store(becomes, Ordering::Relaxed);
            let micros = u64::try_from(self.average_sync.as_micros()).unwrap_or(u64::MAX);
            info!(
                average_sync_micros = micros,
                inline = becomes,
                "the driver of commits has changed"
            );
        }
    }
}

impl Shared {
    /// Serves until the inbox is closed and what it held is answered: the commit thread.
    pub(crate) fn run(self: &Arc<Self>, committer: Committer) {
        let mut sleep = self.begin(committer);
        loop {
            let is_closed = self.inbox.sleep(sleep);
            let Some(next) = self.take_turns(is_closed, usize::MAX) else {
                return;
            };
            sleep = next;
        }
    }

    /// The same as a task, on a runtime that has one thread for everything.
    pub(crate) async fn run_as_task(self: &Arc<Self>, committer: Committer) {
        let mut sleep = self.begin(committer);
        loop {
            let is_closed = self.inbox.wait(sleep.max(TASK_PAUSE)).await;
            let Some(next) = self.take_turns(is_closed, 1) else {
                return;
            };
            sleep = next;
        }
    }

    /// Takes over, and returns how long to sleep at most.
    fn begin(&self, committer: Committer) -> Duration {
        let mut sleep = committer.sleep();
        if committer.commits_by_itself() {
            // Nobody waits for a sync, so a reactor has nothing to gain.
            self.drivers.forbid_inline();
            // There may be something to hear since before the waker was there.
            sleep = Duration::ZERO;
        }
        *self.driven() = Some(Driven {
            committer,
            armed: self.options.clock.monotonic() + sleep,
            average_sync: Duration::ZERO,
        });
        sleep
    }

    /// Takes turns while they are due, and returns how long to sleep then; none after the last turns.
    fn take_turns(&self, is_closed: bool, turns_max: usize) -> Option<Duration> {
        let mut guard = self.driven();
        if is_closed && let Some(mut driven) = guard.take() {
            // Out of reach of the reactors: these are the last turns.
            drop(guard);
            driven.committer.end();
            return None;
        }
        let driven = guard.as_mut()?;
        driven.take_turn(self);
        let mut turns = 1;
        while turns < turns_max && driven.committer.is_due() {
            driven.take_turn(self);
            turns += 1;
        }
        let sleep = match driven.committer.is_due() {
            true => Duration::ZERO,
            false => driven.committer.sleep(),
        };
        driven.armed = self.options.clock.monotonic() + sleep;
        Some(sleep)
    }

    /// Returns the last applied entry and the hash of the state then; none before the first turn and after the last.
    pub(crate) fn state_hash(&self) -> Option<(LogIndex, u64)> {
        let guard = self.drivers.committer.lock();
        let guard = guard.unwrap_or_else(PoisonError::into_inner);
        let owner = &guard.as_ref()?.committer.owner;
        Some((owner.index(), owner.partition().state_hash()))
    }

    /// Starts a commit whenever requests wait and the reactor has run out of other work. Runs as a task of the reactors.
    pub(crate) async fn drive(&self) {
        loop {
            self.inbox.first().await;
            let mut seen = 0;
            for _ in 0..YIELDS_MAX {
                // Comes back when every ready task has run and the sockets were looked at again.
                yield_now().await;
                let waiting = self.inbox.len();
                if waiting == seen || waiting >= KICK_REQUESTS {
                    break;
                }
                seen = waiting;
            }
            self.commit_or_kick();
        }
    }

    /// Commits what waits: here if this thread may, otherwise on the commit thread.
    fn commit_or_kick(&self) {
        if !self.drivers.is_inline.load(Ordering::Relaxed) {
            self.inbox.kick();
            return;
        }
        let mut guard = match self.drivers.committer.try_lock() {
            Ok(guard) => guard,
            // The commit thread is in a turn, and looks at the inbox again after it.
            Err(TryLockError::WouldBlock) => return,
            // A turn has panicked: the service is ending, and nothing is committed on top of that.
            Err(TryLockError::Poisoned(_)) => return,
        };
        let Some(driven) = guard.as_mut() else { return };
        let breakdown = Breakdown(self);
        driven.take_turn(self);
        drop(breakdown);
        let needed = self.options.clock.monotonic() + driven.committer.sleep();
        if needed + TIMER_SLACK < driven.armed {
            driven.armed = needed;
            drop(guard);
            self.inbox.nudge();
        }
    }

    /// Returns the committer to the commit thread, which ends with a turn that panicked elsewhere.
    fn driven(&self) -> MutexGuard<'_, Option<Driven>> {
        self.drivers.committer.lock().unwrap_or_else(|_| {
            error!("a commit turn has panicked: the service ends, so that nothing is answered on top of it");
            // That panic had its message.
            std::panic::resume_unwind(Box::new("a commit turn has panicked on a reactor"))
        })
    }

    /// Lets the committer go, and with it everybody who waits for an answer of it.
    pub(crate) fn drop_committer(&self) {
        let mut committer = self
            .drivers
            .committer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        drop(committer.take());
    }
}

/// Wakes the commit thread if a turn panics on a reactor: it ends the service, and nobody waits for ever.
struct Breakdown<'a>(&'a Shared);

impl Drop for Breakdown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.inbox.nudge();
        }
    }
}
