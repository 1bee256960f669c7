//! The commit turn: a thin shell around [`Owner`] that swaps the inbox, journals, applies and answers.
//!
//! A turn is: swap the inbox, encode the batch, write and sync it, apply it in order, answer everybody. While a sync
//! runs nobody is woken; what arrives meanwhile is the next batch. With a journal that commits by itself a turn ends when
//! the batch is proposed, and begins with what has become of earlier ones (`outcomes.rs`). Who takes the turns is in
//! `driver.rs`. Segments are prepared and snapshots written on threads of their own, which hand their result back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use journal::{Epoch, Event, Journal, JournalError};
use tokio::sync::{Notify, oneshot};
use tracing::{error, warn};
use types::WallTime;

use crate::budget::{Budget, BudgetLimits};
use crate::clock::Clock;
use crate::contents::Held;
use crate::copies;
use crate::driver::Drivers;
use crate::forward::encode_request;
use crate::house::House;
use crate::inbox::{Inbox, InboxLimits};
use crate::observer::Observer;
use crate::owner::{Limits, Now, Owner, Turn};
use crate::policies::Policies;
use crate::process::Process;
use crate::progress::Progress;
use crate::random::Random;
use crate::replay::{Recovered, recover};
use crate::request::{Input, Reply, Request, Taken};
use crate::route::{Drain, Leader};
use crate::seal::Seals;

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
    /// The process that this is.
    pub process: Arc<dyn Process>,
    /// Who counts.
    pub observer: Arc<dyn Observer>,
    /// The way to the node that leads; none if this one is alone.
    pub leader: Option<Arc<dyn Leader>>,
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
    pub(crate) seals: Seals,
    pub(crate) drivers: Drivers,
    /// Hears when the service has ended, in order or not.
    pub(crate) ended: Notify,
    pub(crate) policies: Policies,
    pub(crate) progress: Arc<Progress>,
    pub(crate) budget: Arc<Budget>,
    /// Whether requests are this owner's to answer, as far as the commit thread knew last.
    leads: AtomicBool,
    /// Hears when `leads` has changed.
    pub(crate) roles: Notify,
    pub(crate) drain: Drain,
    status: AtomicU8,
}

impl Shared {
    pub(crate) fn new(options: BrokerOptions) -> Self {
        let inbox = Inbox::new(options.inbox, options.kick_on_push);
        Self {
            inbox,
            seals: Seals::default(),
            policies: Policies::default(),
            progress: Arc::default(),
            budget: Arc::new(Budget::new(options.budget)),
            drivers: Drivers::new(options.inline),
            ended: Notify::new(),
            leads: AtomicBool::new(false),
            roles: Notify::new(),
            drain: Drain::default(),
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

    /// Whether requests are this owner's to answer.
    pub(crate) fn leads(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    /// Says whose requests are.
    pub(crate) fn set_leads(&self, leads: bool) {
        if self.leads.swap(leads, Ordering::AcqRel) != leads {
            self.roles.notify_waiters();
        }
    }

    /// Ends the service: whoever waits for an answer learns that none will come.
    pub(crate) fn end(&self) {
        self.inbox.abandon();
        self.advance(Status::Stopped);
        self.drop_committer();
        self.ended.notify_one();
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            monotonic: self.options.clock.monotonic(),
            wall: self.options.clock.wall(),
        }
    }
}

/// Longest that the commit thread sleeps.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// How often a node that leads looks whether the last node was upgraded.
const LEVEL_LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) journal: Box<dyn Journal>,
    pub(crate) owner: Owner<ReplyTo>,
    /// The reign that the owner serves in; none while another process may.
    pub(crate) reign: Option<Epoch>,
    /// Whether the state has what a reign begins with.
    pub(crate) is_initialised: bool,
    pub(crate) inputs: Vec<Input<ReplyTo>>,
    pub(crate) entry: Vec<u8>,
    pub(crate) events: Vec<Event>,
    pub(crate) turn: Turn<ReplyTo>,
    pub(crate) house: House,
    /// The buffer of copies forward.
    pub(crate) copies: Vec<u8>,
    /// The feature level that the other nodes were told of last.
    pub(crate) level_told: u32,
    /// What the observer heard last.
    parked: usize,
    pub(crate) counted: journal::Counters,
    /// How long the sync of the last turn took, if it committed a batch.
    pub(crate) synced: Option<u64>,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer")
            .field("index", &self.owner.index())
            .finish_non_exhaustive()
    }
}

