//! Random work on a replicated log, interrupted anywhere by a power cut, a kill or a full disk, also while recovering. What
//! was synced is there, in order, with the newest mark; what was not is a prefix of what was done, or absent.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use journal::{
    Disk, EntryKind, Fsync, JournalError, LocalOptions, LogId, NewEntry, Place, RaftSnapshot, ReplayError,
    ReplicatedLog, ReplicatedRecovery, RestoreSnapshot, SnapshotReceipt, SnapshotSink,
};
use simulator::{Fault, Random, SimDisk};
use types::{LogIndex, NodeId, Term};

use crate::support::{entry, small};

#[derive(Debug, Clone, PartialEq)]
struct Stored {
    id: LogId,
    kind: EntryKind,
    bytes: Arc<Vec<u8>>,
}

/// What was applied when it was written, and the bytes.
type Copied = (LogIndex, Arc<Vec<u8>>);

/// The log after some step.
#[derive(Debug, Clone, Default)]
struct State {
    /// The entry before the first one.
    begin: LogId,
    entries: Vec<Stored>,
    mark: Vec<u8>,
    copies: Vec<Copied>,
}

impl State {
    fn last(&self) -> LogId {
        self.entries.last().map_or(self.begin, |entry| entry.id)
    }

    fn entry(&self, index: LogIndex) -> Option<&Stored> {
        let at = index.0.checked_sub(self.begin.index.0 + 1)?;
        self.entries.get(at as usize)
    }

    fn id(&self, index: LogIndex) -> Option<LogId> {
        match index == self.begin.index {
            true => Some(self.begin),
            false => self.entry(index).map(|entry| entry.id),
        }
    }

    fn truncate(&mut self, last: LogIndex) {
        self.entries.truncate((last.0 - self.begin.index.0) as usize);
    }

    /// What differs between this state and a log.
    fn difference(&self, log: &ReplicatedLog) -> Option<String> {
        let (purged, last) = (log.purged_id(), log.last_id());
        if last != self.last() || log.mark() != self.mark || self.id(purged.index) != Some(purged) {
            return Some(format!("{purged:?} to {last:?}, {:?}", log.mark()));
        }
        for index in (purged.index.0 + 1..=last.index.0).map(LogIndex) {
            let read = log.entry(index).unwrap().unwrap();
            let read = Stored {
                id: read.id,
                kind: read.kind,
                bytes: Arc::new(read.bytes),
            };
            if self.entry(index) != Some(&read) || log.id(index) != Some(read.id) {
                return Some(format!("{:?} at {index}", read.id));
            }
        }
        log.snapshot().and_then(|snapshot| {
            let is_there = self.id(snapshot.id.index) == Some(snapshot.id);
            (!is_there).then(|| format!("{snapshot:?}"))
        })
    }

    /// The same, for a log as a start found it.
    fn difference_at_start(&self, log: &ReplicatedLog, copies: &[Copied]) -> Option<String> {
        let snapshot = log.snapshot().map_or(LogIndex(0), |snapshot| snapshot.id.index);
        let later = |copied: &&Copied| copied.0 >= snapshot;
        let expected: Vec<_> = self.copies.iter().filter(later).cloned().collect();
        // Where a segment begins with the snapshot's entry, those before it are not looked at.
        let missing = expected.strip_suffix(copies);
        let fits = missing.is_some_and(|missing| missing.iter().all(|copied| copied.0 == snapshot));
        self.difference(log)
            .or_else(|| (!fits).then(|| format!("{} copies instead of {}", copies.len(), expected.len())))
    }
}

/// The content of a snapshot: enough to tell any two apart.
fn content(id: LogId) -> Vec<u8> {
    let words = [id.index.0, id.term.0, id.node.0].map(u64::to_le_bytes);
    words.concat().repeat(1 + id.index.0 as usize % 90)
}

fn snapshot_of(id: LogId) -> RaftSnapshot {
    RaftSnapshot {
        id,
        membership: format!("members as of {id:?}").into_bytes(),
    }
}

/// Checks the snapshot that a start finds.
#[derive(Default)]
struct Check {
    index: LogIndex,
}

