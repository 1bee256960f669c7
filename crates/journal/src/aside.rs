//! Keeps files aside before they are changed: in a folder of the data directory that nothing ever reads.

use std::collections::BTreeSet;

use crate::disk::Disk;
use crate::error::JournalError;
use crate::io::write_all_at;
use crate::segment::{self, sync, sync_names};

/// What was kept aside.
#[derive(Debug)]
pub(crate) struct Aside<'a> {
    disk: &'a dyn Disk,
    folder: &'a str,
    is_made: bool,
    kept: BTreeSet<String>,
}

impl<'a> Aside<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, folder: &'a str) -> Self {
        Self {
            disk,
            folder,
            is_made: false,
            kept: BTreeSet::new(),
        }
    }

    /// Returns the names of the files, as they were called before.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &String> {
        self.kept.iter()
    }

    /// Returns where a file is.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// Copies a file that is going to be changed. The copy is durable, and has its name only when it is whole.
    pub(crate) fn copy(&mut self, name: &str) -> Result<(), JournalError> {
        if self.kept.contains(name) {
            return Ok(());
        }
        self.make_folder()?;
        let failed =
            |operation, name: &str, source| JournalError::failed(operation, self.disk.describe(name), source);
        let (path, partial) = (self.path(name), self.path(&format!("{name}.partial")));
        let from = self
            .disk
            .open(name)
            .map_err(|error| failed("open", name, error))?;
        let to = self
            .disk
            .create(&partial)
            .map_err(|error| failed("create", &partial, error))?;
        let mut buffer = vec![0; 256 << 10];
        let mut at = 0;
        loop {
            let read = from
                .read_at(&mut buffer, at)
                .map_err(|error| failed("read", name, error))?;
            if read == 0 {
                break;
            }
            write_all_at(to.as_ref(), &buffer[..read], at)
                .map_err(|short| failed("write", &partial, short.error))?;
            at += read as u64;
        }
        sync(self.disk, to.as_ref(), &partial)?;
        self.rename(&partial, &path)?;
        self.kept.insert(name.to_owned());
        Ok(())
    }

    /// Moves a file that is not needed. One that was copied before is only removed.
    pub(crate) fn take(&mut self, name: &str) -> Result<(), JournalError> {
        if self.kept.contains(name) {
            self.disk
                .remove(name)
                .map_err(|source| JournalError::failed("remove", self.disk.describe(name), source))?;
            return sync_names(self.disk);
        }
        self.make_folder()?;
        self.rename(name, &self.path(name))?;
        self.kept.insert(name.to_owned());
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), JournalError> {
        self.disk
            .rename(from, to)
            .map_err(|source| JournalError::failed("rename", self.disk.describe(from), source))?;
        self.sync_folder()?;
        sync_names(self.disk)
    }

    fn make_folder(&mut self) -> Result<(), JournalError> {
        if !self.is_made {
            self.disk
                .make_folder(self.folder)
                .map_err(|source| JournalError::failed("make", self.disk.describe(self.folder), source))?;
            sync_names(self.disk)?;
            self.is_made = true;
        }
        Ok(())
    }

    fn sync_folder(&self) -> Result<(), JournalError> {
        self.disk
            .sync_folder(self.folder)
            .map_err(|source| JournalError::SyncFailed {
                file: self.disk.describe(self.folder),
                source,
            })
    }
}

/// Copies segments of a directory into a folder of it. Returns the names of their files.
pub fn keep_aside(disk: &dyn Disk, folder: &str, segments: &[u32]) -> Result<Vec<String>, JournalError> {
    let mut aside = Aside::new(disk, folder);
    for segment in segments {
        aside.copy(&segment::name(u64::from(*segment)))?;
    }
    Ok(aside.kept().cloned().collect())
}
