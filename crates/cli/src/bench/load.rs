//! What all connections of a run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Semaphore, watch};

use super::ledger::Ledger;
use super::pace::Pace;
use super::queue::Queue;
use super::scenario::Scenario;
use super::schedule::Schedule;
use super::stamp::Bodies;
use super::tally::{Operation, Tally};
use super::target::Target;
use crate::sqs::CallError;

/// How many connections the untimed parts use at most.
const UNTIMED_CONNECTIONS_MAX: u16 = 8;

/// How far the measurement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// No new sends; of `receive`, no new receives.
    Stopping,
    /// Every send has ended; what they sent may still come.
    AllSent,
    /// Nothing more will come.
    Over,
}

/// The time that is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    opened: Instant,
    cpu_opened: Duration,
    /// How long it was open, and the client's CPU time in it.
    pub(crate) closed: Option<(Duration, Duration)>,
}

impl Window {
    pub(crate) fn opened(&self) -> Instant {
        self.opened
    }
}

/// One run.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) scenario: Scenario,
    pub(crate) target: Target,
    pub(crate) queue: Queue,
    pub(crate) run: u32,
    pub(crate) bodies: Bodies,
    pub(crate) pace: Option<Pace>,
    /// In the closed loop of `roundtrip`: messages that may be sent before others are received.
    pub(crate) room: Option<Semaphore>,
    /// In `roundtrip` over a backlog: messages that may be received without eating into it.
    pub(crate) surplus: Option<Semaphore>,
    pub(crate) health: Health,
    phase: watch::Sender<Phase>,
    origin: Instant,
    window: Mutex<Option<Window>>,
    is_measuring: AtomicBool,
    /// Messages that may still be sent.
    budget: AtomicU64,
    ledger: Mutex<Ledger>,
    tally: Mutex<Tally>,
}

/// Whether the server still answers.
#[derive(Debug)]
pub(crate) struct Health {
    failures_in_a_row: AtomicU64,
    answered_micros: AtomicU64,
    latest: Mutex<String>,
}

impl Load {
    pub(crate) fn new(scenario: Scenario, target: Target, queue: Queue, run: u32) -> Self {
        let is_roundtrip = scenario.senders() > 0 && scenario.receivers() > 0;
        let has_room = is_roundtrip && scenario.rate.is_none();
        let room = usize::from(scenario.senders()) * usize::from(scenario.batch);
        let size = usize::try_from(scenario.size_bytes).expect("a body of at most 1 MiB");
        let untimed = scenario.connections.min(UNTIMED_CONNECTIONS_MAX);
        let producers = usize::from(scenario.senders() + untimed);
        Self {
            run,
            bodies: Bodies::new(run, size),
            pace: scenario
                .rate
                .map(|rate| Pace::new(Schedule::new(rate, scenario.batch))),
            room: has_room.then(|| Semaphore::new(room)),
            surplus: (is_roundtrip && scenario.depth > 0).then(|| Semaphore::new(0)),
            health: Health::new(),
            phase: watch::Sender::new(Phase::Running),
            origin: Instant::now(),
            window: Mutex::new(None),
            is_measuring: AtomicBool::new(false),
            budget: AtomicU64::new(scenario.messages.unwrap_or(u64::MAX)),
            ledger: Mutex::new(Ledger::new(producers, scenario.fifo)),
            tally: Mutex::new(Tally::default()),
            scenario,
            target,
            queue,
        }
    }

    /// Returns how many connections the untimed parts use.
    pub(crate) fn untimed_connections(&self) -> u16 {
        self.scenario.connections.min(UNTIMED_CONNECTIONS_MAX)
    }

    /// Takes up to so many messages from those that are to be sent. Whoever takes the last stops the others.
    pub(crate) fn take(&self, count: u64) -> u64 {
        let take = |budget: u64| Some(budget - budget.min(count));
        let before = self
            .budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let before = before.unwrap_or_default();
        if before <= count {
            self.stop();
        }
        before.min(count)
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        lock(&self.tally)
    }

