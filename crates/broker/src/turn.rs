//! The commit thread: a thin shell around [`Owner`] that swaps the inbox, journals, applies and answers.
//!
//! A turn is: swap the inbox, encode the batch, write and sync it, apply it in order, answer everybody. While a sync
//! runs nobody is woken; what arrives meanwhile is the next batch. Segments are prepared and snapshots written on
//! threads of their own, which hand their result back to this one.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use journal::{Event, Journal, JournalError, Prepared, ProposeError, SnapshotReceipt, SnapshotSink};
use tokio::sync::oneshot;
use tracing::{error, info, warn};
use types::{LogIndex, WallTime};

use crate::clock::Clock;
use crate::inbox::{Inbox, InboxLimits};
use crate::observer::Observer;
use crate::owner::{Limits, Now, Owner, Turn};
use crate::policies::Policies;
use crate::random::Random;
use crate::replay::{Recovered, recover};
use crate::request::{Input, Reply, Request};
use crate::seal::Sealer;
use crate::take::give_back;

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
    /// Whether each request wakes the commit thread. Otherwise the reactors do, when they run out of work.
    pub kick_on_push: bool,
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
    pub(crate) policies: Policies,
    status: AtomicU8,
}

impl Shared {
    pub(crate) fn new(options: BrokerOptions) -> Self {
        let inbox = Inbox::new(options.inbox, options.kick_on_push);
        Self {
            inbox,
            options,
            sealer: OnceLock::new(),
            policies: Policies::default(),
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

    fn now(&self) -> Now {
        Now {
            monotonic: self.options.clock.monotonic(),
            wall: self.options.clock.wall(),
        }
    }
}

/// Idle time after which the log is sealed.
const SEAL_AFTER: Duration = Duration::from_millis(100);
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

pub(crate) struct CommitThread {
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
    /// When the last batch was committed, until the log is sealed.
    unsealed_since: Option<Instant>,
    counted: journal::Counters,
}

impl CommitThread {
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
            unsealed_since: None,
        };
        if thread.owner.partition().seal_keys().is_empty() {
            let mut key = [0; 32];
            thread.shared.options.random.fill(&mut key);
            thread.inputs.push(Input {
                request: Request::AddSealKey { key },
                reply: None,
            });
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

    /// Serves until the inbox is closed and empty. An error of the journal ends the process: what was written is
    /// unknown, and nothing may be answered on top of it.
    pub(crate) fn run(mut self) {
        loop {
            let is_closed = self.shared.inbox.wait(self.sleep(), &mut self.inputs);
            if let Err(failure) = self.turn().and_then(|()| self.keep_house()) {
                error!(error = %failure, "the journal has failed: aborting, so that nothing is answered on top of it");
                std::process::abort();
            }
            if is_closed && self.inputs.is_empty() && self.owner.next_wake() != Some(Duration::ZERO) {
                break;
            }
        }
        if let Err(failure) = self.journal.seal() {
            error!(error = %failure, "the log could not be sealed");
        }
        self.shared.advance(Status::Stopped);
    }

    /// How long to wait for a request before something else is due.
    fn sleep(&self) -> Duration {
        let now = self.shared.options.clock.monotonic();
        let timer = self.owner.next_wake().map(|at| at.saturating_sub(now));
        let seal = self
            .unsealed_since
            .map(|since| SEAL_AFTER.saturating_sub(since.elapsed()));
        timer
            .into_iter()
            .chain(seal)
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
        self.counted = counters;
        self.shared.options.observer.committed(&commit);
        self.shared.options.observer.parked(self.owner.parked());
    }

    /// Hands the answers out. A receive whose client has gone is undone.
    fn answer(&mut self) {
        for (key, policy) in self.turn.policies.drain(..) {
            self.shared.policies.set(key, policy);
        }
        for (reply_to, reply) in self.turn.replies.drain(..) {
            if let Err(Reply::Received(messages)) = reply_to.send(reply) {
                give_back(
                    &self.shared,
                    messages.iter().map(|message| message.delivery.handle),
                );
            }
        }
    }

    /// Takes what other threads finished, starts what is due, seals an idle log.
    fn keep_house(&mut self) -> Result<(), JournalError> {
        while let Ok(finished) = self.finished.1.try_recv() {
            match finished {
                Finished::Prepared(prepared) => {
                    if let Err(failure) = self.journal.install(prepared) {
                        warn!(error = %failure, "a segment could not be prepared; it is tried again");
                    }
                }
                Finished::Snapshot { result, seconds } => self.complete_snapshot(result, seconds)?,
            }
        }
        self.prepare();
        self.begin_snapshot()?;
        if self
            .unsealed_since
            .is_some_and(|since| since.elapsed() >= SEAL_AFTER)
        {
            self.journal.seal()?;
            self.unsealed_since = None;
        }
        Ok(())
    }

    fn prepare(&mut self) {
        if let Some(preparation) = self.journal.take_preparation() {
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
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        self.is_snapshot_running = true;
        let (wall, (state, contents)) = (self.last_wall, self.owner.snapshot());
        self.spawn("journal-snapshot", move || {
            let started = Instant::now();
            let result = write_snapshot(&mut *sink, wall, &state, &contents).and_then(|()| sink.finish());
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
                Ok(())
            }
        }
    }

    fn spawn(&self, name: &str, work: impl FnOnce() -> Finished + Send + 'static) {
        let (shared, finished) = (self.shared.clone(), self.finished.0.clone());
        let run = move || {
            // The receiver is gone only when the commit thread has ended, and then nobody needs the result.
            if finished.send(work()).is_ok() {
                shared.inbox.nudge();
            }
        };
        if let Err(failure) = std::thread::Builder::new().name(name.to_owned()).spawn(run) {
            warn!(error = %failure, name, "a thread could not be started");
        }
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

fn write_snapshot(
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
    let written = out
        .write_all(&wall.as_millis().to_le_bytes())
        .and_then(|()| state.write(&mut out))
        .and_then(|()| contents.write(&mut out))
        .and_then(|()| out.flush());
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
