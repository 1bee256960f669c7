//! A log that begins anew behind a snapshot: one of another node, or the one that makes a single node a cluster's.
//!
//! The order is that of `docs/formats/segment.md`: the segment in which the log goes on is made and named first, and counts
//! for nothing as long as no snapshot ends where it begins; giving the snapshot its name is the switch.

use crate::contract::SnapshotReceipt;
use crate::error::JournalError;
use crate::io::write_all_at;
use crate::layout::Layout;
use crate::log_id::LogId;
use crate::record::{self, Start};
use crate::segment::{self, IDENTITY_BYTES, Segment, number, sync};
use crate::segment_log::SegmentLog;
use crate::segment_log::segments::Active;
use crate::snapshot;

impl SegmentLog {
    /// Begins the log anew behind a snapshot that is finished and has no name yet. What the log holds is dropped, but for
    /// the segments that the snapshot names.
    pub(crate) fn restart(
        &mut self,
        layout: Layout,
        before: LogId,
        mark: &[u8],
        receipt: &SnapshotReceipt,
    ) -> Result<(), JournalError> {
        self.guarded(Self::sync_if_needed)?;
        let start = Start {
            layout,
            base: self.position,
            // A log goes on behind a record, whose chain is not 0, so this segment continues nothing.
            chain_before: 0,
            before,
            segment_id: self.next_id,
        };
        self.next_id += 1;
        let (segment, chain) = self.guarded(|log| {
            let made = log.make_beginning(&start, mark);
            if made.is_err() {
                let unfinished = segment::temporary(&segment::name(start.segment_id));
                log.garbage.push(unfinished);
            }
            made
        })?;
        let named = segment
            .give_name(self.disk.as_ref())
            .and_then(|()| snapshot::give_name(self.disk.as_ref(), receipt.index().0));
        // Once the segment has its name, the log may not go on in later ones: a start would find this one in between.
        self.is_poisoned |= named.is_err();
        named?;
        self.switch(segment, &start, chain, mark);
        self.take_snapshot(receipt);
        self.snapshot_position = self.position;
        self.snapshot_begun_at = self.position;
        self.retire_unnamed();
        // From here on the old log, where it is still there, can be told to be out of date.
        let sealed = self.seal();
        self.is_poisoned |= sealed.is_err();
        sealed
    }

    /// Makes the segment in which the log goes on, durable but for its name.
    fn make_beginning(&self, start: &Start, mark: &[u8]) -> Result<(Segment, u64), JournalError> {
        let disk = self.disk.as_ref();
        // With room for the seal.
        let needed = IDENTITY_BYTES + record::start_bytes(mark.len()) + record::record_bytes(0);
        let bytes = self
            .options
            .first_segment_bytes
            .max(needed.next_multiple_of(IDENTITY_BYTES));
        let segment = Segment::make_unnamed(disk, start.segment_id, bytes, None)?;
        let unfinished = segment::temporary(&segment.name);
        let mut buffer = Vec::new();
        let chain = record::encode_start(&mut buffer, start, mark, segment.generation, start.base);
        write_all_at(segment.file.as_ref(), &buffer, IDENTITY_BYTES)
            .map_err(|partial| JournalError::writing(disk.describe(&unfinished), partial.error))?;
        sync(disk, segment.file.as_ref(), &unfinished)?;
        Ok((segment, chain))
    }

    fn switch(&mut self, segment: Segment, start: &Start, chain: u64, mark: &[u8]) {
        let start_bytes = record::start_bytes(mark.len());
        let next = Active {
            segment,
            base: start.base,
            before: start.before,
            end: IDENTITY_BYTES + start_bytes,
            is_started: true,
        };
        let last = std::mem::replace(&mut self.active, next);
        let closed = self.closed.drain(..).map(|closed| closed.segment);
        let dropped = closed.chain(last.is_started.then(|| last.segment.clone()));
        self.kept
            .extend(dropped.map(|segment| (number(segment.id), segment)));
        let unused = [(!last.is_started).then_some(last.segment), self.ready.take()];
        self.spares
            .extend(unused.into_iter().flatten().map(|segment| segment.name));
        self.layout = start.layout;
        self.chain = chain;
        self.last = start.before;
        self.mark = mark.to_vec();
        self.position += start_bytes;
        self.synced_to = self.position;
        self.is_sealed = false;
    }

    /// Whether the log holds nothing behind the start record of its first segment.
    pub(crate) fn is_bare(&self) -> bool {
        self.closed.is_empty() && self.active.end <= IDENTITY_BYTES + self.start_bytes()
    }
}
