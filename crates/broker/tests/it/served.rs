//! A running broker on a simulated disk, with a gate in front of the sync and somebody who counts.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use broker::{
    Broker, BrokerError, BrokerOptions, BudgetLimits, Commit, InboxLimits, Limits, ManualClock, Observer,
    OsClock, ReceiveOptions, Received, Recovered, SeededRandom,
};
use journal::{
    Counters, Disk, Epoch, Event, File, Fsync, Journal, JournalError, Kept, LocalJournal, LocalOptions,
    Place, Preparation, Prepared, ProposeError, RecoveryReport, SnapshotReceipt, SnapshotSink, Space, Ticket,
};
use simulator::SimDisk;
use types::{LogIndex, WallTime};

use crate::node::text_of;
use crate::requests::{entry, key};

/// Longest that a test waits for something that has to happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who takes the commit turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    CommitThread,
    Reactor,
}

/// How a broker of a test differs from the usual one.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) driver: Driver,
    /// Whether the clock goes by itself; otherwise the test turns it.
    pub(crate) has_real_time: bool,
    pub(crate) segment_bytes: u64,
    pub(crate) snapshot_log_bytes: u64,
    pub(crate) cache_bytes: usize,
    pub(crate) reserve_bytes: Option<u64>,
    pub(crate) inbox: InboxLimits,
    pub(crate) budget: BudgetLimits,
    pub(crate) deduplication_ids_max: u64,
}

impl Settings {
    pub(crate) fn of(driver: Driver) -> Self {
        Self {
            driver,
            has_real_time: false,
            segment_bytes: 1 << 20,
            snapshot_log_bytes: u64::MAX,
            cache_bytes: 1 << 20,
            reserve_bytes: None,
            inbox: InboxLimits::default(),
            budget: BudgetLimits::default(),
            deduplication_ids_max: 1_000_000,
        }
    }
}

pub(crate) struct Served {
    pub(crate) broker: Broker,
    pub(crate) thread: JoinHandle<()>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) disk: SimDisk,
    pub(crate) report: RecoveryReport,
}

impl Served {
    pub(crate) fn start(disk: &SimDisk, settings: &Settings) -> Self {
        let (counts, gate) = (Arc::new(Counts::default()), Arc::new(Gate::default()));
        let clock = Arc::new(ManualClock::new(WallTime::from_millis(1_700_000_000_000)));
        let options = BrokerOptions {
            in_flight_max: types::limits::IN_FLIGHT_MAX,
            limits: Limits::RELAXED,
            inbox: settings.inbox,
            budget: settings.budget,
            deduplication_ids_max: settings.deduplication_ids_max,
            kick_on_push: settings.driver == Driver::CommitThread,
            inline: settings.driver == Driver::Reactor,
            snapshot_log_bytes: settings.snapshot_log_bytes,
            cache_bytes: settings.cache_bytes,
            reserve_bytes: settings.reserve_bytes,
            clock: if settings.has_real_time {
                Arc::new(OsClock)
            } else {
                clock.clone()
            },
            // A second process must not draw the keys of the first one again.
            random: Arc::new(SeededRandom::new(disk.nonce().unwrap())),
            process: Arc::new(broker::OsProcess),
            observer: counts.clone(),
            leader: None,
        };
        let log = LocalOptions {
            first_segment_bytes: settings.segment_bytes,
            segment_bytes: settings.segment_bytes,
            fsync: Fsync::Always,
        };
        let (on, held) = (Arc::new(disk.clone()), gate.clone());
        let (reported, report) = mpsc::channel();
        let opener = move |recovered: &mut Recovered| {
            let (inner, report) = LocalJournal::open(on, log, recovered)?;
            reported.send(report).unwrap();
            Ok(Box::new(GatedJournal { inner, gate: held }) as Box<dyn Journal>)
        };
        let (opened, is_open) = mpsc::channel();
        let opened = move |result| opened.send(result).unwrap();
        let (broker, thread) = Broker::start(options, Box::new(opener), opened).unwrap();
        is_open.recv_timeout(PATIENCE).unwrap().unwrap();
        if settings.driver == Driver::Reactor {
            tokio::spawn(broker.clone().drive());
        }
        let report = report.recv().unwrap();
        Self {
            broker,
            thread,
            counts,
            gate,
            clock,
            disk: disk.clone(),
            report,
        }
    }

