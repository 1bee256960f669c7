//! Random work, interrupted anywhere by a power cut or a kill, also while recovering: what was acknowledged is
//! there, in order and unmodified; what was not is a prefix of what was proposed, or absent.

use std::hash::{Hash, Hasher};
use std::io::Read;
use std::sync::Arc;

use journal::{
    Disk, Event, Fsync, Journal, JournalError, LocalJournal, LocalOptions, Place, Replay, ReplayError,
};
use simulator::{Fault, Random, SimDisk};
use types::LogIndex;

use crate::support::{entry, open, propose, small, wait};

/// What was proposed, in order, and how much of it must be there.
#[derive(Default)]
struct Model {
    proposed: Vec<Vec<u8>>,
    acknowledged: usize,
    next_number: u64,
}

impl Model {
    /// The content of a snapshot at an index: enough to tell any two histories apart.
    fn state(&self, index: usize) -> Vec<u8> {
        let mut hasher = std::hash::DefaultHasher::new();
        self.proposed[..index].hash(&mut hasher);
        let digest = hasher.finish().to_le_bytes();
        digest.repeat(1 + index % 40)
    }
}

/// Compares what a start replays with the model.
struct Check<'a> {
    model: &'a Model,
    last: usize,
}

impl Replay for Check<'_> {
    fn snapshot(&mut self, index: LogIndex, content: &mut dyn Read) -> Result<(), ReplayError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        self.last = index.0 as usize;
        assert!(
            bytes == self.model.state(self.last),
            "snapshot {index} is not the state after that entry"
        );
        Ok(())
    }

    fn entry(&mut self, index: LogIndex, entry: &[u8], _place: Option<Place>) -> Result<(), ReplayError> {
        assert_eq!(index.0 as usize, self.last + 1);
        let expected = self.model.proposed.get(self.last);
        assert!(
            expected.is_some_and(|expected| expected == entry),
            "entry {index} is not what was proposed"
        );
        self.last += 1;
        Ok(())
    }
}

struct Run {
    random: Random,
    disk: SimDisk,
    options: LocalOptions,
    /// Whether power cuts happen, beside kills.
    power_cuts: bool,
    /// Whether what was waited for must survive what happens.
    is_durable: bool,
    model: Model,
    torn_tails: u64,
}

impl Run {
    fn new(seed: u64, fsync: Fsync, power_cuts: bool) -> Self {
        let mut random = Random::new(seed);
        Self {
            disk: SimDisk::new(random.next_u64()),
            random,
            options: LocalOptions { fsync, ..small() },
            power_cuts,
            is_durable: fsync == Fsync::Always || !power_cuts,
            model: Model::default(),
            torn_tails: 0,
        }
    }

    fn rounds(&mut self, rounds: u64) {
        for _ in 0..rounds {
            let Some(journal) = self.recover() else { continue };
            let halt = 1 + self.random.below(120);
            self.arm(halt);
            self.work(journal);
        }
        while self.recover().is_none() {}
    }

    fn arm(&mut self, at: u64) {
        let bytes = self.random.below(3_000) as usize;
        self.disk.arm(Fault::Halt { at, bytes });
    }

    /// Starts after an interruption; none if the start itself was interrupted.
    fn recover(&mut self) -> Option<LocalJournal> {
        let seed = self.random.next_u64();
        self.disk = match self.power_cuts && self.random.percent(70) {
            true => self.disk.crash(seed),
            false => self.disk.kill(),
        };
        if self.random.percent(40) {
            let at = 1 + self.random.below(12);
            self.arm(at);
        }
        let mut check = Check {
            model: &self.model,
            last: 0,
        };
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        match LocalJournal::open(disk, self.options.clone(), &mut check) {
            Ok((journal, report)) => {
                let last = check.last;
                assert_eq!(report.last_index.0 as usize, last);
                if self.is_durable {
                    assert!(
                        last >= self.model.acknowledged,
                        "{last} of {}",
                        self.model.acknowledged
                    );
                }
                self.torn_tails += u64::from(report.torn_tail.is_some());
                self.model.proposed.truncate(last);
                // A start promises what it replayed: from here on it is as good as acknowledged.
                self.model.acknowledged = last;
                self.disk.disarm();
                self.check_same_again(last);
                Some(journal)
            }
            Err(JournalError::Corruption(damage)) => panic!("{damage}"),
            Err(_) => None,
        }
    }

    /// A second start finds the same log and nothing left to cut.
    fn check_same_again(&self, last: usize) {
        let mut check = Check {
            model: &self.model,
            last: 0,
        };
        let disk: Arc<dyn Disk> = Arc::new(match self.options.fsync {
            Fsync::Always => self.disk.fork().crash(last as u64),
            Fsync::Off => self.disk.fork(),
        });
        let (_, report) = LocalJournal::open(disk, self.options.clone(), &mut check).unwrap();
        assert_eq!((check.last, report.torn_tail), (last, None));
    }

