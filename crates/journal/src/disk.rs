//! The disk as the journal sees it: one flat directory of files, and a lock on it.
//!
//! All file access goes through these traits, so that the simulator can lose, tear and refuse writes. A name is
//! durable after [`Disk::sync_dir`], bytes and length after [`File::sync_data`]; nothing else promises anything.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// A directory of files.
pub trait Disk: Debug + Send + Sync {
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Creates a file that must not exist yet.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Returns the names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Gives a file another name; a file that had it is gone.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Takes a name away.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all earlier changes of names durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Makes a folder for files that are kept aside, named `folder/file`. They are not listed. A disk on which names may
    /// contain anything has nothing to make.
    fn make_folder(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }
    /// Makes all earlier changes of names in such a folder durable.
    fn sync_folder(&self, _folder: &str) -> io::Result<()> {
        self.sync_dir()
    }
    /// Takes the directory for this process until the lock is dropped or the process ends.
    fn lock(&self) -> Result<Box<dyn Lock>, LockError>;
    /// Returns a number that nobody outside can guess and that no other call returns.
    fn nonce(&self) -> io::Result<u64>;
    /// Returns how an operator finds the file.
    fn describe(&self, name: &str) -> String;
    /// Returns how much room the file system has, if that is known.
    fn space(&self) -> io::Result<Option<Space>> {
        Ok(None)
    }
}

/// The room of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total: u64,
    /// What this process can still use.
    pub available: u64,
}

/// An open file.
pub trait File: Debug + Send + Sync {
    /// Reads at a place; less than asked for only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Reads at a place if that needs no wait for the disk; none if it would. Reads what is in memory, which may be
    /// less than asked for.
    fn read_cached_at(&self, _buffer: &mut [u8], _offset: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }
    /// Writes at a place and returns how many bytes were taken; fewer than given means that the disk is filling up.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes the content and the length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Returns the length.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A held lock; dropping it gives the directory up.
pub trait Lock: Debug + Send {}

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{path} is locked by another process")]
    Held {
        /// The lock file.
        path: String,
        /// The holder, if the file says so.
        pid: Option<u32>,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The lock file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}
