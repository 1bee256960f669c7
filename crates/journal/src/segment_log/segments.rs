//! The segments of a log: which one is written to, which are still needed, and where new ones come from.

use std::io;
use std::sync::Arc;

use types::LogIndex;

use crate::contract::Kept;
use crate::disk::{Disk, File, Space};
use crate::error::JournalError;
use crate::log_id::LogId;
use crate::options::LocalOptions;
use crate::preparation::{Order, Preparation, Prepared};
use crate::record;
use crate::recovery::Span;
use crate::segment::{IDENTITY_BYTES, Segment, number};
use crate::segment_log::SegmentLog;

/// Segments kept for reuse besides the one that is prepared.
const SPARE_SEGMENTS_MAX: usize = 2;

/// A segment before the active one.
#[derive(Debug)]
pub(super) struct Closed {
    pub(super) segment: Segment,
    pub(super) base: u64,
    pub(super) before: LogId,
    pub(super) is_synced: bool,
}

/// The segment that is written to.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) segment: Segment,
    pub(super) base: u64,
    pub(super) before: LogId,
    /// Where the next record goes, in the file.
    pub(super) end: u64,
    /// Whether its start record is written.
    pub(super) is_started: bool,
}

impl From<Span> for Closed {
    fn from(span: Span) -> Self {
        Self {
            segment: span.segment,
            base: span.base,
            before: span.before,
            is_synced: false,
        }
    }
}

impl From<Span> for Active {
    fn from(span: Span) -> Self {
        Self {
            is_started: span.end > IDENTITY_BYTES,
            segment: span.segment,
            base: span.base,
            before: span.before,
            end: span.end,
        }
    }
}

/// Makes or takes the segment of a log that has none.
pub(super) fn first_span(
    disk: &dyn Disk,
    options: &LocalOptions,
    unused: &mut Vec<Segment>,
    next_id: &mut u64,
) -> Result<Span, JournalError> {
    let segment = match unused.pop() {
        Some(segment) => segment,
        None => {
            let id = *next_id;
            *next_id += 1;
            Segment::make(disk, id, options.first_segment_bytes, None)?
        }
    };
    Ok(Span {
        segment,
        base: 0,
        before: LogId::default(),
        end: IDENTITY_BYTES,
    })
}

impl SegmentLog {
    /// Sees to it that records of so many bytes fit into the active segment.
    pub(super) fn make_room(&mut self, bytes: u64) -> Result<(), JournalError> {
        let start = if self.active.is_started {
            0
        } else {
            self.start_bytes()
        };
        if self.active.end + start + bytes <= self.active.segment.bytes {
            return Ok(());
        }
        let next = self.next_segment(IDENTITY_BYTES + self.start_bytes() + bytes)?;
        let next = Active {
            segment: next,
            base: self.position,
            before: self.last,
            end: IDENTITY_BYTES,
            is_started: false,
        };
        let last = std::mem::replace(&mut self.active, next);
        if last.is_started {
            self.closed.push_back(Closed {
                is_synced: self.synced_to >= self.position,
                segment: last.segment,
                base: last.base,
                before: last.before,
            });
        } else {
            self.spares.push_back(last.segment.name);
        }
        Ok(())
    }

    /// Returns how long the start record of the next segment is.
    pub(super) fn start_bytes(&self) -> u64 {
        record::start_bytes(self.mark.len())
    }

    /// Returns the prepared segment, or makes one now.
    fn next_segment(&mut self, bytes_min: u64) -> Result<Segment, JournalError> {
        match self.ready.take() {
            Some(segment) if segment.bytes >= bytes_min => return Ok(segment),
            // Its id will be passed by the one made now, so only its file can still be used.
            Some(segment) => self.spares.push_back(segment.name),
            None => {}
        }
        self.counters.segments_waited_for += 1;
        let bytes = self
            .options
            .segment_bytes
            .max(bytes_min.next_multiple_of(IDENTITY_BYTES));
        let order = self.order(bytes);
        let disk = Arc::clone(&self.disk);
        order.make(disk.as_ref(), &mut self.garbage)
    }

    fn order(&mut self, bytes: u64) -> Order {
        let id = self.next_id;
        self.next_id += 1;
        let is_usual = bytes == self.options.segment_bytes;
        Order {
            id,
            bytes,
            recycle: is_usual.then(|| self.spares.pop_front()).flatten(),
        }
    }

    /// Keeps what is written from now on until there is a snapshot of an entry or a later one. It replaces the hold before.
    pub(crate) fn hold(&mut self, until: LogIndex) {
        self.held = Some((self.position, until.0));
    }

