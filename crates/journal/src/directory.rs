//! What a data directory holds, and which of it a start needs.

use crate::disk::Disk;
use crate::error::{Corruption, JournalError};
use crate::layout::Layout;
use crate::record::Start;
use crate::scan::Scanner;
use crate::segment::{self, IDENTITY_BYTES, Segment};
use crate::snapshot::{self, RaftSnapshot};

/// Our files in a data directory.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Ids of segments, lowest first.
    pub(crate) segments: Vec<u64>,
    /// Indexes of snapshots, lowest first.
    pub(crate) snapshots: Vec<u64>,
    /// Names of files that were never finished.
    pub(crate) temporaries: Vec<String>,
}

/// The snapshot to start from.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// Its index; 0 to start from nothing.
    pub(crate) index: u64,
    /// The index of the newest snapshot file, good or not: everything up to it was durable.
    pub(crate) newest: u64,
    /// The segments that hold contents which it needs.
    pub(crate) segments: Vec<u32>,
    /// Damage to newer snapshots, newest first.
    pub(crate) damaged: Vec<Corruption>,
    /// What it stands for in a cluster.
    pub(crate) raft: Option<RaftSnapshot>,
}

/// A segment that may be needed, with its start record if that is intact.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) segment: Segment,
    pub(crate) start: Option<Start>,
}

impl Candidate {
    pub(crate) fn open(disk: &dyn Disk, id: u64) -> Result<Self, JournalError> {
        let segment = Segment::open(disk, id)?;
        let start = Scanner::new(disk, &segment)
            .record_at(IDENTITY_BYTES)?
            .and_then(|record| record.start())
            .filter(|start| start.segment_id == id);
        Ok(Self { segment, start })
    }

    /// Whether the log after a snapshot can begin here.
    pub(crate) fn is_base(&self, layout: Layout, snapshot_index: u64) -> bool {
        self.start
            .is_some_and(|start| start.layout == layout && start.before.index.0 <= snapshot_index)
    }
}

impl Directory {
    pub(crate) fn list(disk: &dyn Disk) -> Result<Self, JournalError> {
        let names = disk
            .list()
            .map_err(|source| JournalError::failed("list", disk.describe(""), source))?;
        let mut directory = Self::default();
        for name in names {
            if let Some(id) = segment::id_of(&name) {
                directory.segments.push(id);
            } else if let Some(index) = snapshot::index_of(&name) {
                directory.snapshots.push(index);
            } else if segment::is_temporary(&name) {
                directory.temporaries.push(name);
            }
        }
        directory.segments.sort_unstable();
        directory.snapshots.sort_unstable();
        Ok(directory)
    }

    /// Returns whose log it is; none if nothing was ever written. The newest snapshot says it, as a single node's becomes
    /// a cluster's with one; without any, the beginning of the log.
    pub(crate) fn layout(&self, disk: &dyn Disk) -> Result<Option<Layout>, JournalError> {
        if let Some(newest) = self.snapshots.last()
            && let Some(layout) = snapshot::layout(disk, *newest)?
        {
            return Ok(Some(layout));
        }
        let mut found = None;
        for id in &self.segments {
            let start = match Candidate::open(disk, *id) {
                Ok(candidate) => candidate.start,
                Err(JournalError::Corruption(_)) => None,
                Err(error) => return Err(error),
            };
            // Segments of before a conversion may be there still. If the newest snapshot is damaged, it may be the one of
            // the conversion, and a cluster's log must not be taken for a single node's.
            match start.map(|start| start.layout) {
                Some(layout) if self.snapshots.is_empty() => return Ok(Some(layout)),
                Some(Layout::Replicated) => return Ok(Some(Layout::Replicated)),
                Some(Layout::Local) => found = Some(Layout::Local),
                None => {}
            }
        }
        for index in self.snapshots.iter().rev() {
            found = match found {
                None => snapshot::layout(disk, *index)?,
                Some(_) => break,
            };
        }
        Ok(found)
    }