    /// Starts on an empty disk and makes the queue `q`.
    pub(crate) async fn with_queue(settings: &Settings) -> Self {
        let served = Self::start(&SimDisk::new(1), settings);
        served
            .broker
            .create_queue(key("q"), Vec::new(), Vec::new())
            .await
            .unwrap();
        served
    }

    pub(crate) async fn send(&self, text: &str) -> Result<(), BrokerError> {
        send(self.broker.clone(), text.to_owned()).await
    }

    pub(crate) fn receive(
        &self,
        wait_seconds: u32,
    ) -> impl Future<Output = Result<Received, BrokerError>> + use<> {
        receive(self.broker.clone(), wait_seconds)
    }

    /// Receives one message without waiting, and keeps it; returns its text and receive count.
    pub(crate) async fn take(&self) -> Option<(String, u32)> {
        let received = self.receive(0).await.unwrap();
        let message = received.messages.first()?;
        received.take?.delivered();
        Some((text_of(&message.content), message.delivery.receive_count))
    }

    /// Ends in order.
    pub(crate) fn stop(self) -> SimDisk {
        self.broker.stop();
        self.thread.join().unwrap();
        self.disk
    }
}

pub(crate) async fn send(broker: Broker, text: String) -> Result<(), BrokerError> {
    let results = broker.enqueue(key("q"), vec![entry(&text)]).await?;
    assert!(results.iter().all(Result::is_ok));
    Ok(())
}

pub(crate) async fn receive(broker: Broker, wait_seconds: u32) -> Result<Received, BrokerError> {
    let options = ReceiveOptions {
        max: 1,
        visibility_timeout_seconds: None,
        wait_seconds: Some(wait_seconds),
        attempt: None,
    };
    broker.receive(key("q"), options).await
}

/// Gives the future one chance to come forward.
pub(crate) fn poll_once<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits for something that another thread brings about.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::task::yield_now().await;
    }
}

/// Adds up what an observer hears.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    state: Mutex<Counted>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) commits: u64,
    pub(crate) syncs: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) given_back: u64,
    pub(crate) parked: usize,
    pub(crate) snapshots: u64,
    pub(crate) copied_bytes: u64,
    pub(crate) damaged: u64,
    pub(crate) is_short: bool,
}

impl Counts {
    pub(crate) fn now(&self) -> Counted {
        *self.state.lock().unwrap()
    }
}

impl Observer for Counts {
    fn committed(&self, commit: &Commit) {
        let mut state = self.state.lock().unwrap();
        state.commits += 1;
        state.syncs += commit.syncs;
        state.sent += commit.sent;
        state.received += commit.received;
        state.given_back += commit.given_back;
    }

    fn parked(&self, polls: usize) {
        self.state.lock().unwrap().parked = polls;
    }

    fn snapshot_begun(&self, _pause: Duration) {}

    fn snapshot(&self, bytes: u64, _seconds: f64) {
        assert!(bytes > 0);
        self.state.lock().unwrap().snapshots += 1;
    }

    fn copied(&self, bytes: u64) {
        self.state.lock().unwrap().copied_bytes += bytes;
    }

    fn damaged(&self, contents: u64) {
        self.state.lock().unwrap().damaged += contents;
    }

    fn cached(&self, _bytes: usize) {}

    fn room(&self, _space: Space, is_short: bool) {
        self.state.lock().unwrap().is_short = is_short;
    }
}

/// Holds commits back before their sync.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<Held>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    is_shut: bool,
    may_pass: u64,
    /// Commits that came to the gate.
    came: u64,
    preparations: u64,
    prepared: u64,
    sealed: u64,
    /// The thread of the last commit.
    committed_on: Option<String>,
    /// How much longer than it did each sync is said to have taken.
    slower_by: Duration,
    panics: bool,
}

impl Gate {
    pub(crate) fn shut(&self) {
        self.state().is_shut = true;
    }