impl RestoreSnapshot for Check {
    fn snapshot(&mut self, snapshot: &RaftSnapshot, stored: &mut dyn Read) -> Result<(), ReplayError> {
        let mut bytes = Vec::new();
        stored.read_to_end(&mut bytes)?;
        assert!(bytes == content(snapshot.id), "the content of {snapshot:?}");
        assert_eq!(*snapshot, snapshot_of(snapshot.id));
        self.index = snapshot.id.index;
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Seen {
    torn_tails: u64,
    installs: u64,
    truncations: u64,
    copies: u64,
    refused: u64,
    lost_steps: u64,
    contents: u64,
}

struct Run {
    random: Random,
    disk: SimDisk,
    options: LocalOptions,
    power_cuts: bool,
    is_durable: bool,
    /// The log after each step since the last start.
    states: Vec<State>,
    /// The first of them that may be found.
    synced: usize,
    committed: LogIndex,
    /// A snapshot not behind this one is found.
    snapshot: LogIndex,
    /// Contents that were written and may still be there, and those that snapshots name.
    contents: Vec<Content>,
    named: BTreeMap<LogId, Vec<Content>>,
    term: u64,
    number: u64,
    seen: Seen,
}

/// Where a content lies, and what it is.
type Content = (Place, Arc<Vec<u8>>);

fn is_there(log: &ReplicatedLog, (place, bytes): &Content) -> bool {
    let mut found = vec![0; bytes.len()];
    let read = log
        .segment(place.segment)
        .map(|file| file.read_at(&mut found, u64::from(place.offset)).unwrap());
    read == Some(bytes.len()) && found == **bytes
}

/// A snapshot that is being written, and how many contents there were when it was begun.
type Running = Option<(LogId, usize, Box<dyn SnapshotSink>)>;

impl Run {
    fn new(seed: u64, fsync: Fsync, power_cuts: bool) -> Self {
        let mut random = Random::new(seed);
        Self {
            disk: SimDisk::new(random.next_u64()),
            random,
            options: LocalOptions { fsync, ..small() },
            power_cuts,
            is_durable: fsync == Fsync::Always || !power_cuts,
            states: vec![State::default()],
            synced: 0,
            committed: LogIndex(0),
            snapshot: LogIndex(0),
            contents: Vec::new(),
            named: BTreeMap::new(),
            term: 1,
            number: 0,
            seen: Seen::default(),
        }
    }

    fn rounds(mut self, rounds: u64) -> Seen {
        for _ in 0..rounds {
            let Some(log) = self.recover() else { continue };
            let at = 1 + self.random.below(150);
            self.arm(at);
            self.work(log);
        }
        while self.recover().is_none() {}
        self.seen
    }

    fn arm(&mut self, at: u64) {
        let bytes = self.random.below(3_000) as usize;
        self.disk.arm(Fault::Halt { at, bytes });
    }

    fn state(&self) -> &State {
        self.states.last().unwrap()
    }

    /// Starts after an interruption; none if the start itself was interrupted.
    fn recover(&mut self) -> Option<ReplicatedLog> {
        let seed = self.random.next_u64();
        self.disk = match self.power_cuts && self.random.percent(70) {
            true => self.disk.crash(seed),
            false => self.disk.kill(),
        };
        if self.random.percent(40) {
            let at = 1 + self.random.below(14);
            self.arm(at);
        }
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let mut check = Check::default();
        match ReplicatedLog::open(disk, self.options.clone(), &mut check) {
            Ok((log, recovery)) => {
                self.disk.disarm();
                self.take_found(&log, &recovery, check.index);
                self.check_same_again();
                Some(log)
            }
            Err(error @ (JournalError::NodeCorruption(_) | JournalError::Replay { .. })) => panic!("{error}"),
            Err(_) => None,
        }
    }

    fn take_found(&mut self, log: &ReplicatedLog, recovery: &ReplicatedRecovery, snapshot: LogIndex) {
        let reader = log.reader();
        let found = recovery.copies.iter();
        let copies: Vec<Copied> = found
            .map(|it| (it.applied, Arc::new(reader.copies(it).unwrap().unwrap())))
            .collect();
        let from = if self.is_durable { self.synced } else { 0 };
        let states = self.states[from..].iter();
        let differences: Vec<_> = states
            .map(|state| state.difference_at_start(log, &copies))
            .collect();
        let found = differences.iter().rposition(Option::is_none);
        let found = from + found.unwrap_or_else(|| panic!("not a state that was: {differences:#?}"));
        assert!(!self.is_durable || snapshot >= self.snapshot);
        assert_eq!(snapshot, log.snapshot().map_or(LogIndex(0), |it| it.id.index));
        let mut state = self.states[found].clone();
        state.copies = copies;
        let id = log.snapshot().map(|snapshot| snapshot.id);
        self.contents = id.map(|id| self.named[&id].clone()).unwrap_or_default();
        let places = recovery.copies.iter().map(|it| it.place);
        self.contents
            .extend(places.zip(state.copies.iter().map(|copied| copied.1.clone())));
        self.check_contents(log);
        self.seen.torn_tails += u64::from(recovery.report.torn_tail.is_some());
        self.seen.copies += state.copies.len() as u64;
        self.seen.lost_steps += (self.states.len() - 1 - found) as u64;
        self.committed = self.committed.min(state.last().index).max(snapshot);
        self.snapshot = snapshot;
        // What a start finds is durable, but for a log without fsync, of which the next power cut may take more.
        self.states.truncate(found);
        if self.is_durable {
            self.states.clear();
        }
        self.states.push(state);
        self.synced = 0;
    }

    /// A second start finds the same log and nothing left to cut.
    fn check_same_again(&self) {
        let disk: Arc<dyn Disk> = Arc::new(match self.options.fsync {
            Fsync::Always => self.disk.fork().crash(self.number),
            Fsync::Off => self.disk.fork(),
        });
        let (log, recovery) = ReplicatedLog::open(disk, self.options.clone(), &mut Check::default()).unwrap();
        assert_eq!(self.state().difference(&log), None);
        assert_eq!(recovery.report.torn_tail, None);
        assert_eq!(recovery.copies.len(), self.state().copies.len());
    }

    /// Works until the machine stops, or for a while.
    fn work(&mut self, mut log: ReplicatedLog) {
        let mut running = None;
        for _ in 0..80 {
            if self.random.percent(3) {
                let (at, bytes) = (1 + self.random.below(3), self.random.below(600) as usize);
                self.disk.arm(Fault::ShortWrite { at, bytes });
            }
            let log = &mut log;
            let before = (self.states.len(), self.synced);
            let went_on = match self.random.below(24) {
                0..=7 => self.append(log),
                8 | 9 => self.set_mark(log),
                10..=13 => self.sync(log),
                14 => self.truncate(log),
                15 => self.purge(log),
                16 => self.copy(log),
                17 => self.seal(log),
                18 | 19 => self.prepare(log),
                20 => self.install(log),
                _ => self.snapshot(log, &mut running),
            };
            match went_on {
                Ok(()) => {}
                // There is room again; what was refused is not there.
                Err(JournalError::Full { .. }) if log.is_usable() && self.disk.list().is_ok() => {
                    self.seen.refused += 1;
                    self.states.truncate(before.0);
                    assert_eq!(self.state().difference(log), None);
                }
                Err(_) => return,
            }
            self.read_some(log);
        }
    }

    fn read_some(&mut self, log: &ReplicatedLog) {
        self.check_contents(log);
        let state = self.states.last().unwrap();
        assert_eq!((log.last_id(), log.mark()), (state.last(), &state.mark[..]));
        let index = LogIndex(self.random.below(state.last().index.0 + 2));
        let read = log.reader().entry(index).unwrap();
        let is_there = index > log.purged_id().index;
        let expected = state.entry(index).filter(|_| is_there);
        assert_eq!(read.is_some(), expected.is_some(), "{index}");
        if let (Some(read), Some(expected)) = (read, expected) {
            assert_eq!((read.id, &read.bytes), (expected.id, &*expected.bytes));
            let mut at_place = vec![0; read.bytes.len()];
            let file = log.segment(read.place.segment).unwrap();
            file.read_at(&mut at_place, u64::from(read.place.offset)).unwrap();
            assert_eq!(at_place, read.bytes);
        }
    }

    fn append(&mut self, log: &mut ReplicatedLog) -> Result<(), JournalError> {
        self.term += u64::from(self.random.percent(20));
        let mut state = self.state().clone();
        let mut batch = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            let bytes = match self.random.below(10) {
                0 => 0,
                1 if self.random.percent(20) => 10_000 + self.random.below(20_000),
                2..=5 => self.random.below(1_500),
                _ => self.random.below(100),
            };
            self.number += 1;
            let number = if self.random.percent(30) { 0 } else { self.number };
            let mut bytes = entry(number, bytes as usize);
            if self.random.percent(20) {
                bytes.iter_mut().skip(30).for_each(|byte| *byte = 0);
            }
            let stored = Stored {
                id: LogId {
                    term: Term(self.term),
                    node: NodeId(self.term % 3),
                    index: state.last().index.next(),
                },
                kind: match self.random.percent(20) {
                    true => EntryKind::Raft,
                    false => EntryKind::Commands,
                },
                bytes: Arc::new(bytes),
            };
            batch.push(stored.clone());
            state.entries.push(stored);
            self.states.push(state.clone());
        }
        let entries: Vec<_> = batch
            .iter()
            .map(|stored| NewEntry {
                id: stored.id,
                kind: stored.kind,
                bytes: &stored.bytes,
            })
            .collect();
        let places = log.append(&entries)?;
        for (place, stored) in places.iter().zip(&batch) {
            assert_eq!(log.entry(stored.id.index)?.unwrap().place, *place);
        }
        Ok(())
    }

    fn truncate(&mut self, log: &mut ReplicatedLog) -> Result<(), JournalError> {
        let lowest = self.committed.max(log.purged_id().index).0;
        let mut state = self.state().clone();
        let last = LogIndex(lowest + self.random.below(state.last().index.0 - lowest + 1));
        self.seen.truncations += u64::from(last < state.last().index);
        state.truncate(last);
        self.states.push(state);
        log.truncate_after(last)
    }

    fn set_mark(&mut self, log: &mut ReplicatedLog) -> Result<(), JournalError> {
        self.number += 1;
        let mut state = self.state().clone();
        let length = 8 + self.random.below(3) * 20;
        state.mark = entry(self.number, length as usize);
        self.states.push(state);
        log.set_mark(&self.states.last().unwrap().mark)
    }

    fn copy(&mut self, log: &mut ReplicatedLog) -> Result<(), JournalError> {
        self.number += 1;
        let bytes = self.random.below(500) as usize;
        let copies = (self.committed, Arc::new(entry(self.number, bytes)));
        let mut state = self.state().clone();
        state.copies.push(copies.clone());
        self.states.push(state);
        let content = (log.copy_forward(copies.0, &copies.1)?, copies.1);
        assert!(is_there(log, &content));
        self.contents.push(content);
        Ok(())
    }

    /// Chooses contents that a snapshot needs, and returns their segments.
    fn name(&mut self, id: LogId) -> Vec<u32> {
        let mut named = self.contents.clone();
        named.retain(|_| self.random.percent(30));
        let mut segments: Vec<u32> = named.iter().map(|(place, _)| place.segment).collect();
        segments.sort_unstable();
        segments.dedup();
        self.named.insert(id, named);
        segments
    }

    /// A snapshot counts that was begun when there were so many contents.
    fn take_named(&mut self, id: LogId, contents: usize) {
        let later = self.contents.split_off(contents.min(self.contents.len()));
        self.contents = self.named[&id].clone();
        self.contents.extend(later);
    }

    /// What the last snapshot names is there, and what was written since it was begun.
    fn check_contents(&mut self, log: &ReplicatedLog) {
        for content in &self.contents {
            assert!(is_there(log, content), "{:?} of {:?}", content.0, log.snapshot());
        }
        self.seen.contents += self.contents.len() as u64;
    }

    fn sync(&mut self, log: &mut ReplicatedLog) -> Result<(), JournalError> {
        log.sync()?;
        self.note_synced();
        self.advance();
        Ok(())
    }

    fn seal(&mut self, log: &mut ReplicatedLog) -> Result<(), JournalError> {
        log.seal()?;
        self.note_synced();
        Ok(())
    }

    fn note_synced(&mut self) {
        self.synced = self.states.len() - 1;
    }

    /// What is durable here may be committed.
    fn advance(&mut self) {
        let last = self.state().last().index.0;
        self.committed.0 += self.random.below(last - self.committed.0 + 1);
    }

    fn purge(&mut self, log: &mut ReplicatedLog) -> Result<(), JournalError> {
        let purged = log.purged_id().index.0;
        let to = purged.max(self.random.below(self.committed.0 + 1));
        log.purge(LogIndex(to))?;
        assert_eq!(Some(log.purged_id()), self.state().id(LogIndex(to)));
        Ok(())
    }

    fn prepare(&mut self, log: &mut ReplicatedLog) -> Result<(), JournalError> {
        match log.take_preparation() {
            Some(preparation) if self.random.percent(80) => log.install(preparation.run()),
            Some(_) | None => Ok(()),
        }
    }

    fn snapshot(&mut self, log: &mut ReplicatedLog, running: &mut Running) -> Result<(), JournalError> {
        let Some((id, contents, sink)) = running.take() else {
            let lowest = log.purged_id().index.0.max(self.snapshot.0);
            let index = LogIndex(lowest + self.random.below(self.committed.0.saturating_sub(lowest) + 1));
            let Some(id) = log
                .id(index)
                .filter(|id| id.index.0 > 0 && index <= self.committed)
            else {
                return Ok(());
            };
            if self.named.contains_key(&id) {
                return Ok(());
            }
            let (contents, segments) = (self.contents.len(), self.name(id));
            let mut sink = log.begin_snapshot(index, &snapshot_of(id).membership, &segments)?;
            self.note_synced();
            sink.write(&content(id))?;
            *running = Some((id, contents, sink));
            return Ok(());
        };
        let receipt = sink.finish()?;
        self.snapshot = self.snapshot.max(receipt.index());
        let is_newer = receipt.index() >= log.snapshot().map_or(LogIndex(0), |it| it.id.index);
        log.complete_snapshot(receipt)?;
        if is_newer {
            self.take_named(id, contents);
        }
        Ok(())
    }

    /// A snapshot of another node, of an entry that this one does not know to be committed.
    fn install(&mut self, log: &mut ReplicatedLog) -> Result<(), JournalError> {
        let last = self.state().last().index.0;
        let index = LogIndex(self.committed.0 + 1 + self.random.below(last - self.committed.0 + 5));
        let known = self.state().id(index).filter(|_| self.random.percent(50));
        self.term += 1;
        let id = known.unwrap_or(LogId {
            term: Term(self.term),
            node: NodeId(7),
            index,
        });
        let receipt = self.foreign(log, id)?;
        // It is there from the moment on that the call begins.
        let mut state = self.state().clone();
        if known.is_none() {
            state = State {
                begin: id,
                mark: state.mark,
                ..State::default()
            };
        }
        self.states.push(state);
        log.install_snapshot(&receipt)?;
        self.take_named(id, usize::MAX);
        self.note_synced();
        self.snapshot = id.index;
        self.committed = id.index;
        self.seen.installs += 1;
        assert_eq!(log.snapshot(), Some(&snapshot_of(id)));
        Ok(())
    }

    fn foreign(&mut self, log: &mut ReplicatedLog, id: LogId) -> Result<SnapshotReceipt, JournalError> {
        let segments = self.name(id);
        let mut sink = log.begin_install(&snapshot_of(id), &segments)?;
        sink.write(&content(id))?;
        sink.finish()
    }
}

fn run(seeds: std::ops::Range<u64>, rounds: u64, fsync: Fsync, power_cuts: bool) -> Seen {
    let mut all = Seen::default();
    for seed in seeds {
        let run = || Run::new(seed, fsync, power_cuts).rounds(rounds);
        let seen = std::panic::catch_unwind(run).unwrap_or_else(|panic| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        });
        all.torn_tails += seen.torn_tails;
        all.installs += seen.installs;
        all.truncations += seen.truncations;
        all.copies += seen.copies;
        all.refused += seen.refused;
        all.lost_steps += seen.lost_steps;
        all.contents += seen.contents;
    }
    all
}

#[test]
fn what_was_synced_survives_power_cuts() {
    let seen = run(0..400, 12, Fsync::Always, true);
    assert!(seen.torn_tails > 100 && seen.lost_steps > 500, "{seen:?}");
    assert!(seen.installs > 500 && seen.truncations > 500, "{seen:?}");
    assert!(seen.copies > 500 && seen.refused > 200, "{seen:?}");
    assert!(seen.contents > 5_000, "{seen:?}");
}

#[test]
fn what_was_written_survives_kills_with_and_without_fsync() {
    run(0..80, 12, Fsync::Always, false);
    run(0..80, 12, Fsync::Off, false);
}

#[test]
fn without_fsync_a_power_cut_leaves_a_prefix_that_starts() {
    run(0..200, 12, Fsync::Off, true);
}
