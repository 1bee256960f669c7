//! One server on one machine that crashes, and what its clients may expect of it.
//!
//! The owner proposes entries, waits, applies and answers. Beside it stand a shadow that applied exactly what was
//! answered, and the model. When the machine stops, what comes back must be the shadow with a prefix of the entries
//! that were proposed and not answered, in their order; then the model goes on with that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use journal::{
    Disk, Event, Fsync, Journal, JournalError, LocalJournal, LocalOptions, ProposeError, SnapshotSink, Source,
};
use queue_core::{Command, Content, Context, EntryEncoder, Outcome};
use simulator::{Fault, SimDisk};
use types::LogIndex;

use crate::lying_disk::{Lie, LyingDisk};
use crate::model::Model;
use crate::node::Node;
use crate::play::Play;
use crate::rng::Rng;
use crate::steps::{Op, Step};

/// A mistake of the owner or its disk, made on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// The journal does not sync.
    FsyncOff,
    /// The disk lies.
    Disk(Lie),
    /// Clients are answered when an entry is proposed.
    AnswersBeforeWait,
    /// A snapshot has no deduplication memory and no leases.
    SnapshotForgets,
    /// A snapshot is of the state before its last entry.
    SnapshotTooOld,
    /// A snapshot holds one entry more than it says.
    SnapshotTooNew,
    /// A snapshot has no contents.
    SnapshotWithoutContents,
    /// Entries are applied twice at a start.
    ReplayTwice,
    /// Entries are left out at a start.
    ReplayNothing,
    /// A replay takes another time than the entry's.
    ReplayOwnClock,
    /// An entry that found no room is applied.
    AppliesRejected,
}

/// How often something worth testing happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) entries: u64,
    pub(crate) power_cuts: u64,
    pub(crate) kills: u64,
    pub(crate) stops_in_recovery: u64,
    pub(crate) torn_tails: u64,
    pub(crate) unanswered_that_survived: u64,
    pub(crate) unanswered_that_were_lost: u64,
    pub(crate) snapshots_taken: u64,
    pub(crate) snapshots_read: u64,
    pub(crate) found_no_room: u64,
    pub(crate) failed_syncs: u64,
    pub(crate) seals: u64,
    pub(crate) redeliveries: u64,
    pub(crate) duplicates: u64,
    pub(crate) moves: u64,
    pub(crate) deletes: u64,
    pub(crate) fair_takes: u64,
    pub(crate) attempts_repeated: u64,
    pub(crate) task_moves: u64,
    /// Tasks that ran when the process stopped.
    pub(crate) tasks_across_stops: u64,
}

/// The process stopped: the machine did, or it had to end itself.
struct Stopped;

/// A snapshot on its way.
#[derive(Debug)]
struct Running {
    sink: Box<dyn SnapshotSink>,
    bytes: Vec<u8>,
    written: usize,
}

#[derive(Debug)]
struct Owner {
    journal: LocalJournal,
    node: Node,
    snapshot: Option<Running>,
    /// Bytes of a snapshot of the state before the last entry, for the bugs that need one.
    previous: Vec<u8>,
}

pub(crate) struct World {
    bug: Bug,
    disk: SimDisk,
    is_opening: Arc<AtomicBool>,
    owner: Owner,
    shadow: Node,
    model: Model,
    play: Play,
    /// Proposed and not answered.
    pending: Vec<Vec<u8>>,
    rng: Rng,
    pub(crate) seen: Seen,
}

impl World {
    pub(crate) fn new(seed: u64, bug: Bug) -> Self {
        let disk = SimDisk::new(seed);
        let is_opening = Arc::new(AtomicBool::new(false));
        let (owner, _) = open(&disk, &is_opening, bug).expect("an empty directory can be opened");
        Self {
            bug,
            disk,
            is_opening,
            owner,
            shadow: Node::default(),
            model: Model::default(),
            play: Play::new(),
            pending: Vec::new(),
            rng: Rng::new(!seed),
            seen: Seen::default(),
        }
    }

    pub(crate) fn step(&mut self, step: &Step) -> Result<(), String> {
        self.arm();
        let is_clean = matches!(step.op, Op::Restart);
        let outcome = match self.propose(step) {
            Ok(()) if !is_clean && self.rng.percent(3) => Err(Stopped),
            Ok(()) if is_clean || self.rng.percent(70) => self.commit()?,
            other => other,
        };
        let outcome = outcome.and_then(|()| self.background());
        match outcome {
            Ok(()) if is_clean || self.rng.percent(4) => self.stop(),
            Ok(()) => Ok(()),
            Err(Stopped) => self.stop(),
        }
    }

