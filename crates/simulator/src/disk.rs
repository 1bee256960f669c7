//! A disk in memory that keeps apart what was written and what is durable.
//!
//! A power cut ([`SimDisk::crash`]) keeps of everything written since the last sync any subset of 512-byte sectors,
//! in any of the versions that each sector had, and any subset of changed names. The end of a process
//! ([`SimDisk::kill`]) keeps everything. A handle belongs to one process: after either, the old handle and all its
//! files and locks are dead, and the new one is what the call returned.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal::{Disk, File, Lock, LockError, Space};

use crate::random::Random;

const SECTOR_BYTES: u64 = 512;
const EIO: i32 = 5;

/// A failure to be met at one of the next calls; 1 is the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A sync of a file fails. As on Linux the pages are clean afterwards though they never reached the disk.
    SyncFails {
        /// At which sync of a file.
        at: u64,
    },
    /// A sync of the directory fails.
    DirSyncFails {
        /// At which sync of the directory.
        at: u64,
    },
    /// A write takes only a part, and the next one finds the disk full.
    ShortWrite {
        /// At which write.
        at: u64,
        /// How many bytes it takes.
        bytes: usize,
    },
    /// A write fails with an input/output error.
    WriteFails {
        /// At which write.
        at: u64,
    },
    /// The machine stops: this call and all that follow fail until [`SimDisk::crash`] or [`SimDisk::kill`].
    Halt {
        /// At which call that changes something (write, sync, create, rename, remove).
        at: u64,
        /// How many bytes are still taken if it is a write.
        bytes: usize,
    },
}

/// What the disk was asked to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Writes.
    pub writes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of the directory.
    pub dir_syncs: u64,
    /// All calls that change something.
    pub changes: u64,
}

/// One process's handle of a simulated disk.
#[derive(Debug, Clone)]
pub struct SimDisk {
    machine: Arc<Mutex<Machine>>,
    process: u64,
}

#[derive(Debug, Clone)]
struct Machine {
    process: u64,
    is_halted: bool,
    is_locked: bool,
    files: BTreeMap<u64, Content>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    changes: Vec<(u64, NameChange)>,
    capacity: Option<u64>,
    is_full_once: bool,
    faults: Vec<Fault>,
    counters: DiskCounters,
    next_file: u64,
    random: Random,
}

#[derive(Debug, Clone, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// By sector: its content after each write since the last sync, with the number of the change.
    versions: BTreeMap<u64, Vec<(u64, Vec<u8>)>>,
    lengths: Vec<(u64, u64)>,
}

#[derive(Debug, Clone)]
enum NameChange {
    Create { name: String, file: u64 },
    Rename { from: String, to: String, file: u64 },
    Remove { name: String, file: u64 },
}

/// What survives a power cut of what was not synced.
#[derive(Debug)]
enum Survival {
    Nothing,
    Everything,
    Prefix(u64),
    Some { percent: u64, random: Random },
}

impl Survival {
    fn draw(seed: u64, changes: u64) -> Self {
        let mut random = Random::new(seed);
        match random.below(8) {
            0 => Self::Nothing,
            1 => Self::Everything,
            2 | 3 => Self::Prefix(random.below(changes + 1)),
            _ => Self::Some {
                percent: [5, 30, 50, 70, 95][random.below(5) as usize],
                random,
            },
        }
    }

    /// Chooses among the versions of one thing; none is the durable one.
    fn choose<'a, T>(&mut self, versions: &'a [(u64, T)]) -> Option<&'a T> {
        match self {
            Self::Nothing => None,
            Self::Everything => versions.last().map(|(_, version)| version),
            Self::Prefix(last) => versions
                .iter()
                .rfind(|(at, _)| at <= last)
                .map(|(_, version)| version),
            Self::Some { percent, random } => {
                let survives = !versions.is_empty() && random.percent(*percent);
                survives.then(|| &versions[random.below(versions.len() as u64) as usize].1)
            }
        }
    }
}

