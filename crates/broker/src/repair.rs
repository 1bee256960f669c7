//! Repairs a stopped data directory: the log first, then what the state needs of segments that are damaged.
//!
//! A message whose content is lost is taken out of its queue by a journaled command. It could be left: an answer leaves
//! it out. But it would be looked at again after each lease until it expires, would hold up its message group as long,
//! and would keep its damaged segment. Whatever else lies in such a segment is copied forward, and a snapshot that no
//! longer names the segment sets it free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use journal::{
    Disk, Event, Journal, JournalError, LocalJournal, LocalOptions, Lock, LogRepair, ProposeError,
    damage_of_kept, keep_aside, repair_log, segment_name,
};
use queue_core::{Command, Entry, EntryEncoder, Handle};
use types::{LogIndex, QueueId, QueueKey};

use crate::copies::{self, Copies};
use crate::house::store_snapshot;
use crate::inspect::{messages, read_contents, read_stored, slots};
use crate::replay::{Recovered, recover};

/// Messages that one command discards.
const DISCARD_MAX: usize = 10_000;
/// Bytes of contents that one record carries forward.
const COPIES_BYTES: usize = 256 << 10;

/// What a repair found and did.
#[derive(Debug, Default)]
pub struct Repair {
    /// The log and the snapshots.
    pub log: LogRepair,
    /// What was in the entries that are dropped.
    pub dropped: Dropped,
    /// Messages whose content is lost, by queue. They are dropped.
    pub lost: BTreeMap<QueueKey, u64>,
    /// Contents that were copied out of damaged segments.
    pub rescued: u64,
    /// Queues that are kept.
    pub queues: u64,
    /// Messages that are kept.
    pub messages: u64,
}

impl Repair {
    /// Whether there was anything to repair.
    pub fn is_needed(&self) -> bool {
        !self.log.damage.is_empty() || !self.lost.is_empty()
    }
}

/// What clients did with the entries that are dropped, as far as these can be read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Entries that can be read.
    pub entries: u64,
    /// Commands in them.
    pub commands: u64,
    /// Messages that they send.
    pub sent: u64,
    /// Deletes: their messages may come back.
    pub deleted: u64,
}

impl Dropped {
    fn add(&mut self, bytes: &[u8]) {
        // An entry that cannot be decoded is one that cannot be read.
        let Ok(entry) = Entry::decode(bytes) else { return };
        self.entries += 1;
        self.commands += entry.commands.len() as u64;
        for command in &entry.commands {
            if let Command::Enqueue { entries, .. } = command {
                self.sent += entries.len() as u64;
            } else if let Command::Delete { handles, .. } = command {
                self.deleted += handles.len() as u64;
            }
        }
    }
}

/// Repairs a data directory that is locked. What is changed or replaced is kept aside in `folder`, which is not there yet.
/// A repair that was interrupted is run again, with another folder. On a [`journal::Overlay`] it says what it would do.
pub fn repair(disk: Arc<dyn Disk>, lock: Box<dyn Lock>, folder: &str) -> Result<Repair, JournalError> {
    let mut dropped = Dropped::default();
    let log = repair_log(&*disk, folder, &mut |_, entry| dropped.add(entry))?;
    let mut recovered = recover();
    let (journal, _) =
        LocalJournal::open_locked(disk.clone(), lock, LocalOptions::for_repair(), &mut recovered)?;
    let mut work = Work {
        disk: &*disk,
        journal,
        recovered,
        repair: Repair {
            log,
            dropped,
            ..Repair::default()
        },
    };
    work.mend_contents(folder)?;
    work.journal.seal()?;
    work.repair.queues = work.recovered.partition.queue_count() as u64;
    work.repair.messages = messages(&work.recovered);
    Ok(work.repair)
}

struct Work<'a> {
    disk: &'a dyn Disk,
    journal: LocalJournal,
    recovered: Recovered,
    repair: Repair,
}

