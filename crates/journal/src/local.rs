//! The driver of one node: a segment log on the local disk.
//!
//! One owner, one thread, no cluster: the epoch never changes, an entry commits when a sync returns. The log itself is
//! [`crate::segment_log`].

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use types::{LogIndex, Term};

use crate::contract::{
    Counters, Epoch, Event, Journal, Kept, Place, ProposeError, Replay, SnapshotReceipt, SnapshotSink,
    Source, Ticket,
};
use crate::disk::{Disk, File, Lock, Space};
use crate::error::JournalError;
use crate::layout::Layout;
use crate::log_id::LogId;
use crate::options::LocalOptions;
use crate::preparation::{Preparation, Prepared};
use crate::record::{ENTRY_BYTES_MAX, Kind};
use crate::recovery::RecoveryReport;
use crate::replicated::check_mark;
use crate::segment_log::{self, NewRecord, SegmentLog};
use crate::snapshot::{self, RaftSnapshot};
use crate::visit::ReplayVisit;

/// The only reign that a single node ever has.
const EPOCH: Epoch = Epoch(1);

/// The journal of a single node.
#[derive(Debug)]
pub struct LocalJournal {
    log: SegmentLog,
    committed: u64,
    committed_position: u64,
    pending: VecDeque<(Ticket, LogIndex, Place)>,
    next_ticket: u64,
}

impl LocalJournal {
    /// Takes the data directory for this process. A server does so before it touches anything else of it.
    pub fn lock(disk: &dyn Disk) -> Result<Box<dyn Lock>, JournalError> {
        segment_log::lock(disk)
    }

    /// Takes the data directory and replays what is stored in it.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: LocalOptions,
        replay: &mut dyn Replay,
    ) -> Result<(Self, RecoveryReport), JournalError> {
        let lock = Self::lock(disk.as_ref())?;
        Self::open_locked(disk, lock, options, replay)
    }

    /// Replays what is stored in a data directory that is locked already.
    pub fn open_locked(
        disk: Arc<dyn Disk>,
        lock: Box<dyn Lock>,
        options: LocalOptions,
        replay: &mut dyn Replay,
    ) -> Result<(Self, RecoveryReport), JournalError> {
        let mut visit = ReplayVisit::new(replay);
        let (log, report) = SegmentLog::open(disk, lock, options, Layout::Local, &mut visit)?;
        let journal = Self {
            committed: log.last().index.0,
            committed_position: log.position(),
            log,
            pending: VecDeque::new(),
            next_ticket: 1,
        };
        Ok((journal, report))
    }

    /// Begins the snapshot with which a stopped single node becomes the first node of a cluster: of the state after the
    /// last entry, which `snapshot` names. It counts for nothing before [`LocalJournal::convert`].
    pub fn begin_conversion(
        &mut self,
        snapshot: &RaftSnapshot,
        segments: &[u32],
    ) -> Result<Box<dyn SnapshotSink>, JournalError> {
        snapshot::check_membership(&snapshot.membership)?;
        self.check_is_last(snapshot.id.index)?;
        self.log
            .begin_restart(snapshot::Header::replicated(snapshot.clone(), segments))
    }

    /// Makes the directory that of a node of a cluster, with a log that begins behind the snapshot and this mark. A crash at
    /// any moment leaves either a single node's directory, with which all of this can be done again, or the cluster's.
    pub fn convert(mut self, receipt: &SnapshotReceipt, mark: &[u8]) -> Result<(), JournalError> {
        check_mark(mark)?;
        self.check_is_last(receipt.index())?;
        let Some(snapshot) = receipt.raft().filter(|_| !receipt.is_named()) else {
            return Err(self.no_snapshot(receipt.index()));
        };
        self.log.restart(Layout::Replicated, snapshot.id, mark, receipt)
    }

    fn check_is_last(&self, index: LogIndex) -> Result<(), JournalError> {
        if index.0 == 0 || index != self.log.last().index || !self.pending.is_empty() {
            return Err(self.no_snapshot(index));
        }
        self.log.check_usable()
    }

    fn no_snapshot(&self, index: LogIndex) -> JournalError {
        JournalError::SnapshotIndex {
            index,
            previous: LogIndex(self.log.snapshot_index()),
            committed: LogIndex(self.committed),
        }
    }
}