    pub(crate) fn open(&self) {
        self.state().is_shut = false;
        self.changed.notify_all();
    }

    /// Lets one commit through.
    pub(crate) fn let_one_pass(&self) {
        self.state().may_pass += 1;
        self.changed.notify_all();
    }

    /// Returns how many commits have come to the gate.
    pub(crate) fn came(&self) -> u64 {
        self.state().came
    }

    /// Returns how many preparations were begun.
    pub(crate) fn preparations(&self) -> u64 {
        self.state().preparations
    }

    /// Returns how many preparations came to their end.
    pub(crate) fn prepared(&self) -> u64 {
        self.state().prepared
    }

    /// Returns how often the log was sealed.
    pub(crate) fn sealed(&self) -> u64 {
        self.state().sealed
    }

    /// Whether the last commit was done by a reactor.
    pub(crate) fn is_by_reactor(&self) -> bool {
        self.state().committed_on.as_deref() != Some("commit")
    }

    /// Lets syncs seem to take so much longer.
    pub(crate) fn slow_down(&self, by: Duration) {
        self.state().slower_by = by;
    }

    /// Lets the next commit panic.
    pub(crate) fn break_down(&self) {
        self.state().panics = true;
    }

    fn pass(&self) {
        let mut state = self.state();
        state.came += 1;
        state.committed_on = std::thread::current().name().map(str::to_owned);
        if state.panics {
            drop(state);
            // As a panic, but without a message and its slow backtrace.
            std::panic::resume_unwind(Box::new("broken on purpose"));
        }
        while state.is_shut && state.may_pass == 0 {
            state = self.changed.wait(state).unwrap();
        }
        state.may_pass = state.may_pass.saturating_sub(1);
    }

    fn state(&self) -> MutexGuard<'_, Held> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

struct GatedJournal {
    inner: LocalJournal,
    gate: Arc<Gate>,
}

impl fmt::Debug for GatedJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Journal for GatedJournal {
    fn epoch(&self) -> Option<Epoch> {
        self.inner.epoch()
    }

    fn propose(&mut self, entry: &[u8], expected: Epoch) -> Result<Ticket, ProposeError> {
        self.inner.propose(entry, expected)
    }

    fn wait(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError> {
        self.gate.pass();
        self.inner.wait(events)
    }

    fn begin_snapshot(
        &mut self,
        index: LogIndex,
        segments: &[u32],
    ) -> Result<Box<dyn SnapshotSink>, JournalError> {
        self.inner.begin_snapshot(index, segments)
    }

    fn copy_forward(&mut self, copies: &[u8]) -> Result<Option<Place>, JournalError> {
        self.inner.copy_forward(copies)
    }

    fn segment(&self, segment: u32) -> Option<Arc<dyn File>> {
        self.inner.segment(segment)
    }

    fn kept(&self) -> Vec<Kept> {
        self.inner.kept()
    }

    fn segment_bytes(&self) -> u64 {
        self.inner.segment_bytes()
    }

    fn space(&self) -> io::Result<Option<Space>> {
        self.inner.space()
    }

    fn complete_snapshot(&mut self, receipt: SnapshotReceipt) -> Result<(), JournalError> {
        self.inner.complete_snapshot(receipt)
    }

    fn log_bytes_since_snapshot(&self) -> u64 {
        self.inner.log_bytes_since_snapshot()
    }

    fn take_preparation(&mut self) -> Option<Preparation> {
        let preparation = self.inner.take_preparation();
        self.gate.state().preparations += u64::from(preparation.is_some());
        preparation
    }

    fn install(&mut self, prepared: Prepared) -> Result<(), JournalError> {
        self.inner.install(prepared)?;
        self.gate.state().prepared += 1;
        Ok(())
    }

    fn seal(&mut self) -> Result<(), JournalError> {
        self.inner.seal()?;
        self.gate.state().sealed += 1;
        Ok(())
    }

    fn counters(&self) -> Counters {
        let mut counters = self.inner.counters();
        counters.last_sync_nanos += u64::try_from(self.gate.state().slower_by.as_nanos()).unwrap();
        counters
    }
}