impl SimDisk {
    /// Makes an empty disk. The seed determines its nonces.
    pub fn new(seed: u64) -> Self {
        let machine = Machine {
            process: 0,
            is_halted: false,
            is_locked: false,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            capacity: None,
            is_full_once: false,
            faults: Vec::new(),
            counters: DiskCounters::default(),
            next_file: 0,
            random: Random::new(seed),
        };
        Self {
            machine: Arc::new(Mutex::new(machine)),
            process: 0,
        }
    }

    /// Cuts the power: of what was not synced, the seed says what survives. Returns the next process's handle.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        self.next_process(|machine| machine.lose_power(seed))
    }

    /// Ends the process: everything written is still there, locks are free. Returns the next process's handle.
    #[must_use]
    pub fn kill(&self) -> Self {
        self.next_process(|_| {})
    }

    fn next_process(&self, step: impl FnOnce(&mut Machine)) -> Self {
        let mut machine = self.machine();
        step(&mut machine);
        machine.process += 1;
        machine.is_halted = false;
        machine.is_locked = false;
        machine.is_full_once = false;
        machine.faults.clear();
        Self {
            machine: Arc::clone(&self.machine),
            process: machine.process,
        }
    }

    /// Returns a copy of the whole machine, as another machine whose process was just killed.
    #[must_use]
    pub fn fork(&self) -> Self {
        let copy = Self {
            machine: Arc::new(Mutex::new(self.machine().clone())),
            process: self.process,
        };
        copy.kill()
    }

    /// Arms a failure.
    pub fn arm(&self, fault: Fault) {
        self.machine().faults.push(fault);
    }

    /// Disarms all failures that were not met.
    pub fn disarm(&self) {
        self.machine().faults.clear();
    }

    /// Limits the sum of all lengths; a write beyond it is cut short, then refused.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.machine().capacity = bytes;
    }

    /// Changes bits of a stored byte, as a rotting disk does.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) {
        self.alter(name, |bytes| bytes[offset as usize] ^= mask);
    }

    /// Changes the stored content of a file, durably.
    pub fn alter(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut machine = self.machine();
        let file = machine.names[name];
        let content = machine.files.get_mut(&file).expect("a named file exists");
        change(&mut content.now);
        content.settle();
    }

    /// Puts a file on the disk, durably.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut machine = self.machine();
        let file = machine.add_file();
        machine.names.insert(name.to_owned(), file);
        machine.durable_names.insert(name.to_owned(), file);
        let content = machine.files.get_mut(&file).expect("it was just added");
        content.now = bytes.to_vec();
        content.settle();
    }

    /// Returns the content of a file.
    pub fn content(&self, name: &str) -> Vec<u8> {
        let machine = self.machine();
        machine.files[&machine.names[name]].now.clone()
    }

    /// Returns all names.
    pub fn names(&self) -> Vec<String> {
        self.machine().names.keys().cloned().collect()
    }

    /// Returns the sum of all lengths.
    pub fn bytes_used(&self) -> u64 {
        self.machine().bytes_used()
    }

    /// Returns what was counted since the disk was made.
    pub fn counters(&self) -> DiskCounters {
        self.machine().counters
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        // A test that failed elsewhere must not hide its own message behind a poisoned lock.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the machine if this handle's process still runs on it.
    fn running(&self) -> io::Result<MutexGuard<'_, Machine>> {
        let machine = self.machine();
        if machine.process != self.process {
            return Err(io::Error::other("the process that held this has ended"));
        }
        if machine.is_halted {
            return Err(io::Error::other("the machine has stopped"));
        }
        Ok(machine)
    }

    fn file(&self, file: u64) -> Arc<dyn File> {
        Arc::new(SimFile {
            disk: self.clone(),
            file,
        })
    }
}

impl Machine {
    fn add_file(&mut self) -> u64 {
        self.next_file += 1;
        self.files.insert(self.next_file, Content::default());
        self.next_file
    }

