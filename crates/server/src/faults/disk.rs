//! A disk that fails as it is told.

use std::io;
use std::sync::Arc;
use std::thread;

use journal::{Disk, File, Lock, LockError, Space};

use super::plan::Plan;

/// A disk over another one.
#[derive(Debug)]
pub(super) struct FaultyDisk {
    below: Arc<dyn Disk>,
    plan: Arc<Plan>,
}

impl FaultyDisk {
    pub(super) fn new(below: Arc<dyn Disk>, plan: Arc<Plan>) -> Self {
        Self { below, plan }
    }

    fn file(&self, below: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile {
            below,
            plan: self.plan.clone(),
        })
    }
}

impl Disk for FaultyDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.below.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.below.create(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.below.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.below.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let bytes = match self.below.open(name) {
            Ok(file) => file.len()?,
            Err(_) => 0,
        };
        self.below.remove(name)?;
        self.plan.shrink(bytes);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.below.sync_dir()
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        self.below.make_folder(folder)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        self.below.sync_folder(folder)
    }

    fn lock(&self) -> Result<Box<dyn Lock>, LockError> {
        self.below.lock()
    }

    fn nonce(&self) -> io::Result<u64> {
        self.below.nonce()
    }

    fn describe(&self, name: &str) -> String {
        self.below.describe(name)
    }

    fn space(&self) -> io::Result<Option<Space>> {
        let space = self.below.space()?;
        let Some(free) = self.plan.free_bytes() else {
            return Ok(space);
        };
        Ok(space.map(|space| Space {
            available: space.available.min(free),
            ..space
        }))
    }
}

/// A file of that disk.
#[derive(Debug)]
struct FaultyFile {
    below: Arc<dyn File>,
    plan: Arc<Plan>,
}

impl FaultyFile {
    /// Changes one bit of what was read, if it is the turn of this read.
    fn spoil(&self, read: &mut [u8]) {
        let middle = read.len() / 2;
        if let Some(byte) = read.get_mut(middle)
            && self.plan.flips_read()
        {
            *byte ^= 1;
        }
    }
}

impl File for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.below.read_at(buffer, offset)?;
        self.spoil(&mut buffer[..read]);
        Ok(read)
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let read = self.below.read_cached_at(buffer, offset)?;
        if let Some(read) = read {
            self.spoil(&mut buffer[..read]);
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let Some(free) = self.plan.free_bytes() else {
            return self.below.write_at(bytes, offset);
        };
        // A real disk too has room for what a file already has, and takes a part of what does not fit.
        let length = self.below.len()?;
        let fits = length.saturating_add(free).saturating_sub(offset);
        let taken = bytes.len().min(usize::try_from(fits).unwrap_or(usize::MAX));
        if taken == 0 && !bytes.is_empty() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let written = self.below.write_at(&bytes[..taken], offset)?;
        self.plan.grow((offset + written as u64).saturating_sub(length));
        Ok(written)
    }

    fn sync_data(&self) -> io::Result<()> {
        let stall = self.plan.sync_stall();
        if !stall.is_zero() {
            thread::sleep(stall);
        }
        if self.plan.next_sync_fails() {
            return Err(io::Error::other("a sync that was to fail"));
        }
        self.below.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use journal::OsDisk;

    use super::*;

    /// Opens a disk whose faults are these.
    fn disk(home: &tempfile::TempDir, faults: &str) -> FaultyDisk {
        let file = home.path().join("faults.toml");
        fs::write(&file, faults).unwrap();
        let below = Arc::new(OsDisk::open(home.path().join("data")).unwrap());
        FaultyDisk::new(below, Arc::new(Plan::new(file)))
    }

    #[test]
    fn a_full_disk_takes_a_part_and_then_nothing_but_what_is_there() {
        let home = tempfile::tempdir().unwrap();
        let disk = disk(&home, "free_bytes = 8");
        let file = disk.create("a").unwrap();
        assert_eq!(file.write_at(b"12345", 0).unwrap(), 5);
        assert_eq!(disk.space().unwrap().unwrap().available, 3);
        assert_eq!(file.write_at(b"67890", 5).unwrap(), 3);
        let error = file.write_at(b"9", 8).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.write_at(b"54321", 0).unwrap(), 5);
        disk.remove("a").unwrap();
        assert_eq!(disk.space().unwrap().unwrap().available, 8);
    }

    #[test]
    fn one_sync_fails_and_one_read_lies() {
        let home = tempfile::tempdir().unwrap();
        let disk = disk(&home, "fail_sync = 2\nflip_read = 1");
        let file = disk.create("a").unwrap();
        assert_eq!(file.write_at(b"abc", 0).unwrap(), 3);
        assert!(file.sync_data().is_ok());
        assert!(file.sync_data().is_err());
        assert!(file.sync_data().is_ok());
        let mut read = [0; 3];
        assert_eq!(file.read_at(&mut read, 0).unwrap(), 3);
        assert_eq!(&read, b"acc");
        assert_eq!(file.read_at(&mut read, 0).unwrap(), 3);
        assert_eq!(&read, b"abc");
    }
}
