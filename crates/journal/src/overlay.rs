//! A disk that keeps every change in memory: what runs on it sees its own work, and the disk below stays as it is.
//!
//! `verify` opens a journal on it as a server would, and `repair` tries its work on it before it does it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, File, Lock, LockError, Space};

const PAGE_BYTES: u64 = 4096;

/// A disk over another one, which is never changed.
#[derive(Debug)]
pub struct Overlay {
    below: Arc<dyn Disk>,
    /// Files that were opened, made or renamed; none for a name that was taken away.
    names: Mutex<BTreeMap<String, Option<Arc<OverlayFile>>>>,
}

impl Overlay {
    /// Makes an overlay without changes. Whoever uses it holds the lock of the disk below.
    pub fn new(below: Arc<dyn Disk>) -> Self {
        Self {
            below,
            names: Mutex::default(),
        }
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<String, Option<Arc<OverlayFile>>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> io::Result<Arc<OverlayFile>> {
        if let Some(known) = self.names().get(name) {
            return known.clone().ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        let below = self.below.open(name)?;
        let file = Arc::new(OverlayFile {
            changes: Mutex::new(Changes {
                pages: BTreeMap::new(),
                length: below.len()?,
            }),
            below: Some(below),
        });
        self.names().insert(name.to_owned(), Some(Arc::clone(&file)));
        Ok(file)
    }
}

impl Disk for Overlay {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.find(name).map(|file| file as Arc<dyn File>)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        match self.find(name) {
            Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let file = Arc::new(OverlayFile {
            below: None,
            changes: Mutex::default(),
        });
        self.names().insert(name.to_owned(), Some(Arc::clone(&file)));
        Ok(file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut listed = self.below.list()?;
        let names = self.names();
        listed.retain(|name| !names.contains_key(name));
        let there = names.iter().filter(|(_, file)| file.is_some());
        let there = there.filter(|(name, _)| !name.contains('/'));
        listed.extend(there.map(|(name, _)| name.clone()));
        listed.sort_unstable();
        Ok(listed)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let file = self.find(from)?;
        let mut names = self.names();
        names.insert(from.to_owned(), None);
        names.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.find(name)?;
        self.names().insert(name.to_owned(), None);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_folder(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn Lock>, LockError> {
        Ok(Box::new(OverlayLock))
    }

    fn nonce(&self) -> io::Result<u64> {
        self.below.nonce()
    }

    fn describe(&self, name: &str) -> String {
        self.below.describe(name)
    }

    fn space(&self) -> io::Result<Option<Space>> {
        self.below.space()
    }
}

#[derive(Debug)]
struct OverlayLock;

impl Lock for OverlayLock {}

#[derive(Debug)]
struct OverlayFile {
    below: Option<Arc<dyn File>>,
    changes: Mutex<Changes>,
}

#[derive(Debug, Default)]
struct Changes {
    /// Pages that were written to, by number.
    pages: BTreeMap<u64, Vec<u8>>,
    length: u64,
}

impl OverlayFile {
    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_below(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.below
            .as_ref()
            .map_or(Ok(0), |below| below.read_at(buffer, offset))
    }
}

impl File for OverlayFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let changes = self.changes();
        let there = changes.length.saturating_sub(offset).min(buffer.len() as u64);
        let buffer = &mut buffer[..there as usize];
        let read = self.read_below(buffer, offset)?;
        buffer[read..].fill(0);
        let end = offset + there;
        for (number, page) in changes.pages.range(offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)) {
            let (from, to) = (
                (number * PAGE_BYTES).max(offset),
                ((number + 1) * PAGE_BYTES).min(end),
            );
            let in_page = (from - number * PAGE_BYTES) as usize..(to - number * PAGE_BYTES) as usize;
            buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(&page[in_page]);
        }
        Ok(there as usize)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut changes = self.changes();
        let end = offset + bytes.len() as u64;
        for number in offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            let page = match changes.pages.entry(number) {
                Entry::Occupied(page) => page.into_mut(),
                Entry::Vacant(free) => {
                    let mut page = vec![0; PAGE_BYTES as usize];
                    self.read_below(&mut page, number * PAGE_BYTES)?;
                    free.insert(page)
                }
            };
            let (from, to) = (
                (number * PAGE_BYTES).max(offset),
                ((number + 1) * PAGE_BYTES).min(end),
            );
            let in_page = (from - number * PAGE_BYTES) as usize..(to - number * PAGE_BYTES) as usize;
            page[in_page].copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
        }
        changes.length = changes.length.max(end);
        Ok(bytes.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OsDisk;

    #[test]
    fn what_is_written_is_seen_above_and_not_below() {
        let home = tempfile::tempdir().unwrap();
        let below = Arc::new(OsDisk::open(home.path()).unwrap());
        let stored: Vec<u8> = (0..10_000).map(|i| i as u8).collect();
        below.create("a").unwrap().write_at(&stored, 0).unwrap();
        let overlay = Overlay::new(below.clone());
        let file = overlay.open("a").unwrap();
        let mut expected = stored.clone();
        for (offset, bytes) in [(4090, 20), (0, 1), (9_999, 3_000), (20_000, 5)] {
            let written = vec![0xee; bytes];
            assert_eq!(file.write_at(&written, offset as u64).unwrap(), bytes);
            expected.resize(expected.len().max(offset + bytes), 0);
            expected[offset..offset + bytes].copy_from_slice(&written);
        }
        overlay.rename("a", "b").unwrap();
        overlay.create("c").unwrap();
        assert_eq!(overlay.list().unwrap(), ["b", "c"]);
        assert!(overlay.open("a").is_err() && overlay.create("b").is_err());
        overlay.remove("c").unwrap();
        let file = overlay.open("b").unwrap();
        for (offset, length) in [(0, 30_000), (4_095, 2), (12_998, 10), (20_004, 9)] {
            let mut read = vec![7; length];
            let there = file.read_at(&mut read, offset as u64).unwrap();
            let end = expected.len().min(offset + length);
            assert_eq!(read[..there], expected[offset..end], "{offset}");
        }
        assert_eq!(below.list().unwrap(), ["a"]);
        let mut read = vec![0; 10_000];
        below.open("a").unwrap().read_at(&mut read, 0).unwrap();
        assert_eq!(read, stored);
    }
}
