//! The owner of one partition as a plain state machine: requests and the time go in, an entry to journal and answers
//! come out. It has no thread, no clock and no file, so the simulator runs many of them on one thread.
//!
//! [`Owner::step`] turns requests into the commands of one batch; nothing of it is applied. [`Owner::commit`] applies
//! the batch once the journal says that it is durable, and only then are its clients answered (`applied.rs`). Several
//! batches may be on their way. An owner that does not reign refuses what it is asked (`reign.rs`), and applies what
//! another one proposed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use journal::Place;
use queue_core::{Command, EntryEncoder, Partition, PartitionSnapshot, PayloadId, QueueError, entry_hash};
use types::{LogIndex, QueueId, QueueKey, Slot, Timestamp, WallTime, limits};

use crate::agreement::Checkpoint;
use crate::batch::{Batch, Batches, Origin, Pending};
use crate::contents::{Contents, ContentsSnapshot};
use crate::copies::Copies;
use crate::observer::Commit;
use crate::replay::Recovered;
use crate::request::{Input, Receive, Reply, Request, Taken, WaiterId};
use crate::state_clock::StateClock;
use crate::waiters::{PARKED_MAX, Waiter, Waiters};

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
    /// Whether the keys changed that seal receipt handles.
    pub has_new_seal_keys: bool,
    /// What this node came to, for comparison with others.
    pub checkpoints: Vec<Checkpoint>,
    /// States to hash for comparison, each as it was after its entry.
    pub states: Vec<(LogIndex, PartitionSnapshot)>,
}

impl<R> Default for Turn<R> {
    fn default() -> Self {
        Self {
            replies: Vec::new(),
            commit: Commit::default(),
            policies: Vec::new(),
            has_new_seal_keys: false,
            checkpoints: Vec::new(),
            states: Vec::new(),
        }
    }
}

/// A batch closes when its entry has so many bytes; one command always fits.
const BATCH_BYTES: usize = 256 * 1024;
/// At most so often is an idle partition woken to remove expired messages.
const CLEANUP_SECONDS: u32 = 10;
/// How long the owner leaves a journal alone that refused a batch, with what it proposes by itself.
pub(crate) const QUIET: Duration = Duration::from_millis(100);

/// The owner of one partition.
#[derive(Debug)]
pub struct Owner<R> {
    pub(crate) partition: Partition,
    pub(crate) contents: Contents,
    /// The last entry applied.
    pub(crate) index: LogIndex,
    /// The wall time of that entry.
    pub(crate) last_wall: WallTime,
    pub(crate) clock: StateClock,
    pub(crate) limits: Limits,
    /// Whether this owner may propose, and answer from its state.
    pub(crate) is_reigning: bool,
    pub(crate) waiters: Waiters<R>,
    pub(crate) last_arrival: u64,
    /// Receives that were woken: they become commands of the next batch.
    pub(crate) woken: Vec<Waiter<R>>,
    /// Takes to undo or to hide in the next batch: commands that may be given twice.
    pub(crate) releases: Vec<Command>,
    /// Inputs that found no room in the last batch.
    pub(crate) carried: VecDeque<Input<R>>,
    /// Reads of counters that wait for timers to be applied that were due when they came.
    pub(crate) reads: Vec<(QueueKey, R, Timestamp)>,
    /// The batch that is being made.
    batch: Vec<Pending<R>>,
    pub(crate) batches: Batches<R>,
    /// When the owner was last told the time.
    pub(crate) monotonic: Duration,
    /// From when on an idle partition is woken to remove expired messages.
    pub(crate) cleanup_from: Timestamp,
    /// Until then nothing is proposed that no client asked for: the journal has just refused a batch.
    pub(crate) quiet_until: Duration,
    pub(crate) polls_ended: bool,
    pub(crate) sends_refused: bool,
    /// So many deduplication ids are held that no message with one is taken.
    ids_are_many: bool,
    /// Deduplication ids are over, and a tick would free them.
    ids_are_over: bool,
    /// Queues that have an access policy.
    pub(crate) with_policy: BTreeMap<QueueId, QueueKey>,
}

impl<R> Owner<R> {
    /// Takes over a recovered partition, and reigns. The state clock goes on from its last time.
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
            index: recovered.index,
            last_wall: recovered.last_wall,
            clock,
            limits,
            is_reigning: true,
            waiters: Waiters::default(),
            last_arrival: 0,
            woken: Vec::new(),
            releases: Vec::new(),
            carried: VecDeque::new(),
            reads: Vec::new(),
            batch: Vec::new(),
            batches: Batches::new(1),
            monotonic: now.monotonic,
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

    /// Returns the last entry that was applied.
    pub fn index(&self) -> LogIndex {
        self.index
    }

    /// Returns the wall time of the last entry that was applied.
    pub fn last_wall(&self) -> WallTime {
        self.last_wall
    }

    /// Returns the number of parked receives.
    pub fn parked(&self) -> usize {
        self.waiters.len()
    }

    /// Returns the number of batches without an outcome.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Allows so many batches without an outcome at a time.
    pub fn allow_batches(&mut self, max: usize) {
        self.batches.set_max(max);
    }

    /// Whether another step is possible: it may make a batch, or refuses everything.
    pub fn may_step(&self) -> bool {
        self.batches.has_room() || !self.is_reigning
    }

    /// Whether requests are left over that found no room in the last batch, and may find it in the next.
    pub fn is_behind(&self) -> bool {
        !self.carried.is_empty() && self.may_step()
    }

