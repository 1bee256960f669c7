//! Whose log a data directory holds: a single node's or that of a node of a cluster.
//!
//! The two never read each other's: a single node would take entries for committed that may still be truncated, and a
//! cluster's node needs to know who proposed an entry. [`crate::LocalJournal::convert`] makes one of the other.

use crate::directory::Directory;
use crate::disk::Disk;
use crate::error::JournalError;

/// Whose log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A single node's.
    Local,
    /// That of a node of a cluster.
    Replicated,
}

impl Layout {
    /// Returns whose log a data directory holds; none if nothing was ever written to it.
    pub fn of(disk: &dyn Disk) -> Result<Option<Self>, JournalError> {
        Directory::list(disk)?.layout(disk)
    }

    /// Refuses a directory that holds a log of another layout.
    pub(crate) fn check(self, disk: &dyn Disk, directory: &Directory) -> Result<(), JournalError> {
        let found = directory.layout(disk)?;
        let directory = disk.describe("");
        match (self, found) {
            (Self::Local, Some(Self::Replicated)) => Err(JournalError::IsReplicated { directory }),
            (Self::Replicated, Some(Self::Local)) => Err(JournalError::IsLocal { directory }),
            (Self::Local, Some(Self::Local) | None) | (Self::Replicated, Some(Self::Replicated) | None) => {
                Ok(())
            }
        }
    }
}
