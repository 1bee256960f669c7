//! The commit turn: a thin shell around [`Owner`] that swaps the inbox, journals, applies and answers.
//!
//! A turn is: swap the inbox, encode the batch, write and sync it, apply it in order, answer everybody. While a sync
//! runs nobody is woken; what arrives meanwhile is the next batch. Who takes the turns is in `driver.rs`. Segments are
//! prepared and snapshots written on threads of their own, which hand their result back.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use journal::{Event, Journal, JournalError, ProposeError};
use tokio::sync::{Notify, oneshot};
use tracing::{error, info, warn};
use types::{LogIndex, WallTime};

use crate::budget::{Budget, BudgetLimits};
use crate::clock::Clock;
use crate::contents::Held;
use crate::copies;
use crate::driver::Drivers;
use crate::house::House;
use crate::inbox::{Inbox, InboxLimits};
use crate::observer::Observer;
use crate::owner::{Limits, Now, Owner, Turn};
use crate::policies::Policies;
use crate::progress::Progress;
use crate::random::Random;
use crate::replay::{Recovered, recover};
use crate::request::{Input, Reply, Request, Taken};
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
    /// How many bytes of contents may be in flight inside the server.
    pub budget: BudgetLimits,
    /// Most messages of one queue that may be in flight.
    pub in_flight_max: u64,
    /// Most deduplication ids that are held, of 64 bytes each.
    pub deduplication_ids_max: u64,
    /// Whether each request wakes the commit thread. Otherwise the reactors do, when they run out of work.
    pub kick_on_push: bool,
    /// Whether the one reactor of a small machine commits by itself when it runs out of work, while the disk is quick:
    /// it saves two wake-ups a batch.
    pub inline: bool,
    /// Bytes of log after which a snapshot is taken, or more if the last snapshot was larger.
    pub snapshot_log_bytes: u64,
    /// Memory for contents of messages that also lie on the disk.
    pub cache_bytes: usize,
    /// Room that is kept free on the disk; a part of the file system if `None`.
    pub reserve_bytes: Option<u64>,
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
    pub(crate) progress: Arc<Progress>,
    pub(crate) budget: Arc<Budget>,
    status: AtomicU8,
}

impl Shared {
    pub(crate) fn new(options: BrokerOptions) -> Self {
        let inbox = Inbox::new(options.inbox, options.kick_on_push);
        Self {
            inbox,
            sealer: OnceLock::new(),
            policies: Policies::default(),
            progress: Arc::default(),
            budget: Arc::new(Budget::new(options.budget)),
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

/// Longest that the commit thread sleeps.
const SLEEP_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) journal: Box<dyn Journal>,
    pub(crate) owner: Owner<ReplyTo>,
    pub(crate) index: LogIndex,
    pub(crate) last_wall: WallTime,
    inputs: Vec<Input<ReplyTo>>,
    entry: Vec<u8>,
    events: Vec<Event>,
    turn: Turn<ReplyTo>,
    pub(crate) house: House,
    /// The buffer of copies forward.
    pub(crate) copies: Vec<u8>,
    /// What the observer heard last.
    parked: usize,
    counted: journal::Counters,
    /// How long the sync of the last turn took, if it committed a batch.
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
        recovered.progress = shared.progress.clone();
        let journal = opener(&mut recovered)?;
        let last_wall = recovered.last_wall;
        agree_on_time(&*shared.options.clock, last_wall);
        let index = recovered.index;
        let owner = Owner::new(recovered, shared.options.limits, shared.now());
        let (reserve_bytes, cache_bytes) = (shared.options.reserve_bytes, shared.options.cache_bytes);
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
            house: House::new(reserve_bytes),
            copies: Vec::new(),
            parked: 0,
            synced: None,
        };
        thread.owner.contents.set_cache_bytes(cache_bytes);
        thread.store_pinned()?;
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
        self.leave_house();
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

    /// Returns how long the last sync took, if the last turn committed a batch.
    pub(crate) fn last_sync(&mut self) -> Option<Duration> {
        self.synced.take().map(Duration::from_nanos)
    }

    /// How long to wait for a request before something else is due.
    pub(crate) fn sleep(&self) -> Duration {
        let now = self.shared.options.clock.monotonic();
        let timer = self.owner.next_wake().map(|at| at.saturating_sub(now));
        let house = self.house.sleep(now);
        timer
            .into_iter()
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
                Event::Committed { index, place, .. } => {
                    self.index = index;
                    self.owner.commit(index, place, now, &mut self.turn);
                }
                Event::Rejected { .. } => self.owner.abandon(&Reply::NotTaken, &mut self.turn),
                Event::Unknown { .. } => self.owner.abandon(&Reply::Unknown, &mut self.turn),
                Event::EpochChanged { epoch } => info!(?epoch, "the epoch has changed"),
            }
        }
        self.last_wall = now.wall;
        self.house.written();
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
        // With syncs off a batch has none, and the disk holds nobody up.
        self.synced = Some(if commit.syncs > 0 {
            counters.last_sync_nanos
        } else {
            0
        });
        self.counted = counters;
        self.shared.options.observer.committed(&commit);
    }

    /// Writes contents to the log that are in memory only: they came with a snapshot of an earlier version.
    fn store_pinned(&mut self) -> Result<(), JournalError> {
        const PIECE_BYTES: usize = 1 << 20;
        let pinned = self.owner.contents.pinned().clone();
        let mut pinned = pinned.into_iter().peekable();
        while pinned.peek().is_some() {
            copies::begin(&mut self.copies);
            while let Some((slot, content)) = pinned.next_if(|_| self.copies.len() < PIECE_BYTES) {
                if let Some(payload) = self.owner.partition().payload(slot) {
                    copies::push(&mut self.copies, slot, payload.id, &content);
                }
            }
            let Some(place) = self.journal.copy_forward(&self.copies)? else {
                return Ok(());
            };
            self.owner.copied(&self.copies, place);
            self.house.written();
        }
        Ok(())
    }

    /// Hands the answers out. A receive whose client has gone is undone.
    fn answer(&mut self) {
        for (key, policy) in self.turn.policies.drain(..) {
            self.shared.policies.set(key, policy);
        }
        for (reply_to, mut reply) in self.turn.replies.drain(..) {
            if let Reply::Received(taken) = &mut reply {
                add_files(&*self.journal, taken);
            }
            if let Err(Reply::Received(messages)) = reply_to.send(reply) {
                self.owner.give_back(&messages);
            }
        }
    }
}

/// Adds the files to read contents from.
fn add_files(journal: &dyn Journal, taken: &mut [Taken]) {
    for taken in taken {
        if let Held::Disk(stored) = taken.content {
            taken.file = journal.segment(stored.place.segment);
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
