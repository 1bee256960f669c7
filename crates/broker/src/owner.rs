//! The owner of one partition as a plain state machine: requests and the time go in, an entry to journal and answers
//! come out. It has no thread, no clock and no file, so the simulator runs many of them on one thread.
//!
//! [`Owner::step`] turns requests into the commands of one batch; nothing of it is applied. [`Owner::commit`] applies
//! the batch once the journal says that it is durable, and only then are its clients answered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use journal::Place;
use queue_core::{
    Command, Effect, EntryEncoder, Handle, Outcome, Partition, PartitionSnapshot, PayloadId, QueueError,
};
use types::{LogIndex, QueueId, QueueKey, Slot, Timestamp, WallTime, limits};

use crate::contents::{Contents, ContentsSnapshot};
use crate::copies::Copies;
use crate::observer::Commit;
use crate::replay::Recovered;
use crate::request::{Input, Receive, Reply, Request, Taken, WaiterId};
use crate::state_clock::StateClock;
use crate::waiters::{PARKED_MAX, Waiter, Waiters};
use crate::written::Written;

/// A reading of both clocks of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Time since some fixed instant.
    pub monotonic: Duration,
    /// Time of day.
    pub wall: WallTime,
}

/// The waits of SQS that an operator can relax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Seconds before a deleted queue's name can be used again.
    pub deleted_name_wait_seconds: u32,
    /// Seconds between two purges of one queue.
    pub purge_wait_seconds: u32,
}

impl Limits {
    /// The waits of SQS.
    pub const STRICT: Self = Self {
        deleted_name_wait_seconds: limits::DELETED_NAME_WAIT_SECONDS,
        purge_wait_seconds: limits::PURGE_WAIT_SECONDS,
    };
    /// No waits.
    pub const RELAXED: Self = Self {
        deleted_name_wait_seconds: 0,
        purge_wait_seconds: 0,
    };
}

/// What came out of a step or commit.
#[derive(Debug)]
pub struct Turn<R> {
    /// Answers, each with the place where it goes.
    pub replies: Vec<(R, Reply)>,
    /// What was committed, for whoever counts.
    pub commit: Commit,
    /// Queues whose access policy changed, with the text of the new one.
    pub policies: Vec<(QueueKey, Option<Arc<str>>)>,
}

impl<R> Default for Turn<R> {
    fn default() -> Self {
        Self {
            replies: Vec::new(),
            commit: Commit::default(),
            policies: Vec::new(),
        }
    }
}

/// A batch closes when its entry has so many bytes; one command always fits.
const BATCH_BYTES: usize = 256 * 1024;
/// At most so often is an idle partition woken to remove expired messages.
const CLEANUP_SECONDS: u32 = 10;
/// How long the owner leaves a journal alone that refused a batch, with what it proposes by itself.
const QUIET: Duration = Duration::from_millis(100);

/// A command of the batch, with who waits for its outcome.
#[derive(Debug)]
struct Pending<R> {
    command: Command,
    origin: Origin<R>,
}

#[derive(Debug)]
enum Origin<R> {
    /// Nobody is told.
    Nobody,
    /// A client that is told the outcome.
    Client(R),
    /// A receive that goes on waiting if it finds nothing.
    Waiter(Waiter<R>),
}

/// The owner of one partition.
#[derive(Debug)]
pub struct Owner<R> {
    pub(crate) partition: Partition,
    pub(crate) contents: Contents,
    clock: StateClock,
    limits: Limits,
    waiters: Waiters<R>,
    last_arrival: u64,
    /// Receives that were woken: they become commands of the next batch.
    woken: Vec<Waiter<R>>,
    /// Receives to undo in the next batch, by queue.
    give_backs: Vec<(QueueId, Vec<Handle>)>,
    /// Inputs that found no room in the last batch.
    carried: VecDeque<Input<R>>,
    /// Reads of counters that wait for due timers to be applied.
    pub(crate) reads: Vec<(QueueKey, R)>,
    /// The batch that was given to the journal.
    batch: Vec<Pending<R>>,
    /// Where in the entry of the batch each content begins.
    batch_contents: Vec<u32>,
    batch_at: Timestamp,
    batch_wall: WallTime,
    batch_monotonic: Duration,
    /// From when on an idle partition is woken to remove expired messages.
    cleanup_from: Timestamp,
    /// Until then nothing is proposed that no client asked for: the journal has just refused a batch.
    quiet_until: Duration,
    polls_ended: bool,
    sends_refused: bool,
    /// So many deduplication ids are held that no message with one is taken.
    ids_are_many: bool,
    /// Deduplication ids are over, and a tick would free them.
    ids_are_over: bool,
    /// Queues that have an access policy.
    with_policy: BTreeMap<QueueId, QueueKey>,
}