impl Work<'_> {
    fn mend_contents(&mut self, folder: &str) -> Result<(), JournalError> {
        let lost = read_contents(self.disk, &self.recovered, &|segment| {
            self.journal.segment(segment)
        })?
        .lost;
        let mut bad = BTreeSet::new();
        for (segment, damage) in damage_of_kept(self.disk, &self.journal)? {
            bad.insert(segment);
            if !self.repair.log.damage.contains(&damage) {
                self.repair.log.damage.push(damage);
            }
        }
        bad.extend(lost.iter().filter_map(|lost| lost.segment));
        if bad.is_empty() && lost.is_empty() {
            return Ok(());
        }
        let known = &self.repair.log.aside;
        let is_new = |segment: &u32| {
            !known.contains(&segment_name(*segment)) && self.journal.segment(*segment).is_some()
        };
        let files: Vec<u32> = bad.iter().copied().filter(is_new).collect();
        let aside = keep_aside(self.disk, folder, &files)?;
        self.repair.log.aside.extend(aside);
        self.discard(lost.iter().map(|lost| lost.handle))?;
        self.copy_forward(&bad)?;
        self.snapshot()
    }

    /// Takes messages out of their queues, and waits until purged ones no longer hold on to a segment.
    fn discard(&mut self, handles: impl Iterator<Item = Handle>) -> Result<(), JournalError> {
        let mut by_queue: BTreeMap<QueueId, Vec<Handle>> = BTreeMap::new();
        for handle in handles {
            by_queue.entry(handle.queue).or_default().push(handle);
        }
        for (id, handles) in by_queue {
            if let Some(queue) = self.recovered.partition.queue(id) {
                self.repair.lost.insert(queue.key().clone(), handles.len() as u64);
            }
            for handles in handles.chunks(DISCARD_MAX) {
                self.commit(&Command::Discard {
                    queue: id,
                    handles: handles.to_vec(),
                })?;
            }
        }
        while self.recovered.partition.has_garbage() {
            self.commit(&Command::Tick)?;
        }
        Ok(())
    }

    fn commit(&mut self, command: &Command) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        // No time passes, so nothing lapses or expires while a directory is repaired.
        let (at, wall) = (self.recovered.partition.clock(), self.recovered.last_wall);
        let mut encoder = EntryEncoder::begin(&mut bytes, at, wall);
        encoder.push(command);
        encoder.finish();
        let epoch = self.journal.epoch().ok_or(JournalError::Poisoned)?;
        self.journal
            .propose(&bytes, epoch)
            .map_err(|refusal| match refusal {
                ProposeError::Full { file } => JournalError::Full { file },
                ProposeError::Journal(failure) => failure,
                ProposeError::EpochChanged { .. } | ProposeError::TooLarge { .. } => JournalError::Poisoned,
            })?;
        let mut events = Vec::new();
        self.journal.wait(&mut events)?;
        for event in events {
            if let Event::Committed { index, place, .. } = event {
                self.recovered
                    .apply(index, &bytes, place)
                    .map_err(|source| JournalError::Replay { index, source })?;
            }
        }
        Ok(())
    }

    /// Writes what is good in damaged segments again.
    fn copy_forward(&mut self, bad: &BTreeSet<u32>) -> Result<(), JournalError> {
        let mut copies = Vec::new();
        copies::begin(&mut copies);
        for slot in slots(&self.recovered) {
            let Some(payload) = self.recovered.partition.payload(slot) else {
                continue;
            };
            let stored = self.recovered.contents.stored(slot, payload.content_bytes);
            let Some(stored) = stored.filter(|stored| bad.contains(&stored.place.segment)) else {
                continue;
            };
            if let Ok(content) = read_stored(self.disk, &|segment| self.journal.segment(segment), stored)? {
                copies::push(&mut copies, slot, payload.id, &content);
                self.repair.rescued += 1;
            }
            if copies.len() >= COPIES_BYTES {
                self.write(&mut copies)?;
            }
        }
        self.write(&mut copies)
    }

    fn write(&mut self, copies: &mut Vec<u8>) -> Result<(), JournalError> {
        let index = self.recovered.index;
        let failed = |source| JournalError::Replay { index, source };
        if let Some(place) = self.journal.copy_forward(copies)? {
            let decoded = Copies::decode(copies).map_err(failed)?;
            decoded.take(&self.recovered.partition, &mut self.recovered.contents, place);
        }
        copies::begin(copies);
        self.journal.wait(&mut Vec::new())
    }

    /// Makes a snapshot that needs nothing from the damaged segments.
    fn snapshot(&mut self) -> Result<(), JournalError> {
        let Recovered {
            partition,
            contents,
            index,
            last_wall,
            progress: _,
        } = &self.recovered;
        if *index == LogIndex(0) {
            return Ok(());
        }
        let mut sink = self.journal.begin_snapshot(*index, &contents.segments())?;
        store_snapshot(
            &mut *sink,
            *last_wall,
            &partition.snapshot(),
            &contents.snapshot(),
        )?;
        self.journal.complete_snapshot(sink.finish()?)
    }
}
