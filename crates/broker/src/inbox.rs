//! The bounded inbox of an owner. It is swapped whole: what stands in it is the next batch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use queue_core::AttributeChange;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::request::{Input, Request};

/// How much may wait for the commit thread; beyond it clients are told to come back later.
#[derive(Debug, Clone, Copy)]
pub struct InboxLimits {
    /// Most requests.
    pub requests_max: usize,
    /// Most bytes of message contents.
    pub bytes_max: usize,
}

impl Default for InboxLimits {
    fn default() -> Self {
        Self {
            requests_max: 16_384,
            bytes_max: 64 * 1024 * 1024,
        }
    }
}

/// Requests that make a commit worthwhile although the reactors still have work.
pub(crate) const KICK_REQUESTS: usize = 256;
const KICK_BYTES: usize = 256 * 1024;
/// Oldest that a request gets while a reactor never runs out of work.
const KICK_AGE: Duration = Duration::from_millis(1);
/// The age is looked at with every so many requests: reading the clock costs more than the rest of a push.
const REQUESTS_PER_LOOK: usize = 8;

#[derive(Debug)]
struct State<R> {
    inputs: Vec<Input<R>>,
    bytes: usize,
    /// When the first of `inputs` came.
    since: Option<Instant>,
    is_kicked: bool,
    is_closed: bool,
}

impl<R> State<R> {
    fn is_old(&self) -> bool {
        self.inputs.len().is_multiple_of(REQUESTS_PER_LOOK)
            && self.since.is_some_and(|since| since.elapsed() >= KICK_AGE)
    }
}

#[derive(Debug)]
pub(crate) struct Inbox<R> {
    state: Mutex<State<R>>,
    kicked: Condvar,
    /// Hears the same as a task.
    kicked_task: Notify,
    /// Hears when the first request of a batch comes.
    first: Notify,
    /// Whether `inputs` is not empty.
    has_inputs: AtomicBool,
    limits: InboxLimits,
    kick_on_push: bool,
}

/// The inbox is full, or its owner has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Full,
    Closed,
}

impl<R> Inbox<R> {
    pub(crate) fn new(limits: InboxLimits, kick_on_push: bool) -> Self {
        let state = State {
            inputs: Vec::new(),
            bytes: 0,
            since: None,
            is_kicked: false,
            is_closed: false,
        };
        Self {
            state: Mutex::new(state),
            kicked: Condvar::new(),
            kicked_task: Notify::new(),
            first: Notify::new(),
            has_inputs: AtomicBool::new(false),
            limits,
            kick_on_push,
        }
    }

    /// Adds a request. The owner is not woken for each: see `driver.rs`.
    pub(crate) fn push(&self, input: Input<R>) -> Result<(), Refusal> {
        let bytes = content_bytes(&input.request);
        let mut state = self.lock();
        if state.is_closed {
            return Err(Refusal::Closed);
        }
        let has_room = state.inputs.len() < self.limits.requests_max
            && (state.bytes == 0 || state.bytes + bytes <= self.limits.bytes_max);
        // What undoes a take or frees a waiter is never refused: it makes room.
        let is_release = matches!(
            input.request,
            Request::GiveBack { .. } | Request::Withhold { .. } | Request::Cancel { .. } | Request::EndPolls
        );
        if !has_room && !is_release {
            return Err(Refusal::Full);
        }
        state.bytes += bytes;
        state.inputs.push(input);
        let is_due = self.kick_on_push
            || state.inputs.len() >= KICK_REQUESTS
            || state.bytes >= KICK_BYTES
            || state.is_old();
        if state.since.is_none() {
            state.since = Some(Instant::now());
            self.has_inputs.store(true, Ordering::Release);
            self.first.notify_one();
        }
        if is_due {
            self.wake(state);
        }
        Ok(())
    }

    /// Starts a commit on the commit thread if anything waits.
    pub(crate) fn kick(&self) {
        if self.has_inputs.load(Ordering::Acquire) {
            self.wake(self.lock());
        }
    }

    /// Waits for the first request of a batch.
    pub(crate) async fn first(&self) {
        self.first.notified().await;
    }

    /// Starts a turn although nothing waits: something else has to be looked at.
    pub(crate) fn nudge(&self) {
        self.wake(self.lock());
    }

