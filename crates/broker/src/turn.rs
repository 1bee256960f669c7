//! The commit turn: a thin shell around [`Owner`] that swaps the inbox, journals, applies and answers.
//!
//! A turn is: swap the inbox, encode the batch, write and sync it, apply it in order, answer everybody. While a sync
//! runs nobody is woken; what arrives meanwhile is the next batch. Who takes the turns is in `driver.rs`. Segments are
//! prepared and snapshots written on threads of their own, which hand their result back.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use journal::{Event, Journal, JournalError, Prepared, ProposeError, SnapshotReceipt, SnapshotSink};
use tokio::sync::{Notify, oneshot};
use tracing::{error, info, warn};
use types::{LogIndex, WallTime};

use crate::clock::Clock;
use crate::driver::Drivers;
use crate::inbox::{Inbox, InboxLimits};
use crate::observer::Observer;
use crate::owner::{Limits, Now, Owner, Turn};
use crate::policies::Policies;
use crate::random::Random;
use crate::replay::{Recovered, recover, write_snapshot};
use crate::request::{Input, Reply, Request};
use crate::seal::Sealer;

/// Where a client waits for its answer.
pub(crate) type ReplyTo = oneshot::Sender<Reply>;

/// Opens the journal and replays it into the state; runs on the commit thread.
pub type JournalOpener = Box<dyn FnOnce(&mut Recovered) -> Result<Box<dyn Journal>, JournalError> + Send>;

/// How a broker runs.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    /// The waits of SQS.
    pub limits: Limits,
    /// How much may wait for the commit thread.
    pub inbox: InboxLimits,
    /// Most messages of one queue that may be in flight.
    pub in_flight_max: u64,
    /// Whether each request wakes the commit thread. Otherwise the reactors do, when they run out of work.
    pub kick_on_push: bool,
    /// Whether the one reactor of a small machine commits by itself when it runs out of work, while the disk is quick:
    /// it saves two wake-ups a batch.
    pub inline: bool,
    /// Bytes of log after which a snapshot is taken, or more if the last snapshot was larger.
    pub snapshot_log_bytes: u64,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Random bytes.
    pub random: Arc<dyn Random>,
    /// Who counts.
    pub observer: Arc<dyn Observer>,
}

/// What a broker is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It reads what the journal kept; no request is taken.
    Recovering,
    /// It serves.
    Serving,
    /// It finishes what it accepted; no receive waits any more.
    Stopping,
    /// It has ended, in order or because the journal failed.
    Stopped,
}

impl Status {
    const ALL: [Self; 4] = [Self::Recovering, Self::Serving, Self::Stopping, Self::Stopped];
}

/// What the reactors and the commit thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) inbox: Inbox<ReplyTo>,
    pub(crate) options: BrokerOptions,
    pub(crate) sealer: OnceLock<Sealer>,
    pub(crate) drivers: Drivers,
    /// Hears when the service has ended, in order or not.
    pub(crate) ended: Notify,
    pub(crate) policies: Policies,
    status: AtomicU8,
}

impl Shared {
    pub(crate) fn new(options: BrokerOptions) -> Self {
        let inbox = Inbox::new(options.inbox, options.kick_on_push);
        Self {
            inbox,
            sealer: OnceLock::new(),
            policies: Policies::default(),
            drivers: Drivers::new(options.inline),
            ended: Notify::new(),
            options,
            status: AtomicU8::new(0),
        }
    }

    pub(crate) fn status(&self) -> Status {
        Status::ALL[usize::from(self.status.load(Ordering::Acquire)).min(Status::ALL.len() - 1)]
    }

    /// Moves on to a later status; never back.
    pub(crate) fn advance(&self, to: Status) {
        let code = Status::ALL.iter().position(|status| *status == to).unwrap_or(0);
        self.status
            .fetch_max(u8::try_from(code).unwrap_or(0), Ordering::AcqRel);
    }

    /// Ends the service: whoever waits for an answer learns that none will come.
    pub(crate) fn end(&self) {
        self.inbox.abandon();
        self.advance(Status::Stopped);
        self.drop_committer();
        self.ended.notify_one();
    }

    fn now(&self) -> Now {
        Now {
            monotonic: self.options.clock.monotonic(),
            wall: self.options.clock.wall(),
        }
    }
}

/// Idle time after which the log is sealed.
const SEAL_AFTER: Duration = Duration::from_millis(100);
/// How long a segment or snapshot that failed is left alone: a full disk does not have room a moment later.
const HOUSE_PAUSE: Duration = Duration::from_secs(1);
/// Longest that the commit thread sleeps.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// What other threads hand back to the commit thread.
enum Finished {
    Prepared(Prepared),
    Snapshot {
        result: Result<SnapshotReceipt, JournalError>,
        seconds: f64,
    },
}