impl<R> Owner<R> {
    /// Takes over a recovered partition. The state clock goes on from its last time.
    pub fn new(recovered: Recovered, limits: Limits, now: Now) -> Self {
        let clock = StateClock::restart(
            recovered.partition.clock(),
            recovered.last_wall,
            now.wall,
            now.monotonic,
        );
        let has_policy = |queue: &&queue_core::Queue| queue.attributes().policy.is_some();
        let with_policy = recovered.partition.queues().filter(has_policy);
        let with_policy = with_policy
            .map(|queue| (queue.id(), queue.key().clone()))
            .collect();
        Self {
            partition: recovered.partition,
            contents: recovered.contents,
            clock,
            limits,
            waiters: Waiters::default(),
            last_arrival: 0,
            woken: Vec::new(),
            give_backs: Vec::new(),
            carried: VecDeque::new(),
            reads: Vec::new(),
            batch: Vec::new(),
            batch_contents: Vec::new(),
            batch_at: Timestamp::ZERO,
            batch_wall: WallTime::default(),
            batch_monotonic: Duration::ZERO,
            cleanup_from: Timestamp::ZERO,
            quiet_until: Duration::ZERO,
            polls_ended: false,
            sends_refused: false,
            ids_are_many: false,
            ids_are_over: false,
            with_policy,
        }
    }

    /// Returns the state.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Returns the number of parked receives.
    pub fn parked(&self) -> usize {
        self.waiters.len()
    }

    /// Whether requests are left over that found no room in the last batch.
    pub fn is_behind(&self) -> bool {
        !self.carried.is_empty()
    }

    /// Undoes, with the next batch, a receive whose answer did not reach its client.
    pub fn give_back(&mut self, messages: &[Taken]) {
        let handles: Vec<_> = messages.iter().map(|message| message.delivery.handle).collect();
        if let Some(first) = handles.first() {
            self.give_backs.push((first.queue, handles));
        }
    }

    /// Takes a snapshot of state and contents; both share memory with the owner.
    pub fn snapshot(&self) -> (PartitionSnapshot, ContentsSnapshot) {
        (self.partition.snapshot(), self.contents.snapshot())
    }

    /// Decides whether messages are taken: not while the disk has no room for more.
    pub(crate) fn refuse_sends(&mut self, refuses: bool) {
        self.sends_refused = refuses;
    }

    /// Counts the deduplication ids. None is forgotten early: at the limit no message with one is taken.
    pub(crate) fn count_ids(&mut self, ids_max: u64, monotonic: Duration) {
        let at = self.clock.now(monotonic);
        self.ids_are_many = self.partition.deduplication_ids() as u64 >= ids_max;
        self.ids_are_over = self.partition.has_forgotten_ids(at);
    }

    /// Returns about how many bytes a snapshot takes.
    pub(crate) fn state_bytes(&self) -> u64 {
        // A header, its place in the column of contents, and a little for what stands beside them.
        const SLOT_BYTES: u64 = 136;
        self.partition.slots() as u64 * SLOT_BYTES
    }

    /// Whether a slot still holds this content, in this segment.
    pub(crate) fn holds(&self, slot: Slot, id: PayloadId, segment: u32) -> bool {
        let payload = self.partition.payload(slot).filter(|payload| payload.id == id);
        let stored = payload.and_then(|payload| self.contents.stored(slot, payload.content_bytes));
        stored.is_some_and(|stored| stored.place.segment == segment)
    }

    /// Hears that contents were written once more, at this place.
    pub(crate) fn copied(&mut self, copies: &[u8], place: Place) {
        let copies = Copies::decode(copies).expect("copies are read as they were written");
        copies.take(&self.partition, &mut self.contents, place);
    }

