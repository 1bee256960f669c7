//! A directory of the file system. Files are readable by their owner alone.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, IoSliceMut, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;
use rustix::io::{Errno, ReadWriteFlags};

use crate::disk::{Disk, File, Lock, LockError, Space};

const LOCK_NAME: &str = "lock";
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// A data directory on a real disk.
#[derive(Debug)]
pub struct OsDisk {
    root: PathBuf,
    directory: fs::File,
}

impl OsDisk {
    /// Opens the directory, making it (and what leads to it) if it is not there.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        if !root.is_dir() {
            DirBuilder::new().recursive(true).mode(DIR_MODE).create(&root)?;
            let absolute = root.canonicalize()?;
            if let Some(parent) = absolute.parent() {
                fs::File::open(parent)?.sync_all()?;
            }
        }
        let directory = fs::File::open(&root)?;
        Ok(Self { root, directory })
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Disk for OsDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.root.join(name))?;
        Ok(Arc::new(OsFile(file)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(self.root.join(name))?;
        Ok(Arc::new(OsFile(file)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            // A name that is not UTF-8 is none of ours.
            if let (true, Ok(name)) = (entry.file_type()?.is_file(), entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.root.join(from), self.root.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.root.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        match DirBuilder::new().mode(DIR_MODE).create(self.root.join(folder)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        fs::File::open(self.root.join(folder))?.sync_all()
    }

    fn lock(&self) -> Result<Box<dyn Lock>, LockError> {
        let path = self.root.join(LOCK_NAME);
        let shown = path.display().to_string();
        let failed = |source: io::Error| LockError::Io {
            path: shown.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(&path)
            .map_err(failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(LockError::Held {
                    pid: holder(&mut file),
                    path: shown,
                });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        // The number only serves the text of a refusal. A disk without room for it must not keep the server down, so
        // it is written in place, and not having it is no error.
        let _ = file.write_all_at(format!("{:<10}\n", std::process::id()).as_bytes(), 0);
        Ok(Box::new(OsLock { _file: file }))
    }

    fn nonce(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        // A request of at most 256 bytes is never cut short once the pool is ready, and the call waits for that.
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn describe(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    fn space(&self) -> io::Result<Option<Space>> {
        let found = rustix::fs::fstatvfs(&self.directory)?;
        Ok(Some(Space {
            total: found.f_blocks.saturating_mul(found.f_frsize),
            available: found.f_bavail.saturating_mul(found.f_frsize),
        }))
    }
}

/// Returns the process id in a lock file. It only serves the error text: the holder may not have written it yet.
fn holder(file: &mut fs::File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[derive(Debug)]
struct OsLock {
    // The lock belongs to the open file and goes when it is closed, also by a kill.
    _file: fs::File,
}

impl Lock for OsLock {}

#[derive(Debug)]
struct OsFile(fs::File);

impl File for OsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let buffers = &mut [IoSliceMut::new(buffer)];
        match rustix::io::preadv2(&self.0, buffers, offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(Some(read)),
            // Not in memory, or a file system that cannot tell: the caller reads where it may wait.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
