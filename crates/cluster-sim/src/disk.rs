//! A disk whose sync does nothing, for the bug of that name.

use std::io;
use std::sync::Arc;

use journal::{Disk, File, Lock, LockError, Space};
use simulator::SimDisk;

/// Says that it has synced.
#[derive(Debug)]
pub(crate) struct Careless(pub(crate) SimDisk);

impl Disk for Careless {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(CarelessFile(self.0.open(name)?)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(CarelessFile(self.0.create(name)?)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }

    fn lock(&self) -> Result<Box<dyn Lock>, LockError> {
        self.0.lock()
    }

    fn nonce(&self) -> io::Result<u64> {
        self.0.nonce()
    }

    fn describe(&self, name: &str) -> String {
        self.0.describe(name)
    }

    fn space(&self) -> io::Result<Option<Space>> {
        self.0.space()
    }
}

#[derive(Debug)]
struct CarelessFile(Arc<dyn File>);

impl File for CarelessFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.0.read_cached_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}