impl Journal for LocalJournal {
    fn epoch(&self) -> Option<Epoch> {
        self.log.is_usable().then_some(EPOCH)
    }

    fn propose(&mut self, entry: &[u8], expected: Epoch) -> Result<Ticket, ProposeError> {
        if expected != EPOCH {
            return Err(ProposeError::EpochChanged { epoch: self.epoch() });
        }
        if entry.len() > ENTRY_BYTES_MAX {
            return Err(ProposeError::TooLarge {
                bytes: entry.len() as u64,
                bytes_max: ENTRY_BYTES_MAX as u64,
            });
        }
        let index = LogIndex(self.log.last().index.0 + 1);
        let place = self.log.write(&[NewRecord {
            kind: Kind::Entry,
            id: LogId::local(index),
            payload: [entry, &[]],
        }])?;
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.log.count_entries(1);
        self.pending.push_back((ticket, index, place));
        Ok(ticket)
    }

    fn wait(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError> {
        self.log.commit()?;
        self.committed = self.log.last().index.0;
        self.committed_position = self.log.position();
        let committed = |(ticket, index, place)| Event::Committed {
            index,
            term: Term(0),
            source: Source::Own(ticket),
            place: Some(place),
        };
        events.extend(self.pending.drain(..).map(committed));
        Ok(())
    }

    fn begin_snapshot(
        &mut self,
        index: LogIndex,
        segments: &[u32],
    ) -> Result<Box<dyn SnapshotSink>, JournalError> {
        self.log.check_usable()?;
        if index.0 == 0 || index.0 > self.committed || index.0 < self.log.snapshot_index() {
            return Err(self.no_snapshot(index));
        }
        let position = match index.0 == self.committed {
            true => self.committed_position,
            // The count of bytes since then is then a little too high.
            false => self.log.position_about(index.0),
        };
        self.log
            .begin_snapshot(snapshot::Header::local(index, segments), position)
    }

    fn complete_snapshot(&mut self, receipt: SnapshotReceipt) -> Result<(), JournalError> {
        self.log.complete_snapshot(&receipt, u64::MAX)
    }

    fn log_bytes_since_snapshot(&self) -> u64 {
        self.log.log_bytes_since_snapshot()
    }

    fn copy_forward(&mut self, copies: &[u8]) -> Result<Option<Place>, JournalError> {
        let place = self.log.write(&[NewRecord {
            kind: Kind::Copies,
            id: self.log.last(),
            payload: [copies, &[]],
        }])?;
        if self.pending.is_empty() {
            self.committed_position = self.log.position();
        }
        Ok(Some(place))
    }

    fn segment(&self, segment: u32) -> Option<Arc<dyn File>> {
        self.log.segment(segment)
    }

    fn kept(&self) -> Vec<Kept> {
        self.log.kept()
    }

    fn segment_bytes(&self) -> u64 {
        self.log.segment_bytes()
    }

    fn space(&self) -> io::Result<Option<Space>> {
        self.log.space()
    }

    fn take_preparation(&mut self) -> Option<Preparation> {
        self.log.take_preparation()
    }

    fn install(&mut self, prepared: Prepared) -> Result<(), JournalError> {
        self.log.install(prepared)
    }

    fn seal(&mut self) -> Result<(), JournalError> {
        self.log.check_usable()?;
        if !self.pending.is_empty() || self.log.last().index.0 == 0 {
            return Ok(());
        }
        self.log.seal()?;
        self.committed_position = self.log.position();
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.log.counters()
    }
}