    fn wake(&self, mut state: MutexGuard<'_, State<R>>) {
        if !std::mem::replace(&mut state.is_kicked, true) {
            drop(state);
            self.kicked.notify_one();
            self.kicked_task.notify_one();
        }
    }

    /// Waits for a kick, at most so long. Returns whether the inbox is closed.
    pub(crate) fn sleep(&self, longest: Duration) -> bool {
        let mut state = self.lock();
        // What came during the last turn waits for the reactor that brought it to run out of work, but not for long.
        let longest = if state.inputs.is_empty() {
            longest
        } else {
            longest.min(KICK_AGE)
        };
        if !state.is_kicked && !state.is_closed && !longest.is_zero() {
            let woken = self
                .kicked
                .wait_timeout_while(state, longest, |state| !state.is_kicked && !state.is_closed);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_kicked = false;
        state.is_closed
    }

    /// Waits like [`Inbox::sleep`], as a task.
    pub(crate) async fn wait(&self, longest: Duration) -> bool {
        let is_awake = {
            let state = self.lock();
            state.is_kicked || state.is_closed
        };
        if !is_awake {
            // Its end or a kick, whichever comes first.
            drop(timeout(longest, self.kicked_task.notified()).await);
        }
        let mut state = self.lock();
        state.is_kicked = false;
        state.is_closed
    }

    /// Swaps what waits into `inputs`.
    pub(crate) fn take(&self, inputs: &mut Vec<Input<R>>) {
        debug_assert!(inputs.is_empty(), "the last batch was taken whole");
        let mut state = self.lock();
        std::mem::swap(&mut state.inputs, inputs);
        (state.bytes, state.since) = (0, None);
        self.has_inputs.store(false, Ordering::Release);
    }

    /// Refuses every further request and wakes the owner for its last turn.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.kicked.notify_all();
        self.kicked_task.notify_one();
    }

    /// Whether every further request is refused.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Refuses every further request and drops those that wait: nobody will answer them.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let inputs = std::mem::take(&mut state.inputs);
        self.has_inputs.store(false, Ordering::Release);
        // Dropping a request tells its client, which may want the lock.
        drop(state);
        drop(inputs);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().inputs.len()
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        // A panic elsewhere left the list of requests whole: every change of it is one push or one swap.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that clients chose freely; everything else of a request is small.
fn content_bytes(request: &Request) -> usize {
    match request {
        Request::Enqueue { entries, .. } => entries.iter().map(|entry| entry.content.len()).sum(),
        Request::CreateQueue { attributes, tags, .. } => {
            let tags = tags.iter().map(|(key, value)| key.len() + value.len());
            text_bytes(attributes) + tags.sum::<usize>()
        }
        Request::SetQueueAttributes { attributes, .. } => text_bytes(attributes),
        Request::TagQueue { tags, .. } => tags.iter().map(|(key, value)| key.len() + value.len()).sum(),
        Request::UntagQueue { keys, .. } => keys.iter().map(|key| key.len()).sum(),
        Request::DeleteQueue { .. }
        | Request::PurgeQueue { .. }
        | Request::Receive(_)
        | Request::Delete { .. }
        | Request::ChangeVisibility { .. }
        | Request::GiveBack { .. }
        | Request::Withhold { .. }
        | Request::Cancel { .. }
        | Request::FindQueue { .. }
        | Request::ListQueues { .. }
        | Request::DescribeQueue { .. }
        | Request::StartMoveTask { .. }
        | Request::CancelMoveTask { .. }
        | Request::ListMoveTasks { .. }
        | Request::ListDeadLetterSources { .. }
        | Request::AdvanceClock { .. }
        | Request::Internal(_)
        | Request::EndPolls => 0,
    }
}

fn text_bytes(attributes: &[AttributeChange]) -> usize {
    let text = |change: &AttributeChange| {
        if let AttributeChange::Policy(text)
        | AttributeChange::RedriveAllowPolicy(text)
        | AttributeChange::KmsMasterKeyId(text) = change
        {
            text.as_ref().map_or(0, |text| text.len())
        } else {
            0
        }
    };
    attributes.iter().map(text).sum()
}