    /// Turns requests into a batch and writes its entry to `entry`; answers what needs no entry. Returns whether
    /// there is a batch, which then has to be committed or abandoned before the next step.
    pub fn step(
        &mut self,
        now: Now,
        inputs: &mut Vec<Input<R>>,
        entry: &mut Vec<u8>,
        turn: &mut Turn<R>,
    ) -> bool {
        debug_assert!(self.batch.is_empty(), "one batch at a time");
        self.cancel(inputs);
        self.carried.extend(inputs.drain(..));
        let at = self.clock.now(now.monotonic).max(self.partition.clock());
        (self.batch_at, self.batch_wall, self.batch_monotonic) = (at, now.wall, now.monotonic);
        entry.clear();
        let mut encoder = EntryEncoder::begin(entry, at, now.wall);
        if now.monotonic >= self.quiet_until {
            for (queue, handles) in std::mem::take(&mut self.give_backs) {
                self.push(Command::GiveBack { queue, handles }, Origin::Nobody, &mut encoder);
            }
            for waiter in std::mem::take(&mut self.woken) {
                self.take_for(waiter, at, &mut encoder, turn);
            }
        }
        while encoder.len() < BATCH_BYTES
            && let Some(input) = self.carried.pop_front()
        {
            self.accept(input, now, at, &mut encoder, turn);
        }
        while let Some(waiter) = self.waiters.expire(now.monotonic) {
            turn.replies.push((waiter.reply, Reply::Received(Vec::new())));
        }
        if self.needs_tick(at, now.monotonic) {
            self.cleanup_from = at.plus_seconds(CLEANUP_SECONDS);
            // Counted again before the next one.
            self.ids_are_over = false;
            self.push(Command::Tick, Origin::Nobody, &mut encoder);
        }
        self.batch_contents = encoder.finish();
        !self.batch.is_empty()
    }

    /// Applies the batch that is now durable under `index`, and answers its clients. `place` is where the bytes of its
    /// entry lie on this node.
    pub fn commit(&mut self, index: LogIndex, place: Option<Place>, now: Now, turn: &mut Turn<R>) {
        let mut batch = std::mem::take(&mut self.batch);
        turn.commit.commands += batch.len() as u64;
        self.quiet_until = Duration::ZERO;
        let mut written = Written::new(index, place, std::mem::take(&mut self.batch_contents));
        let (mut received_from, mut has_ticked) = (Vec::new(), false);
        for Pending { command, origin } in batch.drain(..) {
            let times = (self.batch_at, self.batch_wall);
            let applied = written.apply(&mut self.partition, &mut self.contents, times, &command);
            self.follow(&applied.effects, turn);
            turn.commit.count(&command, &applied.outcome);
            self.follow_policy(&command, turn);
            if let Command::Receive { queue, .. } = command {
                received_from.push(queue);
            }
            has_ticked |= matches!(command, Command::Tick);
            self.answer(origin, applied.outcome, now, turn);
        }
        self.batch = batch;
        self.wake_for_the_rest(received_from);
        let is_backlog = self.partition.next_expiry().is_some_and(|at| at <= self.batch_at);
        if has_ticked && is_backlog {
            // One tick was not enough for what has expired: go on at once.
            self.cleanup_from = Timestamp::ZERO;
        }
        for (key, reply) in std::mem::take(&mut self.reads) {
            self.describe(key, reply, self.batch_at, turn);
        }
    }

    /// Answers the clients of a batch that was not committed.
    pub fn abandon(&mut self, reply: &Reply, turn: &mut Turn<R>) {
        self.quiet_until = self.batch_monotonic + QUIET;
        let mut woken_for = Vec::new();
        for Pending { command, origin } in self.batch.drain(..) {
            match (origin, command) {
                // Tried again: a second time does nothing if the first one counts after all.
                (Origin::Nobody, Command::GiveBack { queue, handles }) => {
                    self.give_backs.push((queue, handles));
                }
                (Origin::Nobody, _) => {}
                (Origin::Client(client), _) => turn.replies.push((client, reply.clone())),
                (Origin::Waiter(waiter), _) => {
                    woken_for.push(waiter.queue);
                    turn.replies.push((waiter.reply, reply.clone()));
                }
            }
        }
        self.wake_for_the_rest(woken_for);
        turn.replies
            .extend(self.reads.drain(..).map(|(_, client)| (client, reply.clone())));
    }

