//! The local driver keeps the contract, on a simulated disk and on the real one.

use std::sync::Arc;

use journal::conformance::{self, Driver};
use journal::{Fsync, Journal, JournalError, LocalJournal, LocalOptions, OsDisk, Replay};
use simulator::SimDisk;

use crate::support::small;

struct Simulated {
    disk: SimDisk,
    options: LocalOptions,
    crash_seed: Option<u64>,
}

impl Driver for Simulated {
    fn open(&mut self, replay: &mut dyn Replay) -> Result<Box<dyn Journal>, JournalError> {
        self.disk = match &mut self.crash_seed {
            Some(seed) => {
                *seed += 1;
                self.disk.crash(*seed)
            }
            None => self.disk.kill(),
        };
        let (journal, _) = LocalJournal::open(Arc::new(self.disk.clone()), self.options.clone(), replay)?;
        Ok(Box::new(journal))
    }
}

fn simulated(fsync: Fsync, crash_seed: Option<u64>) -> Simulated {
    Simulated {
        disk: SimDisk::new(7),
        options: LocalOptions { fsync, ..small() },
        crash_seed,
    }
}

#[test]
fn the_local_driver_conforms_when_its_process_is_killed() {
    conformance::all(|| simulated(Fsync::Always, None));
}

#[test]
fn the_local_driver_conforms_when_the_power_is_cut() {
    for seed in 0..10 {
        conformance::all(|| simulated(Fsync::Always, Some(seed * 1000)));
    }
}

#[test]
fn without_fsync_the_local_driver_conforms_when_its_process_is_killed() {
    conformance::all(|| simulated(Fsync::Off, None));
}

struct Real {
    directory: tempfile::TempDir,
}

impl Driver for Real {
    fn open(&mut self, replay: &mut dyn Replay) -> Result<Box<dyn Journal>, JournalError> {
        let disk = OsDisk::open(self.directory.path().join("data")).unwrap();
        let (journal, _) = LocalJournal::open(Arc::new(disk), small(), replay)?;
        Ok(Box::new(journal))
    }
}

#[test]
fn the_local_driver_conforms_on_the_real_disk() {
    conformance::all(|| Real {
        directory: tempfile::tempdir().unwrap(),
    });
}