    fn find(&self, name: &str) -> io::Result<u64> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn bytes_used(&self) -> u64 {
        let named = self.names.values();
        named.map(|file| self.files[file].now.len() as u64).sum()
    }

    /// Takes the first armed fault that a call meets, and counts the others of its kind down.
    fn meet(&mut self, counts: impl Fn(&mut Fault) -> Option<&mut u64>) -> Option<Fault> {
        let mut met = None;
        self.faults.retain_mut(|fault| {
            let Some(at) = counts(fault) else { return true };
            *at -= 1;
            let is_met = *at == 0;
            if is_met {
                met = Some(*fault);
            }
            !is_met
        });
        met
    }

    /// Counts a change, and stops the machine if it is time; returns how many bytes of it are still taken then.
    fn change(&mut self) -> Result<(), usize> {
        self.counters.changes += 1;
        let met = self.meet(|fault| match fault {
            Fault::Halt { at, .. } => Some(at),
            Fault::SyncFails { .. }
            | Fault::DirSyncFails { .. }
            | Fault::ShortWrite { .. }
            | Fault::WriteFails { .. } => None,
        });
        match met {
            Some(Fault::Halt { bytes, .. }) => {
                self.is_halted = true;
                Err(bytes)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn change_name(&mut self, change: NameChange) -> io::Result<()> {
        self.change()
            .map_err(|_| io::Error::other("the machine has stopped"))?;
        change.apply(&mut self.names);
        self.changes.push((self.counters.changes, change));
        Ok(())
    }

    fn write(&mut self, file: u64, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.counters.writes += 1;
        if let Err(taken) = self.change() {
            self.take(file, &bytes[..taken.min(bytes.len())], offset);
            return Err(io::Error::other("the machine has stopped"));
        }
        let met = self.meet(|fault| match fault {
            Fault::ShortWrite { at, .. } | Fault::WriteFails { at } => Some(at),
            Fault::SyncFails { .. } | Fault::DirSyncFails { .. } | Fault::Halt { .. } => None,
        });
        if std::mem::take(&mut self.is_full_once) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut taken = bytes.len();
        match met {
            Some(Fault::ShortWrite { bytes, .. }) => {
                taken = taken.min(bytes);
                self.is_full_once = taken > 0;
            }
            Some(Fault::WriteFails { .. }) => return Err(io::Error::from_raw_os_error(EIO)),
            Some(Fault::SyncFails { .. } | Fault::DirSyncFails { .. } | Fault::Halt { .. }) | None => {}
        }
        if let Some(capacity) = self.capacity {
            let length = self.files[&file].now.len() as u64;
            let room = capacity.saturating_sub(self.bytes_used());
            let end = (length + room).saturating_sub(offset);
            taken = taken.min(usize::try_from(end).unwrap_or(usize::MAX));
        }
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.take(file, &bytes[..taken], offset);
        Ok(taken)
    }

    fn take(&mut self, file: u64, bytes: &[u8], offset: u64) {
        let change = self.counters.changes;
        if let (Some(content), false) = (self.files.get_mut(&file), bytes.is_empty()) {
            content.write(bytes, offset, change);
        }
    }

    fn sync(&mut self, file: u64) -> io::Result<()> {
        self.counters.syncs += 1;
        self.change()
            .map_err(|_| io::Error::other("the machine has stopped"))?;
        let met = self.meet(|fault| match fault {
            Fault::SyncFails { at } => Some(at),
            Fault::DirSyncFails { .. }
            | Fault::ShortWrite { .. }
            | Fault::WriteFails { .. }
            | Fault::Halt { .. } => None,
        });
        let content = self.files.get_mut(&file).expect("an open file exists");
        if met.is_some() {
            content.forget();
            return Err(io::Error::from_raw_os_error(EIO));
        }
        content.sync();
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.counters.dir_syncs += 1;
        self.change()
            .map_err(|_| io::Error::other("the machine has stopped"))?;
        let met = self.meet(|fault| match fault {
            Fault::DirSyncFails { at } => Some(at),
            Fault::SyncFails { .. }
            | Fault::ShortWrite { .. }
            | Fault::WriteFails { .. }
            | Fault::Halt { .. } => None,
        });
        if met.is_some() {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        self.changes.clear();
        self.durable_names = self.names.clone();
        Ok(())
    }

    fn lose_power(&mut self, seed: u64) {
        let mut survival = Survival::draw(seed, self.counters.changes);
        for content in self.files.values_mut() {
            content.lose_power(&mut survival);
        }
        for change in std::mem::take(&mut self.changes) {
            if let Some(change) = survival.choose(&[change]) {
                change.apply(&mut self.durable_names);
            }
        }
        self.names = self.durable_names.clone();
        let named: Vec<u64> = self.names.values().copied().collect();
        self.files.retain(|file, _| named.contains(file));
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Rename { from, to, file } => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                }
                names.insert(to.clone(), *file);
            }
            Self::Remove { name, file } => {
                if names.get(name) == Some(file) {
                    names.remove(name);
                }
            }
        }
    }
}

impl Content {
    fn write(&mut self, bytes: &[u8], offset: u64, change: u64) {
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        if self.now.len() < to {
            self.now.resize(to, 0);
            self.lengths.push((change, to as u64));
        }
        self.now[from..to].copy_from_slice(bytes);
        for sector in offset / SECTOR_BYTES..(to as u64).div_ceil(SECTOR_BYTES) {
            let begin = (sector * SECTOR_BYTES) as usize;
            let end = self.now.len().min(begin + SECTOR_BYTES as usize);
            let version = (change, self.now[begin..end].to_vec());
            self.versions.entry(sector).or_default().push(version);
        }
    }