    /// Returns the monotonic time of the next step that is needed without a new request.
    pub fn next_wake(&self) -> Option<Duration> {
        if !self.carried.is_empty() {
            return Some(Duration::ZERO);
        }
        let has_work = !self.woken.is_empty()
            || !self.give_backs.is_empty()
            || !self.reads.is_empty()
            || self.partition.has_garbage();
        let work = has_work.then_some(Duration::ZERO);
        let due = self.partition.next_due().filter(|_| !self.waiters.is_empty());
        let cleanup = self.partition.next_expiry().map(|at| at.max(self.cleanup_from));
        let timers = due
            .into_iter()
            .chain(cleanup)
            .chain(self.partition.next_task())
            .map(|at| self.clock.monotonic_at(at));
        let forget = self.ids_are_over.then(|| match self.ids_are_many {
            true => Duration::ZERO,
            false => self.clock.monotonic_at(self.cleanup_from),
        });
        let own = work
            .into_iter()
            .chain(timers)
            .chain(forget)
            .map(|at| at.max(self.quiet_until));
        own.chain(self.waiters.next_deadline()).min()
    }

    fn needs_tick(&self, at: Timestamp, monotonic: Duration) -> bool {
        if !self.reads.is_empty() {
            return true;
        }
        let is_due = |time: Option<Timestamp>| time.is_some_and(|time| time <= at);
        let is_needed = self.partition.has_garbage()
            || is_due(self.partition.next_task())
            || (self.ids_are_over && (self.ids_are_many || at >= self.cleanup_from))
            || (!self.waiters.is_empty() && is_due(self.partition.next_due()))
            || (is_due(self.partition.next_expiry()) && (at >= self.cleanup_from || !self.batch.is_empty()));
        is_needed && monotonic >= self.quiet_until
    }

    /// Takes the receives out whose clients have gone, wherever they stand, before anything is taken for them.
    fn cancel(&mut self, inputs: &mut Vec<Input<R>>) {
        let cancelled = |input: &Input<R>| {
            if let Request::Cancel { waiter } = input.request {
                Some(waiter)
            } else {
                None
            }
        };
        let gone: BTreeSet<WaiterId> = inputs.iter().filter_map(cancelled).collect();
        if gone.is_empty() {
            return;
        }
        let stays = |input: &Input<R>| {
            if let Request::Receive(receive) = &input.request {
                !gone.contains(&receive.waiter)
            } else {
                !matches!(input.request, Request::Cancel { .. })
            }
        };
        inputs.retain(stays);
        self.carried.retain(stays);
        for id in &gone {
            self.waiters.cancel(*id);
        }
        let is_gone = |waiter: &mut Waiter<R>| gone.contains(&waiter.id);
        let woken: Vec<_> = self.woken.extract_if(.., is_gone).collect();
        self.wake_for_the_rest(woken.iter().map(|waiter| waiter.queue).collect());
    }

    /// Wakes one waiter of each queue that still has a message: whoever was woken for it took another, did not come
    /// to it, or moved as many messages to the dead-letter queue as one receive may. One is enough, as the next one
    /// follows when that one is served.
    fn wake_for_the_rest(&mut self, mut queues: Vec<QueueId>) {
        if self.waiters.is_empty() {
            return;
        }
        queues.sort_unstable();
        queues.dedup();
        for queue in queues {
            let is_served = self.woken.iter().any(|waiter| waiter.queue == queue);
            if !is_served && self.partition.has_available(queue) {
                self.woken.extend(self.waiters.wake(queue));
            }
        }
    }

    fn push(&mut self, command: Command, origin: Origin<R>, encoder: &mut EntryEncoder<'_>) {
        encoder.push(&command);
        self.batch.push(Pending { command, origin });
    }

