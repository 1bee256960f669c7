//! A sync that is run while others use the log.

use std::sync::Arc;
use std::time::Instant;

use crate::disk::Disk;
use crate::error::JournalError;
use crate::segment::{Segment, sync};

/// A sync that has still to be run.
#[derive(Debug)]
pub struct PendingSync {
    pub(super) disk: Arc<dyn Disk>,
    /// What was written to since the last one.
    pub(super) segments: Vec<Segment>,
    pub(super) position: u64,
}

/// A sync that was run.
#[derive(Debug)]
pub struct Synced {
    pub(super) position: u64,
    pub(super) nanos: u64,
}

impl PendingSync {
    /// Runs it.
    pub fn run(self) -> Result<Synced, JournalError> {
        let began = Instant::now();
        for segment in &self.segments {
            sync(self.disk.as_ref(), segment.file.as_ref(), &segment.name)?;
        }
        Ok(Synced {
            position: self.position,
            nanos: nanos_since(began),
        })
    }
}

pub(super) fn nanos_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