    /// Undoes, with the next batch, a receive whose answer did not reach its client.
    pub fn give_back(&mut self, messages: &[Taken]) {
        let handles: Vec<_> = messages.iter().map(|message| message.delivery.handle).collect();
        if let Some(first) = handles.first() {
            let queue = first.queue;
            self.releases.push(Command::GiveBack { queue, handles });
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
    /// there is a batch, which then has to be committed or abandoned. Not allowed unless [`Owner::may_step`].
    pub fn step(
        &mut self,
        now: Now,
        inputs: &mut Vec<Input<R>>,
        entry: &mut Vec<u8>,
        turn: &mut Turn<R>,
    ) -> bool {
        debug_assert!(self.may_step(), "no more batches than are allowed");
        self.monotonic = now.monotonic;
        self.cancel(inputs);
        self.carried.extend(inputs.drain(..));
        if !self.is_reigning {
            self.refuse(turn);
            self.end_waits(now, turn);
            return false;
        }
        let at = self.clock.now(now.monotonic).max(self.partition.clock());
        entry.clear();
        let mut encoder = EntryEncoder::begin(entry, at, now.wall);
        if now.monotonic >= self.quiet_until {
            for command in std::mem::take(&mut self.releases) {
                self.push(command, Origin::Nobody, &mut encoder);
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
        self.end_waits(now, turn);
        let has_tick = self.needs_tick(at, now.monotonic);
        if has_tick {
            self.cleanup_from = at.plus_seconds(CLEANUP_SECONDS);
            // Counted again before the next one.
            self.ids_are_over = false;
            self.push(Command::Tick, Origin::Nobody, &mut encoder);
        }
        let (entry_bytes, contents) = (encoder.len() as u64, encoder.finish());
        if self.batch.is_empty() {
            return false;
        }
        self.batches.push(Batch {
            ticket: None,
            commands: std::mem::take(&mut self.batch),
            contents,
            entry_bytes,
            entry_hash: entry_hash(entry),
            at,
            wall: now.wall,
            monotonic: now.monotonic,
            has_tick,
        });
        true
    }

    /// Answers the receives whose time is over.
    pub(crate) fn end_waits(&mut self, now: Now, turn: &mut Turn<R>) {
        while let Some(waiter) = self.waiters.expire(now.monotonic) {
            turn.replies.push((waiter.reply, Reply::Received(Vec::new())));
        }
    }

    /// Returns the monotonic time of the next step that is needed without a new request.
    pub fn next_wake(&self) -> Option<Duration> {
        if self.is_behind() {
            return Some(Duration::ZERO);
        }
        if !self.is_reigning || !self.batches.has_room() {
            return self.waiters.next_deadline();
        }
        let has_work = !self.woken.is_empty() || !self.releases.is_empty();
        let own = has_work.then_some(self.quiet_until).into_iter();
        let own = own.chain(self.next_tick().map(|at| at.max(self.quiet_until)));
        own.chain(self.waiters.next_deadline()).min()
    }

    /// Returns the monotonic time of the next tick; none while one is on its way.
    fn next_tick(&self) -> Option<Duration> {
        if self.batches.has_tick() {
            return None;
        }
        let has_work = !self.reads.is_empty() || self.partition.has_garbage();
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
        work.into_iter().chain(timers).chain(forget).min()
    }

    fn needs_tick(&self, at: Timestamp, monotonic: Duration) -> bool {
        if self.batches.has_tick() {
            return false;
        }
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
        self.batches.cancel(|waiter| gone.contains(&waiter));
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
    pub(crate) fn wake_for_the_rest(&mut self, mut queues: Vec<QueueId>) {
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

    /// Takes the room of a batch that is done for the next one.
    pub(crate) fn reuse(&mut self, commands: Vec<Pending<R>>) {
        debug_assert!(commands.is_empty() && self.batch.is_empty());
        self.batch = commands;
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
            | Request::Internal(_) => match self.command(request) {
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
            Request::Internal(command) => command,
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
        let own_wait = Duration::from_secs(u64::from(queue.attributes().receive_wait_seconds));
        let wait = match self.polls_ended {
            true => Duration::ZERO,
            false => receive.wait.unwrap_or(own_wait),
        };
        self.last_arrival += 1;
        let waiter = Waiter {
            id: receive.waiter,
            arrival: self.last_arrival,
            queue: queue.id(),
            max: receive.max,
            visibility_timeout_seconds: receive.visibility_timeout_seconds,
            attempt: receive.attempt,
            deadline: now.monotonic.saturating_add(wait),
            reply,
        };
        let is_full = queue.counters().in_flight >= self.partition.in_flight_max();
        let attempt = waiter.attempt.as_ref();
        let is_known = attempt.is_some_and(|attempt| self.partition.knows_attempt(queue.id(), attempt, at));
        if self.may_find(queue.id(), at) || is_known || (is_full && wait.is_zero()) {
            let command = receive_command(&waiter, !wait.is_zero());
            let origin = if !wait.is_zero() {
                Origin::Waiter(waiter)
            } else {
                Origin::Client(waiter.reply)
            };
            self.push(command, origin, encoder);
        } else if wait.is_zero() {
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

    pub(crate) fn end_polls(&mut self, turn: &mut Turn<R>) {
        self.polls_ended = true;
        let woken = std::mem::take(&mut self.woken);
        let parked = std::iter::from_fn(|| self.waiters.pop());
        let empty = |waiter: Waiter<R>| (waiter.reply, Reply::Received(Vec::new()));
        turn.replies.extend(woken.into_iter().chain(parked).map(empty));
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