    /// Takes one request: answers it from applied state, parks it, or makes it a command.
    fn accept(
        &mut self,
        input: Input<R>,
        now: Now,
        at: Timestamp,
        encoder: &mut EntryEncoder<'_>,
        turn: &mut Turn<R>,
    ) {
        let Input { request, reply } = input;
        match request {
            Request::GiveBack { queue, handles } => {
                self.push(Command::GiveBack { queue, handles }, Origin::Nobody, encoder);
            }
            Request::Withhold { queue, handles } => {
                self.push(Command::Withhold { queue, handles }, Origin::Nobody, encoder);
            }
            Request::Enqueue { entries, .. } if self.ids_are_many && has_id(&entries) => {
                turn.replies.extend(reply.map(|reply| (reply, Reply::NotTaken)));
            }
            Request::Enqueue { .. } if self.sends_refused => {
                turn.replies.extend(reply.map(|reply| (reply, Reply::NoRoom)));
            }
            Request::Receive(receive) => self.receive(receive, reply, now, at, encoder, turn),
            // Done before any request is taken.
            Request::Cancel { .. } => {}
            Request::EndPolls => {
                self.end_polls(turn);
                turn.replies.extend(reply.map(|reply| (reply, Reply::Done)));
            }
            Request::AdvanceClock { by } => {
                self.clock.advance(by);
                turn.replies.extend(reply.map(|reply| (reply, Reply::Done)));
            }
            Request::FindQueue { .. }
            | Request::ListQueues { .. }
            | Request::DescribeQueue { .. }
            | Request::ListMoveTasks { .. }
            | Request::ListDeadLetterSources { .. } => {
                if let Some(reply) = reply {
                    self.read(request, reply, at, turn);
                }
            }
            Request::CreateQueue { .. }
            | Request::DeleteQueue { .. }
            | Request::SetQueueAttributes { .. }
            | Request::PurgeQueue { .. }
            | Request::Enqueue { .. }
            | Request::Delete { .. }
            | Request::ChangeVisibility { .. }
            | Request::TagQueue { .. }
            | Request::UntagQueue { .. }
            | Request::StartMoveTask { .. }
            | Request::CancelMoveTask { .. }
            | Request::SetLimits { .. }
            | Request::AddSealKey { .. } => match self.command(request) {
                Some(command) => {
                    let origin = reply.map_or(Origin::Nobody, Origin::Client);
                    self.push(command, origin, encoder);
                }
                None => turn.replies.extend(reply.map(|reply| (reply, missing()))),
            },
        }
    }

    /// Makes the command of a request that has one, or nothing if the queue that it names is not there.
    fn command(&self, request: Request) -> Option<Command> {
        let find = |key: &QueueKey| self.partition.queue_id(key);
        Some(match request {
            Request::CreateQueue {
                key,
                attributes,
                tags,
            } => Command::CreateQueue {
                key,
                attributes,
                tags,
                deleted_name_wait_seconds: self.limits.deleted_name_wait_seconds,
            },
            Request::AddSealKey { key } => Command::AddSealKey { key },
            Request::SetLimits { in_flight_max } => Command::SetLimits { in_flight_max },
            Request::DeleteQueue { key } => Command::DeleteQueue { queue: find(&key)? },
            Request::SetQueueAttributes { key, attributes } => Command::SetQueueAttributes {
                queue: find(&key)?,
                attributes,
            },
            Request::PurgeQueue { key } => {
                let purge_wait_seconds = self.limits.purge_wait_seconds;
                Command::PurgeQueue {
                    queue: find(&key)?,
                    purge_wait_seconds,
                }
            }
            Request::Enqueue { key, entries } => Command::Enqueue {
                queue: find(&key)?,
                entries,
            },
            Request::Delete { key, handles } => Command::Delete {
                queue: find(&key)?,
                handles,
            },
            Request::ChangeVisibility { key, entries } => Command::ChangeVisibility {
                queue: find(&key)?,
                entries,
            },
            Request::TagQueue { .. }
            | Request::UntagQueue { .. }
            | Request::StartMoveTask { .. }
            | Request::CancelMoveTask { .. } => return self.upkeep_command(request),
            Request::Receive(_)
            | Request::GiveBack { .. }
            | Request::Withhold { .. }
            | Request::Cancel { .. }
            | Request::FindQueue { .. }
            | Request::ListQueues { .. }
            | Request::DescribeQueue { .. }
            | Request::ListMoveTasks { .. }
            | Request::ListDeadLetterSources { .. }
            | Request::AdvanceClock { .. }
            | Request::EndPolls => return None,
        })
    }