    /// Returns the newest snapshot of which every byte holds.
    pub(crate) fn choose_snapshot(&self, disk: &dyn Disk) -> Result<Chosen, JournalError> {
        let mut chosen = Chosen {
            newest: self.snapshots.last().copied().unwrap_or(0),
            ..Chosen::default()
        };
        for index in self.snapshots.iter().rev().copied() {
            match snapshot::checked(disk, &snapshot::name(index), index) {
                Ok(header) => {
                    chosen.index = index;
                    (chosen.segments, chosen.raft) = (header.segments, header.raft);
                    break;
                }
                Err(JournalError::Corruption(damage)) => chosen.damaged.push(damage),
                Err(error) => return Err(error),
            }
        }
        Ok(chosen)
    }

    /// Opens the segments that may hold entries after the snapshot, lowest first. The first of them holds the start
    /// of the log to replay, unless nothing was ever written.
    pub(crate) fn open_needed(
        &self,
        disk: &dyn Disk,
        layout: Layout,
        chosen: &Chosen,
    ) -> Result<Vec<Candidate>, JournalError> {
        let mut needed = Vec::new();
        for id in self.segments.iter().rev().copied() {
            let candidate = Candidate::open(disk, id)?;
            let is_base = candidate.is_base(layout, chosen.index);
            needed.push(candidate);
            if is_base {
                needed.reverse();
                return Ok(needed);
            }
        }
        needed.reverse();
        match beginning_is_missing(disk, chosen, &needed) {
            None => Ok(needed),
            Some(missing) => Err(missing.into()),
        }
    }
}

/// Opens the segments before the log that the snapshot needs contents from.
pub(crate) fn open_kept(
    disk: &dyn Disk,
    chosen: &Chosen,
    first_needed: u64,
) -> Result<Vec<Segment>, JournalError> {
    let older = chosen.segments.iter().map(|segment| u64::from(*segment));
    let open = |id| match Segment::open(disk, id) {
        Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            let reason = format!(
                "it is not there, and the snapshot of entry {} needs message contents from it",
                chosen.index
            );
            let file = disk.describe(&segment::name(id));
            Err(Corruption {
                file,
                offset: 0,
                reason,
            }
            .into())
        }
        opened => opened,
    };
    older.filter(|id| *id < first_needed).map(open).collect()
}

/// Says what is wrong with a log that does not begin where the snapshot ends, if anything is.
fn beginning_is_missing(disk: &dyn Disk, chosen: &Chosen, candidates: &[Candidate]) -> Option<Corruption> {
    let first = candidates.iter().position(|c| c.start.is_some());
    let before_first = first.and_then(|at| candidates[..at].last());
    let first = first.and_then(|at| {
        candidates[at]
            .start
            .map(|start| (&candidates[at].segment.name, start))
    });
    let (name, reason) = match first {
        // A damaged snapshot is the damage to name if the log could do without a good one only from its beginning.
        _ if !chosen.damaged.is_empty() => return chosen.damaged.first().cloned(),
        Some((_, start)) if before_first.is_some() => {
            let name = before_first.map_or("", |c| c.segment.name.as_str());
            let reason = format!(
                "it does not say where in the log it stands, and the segment after it begins after entry {}",
                start.before.index
            );
            (name, reason)
        }
        Some((name, start)) => {
            let reached = match chosen.index {
                0 => "there is no snapshot".to_owned(),
                index => format!("the newest snapshot ends with entry {index}"),
            };
            let reason = format!("the log begins after entry {}, but {reached}", start.before.index);
            (name.as_str(), reason)
        }
        None if chosen.index == 0 => return None,
        None => {
            let name = candidates.first().map_or("", |c| c.segment.name.as_str());
            let reason = format!(
                "no segment begins at or before entry {} of the snapshot",
                chosen.index
            );
            (name, reason)
        }
    };
    Some(Corruption {
        file: disk.describe(name),
        offset: if name.is_empty() { 0 } else { IDENTITY_BYTES },
        reason,
    })
}