    /// Gives up the segments before the one in which the log can begin that nobody needs entries up to `index` of, but
    /// for those that the snapshot needs contents from. A log may be cut and written again, so an older segment can
    /// begin after a later entry.
    pub(crate) fn drop_obsolete(&mut self, index: u64) {
        // The log can only begin with a start record that is durable, and contents that were copied while the snapshot was
        // written lie where only the next one says.
        let held_from = self.held.filter(|(_, until)| self.snapshot_index < *until);
        let begun_at = held_from.map_or(self.snapshot_begun_at, |(from, _)| {
            self.snapshot_begun_at.min(from)
        });
        let synced_to = self.synced_to;
        let is_base =
            |before: LogId, base: u64| before.index.0 <= index && base < synced_to && base <= begun_at;
        let obsolete = if is_base(self.active.before, self.active.base) {
            self.closed.len()
        } else {
            let base = self
                .closed
                .iter()
                .rposition(|closed| is_base(closed.before, closed.base));
            base.unwrap_or(0)
        };
        let obsolete = self.closed.drain(..obsolete);
        self.kept
            .extend(obsolete.map(|closed| (number(closed.segment.id), closed.segment)));
        self.retire_unnamed();
    }

    /// Gives up the kept segments that the snapshot does not need contents from.
    pub(super) fn retire_unnamed(&mut self) {
        let named = &self.named;
        let obsolete = self.kept.extract_if(.., |id, _| !named.contains(id));
        self.retired.extend(obsolete.map(|(_, segment)| segment));
    }

    pub(crate) fn segment(&self, segment: u32) -> Option<Arc<dyn File>> {
        let id = u64::from(segment);
        if id == self.active.segment.id {
            return Some(Arc::clone(&self.active.segment.file));
        }
        let closed = self.closed.binary_search_by_key(&id, |closed| closed.segment.id);
        let found = match closed {
            Ok(at) => self.closed.get(at).map(|closed| &closed.segment),
            Err(_) => self.kept.get(&segment),
        };
        found.map(|segment| Arc::clone(&segment.file))
    }

    /// Returns the segment that is written to.
    pub(crate) fn active_segment(&self) -> u64 {
        self.active.segment.id
    }

    /// Returns the segments of the log, oldest first.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        let closed = self.closed.iter().map(|closed| &closed.segment);
        closed.chain([&self.active.segment])
    }

    /// Returns the segments that contents can be read from: those of the log, and those before it that are kept for them.
    pub(crate) fn readable_segments(&self) -> impl Iterator<Item = &Segment> {
        self.kept.values().chain(self.segments())
    }

    pub(crate) fn kept(&self) -> Vec<Kept> {
        let kept = |(segment, kept): (&u32, &Segment)| Kept {
            segment: *segment,
            bytes: kept.bytes,
        };
        self.kept.iter().map(kept).collect()
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.options.segment_bytes
    }

    pub(crate) fn space(&self) -> io::Result<Option<Space>> {
        self.disk.space()
    }

    pub(crate) fn take_preparation(&mut self) -> Option<Preparation> {
        if self.is_preparing || self.is_poisoned {
            return None;
        }
        // The file of a segment that somebody reads is not written to.
        let is_free = |segment: &mut Segment| Arc::strong_count(&segment.file) == 1;
        let free = self.retired.extract_if(.., is_free);
        self.spares.extend(free.map(|segment| segment.name));
        let order = match self.ready {
            None => Some(self.order(self.options.segment_bytes)),
            Some(_) => None,
        };
        while self.spares.len() > SPARE_SEGMENTS_MAX {
            self.garbage.extend(self.spares.pop_front());
        }
        let remove = std::mem::take(&mut self.garbage);
        if order.is_none() && remove.is_empty() {
            return None;
        }
        self.is_preparing = true;
        Some(Preparation::new(Arc::clone(&self.disk), order, remove))
    }

    pub(crate) fn install(&mut self, mut prepared: Prepared) -> Result<(), JournalError> {
        self.is_preparing = false;
        self.garbage.append(&mut prepared.leftovers);
        if let Some(segment) = prepared.segment.take() {
            if self.ready.is_none() && segment.id > self.active.segment.id {
                self.ready = Some(segment);
            } else {
                self.spares.push_back(segment.name);
            }
        }
        match prepared.error {
            Some(error) => self.guarded(|_| Err(error)),
            None => Ok(()),
        }
    }
}