    /// Makes the command of a request about tags or move tasks.
    fn upkeep_command(&self, request: Request) -> Option<Command> {
        let find = |key: &QueueKey| self.partition.queue_id(key);
        if let Request::TagQueue { key, tags } = request {
            let queue = find(&key)?;
            Some(Command::TagQueue { queue, tags })
        } else if let Request::UntagQueue { key, keys } = request {
            let queue = find(&key)?;
            Some(Command::UntagQueue { queue, keys })
        } else if let Request::StartMoveTask {
            source,
            task,
            destination,
            rate,
        } = request
        {
            let source = find(&source)?;
            Some(Command::StartMoveTask {
                source,
                task,
                destination,
                rate,
            })
        } else if let Request::CancelMoveTask { source, task } = request {
            let source = find(&source)?;
            Some(Command::CancelMoveTask { source, task })
        } else {
            None
        }
    }

    fn receive(
        &mut self,
        receive: Receive,
        reply: Option<R>,
        now: Now,
        at: Timestamp,
        encoder: &mut EntryEncoder<'_>,
        turn: &mut Turn<R>,
    ) {
        let Some(reply) = reply else { return };
        let found = self
            .partition
            .queue_id(&receive.key)
            .and_then(|id| self.partition.queue(id));
        let Some(queue) = found else {
            turn.replies.push((reply, missing()));
            return;
        };
        let wait_seconds = receive
            .wait_seconds
            .unwrap_or(queue.attributes().receive_wait_seconds);
        let wait_seconds = if self.polls_ended { 0 } else { wait_seconds };
        self.last_arrival += 1;
        let waiter = Waiter {
            id: receive.waiter,
            arrival: self.last_arrival,
            queue: queue.id(),
            max: receive.max,
            visibility_timeout_seconds: receive.visibility_timeout_seconds,
            attempt: receive.attempt,
            deadline: now.monotonic + Duration::from_secs(u64::from(wait_seconds)),
            reply,
        };
        let is_full = queue.counters().in_flight >= self.partition.in_flight_max();
        let attempt = waiter.attempt.as_ref();
        let is_known = attempt.is_some_and(|attempt| self.partition.knows_attempt(queue.id(), attempt, at));
        if self.may_find(queue.id(), at) || is_known || (is_full && wait_seconds == 0) {
            let command = receive_command(&waiter, wait_seconds > 0);
            let origin = if wait_seconds > 0 {
                Origin::Waiter(waiter)
            } else {
                Origin::Client(waiter.reply)
            };
            self.push(command, origin, encoder);
        } else if wait_seconds == 0 {
            turn.replies.push((waiter.reply, Reply::Received(Vec::new())));
        } else if self.waiters.len() >= PARKED_MAX {
            turn.replies.push((waiter.reply, Reply::NotTaken));
        } else {
            self.waiters.park(waiter);
        }
    }

    /// Makes a woken receive a command, unless somebody else took what it was woken for.
    fn take_for(
        &mut self,
        waiter: Waiter<R>,
        at: Timestamp,
        encoder: &mut EntryEncoder<'_>,
        turn: &mut Turn<R>,
    ) {
        if self.partition.queue(waiter.queue).is_none() {
            turn.replies.push((waiter.reply, missing()));
        } else if self.may_find(waiter.queue, at) {
            let command = receive_command(&waiter, true);
            self.push(command, Origin::Waiter(waiter), encoder);
        } else {
            self.waiters.park(waiter);
        }
    }

    /// Whether a receive may find a message: one is available, or a timer is due that may make one so.
    fn may_find(&self, queue: QueueId, at: Timestamp) -> bool {
        self.partition.has_available(queue) || self.partition.next_due().is_some_and(|due| due <= at)
    }

    fn end_polls(&mut self, turn: &mut Turn<R>) {
        self.polls_ended = true;
        let woken = std::mem::take(&mut self.woken);
        let parked = std::iter::from_fn(|| self.waiters.pop());
        let empty = |waiter: Waiter<R>| (waiter.reply, Reply::Received(Vec::new()));
        turn.replies.extend(woken.into_iter().chain(parked).map(empty));
    }

