//! Makes a directory start again that a start refuses, and drops no more than is damaged.
//!
//! Every file is kept aside before it is changed, and each step leaves a directory that either still is damaged or is
//! repaired further, so a repair that was interrupted is run again. What it may do, from the least to the most:
//!
//! 1. A segment whose identity page is damaged gets a new one, if its first record is intact.
//! 2. A log that is damaged behind the snapshot is cut at the damage.
//! 3. A log that is damaged before the snapshot's entry is written again from there on, in one new segment.
//! 4. A segment that is lost, and that the snapshot needs contents from, is replaced by an empty one: whoever knows the
//!    messages has to look for those that lost their content.
//! 5. A damaged snapshot is put aside.

use types::LogIndex;

use crate::aside::Aside;
use crate::directory::{Candidate, Chosen, Directory};
use crate::disk::Disk;
use crate::error::{Corruption, JournalError};
use crate::layout::Layout;
use crate::rebase::{rebase, scan_records};
use crate::record::{self, Record, START_RECORD_BYTES, number64};
use crate::recovery::{Log, Rest};
use crate::scan::Scanner;
use crate::segment::{self, IDENTITY_BYTES, Segment};
use crate::snapshot;
use crate::verify::{Discarding, damaged_snapshots};
use crate::visit::ReplayVisit;

/// Length of a segment that takes the place of one that is lost.
const PLACEHOLDER_BYTES: u64 = 2 * IDENTITY_BYTES;

/// What a repair of the log found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogRepair {
    /// Everything that was not as it was written.
    pub damage: Vec<Corruption>,
    /// The last entry that is kept; 0 if nothing is.
    pub last_index: LogIndex,
    /// The last entry that is dropped, as far as can be known; none if no entry is.
    pub dropped_to: Option<LogIndex>,
    /// Segments of which nothing can be read, so that nobody knows what is dropped with them.
    pub unreadable: Vec<String>,
    /// Names of files that were kept aside.
    pub aside: Vec<String>,
}

impl LogRepair {
    /// Whether there was anything, and nothing of it is kept.
    pub fn keeps_nothing(&self) -> bool {
        self.last_index == LogIndex(0) && (self.dropped_to.is_some() || !self.unreadable.is_empty())
    }
}

/// Repairs the log and the snapshots of a directory whose lock the caller holds. Files are kept aside in `folder`, which
/// is not there yet. `dropped` hears every entry that is dropped and can still be read.
pub fn repair_log(
    disk: &dyn Disk,
    folder: &str,
    dropped: &mut dyn FnMut(LogIndex, &[u8]),
) -> Result<LogRepair, JournalError> {
    let directory = Directory::list(disk)?;
    if directory.layout(disk)? == Some(Layout::Replicated) {
        let directory = disk.describe("");
        return Err(JournalError::NotRepaired { directory });
    }
    let damaged = damaged_snapshots(disk, &directory)?;
    let chosen = directory.choose_snapshot(disk)?;
    let newest = chosen.newest;
    // Damaged snapshots are dealt with on their own, last.
    let chosen = Chosen {
        newest: chosen.index,
        damaged: Vec::new(),
        ..chosen
    };
    let mut work = Work {
        disk,
        aside: Aside::new(disk, folder),
        damage: Vec::new(),
        unreadable: Vec::new(),
        last_index: chosen.index,
    };
    work.mend_identities(&directory, &chosen)?;
    work.mend_log(&chosen)?;
    work.mend_kept(&chosen)?;
    for (index, damage) in damaged {
        work.damage.push(damage);
        work.aside.take(&snapshot::name(index))?;
    }
    let last_index = work.last_index;
    let last_dropped = work.report_dropped(dropped)?.max(newest);
    Ok(LogRepair {
        last_index: LogIndex(last_index),
        dropped_to: (last_dropped > last_index).then_some(LogIndex(last_dropped)),
        aside: work.aside.kept().cloned().collect(),
        damage: work.damage,
        unreadable: work.unreadable,
    })
}

struct Work<'a> {
    disk: &'a dyn Disk,
    aside: Aside<'a>,
    damage: Vec<Corruption>,
    unreadable: Vec<String>,
    last_index: u64,
}

