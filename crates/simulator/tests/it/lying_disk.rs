//! A disk that breaks its own promises: the journal on it must lose something, or the tests see nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use journal::{Disk, File, Lock, LockError};
use simulator::SimDisk;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    None,
    /// Bytes are said to be durable that are not.
    Sync,
    /// Names are said to be durable that are not.
    SyncDir,
    /// A sync that failed is said to have worked.
    SyncFailure,
    /// Of a write every byte behind the first 512 is left out.
    LongWrite,
}

#[derive(Debug, Clone)]
pub(crate) struct LyingDisk {
    pub(crate) disk: SimDisk,
    pub(crate) lie: Lie,
    /// Whether the journal is being opened: then nothing is a lie yet.
    pub(crate) is_opening: Arc<AtomicBool>,
}

impl LyingDisk {
    fn tells(&self, lie: Lie) -> bool {
        self.lie == lie && !self.is_opening.load(Ordering::Relaxed)
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(LyingFile {
            file,
            disk: self.clone(),
        })
    }
}

impl Disk for LyingDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(name).map(|file| self.wrap(file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.create(name).map(|file| self.wrap(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        if self.tells(Lie::SyncDir) {
            Ok(())
        } else {
            self.disk.sync_dir()
        }
    }

    fn lock(&self) -> Result<Box<dyn Lock>, LockError> {
        self.disk.lock()
    }

    fn nonce(&self) -> io::Result<u64> {
        self.disk.nonce()
    }

    fn describe(&self, name: &str) -> String {
        self.disk.describe(name)
    }
}

#[derive(Debug)]
struct LyingFile {
    file: Arc<dyn File>,
    disk: LyingDisk,
}

impl File for LyingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if self.disk.tells(Lie::LongWrite) && bytes.len() > 512 {
            return self.file.write_at(&bytes[..512], offset).map(|_| bytes.len());
        }
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.disk.tells(Lie::Sync) {
            return Ok(());
        }
        match self.file.sync_data() {
            Err(_) if self.disk.tells(Lie::SyncFailure) => Ok(()),
            other => other,
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