    /// Does outside the state what a command asks for.
    fn follow(&mut self, effects: &[Effect], turn: &mut Turn<R>) {
        for effect in effects {
            match effect {
                Effect::Available(queue) => self.woken.extend(self.waiters.wake(*queue)),
                Effect::Freed { .. } => {}
                Effect::DeadLettered { .. } => turn.commit.dead_lettered += 1,
                Effect::QueueDeleted(queue) => {
                    while let Some(waiter) = self.waiters.wake(*queue) {
                        turn.replies.push((waiter.reply, missing()));
                    }
                }
            }
        }
    }

    /// Says which queue's policy a command changed.
    fn follow_policy(&mut self, command: &Command, turn: &mut Turn<R>) {
        let id = match command {
            Command::CreateQueue { key, .. } => self.partition.queue_id(key),
            Command::SetQueueAttributes { queue, .. } | Command::DeleteQueue { queue } => Some(*queue),
            Command::PurgeQueue { .. }
            | Command::Enqueue { .. }
            | Command::Receive { .. }
            | Command::Delete { .. }
            | Command::ChangeVisibility { .. }
            | Command::GiveBack { .. }
            | Command::Withhold { .. }
            | Command::Discard { .. }
            | Command::TagQueue { .. }
            | Command::UntagQueue { .. }
            | Command::StartMoveTask { .. }
            | Command::CancelMoveTask { .. }
            | Command::Tick
            | Command::SetLimits { .. }
            | Command::AddSealKey { .. } => None,
        };
        let Some(id) = id else { return };
        let queue = self.partition.queue(id);
        let policy = queue.and_then(|queue| Some((queue.key(), queue.attributes().policy.as_deref()?)));
        if let Some((key, policy)) = policy {
            turn.policies.push((key.clone(), Some(policy.into())));
            self.with_policy.insert(id, key.clone());
        } else if let Some(key) = self.with_policy.remove(&id) {
            turn.policies.push((key, None));
        }
    }

    /// Returns the policies of all queues that have one.
    pub fn policies(&self) -> impl Iterator<Item = (&QueueKey, &str)> {
        let queues = self.with_policy.keys().filter_map(|id| self.partition.queue(*id));
        queues.filter_map(|queue| Some((queue.key(), queue.attributes().policy.as_deref()?)))
    }

    /// Tells whoever waits for a command what it came to.
    fn answer(
        &mut self,
        origin: Origin<R>,
        outcome: Result<Outcome, QueueError>,
        now: Now,
        turn: &mut Turn<R>,
    ) {
        let reply = match outcome {
            Err(error) => Reply::Refused(error),
            Ok(Outcome::Done | Outcome::Queue(_)) => Reply::Done,
            Ok(Outcome::Enqueued(results)) => Reply::Enqueued(results),
            Ok(Outcome::Entries(results)) => Reply::Entries(results),
            Ok(Outcome::Moved(moved)) => Reply::Moved(moved),
            Ok(Outcome::Received(deliveries)) => {
                let with_content = |delivery: queue_core::Delivery| {
                    let content = self.contents.get(delivery.handle.slot, delivery.content_bytes);
                    Taken {
                        delivery,
                        content,
                        file: None,
                    }
                };
                Reply::Received(deliveries.into_iter().map(with_content).collect())
            }
        };
        match origin {
            Origin::Nobody => {}
            Origin::Client(client) => turn.replies.push((client, reply)),
            Origin::Waiter(waiter) => self.answer_waiter(waiter, reply, now, turn),
        }
    }

    fn answer_waiter(&mut self, waiter: Waiter<R>, reply: Reply, now: Now, turn: &mut Turn<R>) {
        let found_nothing = matches!(&reply, Reply::Received(messages) if messages.is_empty());
        if !found_nothing || self.polls_ended || waiter.deadline <= now.monotonic {
            turn.replies.push((waiter.reply, reply));
        } else {
            self.waiters.park(waiter);
        }
    }
}

fn has_id(entries: &[queue_core::EnqueueEntry]) -> bool {
    entries.iter().any(|entry| entry.deduplication.is_some())
}

fn receive_command<R>(waiter: &Waiter<R>, is_long_poll: bool) -> Command {
    Command::Receive {
        queue: waiter.queue,
        max: waiter.max,
        visibility_timeout_seconds: waiter.visibility_timeout_seconds,
        is_long_poll,
        attempt: waiter.attempt,
    }
}

pub(crate) fn missing() -> Reply {
    Reply::Refused(QueueError::NoSuchQueue)
}