impl Work<'_> {
    /// Gives the segments of the log their identity back, or puts them aside.
    fn mend_identities(&mut self, directory: &Directory, chosen: &Chosen) -> Result<(), JournalError> {
        for id in directory.segments.iter().rev().copied() {
            let is_base = match self.open_or_mend(id)? {
                Some(candidate) => candidate.is_base(Layout::Local, chosen.index),
                None => {
                    let name = segment::name(id);
                    if !self.is_unused(&name)? {
                        self.unreadable.push(name.clone());
                    }
                    // One that is named gets another in its place, once the log is mended.
                    if !is_named(chosen, id) {
                        self.aside.take(&name)?;
                    }
                    false
                }
            };
            if is_base {
                break;
            }
        }
        Ok(())
    }

    /// Opens a segment. One that is damaged gets a new identity page; none if that is not possible.
    fn open_or_mend(&mut self, id: u64) -> Result<Option<Candidate>, JournalError> {
        match Candidate::open(self.disk, id) {
            Ok(candidate) => return Ok(Some(candidate)),
            Err(JournalError::Corruption(damage)) => self.note(damage),
            Err(error) => return Err(error),
        }
        let name = segment::name(id);
        let Some((generation, bytes)) = self.generation_of(id)? else {
            return Ok(None);
        };
        self.aside.copy(&name)?;
        Segment::mend(self.disk, id, generation, bytes)?;
        Candidate::open(self.disk, id).map(Some)
    }

    /// Returns the generation that the first record of a segment names, and the length of the file.
    fn generation_of(&self, id: u64) -> Result<Option<(u64, u64)>, JournalError> {
        let name = segment::name(id);
        let failed = |error| JournalError::failed("read", self.disk.describe(&name), error);
        let file = self.disk.open(&name).map_err(failed)?;
        let mut bytes = [0; START_RECORD_BYTES as usize];
        let read = file.read_at(&mut bytes, IDENTITY_BYTES).map_err(failed)?;
        if read < bytes.len() {
            return Ok(None);
        }
        let generation = number64(&bytes, record::GENERATION_AT as usize);
        let is_start = record::announced_bytes(&bytes, generation) == Some(START_RECORD_BYTES)
            && Record::check(&bytes)
                .and_then(|record| record.start())
                .is_some_and(|start| start.segment_id == id);
        let length = file.len().map_err(failed)?;
        Ok(is_start.then_some((generation, length)))
    }

    /// Whether a segment was made in advance and never written to: there is a first page, and nothing behind it.
    fn is_unused(&self, name: &str) -> Result<bool, JournalError> {
        let failed = |error| JournalError::failed("read", self.disk.describe(name), error);
        let file = self.disk.open(name).map_err(failed)?;
        let mut buffer = vec![0; 256 << 10];
        let mut has_first_page = false;
        let mut at = 0;
        loop {
            let read = file.read_at(&mut buffer, at).map_err(failed)?;
            if read == 0 {
                return Ok(has_first_page && at > IDENTITY_BYTES);
            }
            let first_page = (IDENTITY_BYTES.saturating_sub(at) as usize).min(read);
            let (head, rest) = buffer[..read].split_at(first_page);
            has_first_page |= head.iter().any(|byte| *byte != 0);
            if rest.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += read as u64;
        }
    }

    /// Cuts the log or writes it again, if it is damaged.
    fn mend_log(&mut self, chosen: &Chosen) -> Result<(), JournalError> {
        let directory = Directory::list(self.disk)?;
        let candidates = match directory.open_needed(self.disk, Layout::Local, chosen) {
            Ok(candidates) => candidates,
            Err(JournalError::Corruption(damage)) if chosen.index == 0 => {
                self.note(damage);
                for id in directory.segments.iter().rev() {
                    self.aside.take(&segment::name(*id))?;
                }
                return Ok(());
            }
            Err(JournalError::Corruption(damage)) => {
                self.note(damage);
                let mut segments = Vec::new();
                for id in directory.segments {
                    match Segment::open(self.disk, id) {
                        Ok(segment) => segments.push(segment),
                        // It is older than the log, or was found to be beyond repair.
                        Err(JournalError::Corruption(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                return self.rebase(chosen, segments);
            }
            Err(error) => return Err(error),
        };
        let (log, rest) = Log::walk(
            self.disk,
            Layout::Local,
            chosen,
            candidates,
            &mut ReplayVisit::new(&mut Discarding),
        )?;
        match log.end(chosen, &rest) {
            Ok(_) => {
                self.last_index = log.last.index.0;
                Ok(())
            }
            Err(JournalError::Corruption(damage)) => {
                self.note(damage);
                let last = log.spans.last().map(|span| span.segment.id);
                let behind = rest.iter().map(|(candidate, _)| candidate.segment.id);
                let mut touched = behind.chain(last);
                // Whatever a snapshot names lies before the first entry that it does not contain.
                let is_behind_snapshot = log.last.index.0 > chosen.index
                    || log.last.index.0 == chosen.index && !touched.any(|id| is_named(chosen, id));
                if is_behind_snapshot {
                    return self.cut(&log, &rest);
                }
                let spans = log.spans.into_iter().map(|span| span.segment);
                let rest = rest.into_iter().map(|(candidate, _)| candidate.segment);
                self.rebase(chosen, spans.chain(rest).collect())
            }
            Err(error) => Err(error),
        }
    }

    fn cut(&mut self, log: &Log<'_>, rest: &Rest) -> Result<(), JournalError> {
        self.last_index = log.last.index.0;
        let mut traces_end = None;
        if let Some(span) = log.spans.last() {
            traces_end = Scanner::new(self.disk, &span.segment)
                .survey(span.end)?
                .traces_end;
            self.aside.copy(&span.segment.name)?;
        }
        // The last first: as long as one is there, the log is damaged or ends here.
        for (candidate, _) in rest.iter().rev() {
            self.aside.take(&candidate.segment.name)?;
        }
        log.erase(traces_end, &[])
    }

    /// Writes what follows the snapshot again. The old segments stay where contents in them are needed, and are reused
    /// otherwise.
    fn rebase(&mut self, chosen: &Chosen, segments: Vec<Segment>) -> Result<(), JournalError> {
        for segment in &segments {
            self.aside.copy(&segment.name)?;
        }
        self.last_index = rebase(self.disk, chosen.index, &segments)?;
        Ok(())
    }

    /// Sees to it that every segment is there that the snapshot names.
    fn mend_kept(&mut self, chosen: &Chosen) -> Result<(), JournalError> {
        let directory = Directory::list(self.disk)?;
        let mut first_needed = u64::MAX;
        for id in directory.segments.iter().rev().copied() {
            first_needed = id;
            // One that is beyond repair is named, or it would not be there.
            if Candidate::open(self.disk, id)
                .is_ok_and(|candidate| candidate.is_base(Layout::Local, chosen.index))
            {
                break;
            }
        }
        for id in chosen.segments.iter().map(|id| u64::from(*id)) {
            if id >= first_needed {
                continue;
            }
            let name = segment::name(id);
            if directory.segments.contains(&id) {
                if self.open_or_mend(id)?.is_some() {
                    continue;
                }
                self.aside.take(&name)?;
            } else {
                self.note(Corruption {
                    file: self.disk.describe(&name),
                    offset: 0,
                    reason: "it is not there, and contents of messages lie in it".to_owned(),
                });
            }
            segment::remove_temporary(self.disk, id)?;
            Segment::make(self.disk, id, PLACEHOLDER_BYTES, None)?;
        }
        Ok(())
    }

    /// Reads what was put aside, and returns the highest index in it.
    fn report_dropped(&self, dropped: &mut dyn FnMut(LogIndex, &[u8])) -> Result<u64, JournalError> {
        let mut highest = 0;
        let mut seen = std::collections::BTreeSet::new();
        for name in self.aside.kept() {
            if segment::id_of(name).is_none() {
                continue;
            }
            scan_records(self.disk, &self.aside.path(name), &mut |index, entry| {
                highest = highest.max(index);
                if let Some(entry) = entry.filter(|_| index > self.last_index && seen.insert(index)) {
                    dropped(LogIndex(index), entry);
                }
            })?;
        }
        Ok(highest)
    }

    fn note(&mut self, damage: Corruption) {
        if !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
    }
}

fn is_named(chosen: &Chosen, id: u64) -> bool {
    chosen.segments.iter().any(|named| u64::from(*named) == id)
}
