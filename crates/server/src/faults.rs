//! The disk and the clocks of the process, and what a file can make fail of them.
//!
//! Tests of real processes need a disk that is full and a clock that jumps without being root. `HOLDFAST_FAULTS` names a
//! file that says what fails; the configuration refuses it without `--dev`. The form of the file is in
//! `docs/reference/faults.md`.

mod clock;
mod disk;
mod plan;

use std::io;
use std::sync::Arc;

use broker::{Clock, OsClock};
use config::Options;
use journal::{Disk, OsDisk};
use tracing::warn;

use clock::FaultyClock;
use disk::FaultyDisk;
use plan::Plan;

/// What the process has of its machine.
pub(crate) struct Machine {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Machine {
    /// Opens the data directory. Disk and clocks are those of the system, unless a file of faults is named.
    pub(crate) fn open(options: &Options) -> io::Result<Self> {
        let disk = Arc::new(OsDisk::open(&options.store.data_dir)?);
        let Some(file) = &options.faults else {
            let clock = Arc::new(OsClock);
            return Ok(Self { disk, clock });
        };
        warn!(file = %file.display(), "the disk and the clock fail as this file says");
        let plan = Arc::new(Plan::new(file.clone()));
        Ok(Self {
            disk: Arc::new(FaultyDisk::new(disk, plan.clone())),
            clock: Arc::new(FaultyClock::new(plan)),
        })
    }
}