    /// Returns the time since the beginning of the run.
    pub(crate) fn since_origin(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.origin)
    }

    /// Opens the window that is measured, and returns its start.
    pub(crate) fn open_window(&self) -> Instant {
        let opened = Instant::now();
        *lock(&self.window) = Some(Window {
            opened,
            cpu_opened: cpu_time(),
            closed: None,
        });
        self.is_measuring.store(true, Ordering::Relaxed);
        opened
    }

    /// Closes the window if it is open.
    pub(crate) fn close_window(&self) {
        self.is_measuring.store(false, Ordering::Relaxed);
        if let Some(window) = lock(&self.window).as_mut() {
            let spent = || {
                (
                    window.opened.elapsed(),
                    cpu_time().saturating_sub(window.cpu_opened),
                )
            };
            window.closed = window.closed.or_else(|| Some(spent()));
        }
    }

    /// Returns the window, if it was opened.
    pub(crate) fn window(&self) -> Option<Window> {
        *lock(&self.window)
    }

    /// Notes a successful request if it is measured, with the messages that it sent or brought.
    pub(crate) fn note_request(&self, operation: Operation, intended: Instant, messages: u64) {
        self.health.succeeded(self.since_origin(Instant::now()));
        if !self.is_measuring.load(Ordering::Relaxed) {
            return;
        }
        let mut tally = self.tally();
        tally.requests += 1;
        match operation {
            Operation::Receive if messages == 0 => tally.empty_receives += 1,
            Operation::Send | Operation::Receive | Operation::Delete | Operation::EndToEnd => {
                tally.note_latency(operation, intended.elapsed());
            }
        }
        match operation {
            Operation::Send => tally.sent += messages,
            Operation::Receive => tally.received += messages,
            Operation::Delete | Operation::EndToEnd => return,
        }
        if (operation == Operation::Send) == (self.scenario.receivers() == 0) {
            let elapsed = lock(&self.window).map_or(Duration::ZERO, |window| window.opened.elapsed());
            tally.note_second(elapsed, messages);
        }
    }

    pub(crate) fn note_error(&self, error: &CallError) {
        self.health.failed(error, self.since_origin(Instant::now()));
        self.tally().note_error(error);
    }

    /// Notes that nothing more is to be sent.
    pub(crate) fn stop(&self) {
        self.advance(Phase::Stopping);
        self.pace.iter().for_each(Pace::end);
        self.room.iter().for_each(Semaphore::close);
    }

    /// Notes that every send has ended.
    pub(crate) fn all_sent(&self) {
        self.stop();
        self.surplus.iter().for_each(Semaphore::close);
        self.advance(Phase::AllSent);
    }

    /// Notes that nothing more will come.
    pub(crate) fn end(&self) {
        self.all_sent();
        self.advance(Phase::Over);
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.phase() == Phase::Running
    }

    /// Waits for the end.
    pub(crate) async fn over(&self) {
        let mut phase = self.phase.subscribe();
        // The sender is part of `self`, so it is there as long as this waits.
        let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
    }

    fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let is_later = *phase < to;
            *phase = to.max(*phase);
            is_later
        });
    }
}

impl Health {
    fn new() -> Self {
        Self {
            failures_in_a_row: AtomicU64::new(0),
            answered_micros: AtomicU64::new(0),
            latest: Mutex::new(String::new()),
        }
    }

    fn succeeded(&self, at: Duration) {
        self.failures_in_a_row.store(0, Ordering::Relaxed);
        self.answered(at);
    }

    fn failed(&self, error: &CallError, at: Duration) {
        match error {
            CallError::Refused { .. } | CallError::Unreadable(_) => self.answered(at),
            CallError::NoAnswer { .. } => {}
        }
        *lock(&self.latest) = error.to_string();
        self.failures_in_a_row.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(&self, at: Duration) {
        let micros = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        self.answered_micros.store(micros, Ordering::Relaxed);
    }

    pub(crate) fn failures_in_a_row(&self) -> u64 {
        self.failures_in_a_row.load(Ordering::Relaxed)
    }

    /// Returns when the last answer came, since the beginning of the run.
    pub(crate) fn answered_at(&self) -> Duration {
        Duration::from_micros(self.answered_micros.load(Ordering::Relaxed))
    }

    /// Returns the text of the latest failure.
    pub(crate) fn latest(&self) -> String {
        lock(&self.latest).clone()
    }
}

/// A panic elsewhere ends the run anyway, by the task that it was in.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the CPU time of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// What tasks hold.
pub(crate) type Shared = Arc<Load>;