    /// Works until the machine stops, or for a while.
    fn work(&mut self, mut journal: LocalJournal) {
        let mut running = None;
        for _ in 0..60 {
            let went_on = match self.random.below(20) {
                0..=8 => self.propose(&mut journal),
                9..=15 => self.wait(&mut journal),
                16 => journal.seal(),
                17 | 18 => match journal.take_preparation() {
                    Some(preparation) if self.random.percent(80) => journal.install(preparation.run()),
                    // Some owners are killed before their preparation is done, and some never come back with it.
                    Some(_) | None => Ok(()),
                },
                _ => self.snapshot(&mut journal, &mut running),
            };
            if went_on.is_err() {
                return;
            }
        }
    }

    fn propose(&mut self, journal: &mut LocalJournal) -> Result<(), JournalError> {
        let bytes = match self.random.below(10) {
            0 => 0,
            1 if self.random.percent(20) => 10_000 + self.random.below(20_000),
            2..=5 => self.random.below(2_000),
            _ => self.random.below(100),
        };
        // Some entries are alike, and some end in zeros, as a torn one may.
        let number = match self.random.percent(30) {
            true => 0,
            false => self.model.next_number,
        };
        self.model.next_number += 1;
        let mut entry = entry(number, bytes as usize);
        if self.random.percent(20) {
            entry.iter_mut().skip(30).for_each(|byte| *byte = 0);
        }
        // A proposal that fails because the machine stopped may be there or not.
        self.model.proposed.push(entry.clone());
        let epoch = journal.epoch().unwrap();
        journal
            .propose(&entry, epoch)
            .map(|_| ())
            .map_err(|_| JournalError::Poisoned)
    }

    fn wait(&mut self, journal: &mut LocalJournal) -> Result<(), JournalError> {
        let mut events = Vec::new();
        journal.wait(&mut events)?;
        for event in events {
            if let Event::Committed { index, .. } = event {
                assert_eq!(index.0 as usize, self.model.acknowledged + 1);
                self.model.acknowledged += 1;
            }
        }
        assert_eq!(self.model.acknowledged, self.model.proposed.len());
        Ok(())
    }

    fn snapshot(
        &mut self,
        journal: &mut LocalJournal,
        running: &mut Option<Box<dyn journal::SnapshotSink>>,
    ) -> Result<(), JournalError> {
        match running.take() {
            None => {
                let index = self.model.acknowledged;
                let mut sink = match journal.begin_snapshot(LogIndex(index as u64), &[]) {
                    Ok(sink) => sink,
                    Err(JournalError::SnapshotIndex { .. }) => return Ok(()),
                    Err(error) => return Err(error),
                };
                sink.write(&self.model.state(index))?;
                *running = Some(sink);
                Ok(())
            }
            Some(sink) => journal.complete_snapshot(sink.finish()?),
        }
    }
}

fn run(seeds: std::ops::Range<u64>, rounds: u64, fsync: Fsync, power_cuts: bool) -> u64 {
    let mut torn_tails = 0;
    for seed in seeds {
        let failed = std::panic::catch_unwind(|| {
            let mut run = Run::new(seed, fsync, power_cuts);
            run.rounds(rounds);
            run.torn_tails
        });
        match failed {
            Ok(torn) => torn_tails += torn,
            Err(panic) => {
                eprintln!("seed {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    torn_tails
}

#[test]
fn acknowledged_entries_survive_power_cuts() {
    let torn_tails = run(0..600, 12, Fsync::Always, true);
    assert!(torn_tails > 100, "the power cuts tore only {torn_tails} tails");
}

#[test]
fn acknowledged_entries_survive_kills_with_and_without_fsync() {
    run(0..100, 12, Fsync::Always, false);
    run(0..100, 12, Fsync::Off, false);
}

#[test]
fn without_fsync_a_power_cut_leaves_a_prefix_that_starts() {
    run(0..300, 12, Fsync::Off, true);
}

#[test]
fn a_torn_entry_does_not_come_back_when_the_one_before_it_is_written_again() {
    let mut hits = 0;
    for seed in 0..600 {
        let disk = SimDisk::new(1);
        let (mut journal, ..) = open(&disk);
        // The first record ends with its sector, so that no write to it touches the second.
        propose(&mut journal, &entry(1, 512 - 88 - 64));
        propose(&mut journal, &entry(2, 1200));
        let disk = disk.crash(seed);
        let (mut journal, report, replayed) = open(&disk);
        if replayed.entries.is_empty() && report.torn_tail.is_some_and(|tail| tail.bytes == 424 + 1264) {
            hits += 1;
            propose(&mut journal, &entry(1, 512 - 88 - 64));
            for seed in 0..30 {
                assert!(
                    open(&disk.fork().crash(seed)).2.entries.len() <= 1,
                    "the cut is not durable"
                );
            }
            assert_eq!(wait(&mut journal), [LogIndex(1)]);
            let (_, report, replayed) = open(&disk.kill());
            assert_eq!(replayed.entries, [(LogIndex(1), entry(1, 512 - 88 - 64))]);
            assert_eq!(report.torn_tail, None);
        }
    }
    assert!(
        hits > 5,
        "only {hits} power cuts lost the first entry and kept the second"
    );
}
