//! Work that must not wait in a commit: making the next segment, removing files.
//!
//! The journal hands a [`Preparation`] out, the owner runs it on another thread and gives the [`Prepared`] back.
//! Nothing depends on it ever coming back: a segment that is not ready is made while the proposal waits.

use std::io;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::JournalError;
use crate::segment::{self, Segment};

/// A segment to be made.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    /// A segment that is no longer needed, whose file may be used.
    pub(crate) recycle: Option<String>,
}

impl Order {
    /// Makes the segment. If that fails, the names of files that are left over and could not be removed are added
    /// to `leftovers`.
    pub(crate) fn make(&self, disk: &dyn Disk, leftovers: &mut Vec<String>) -> Result<Segment, JournalError> {
        let recycle = self
            .recycle
            .as_deref()
            .filter(|spare| self.has_right_length(disk, spare));
        if let (Some(spare), None) = (&self.recycle, recycle) {
            remove(disk, spare).inspect_err(|_| leftovers.push(spare.clone()))?;
        }
        let made = Segment::make(disk, self.id, self.bytes, recycle);
        if made.is_err() {
            // What was begun takes room that a full disk needs.
            let begun = segment::temporary(&segment::name(self.id));
            leftovers.extend(
                [begun]
                    .into_iter()
                    .chain(self.recycle.clone())
                    .filter(|name| remove(disk, name).is_err()),
            );
        }
        made
    }

    fn has_right_length(&self, disk: &dyn Disk, spare: &str) -> bool {
        disk.open(spare)
            .and_then(|file| file.len())
            .is_ok_and(|length| length == self.bytes)
    }
}

/// Removes a file; one that is not there is removed.
fn remove(disk: &dyn Disk, name: &str) -> Result<(), JournalError> {
    match disk.remove(name) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(JournalError::failed("remove", disk.describe(name), source)),
    }
}

/// Work to be done on another thread.
#[derive(Debug)]
pub struct Preparation {
    disk: Arc<dyn Disk>,
    segment: Option<Order>,
    remove: Vec<String>,
}

impl Preparation {
    pub(crate) fn new(disk: Arc<dyn Disk>, segment: Option<Order>, remove: Vec<String>) -> Self {
        Self {
            disk,
            segment,
            remove,
        }
    }

    /// Does the work. It may take as long as writing a whole segment does.
    pub fn run(self) -> Prepared {
        let disk = self.disk.as_ref();
        let mut leftovers = Vec::new();
        // Removing first makes room for the segment.
        let mut error = None;
        for name in self.remove {
            if let Err(failed) = remove(disk, &name) {
                leftovers.push(name);
                error = Some(failed);
            }
        }
        let mut segment = None;
        match self.segment.map(|order| order.make(disk, &mut leftovers)) {
            None => {}
            Some(Ok(made)) => segment = Some(made),
            Some(Err(failed)) => error = Some(failed),
        }
        Prepared {
            segment,
            leftovers,
            error,
        }
    }
}

/// The result of a [`Preparation`].
#[derive(Debug)]
pub struct Prepared {
    pub(crate) segment: Option<Segment>,
    /// Files that are still to be removed.
    pub(crate) leftovers: Vec<String>,
    pub(crate) error: Option<JournalError>,
}

impl Prepared {
    /// Returns the segment, or why there is none.
    pub(crate) fn into_result(self) -> Result<Option<Segment>, JournalError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.segment),
        }
    }
}