    fn sync(&mut self) {
        self.durable.resize(self.now.len(), 0);
        for sector in self.versions.keys() {
            let begin = (sector * SECTOR_BYTES) as usize;
            let end = self.now.len().min(begin + SECTOR_BYTES as usize);
            self.durable[begin..end].copy_from_slice(&self.now[begin..end]);
        }
        self.forget();
    }

    /// Makes everything durable, however it came about.
    fn settle(&mut self) {
        self.durable.clone_from(&self.now);
        self.forget();
    }

    fn forget(&mut self) {
        self.versions.clear();
        self.lengths.clear();
    }

    fn lose_power(&mut self, survival: &mut Survival) {
        let length = survival.choose(&self.lengths).copied();
        let length = length.map_or(self.durable.len(), |length| length as usize);
        self.durable.resize(length, 0);
        for (sector, versions) in &self.versions {
            let begin = (sector * SECTOR_BYTES) as usize;
            if let (Some(bytes), true) = (survival.choose(versions), begin < length) {
                let end = length.min(begin + bytes.len());
                self.durable[begin..end].copy_from_slice(&bytes[..end - begin]);
            }
        }
        self.now.clone_from(&self.durable);
        self.forget();
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.running()?.find(name)?;
        Ok(self.file(file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut machine = self.running()?;
        if machine.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = machine.add_file();
        let name = name.to_owned();
        machine.change_name(NameChange::Create { name, file })?;
        drop(machine);
        Ok(self.file(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.running()?.names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut machine = self.running()?;
        let file = machine.find(from)?;
        let (from, to) = (from.to_owned(), to.to_owned());
        machine.change_name(NameChange::Rename { from, to, file })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut machine = self.running()?;
        let file = machine.find(name)?;
        let name = name.to_owned();
        machine.change_name(NameChange::Remove { name, file })
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.running()?.sync_names()
    }

    fn lock(&self) -> Result<Box<dyn Lock>, LockError> {
        let path = self.describe("lock");
        let mut machine = self.running().map_err(|source| LockError::Io {
            path: path.clone(),
            source,
        })?;
        if std::mem::replace(&mut machine.is_locked, true) {
            let pid = u32::try_from(self.process).ok();
            return Err(LockError::Held { path, pid });
        }
        drop(machine);
        Ok(Box::new(SimLock { disk: self.clone() }))
    }

    fn nonce(&self) -> io::Result<u64> {
        Ok(self.running()?.random.next_u64())
    }

    fn describe(&self, name: &str) -> String {
        format!("sim/{name}")
    }

    fn space(&self) -> io::Result<Option<Space>> {
        let machine = self.running()?;
        Ok(machine.capacity.map(|total| Space {
            total,
            available: total.saturating_sub(machine.bytes_used()),
        }))
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut machine = self.disk.machine();
        if machine.process == self.disk.process {
            machine.is_locked = false;
        }
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    file: u64,
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let machine = self.disk.running()?;
        let bytes = &machine.files[&self.file].now;
        let from = bytes.len().min(offset as usize);
        let taken = buffer.len().min(bytes.len() - from);
        buffer[..taken].copy_from_slice(&bytes[from..from + taken]);
        Ok(taken)
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.read_at(buffer, offset).map(Some)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.running()?.write(self.file, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.running()?.sync(self.file)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.running()?.files[&self.file].now.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn synced_bytes_survive_and_unsynced_sectors_survive_in_every_combination() {
        let disk = SimDisk::new(1);
        let file = disk.create("f").unwrap();
        file.write_at(&[1; 1024], 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir().unwrap();
        file.write_at(&[2; 1024], 0).unwrap();
        file.write_at(&[3; 1024], 0).unwrap();
        let seen: BTreeSet<(u8, u8)> = (0..400)
            .map(|seed| {
                let bytes = disk.fork().crash(seed).content("f");
                assert!(bytes[..512].iter().all(|b| *b == bytes[0]) && bytes.len() == 1024);
                (bytes[0], bytes[512])
            })
            .collect();
        assert_eq!(seen.len(), 9, "{seen:?}");
    }

    #[test]
    fn a_name_is_durable_after_the_sync_of_the_directory() {
        let disk = SimDisk::new(1);
        disk.create("a").unwrap();
        disk.sync_dir().unwrap();
        disk.rename("a", "b").unwrap();
        let seen: BTreeSet<Vec<String>> = (0..50).map(|seed| disk.fork().crash(seed).names()).collect();
        assert_eq!(seen, BTreeSet::from([vec!["a".to_owned()], vec!["b".to_owned()]]));
        disk.sync_dir().unwrap();
        assert_eq!(disk.crash(1).names(), ["b"]);
    }

    #[test]
    fn a_failed_sync_leaves_pages_that_look_clean() {
        let disk = SimDisk::new(1);
        let file = disk.create("f").unwrap();
        disk.sync_dir().unwrap();
        file.write_at(b"lost", 0).unwrap();
        disk.arm(Fault::SyncFails { at: 1 });
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        assert_eq!(disk.content("f"), b"lost");
        assert_eq!(disk.crash(1).content("f"), [0; 4]);
    }

    #[test]
    fn a_full_disk_first_shows_as_a_short_write() {
        let disk = SimDisk::new(1);
        disk.set_capacity(Some(10));
        let file = disk.create("f").unwrap();
        assert_eq!(file.write_at(&[1; 16], 0).unwrap(), 10);
        let error = file.write_at(&[1; 6], 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.write_at(&[2; 10], 0).unwrap(), 10);
    }

    #[test]
    fn a_halted_machine_takes_a_part_of_the_write_and_nothing_after_it() {
        let disk = SimDisk::new(1);
        let file = disk.create("f").unwrap();
        disk.arm(Fault::Halt { at: 2, bytes: 3 });
        file.write_at(b"first", 0).unwrap();
        assert!(file.write_at(b"second", 5).is_err());
        assert!(file.sync_data().is_err());
        assert_eq!(disk.kill().content("f"), b"firstsec");
        assert!(file.write_at(b"x", 0).is_err());
    }
}