    /// Ends the last entries and the process, once by a kill and once by a power cut.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        self.disk.disarm();
        if self.commit()?.is_err() {
            self.stop()?;
        }
        self.disk = self.disk.kill();
        self.recover()?;
        self.disk = self.disk.crash(7);
        self.recover()?;
        let seen = &self.model.seen;
        (self.seen.redeliveries, self.seen.duplicates) = (seen.redeliveries, seen.duplicates);
        (self.seen.moves, self.seen.deletes) = (seen.moves, seen.deletes);
        self.seen.fair_takes = seen.fair_takes;
        self.seen.attempts_repeated = seen.attempts_repeated;
        self.seen.task_moves = seen.task_moves;
        self.seen.tasks_across_stops = seen.tasks_restarted;
        Ok(())
    }

    fn arm(&mut self) {
        if !self.rng.percent(10) {
            return;
        }
        let at = 1 + self.rng.below(6);
        // Mostly in the middle of a write.
        let bytes = self.rng.index(300);
        self.disk.arm(match self.rng.below(10) {
            0 => Fault::SyncFails { at },
            1 => Fault::DirSyncFails { at: 1 },
            2 | 3 => Fault::ShortWrite { at, bytes },
            4 => Fault::WriteFails { at },
            _ => Fault::Halt { at, bytes },
        });
    }

    fn propose(&mut self, step: &Step) -> Result<(), Stopped> {
        let context = self.play.context(step.clock, &self.model);
        let mut bytes = Vec::new();
        let mut encoder = EntryEncoder::begin(&mut bytes, context.at, context.wall);
        encoder.push(&self.play.command(&step.op, &self.model));
        // A send of its own beside it, so that entries of several commands with contents are common.
        if self.rng.percent(20) {
            encoder.push(&self.play.command(&step.op, &self.model));
        }
        encoder.push(&Command::Tick);
        encoder.finish();
        let epoch = self.owner.journal.epoch().ok_or(Stopped)?;
        match self.owner.journal.propose(&bytes, epoch) {
            Ok(_) => {
                self.seen.entries += 1;
                self.pending.push(bytes);
                Ok(())
            }
            // The client gets an error and may try again; nothing of the entry will ever be there.
            Err(ProposeError::Full { .. }) => {
                self.seen.found_no_room += 1;
                if self.bug == Bug::AppliesRejected {
                    self.pending.push(bytes);
                }
                Ok(())
            }
            Err(ProposeError::Journal(error)) => {
                // The machine may have stopped right behind the last byte.
                if !matches!(error, JournalError::Poisoned) {
                    self.pending.push(bytes);
                }
                Err(self.stopped_by(&error))
            }
            Err(error @ (ProposeError::EpochChanged { .. } | ProposeError::TooLarge { .. })) => {
                panic!("a single node refused an entry: {error}")
            }
        }
    }

    fn stopped_by(&mut self, error: &JournalError) -> Stopped {
        self.seen.failed_syncs += u64::from(matches!(error, JournalError::SyncFailed { .. }));
        Stopped
    }

    /// Waits for what was proposed, applies it and answers.
    fn commit(&mut self) -> Result<Result<(), Stopped>, String> {
        if self.bug == Bug::AnswersBeforeWait {
            self.answer_all()?;
        }
        let mut events = Vec::new();
        if let Err(error) = self.owner.journal.wait(&mut events) {
            return Ok(Err(self.stopped_by(&error)));
        }
        if self.bug == Bug::AppliesRejected {
            self.answer_all()?;
        }
        for event in events {
            let Event::Committed {
                index,
                source: Source::Own(_),
                ..
            } = event
            else {
                return Err(format!("a single node's journal said {event:?}"));
            };
            if index.0 > self.shadow.index {
                let bytes = self.pending.remove(0);
                self.answer(index, &bytes)?;
            }
        }
        Ok(Ok(()))
    }

    /// What no owner may do: counts all that was proposed as committed.
    fn answer_all(&mut self) -> Result<(), String> {
        for bytes in std::mem::take(&mut self.pending) {
            self.answer(LogIndex(self.shadow.index + 1), &bytes)?;
        }
        Ok(())
    }

    /// Applies an entry that counts, on the owner and on the shadow, and lets the model and the clients see it.
    fn answer(&mut self, index: LogIndex, bytes: &[u8]) -> Result<(), String> {
        if self.bug == Bug::SnapshotTooOld {
            self.owner.previous = self.owner.node.to_bytes();
        }
        let steps = self.owner.node.apply(index, bytes);
        if index.0 != self.shadow.index + 1 {
            return Err(format!("entry {index} committed after {}", self.shadow.index));
        }
        let shadowed = self.shadow.apply(index, bytes);
        if steps
            .iter()
            .map(|(_, _, applied)| applied)
            .ne(shadowed.iter().map(|(_, _, applied)| applied))
        {
            return Err(format!("the owner and the shadow differ at entry {index}"));
        }
        for (context, command, applied) in &steps {
            self.judge(context, command, applied)?;
            self.play.learn(command, applied);
        }
        Ok(())
    }

    fn judge(
        &mut self,
        context: &Context,
        command: &Command,
        applied: &queue_core::Applied,
    ) -> Result<(), String> {
        self.model
            .step(context, command, applied)
            .map_err(|error| format!("{error}\nat {command:?}"))
    }

    /// Prepares segments, writes a part of a snapshot, seals.
    fn background(&mut self) -> Result<(), Stopped> {
        if self.rng.percent(30)
            && let Some(preparation) = self.owner.journal.take_preparation()
            && let Err(error) = self.owner.journal.install(preparation.run())
            && matches!(error, JournalError::SyncFailed { .. })
        {
            return Err(self.stopped_by(&error));
        }
        if self.rng.percent(5) {
            match self.owner.journal.seal() {
                Ok(()) => self.seen.seals += 1,
                Err(JournalError::Full { .. }) => {}
                Err(error) => return Err(self.stopped_by(&error)),
            }
        }
        match self.snapshot() {
            // Anything else costs only this snapshot.
            Err(error @ (JournalError::SyncFailed { .. } | JournalError::Poisoned)) => {
                Err(self.stopped_by(&error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Begins a snapshot, or goes on with the one that runs.
    fn snapshot(&mut self) -> Result<(), JournalError> {
        let Owner {
            journal,
            node,
            snapshot,
            previous,
        } = &mut self.owner;
        let Some(mut running) = snapshot.take() else {
            if node.index > 0 && self.rng.percent(15) {
                let (index, bytes) = snapshot_of(self.bug, node, previous);
                let sink = journal.begin_snapshot(index, &[])?;
                *snapshot = Some(Running {
                    sink,
                    bytes,
                    written: 0,
                });
            }
            return Ok(());
        };
        let part = (running.bytes.len() - running.written).min(1 + self.rng.index(6_000));
        running
            .sink
            .write(&running.bytes[running.written..running.written + part])?;
        running.written += part;
        if running.written < running.bytes.len() {
            *snapshot = Some(running);
            return Ok(());
        }
        let receipt = running.sink.finish()?;
        journal.complete_snapshot(receipt)?;
        self.seen.snapshots_taken += 1;
        Ok(())
    }

    /// The process ends, with the machine or without it, and comes back.
    fn stop(&mut self) -> Result<(), String> {
        self.model.restarted();
        let seed = self.rng.next();
        if self.rng.percent(60) {
            self.seen.power_cuts += 1;
            self.disk = self.disk.crash(seed);
        } else {
            self.seen.kills += 1;
            self.disk = self.disk.kill();
        }
        self.recover()
    }

    /// Starts the server again and holds it to what was answered.
    fn recover(&mut self) -> Result<(), String> {
        // Now and then the machine stops while it comes back.
        while self.rng.percent(15) {
            let (at, bytes, seed) = (1 + self.rng.below(4), self.rng.index(1_000), self.rng.next());
            self.disk.arm(Fault::Halt { at, bytes });
            self.seen.stops_in_recovery += u64::from(open(&self.disk, &self.is_opening, self.bug).is_err());
            self.disk = if self.rng.percent(50) {
                self.disk.crash(seed)
            } else {
                self.disk.kill()
            };
        }
        let (owner, was_torn) =
            open(&self.disk, &self.is_opening, self.bug).map_err(|error| format!("cannot start: {error}"))?;
        self.owner = owner;
        self.seen.torn_tails += u64::from(was_torn);
        self.seen.snapshots_read += self.owner.node.snapshots_read;
        let (index, answered) = (self.owner.node.index, self.shadow.index);
        let survived = usize::try_from(index.checked_sub(answered).ok_or_else(|| {
            format!("entries up to {answered} were answered, those up to {index} are there")
        })?);
        let pending = std::mem::take(&mut self.pending);
        let survived = survived.unwrap_or(usize::MAX);
        if survived > pending.len() {
            return Err(format!(
                "{survived} entries more than answered, {} proposed",
                pending.len()
            ));
        }
        self.seen.unanswered_that_survived += survived as u64;
        self.seen.unanswered_that_were_lost += (pending.len() - survived) as u64;
        for (index, bytes) in (answered + 1..).zip(&pending[..survived]) {
            for (context, command, applied) in self.shadow.apply(LogIndex(index), bytes) {
                self.judge(&context, &command, &applied)?;
                // No client has heard of it; but a queue is found by its name.
                if let Ok(Outcome::Queue(_)) = applied.outcome {
                    self.play.learn(&command, &applied);
                }
            }
        }
        self.compare()
    }

    fn compare(&self) -> Result<(), String> {
        let (found, shadow) = (&self.owner.node, &self.shadow);
        for (slot, id) in self.model.message_ids() {
            let content = found.contents.get(&slot).map(|bytes| Content::decode(bytes));
            if !matches!(&content, Some(Ok(content)) if content.message_id == id) {
                return Err(format!("slot {slot} holds {content:?}, not the message {id}"));
            }
        }
        found.partition.check_invariants();
        if found.partition.state_hash() != shadow.partition.state_hash() {
            return Err(format!(
                "the state after entry {} is not that of before",
                found.index
            ));
        }
        if found.contents != shadow.contents {
            return Err(format!(
                "the contents after entry {} are not those of before",
                found.index
            ));
        }
        Ok(())
    }
}

/// Returns the bytes of a snapshot and the entry that it is of.
fn snapshot_of(bug: Bug, node: &Node, previous: &[u8]) -> (LogIndex, Vec<u8>) {
    let index = LogIndex(node.index);
    match bug {
        Bug::SnapshotTooOld if !previous.is_empty() => (index, previous.to_vec()),
        Bug::SnapshotTooNew if index.0 > 1 => (LogIndex(index.0 - 1), node.to_bytes()),
        Bug::SnapshotWithoutContents => {
            let mut bytes = Vec::new();
            node.partition.snapshot().write(&mut bytes).unwrap();
            (index, bytes)
        }
        Bug::SnapshotForgets => {
            let mut copy = Node::from_bytes(&mut node.to_bytes().as_slice()).unwrap();
            let context = Context {
                at: copy.partition.clock().plus_seconds(300),
                wall: types::WallTime::from_millis(1),
                index,
                ordinal: 0,
            };
            let ids: Vec<_> = (0..crate::steps::QUEUES)
                .filter_map(|queue| copy.partition.queue_id(&crate::steps::key(queue)))
                .collect();
            for queue in ids {
                copy.partition.apply(
                    context,
                    &Command::Enqueue {
                        queue,
                        entries: Vec::new(),
                    },
                );
            }
            (index, copy.to_bytes())
        }
        Bug::None
        | Bug::FsyncOff
        | Bug::Disk(_)
        | Bug::AnswersBeforeWait
        | Bug::SnapshotTooOld
        | Bug::SnapshotTooNew
        | Bug::ReplayTwice
        | Bug::ReplayNothing
        | Bug::ReplayOwnClock
        | Bug::AppliesRejected => (index, node.to_bytes()),
    }
}

/// Opens the journal; also says whether a torn tail was cut.
fn open(disk: &SimDisk, is_opening: &Arc<AtomicBool>, bug: Bug) -> Result<(Owner, bool), JournalError> {
    let options = LocalOptions {
        first_segment_bytes: 8 << 10,
        segment_bytes: 12 << 10,
        fsync: if bug == Bug::FsyncOff {
            Fsync::Off
        } else {
            Fsync::Always
        },
    };
    let lie = if let Bug::Disk(lie) = bug { lie } else { Lie::None };
    let disk = LyingDisk {
        disk: disk.clone(),
        lie,
        is_opening: Arc::clone(is_opening),
    };
    let mut node = Node {
        replays_each: match bug {
            Bug::ReplayTwice => 2,
            Bug::ReplayNothing => 0,
            Bug::None
            | Bug::FsyncOff
            | Bug::Disk(_)
            | Bug::AnswersBeforeWait
            | Bug::SnapshotForgets
            | Bug::SnapshotTooOld
            | Bug::SnapshotTooNew
            | Bug::SnapshotWithoutContents
            | Bug::ReplayOwnClock
            | Bug::AppliesRejected => 1,
        },
        replay_adds_millis: u64::from(bug == Bug::ReplayOwnClock),
        ..Node::default()
    };
    is_opening.store(true, Ordering::Relaxed);
    let opened = LocalJournal::open(Arc::new(disk) as Arc<dyn Disk>, options, &mut node);
    is_opening.store(false, Ordering::Relaxed);
    let (journal, report) = opened?;
    assert_eq!(
        report.last_index.0, node.index,
        "the journal and what it replayed"
    );
    Ok((
        Owner {
            journal,
            node,
            snapshot: None,
            previous: Vec::new(),
        },
        report.torn_tail.is_some(),
    ))
}