impl Committer {
    /// Recovers the state and makes the first entry of a new partition.
    pub(crate) fn open(shared: Arc<Shared>, opener: JournalOpener) -> Result<Self, JournalError> {
        let mut recovered = recover();
        recovered.progress = shared.progress.clone();
        let mut journal = opener(&mut recovered)?;
        agree_on_time(&*shared.options.clock, recovered.last_wall);
        let mut owner = Owner::new(recovered, shared.options.limits, shared.now());
        owner.allow_batches(journal.batches_in_flight_max());
        let reign = if journal.commits_by_itself() {
            owner.suspend();
            journal.set_waker(waker(&shared));
            None
        } else {
            journal.epoch()
        };
        let (reserve_bytes, cache_bytes) = (shared.options.reserve_bytes, shared.options.cache_bytes);
        let mut thread = Self {
            shared,
            counted: journal.counters(),
            journal,
            owner,
            reign,
            is_initialised: false,
            inputs: Vec::new(),
            entry: Vec::new(),
            events: Vec::new(),
            turn: Turn::default(),
            house: House::new(reserve_bytes),
            copies: Vec::new(),
            level_told: 0,
            parked: 0,
            synced: None,
        };
        thread.owner.contents.set_cache_bytes(cache_bytes);
        thread.store_pinned()?;
        if thread.reign.is_some() {
            thread.turn()?;
            if thread.owner.partition().seal_keys().is_empty() {
                // Without it no receipt handle could be told from a forged one.
                let file = "the key of receipt handles".to_owned();
                return Err(JournalError::Full { file });
            }
        }
        thread.shared.seals.set(thread.owner.partition().seal_keys());
        for (key, policy) in thread.owner.policies() {
            thread.shared.policies.set(key.clone(), Some(policy.into()));
        }
        thread.prepare();
        Ok(thread)
    }

    /// Takes one turn with what waits in the inbox. An error of the journal ends the process: what was written is
    /// unknown, and nothing may be answered on top of it.
    pub(crate) fn take_turn(&mut self) {
        self.listen();
        // What was left over goes first. The inbox fills meanwhile and refuses what would be too much.
        if self.inputs.is_empty() && self.owner.may_step() && !self.owner.is_behind() {
            self.shared.inbox.take(&mut self.inputs);
        }
        self.work();
    }

    /// Takes the last turns: no receive waits any more, what was accepted is answered, the log is sealed.
    pub(crate) fn end(&mut self) {
        let mut last = Vec::new();
        self.shared.inbox.take(&mut last);
        self.inputs.append(&mut last);
        self.inputs.push(Input {
            request: Request::EndPolls,
            reply: None,
        });
        self.finish();
        if let Err(failure) = self.journal.seal() {
            error!(error = %failure, "the log could not be sealed");
        }
        self.leave_house();
    }

    pub(crate) fn work(&mut self) {
        let worked = self.turn().and_then(|()| self.keep_house());
        self.survive(worked);
    }

    /// Goes on if nothing went wrong.
    pub(crate) fn survive(&self, worked: Result<(), JournalError>) {
        if let Err(failure) = worked {
            error!(error = %failure, "the journal has failed: aborting, so that nothing is answered on top of it");
            self.shared.options.process.abort();
        }
    }

    /// Whether another turn is due at once, whatever comes in.
    pub(crate) fn is_due(&self) -> bool {
        let now = self.shared.options.clock.monotonic();
        let has_inputs = !self.inputs.is_empty() && self.owner.may_step();
        has_inputs || self.owner.is_behind() || self.owner.next_wake().is_some_and(|at| at <= now)
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
        let level = self.awaits_level().then_some(LEVEL_LOOK);
        timer
            .into_iter()
            .chain(house)
            .chain(level)
            .min()
            .unwrap_or(SLEEP_MAX)
            .min(SLEEP_MAX)
    }

    /// One turn: the swapped inbox becomes a batch, is made durable, applied and answered.
    fn turn(&mut self) -> Result<(), JournalError> {
        let now = self.shared.now();
        self.look_at_reign();
        let Self {
            owner,
            inputs,
            entry,
            turn,
            ..
        } = self;
        if !owner.may_step() {
            owner.end_waits(now, turn);
        } else if owner.step(now, inputs, entry, turn) {
            self.commit(now)?;
        }
        self.answer();
        let parked = self.owner.parked();
        if std::mem::replace(&mut self.parked, parked) != parked {
            self.shared.options.observer.parked(parked);
        }
        Ok(())
    }

    /// Writes contents to the log that are in memory only: they came with a snapshot of an earlier version.
    pub(crate) fn store_pinned(&mut self) -> Result<(), JournalError> {
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
            let now = self.shared.options.clock.monotonic();
            self.house.written(now);
        }
        Ok(())
    }

    /// Hands the answers out. A receive whose client has gone is undone.
    fn answer(&mut self) {
        for (key, policy) in self.turn.policies.drain(..) {
            self.shared.policies.set(key, policy);
        }
        self.compare();
        if std::mem::take(&mut self.turn.has_new_seal_keys) {
            self.shared.seals.set(self.owner.partition().seal_keys());
        }
        for (reply_to, mut reply) in self.turn.replies.drain(..) {
            if let Reply::Received(taken) = &mut reply {
                add_files(&*self.journal, taken);
            }
            if let Err(Reply::Received(messages)) = reply_to.send(reply) {
                self.owner.give_back(&messages);
            }
        }
        if let Some(leader) = self
            .shared
            .options
            .leader
            .as_deref()
            .filter(|_| self.reign.is_none())
        {
            for release in self.owner.take_releases() {
                leader.tell(encode_request(&release).into());
            }
        }
    }
}

/// Returns what wakes the commit thread, which this is: also in its last turns, when no kick does.
fn waker(shared: &Arc<Shared>) -> journal::Waker {
    let (shared, thread) = (Arc::downgrade(shared), std::thread::current());
    Arc::new(move || {
        if let Some(shared) = shared.upgrade() {
            shared.inbox.nudge();
        }
        thread.unpark();
    })
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