pub(crate) struct Committer {
    shared: Arc<Shared>,
    journal: Box<dyn Journal>,
    owner: Owner<ReplyTo>,
    index: LogIndex,
    last_wall: WallTime,
    inputs: Vec<Input<ReplyTo>>,
    entry: Vec<u8>,
    events: Vec<Event>,
    turn: Turn<ReplyTo>,
    finished: (Sender<Finished>, Receiver<Finished>),
    is_snapshot_running: bool,
    snapshot_bytes: u64,
    /// In monotonic time; until then no segment and no snapshot is begun.
    house_from: Duration,
    /// What the observer heard last.
    parked: usize,
    /// When the last batch was committed, until the log is sealed.
    unsealed_since: Option<Instant>,
    counted: journal::Counters,
    /// How long the sync of the last turn took.
    synced: Option<u64>,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl Committer {
    /// Recovers the state and makes the first entry of a new partition.
    pub(crate) fn open(shared: Arc<Shared>, opener: JournalOpener) -> Result<Self, JournalError> {
        let mut recovered = recover();
        let journal = opener(&mut recovered)?;
        let last_wall = recovered.last_wall;
        agree_on_time(&*shared.options.clock, last_wall);
        let index = recovered.index;
        let owner = Owner::new(recovered, shared.options.limits, shared.now());
        let mut thread = Self {
            shared,
            counted: journal.counters(),
            journal,
            owner,
            index,
            last_wall,
            inputs: Vec::new(),
            entry: Vec::new(),
            events: Vec::new(),
            turn: Turn::default(),
            finished: channel(),
            is_snapshot_running: false,
            snapshot_bytes: 0,
            house_from: Duration::ZERO,
            parked: 0,
            unsealed_since: None,
            synced: None,
        };
        if thread.owner.partition().seal_keys().is_empty() {
            let mut key = [0; 32];
            thread.shared.options.random.fill(&mut key);
            thread.inputs.push(Input {
                request: Request::AddSealKey { key },
                reply: None,
            });
            thread.turn()?;
            if thread.owner.partition().seal_keys().is_empty() {
                // Without it no receipt handle could be told from a forged one.
                let file = "the key of receipt handles".to_owned();
                return Err(JournalError::Full { file });
            }
        }
        let in_flight_max = thread.shared.options.in_flight_max;
        if thread.owner.partition().in_flight_max() != in_flight_max {
            let request = Request::SetLimits { in_flight_max };
            thread.inputs.push(Input { request, reply: None });
            thread.turn()?;
        }
        let sealer = Sealer::new(thread.owner.partition().seal_keys());
        thread.shared.sealer.get_or_init(|| sealer);
        for (key, policy) in thread.owner.policies() {
            thread.shared.policies.set(key.clone(), Some(policy.into()));
        }
        thread.prepare();
        Ok(thread)
    }

    /// Takes one turn with what waits in the inbox. An error of the journal ends the process: what was written is
    /// unknown, and nothing may be answered on top of it.
    pub(crate) fn take_turn(&mut self) {
        // What was left over goes first. The inbox fills meanwhile and refuses what would be too much.
        if !self.owner.is_behind() {
            self.shared.inbox.take(&mut self.inputs);
        }
        self.work();
    }

    /// Takes the last turns: no receive waits any more, what was accepted is answered, the log is sealed.
    pub(crate) fn end(&mut self) {
        self.shared.inbox.take(&mut self.inputs);
        self.inputs.push(Input {
            request: Request::EndPolls,
            reply: None,
        });
        self.work();
        while self.is_due() {
            self.work();
        }
        if let Err(failure) = self.journal.seal() {
            error!(error = %failure, "the log could not be sealed");
        }
    }

    fn work(&mut self) {
        if let Err(failure) = self.turn().and_then(|()| self.keep_house()) {
            error!(error = %failure, "the journal has failed: aborting, so that nothing is answered on top of it");
            std::process::abort();
        }
    }

    /// Whether another turn is due at once, whatever comes in.
    pub(crate) fn is_due(&self) -> bool {
        let now = self.shared.options.clock.monotonic();
        self.owner.is_behind() || self.owner.next_wake().is_some_and(|at| at <= now)
    }

    /// Returns how long the last sync took, if the last turn had one.
    pub(crate) fn last_sync(&mut self) -> Option<Duration> {
        self.synced.take().map(Duration::from_nanos)
    }

    /// How long to wait for a request before something else is due.
    pub(crate) fn sleep(&self) -> Duration {
        let now = self.shared.options.clock.monotonic();
        let timer = self.owner.next_wake().map(|at| at.saturating_sub(now));
        let seal = self
            .unsealed_since
            .map(|since| SEAL_AFTER.saturating_sub(since.elapsed()));
        let house = Some(self.house_from)
            .filter(|from| *from > now)
            .map(|from| from - now);
        timer
            .into_iter()
            .chain(seal)
            .chain(house)
            .min()
            .unwrap_or(SLEEP_MAX)
            .min(SLEEP_MAX)
    }

    /// One turn: the swapped inbox becomes a batch, is made durable, applied and answered.
    fn turn(&mut self) -> Result<(), JournalError> {
        let now = self.shared.now();
        let Self {
            owner,
            inputs,
            entry,
            turn,
            ..
        } = self;
        if owner.step(now, inputs, entry, turn) {
            self.commit(now)?;
        }
        self.answer();
        let parked = self.owner.parked();
        if std::mem::replace(&mut self.parked, parked) != parked {
            self.shared.options.observer.parked(parked);
        }
        Ok(())
    }

    fn commit(&mut self, now: Now) -> Result<(), JournalError> {
        let proposed = match self.journal.epoch() {
            Some(epoch) => self.journal.propose(&self.entry, epoch),
            None => Err(ProposeError::EpochChanged { epoch: None }),
        };
        match proposed {
            Ok(_) => {}
            Err(ProposeError::Journal(failure)) => return Err(failure),
            Err(
                refusal @ (ProposeError::EpochChanged { .. }
                | ProposeError::TooLarge { .. }
                | ProposeError::Full { .. }),
            ) => {
                warn!(reason = %refusal, "the journal did not take a batch");
                self.owner.abandon(&Reply::NotTaken, &mut self.turn);
                return Ok(());
            }
        }
        self.journal.wait(&mut self.events)?;
        for event in self.events.drain(..) {
            match event {
                Event::Committed { index, .. } => {
                    self.index = index;
                    self.owner.commit(index, now, &mut self.turn);
                }
                Event::Rejected { .. } => self.owner.abandon(&Reply::NotTaken, &mut self.turn),
                Event::Unknown { .. } => self.owner.abandon(&Reply::Unknown, &mut self.turn),
                Event::EpochChanged { epoch } => info!(?epoch, "the epoch has changed"),
            }
        }
        self.last_wall = now.wall;
        self.unsealed_since = Some(Instant::now());
        self.observe();
        Ok(())
    }

    fn observe(&mut self) {
        let counters = self.journal.counters();
        let mut commit = std::mem::take(&mut self.turn.commit);
        commit.entry_bytes = self.entry.len() as u64;
        commit.journal_bytes = counters.bytes_written - self.counted.bytes_written;
        commit.syncs = counters.syncs - self.counted.syncs;
        commit.sync_nanos = counters.sync_nanos - self.counted.sync_nanos;
        commit.segments_waited_for = counters.segments_waited_for - self.counted.segments_waited_for;
        self.synced = (commit.syncs > 0).then_some(counters.last_sync_nanos);
        self.counted = counters;
        self.shared.options.observer.committed(&commit);
    }

    /// Hands the answers out. A receive whose client has gone is undone.
    fn answer(&mut self) {
        for (key, policy) in self.turn.policies.drain(..) {
            self.shared.policies.set(key, policy);
        }
        for (reply_to, reply) in self.turn.replies.drain(..) {
            if let Err(Reply::Received(messages)) = reply_to.send(reply) {
                self.owner.give_back(&messages);
            }
        }
    }

    /// Takes what other threads finished, starts what is due, seals an idle log.
    fn keep_house(&mut self) -> Result<(), JournalError> {
        while let Ok(finished) = self.finished.1.try_recv() {
            match finished {
                Finished::Prepared(prepared) => match self.journal.install(prepared) {
                    Ok(()) => {}
                    Err(failure @ JournalError::SyncFailed { .. }) => return Err(failure),
                    Err(failure) => {
                        warn!(error = %failure, "a segment could not be prepared; it is tried again");
                        self.pause_house();
                    }
                },
                Finished::Snapshot { result, seconds } => self.complete_snapshot(result, seconds)?,
            }
        }
        if self.shared.options.clock.monotonic() >= self.house_from {
            self.prepare();
            self.begin_snapshot()?;
        }
        if self
            .unsealed_since
            .is_some_and(|since| since.elapsed() >= SEAL_AFTER)
        {
            self.journal.seal()?;
            self.unsealed_since = None;
        }
        Ok(())
    }

    fn pause_house(&mut self) {
        self.house_from = self.shared.options.clock.monotonic() + HOUSE_PAUSE;
    }

    fn prepare(&mut self) {
        if let Some(preparation) = self.journal.take_preparation() {
            // Lost if no thread can be started: then segments are made while a proposal waits.
            self.spawn("journal-prepare", move || Finished::Prepared(preparation.run()));
        }
    }

    fn begin_snapshot(&mut self) -> Result<(), JournalError> {
        let threshold = self.shared.options.snapshot_log_bytes.max(self.snapshot_bytes);
        if self.is_snapshot_running || self.journal.log_bytes_since_snapshot() < threshold {
            return Ok(());
        }
        let mut sink = match self.journal.begin_snapshot(self.index) {
            Ok(sink) => sink,
            Err(JournalError::Full { file }) => {
                warn!(file, "no room for a snapshot; the log is kept");
                self.pause_house();
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let (wall, (state, contents)) = (self.last_wall, self.owner.snapshot());
        self.is_snapshot_running = self.spawn("journal-snapshot", move || {
            let started = Instant::now();
            let result = store_snapshot(&mut *sink, wall, &state, &contents).and_then(|()| sink.finish());
            Finished::Snapshot {
                result,
                seconds: started.elapsed().as_secs_f64(),
            }
        });
        Ok(())
    }

    fn complete_snapshot(
        &mut self,
        result: Result<SnapshotReceipt, JournalError>,
        seconds: f64,
    ) -> Result<(), JournalError> {
        self.is_snapshot_running = false;
        match result {
            Ok(receipt) => {
                self.snapshot_bytes = receipt.bytes();
                self.shared.options.observer.snapshot(receipt.bytes(), seconds);
                info!(index = %receipt.index(), bytes = receipt.bytes(), seconds, "snapshot");
                self.journal.complete_snapshot(receipt)
            }
            Err(JournalError::SyncFailed { file, source }) => Err(JournalError::SyncFailed { file, source }),
            Err(failure) => {
                warn!(error = %failure, "a snapshot failed; the log is kept and it is tried again");
                self.pause_house();
                Ok(())
            }
        }
    }

    /// Runs work on a thread of its own. Returns whether it was started.
    fn spawn(&self, name: &str, work: impl FnOnce() -> Finished + Send + 'static) -> bool {
        let (shared, finished) = (self.shared.clone(), self.finished.0.clone());
        let run = move || {
            // The receiver is gone only when the commit thread has ended, and then nobody needs the result.
            if finished.send(work()).is_ok() {
                shared.inbox.nudge();
            }
        };
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        if let Err(failure) = &started {
            warn!(error = %failure, name, "a thread could not be started");
        }
        started.is_ok()
    }
}

/// Waits until two readings of the wall clock agree, if it says that more than a day passed since the last entry:
/// messages would expire by it.
fn agree_on_time(clock: &dyn Clock, last_wall: WallTime) {
    const LONG_MILLIS: u64 = 24 * 3_600 * 1_000;
    let step = |wall: WallTime| wall.as_millis().saturating_sub(last_wall.as_millis());
    if last_wall.as_millis() == 0 || step(clock.wall()) <= LONG_MILLIS {
        return;
    }
    warn!(
        hours = step(clock.wall()) / 3_600_000,
        "the clock says that the server was down for more than a day"
    );
    loop {
        let (wall, monotonic) = (clock.wall(), clock.monotonic());
        std::thread::park_timeout(Duration::from_millis(100));
        let wall_passed = clock.wall().as_millis().abs_diff(wall.as_millis());
        let passed = u64::try_from((clock.monotonic() - monotonic).as_millis()).unwrap_or(u64::MAX);
        if wall_passed.abs_diff(passed) < 1_000 {
            return;
        }
        warn!("two readings of the clock do not agree; waiting for two that do");
    }
}

fn store_snapshot(
    sink: &mut dyn SnapshotSink,
    wall: WallTime,
    state: &queue_core::PartitionSnapshot,
    contents: &crate::Contents,
) -> Result<(), JournalError> {
    let mut out = SinkWriter {
        sink,
        failure: None,
        buffer: Vec::with_capacity(SinkWriter::BYTES),
    };
    let written = write_snapshot(wall, state, contents, &mut out).and_then(|()| out.flush());
    match (written, out.failure) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(failure)) => Err(failure),
        (Err(source), None) => Err(JournalError::Io {
            operation: "encode",
            file: "snapshot".to_owned(),
            source,
        }),
    }
}

/// Lets the writers of state and contents write to a sink, and keeps the sink's own error.
struct SinkWriter<'a> {
    sink: &'a mut dyn SnapshotSink,
    failure: Option<JournalError>,
    buffer: Vec<u8>,
}

impl SinkWriter<'_> {
    const BYTES: usize = 256 * 1024;
}

impl Write for SinkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= Self::BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.sink.write(&self.buffer);
        self.buffer.clear();
        written.map_err(|failure| {
            self.failure = Some(failure);
            io::Error::other("the snapshot could not be written")
        })
    }
}
