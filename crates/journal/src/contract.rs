//! The contract between the owner of a partition and what makes its entries durable.
//!
//! One proposer per epoch; one stream of [`Event::Committed`], strictly in the order of the log, that alone drives
//! `apply`. "Unknown" is an answer of its own: the entry may commit later. Truncation is the driver's business; the
//! owner only offers snapshots. Every driver passes [`crate::conformance`].

use std::fmt::Debug;
use std::io::{self, Read};
use std::sync::Arc;

use types::{LogIndex, Term};

use crate::disk::{File, Space};
use crate::error::JournalError;
use crate::preparation::{Preparation, Prepared};
use crate::snapshot::RaftSnapshot;

/// The reign of one proposer. A driver that loses and regains its right to propose has a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// One proposal of this process, until its outcome is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Where bytes of the log lie on this node. Other nodes have them elsewhere, so it is never part of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The segment, by its number.
    pub segment: u32,
    /// The first byte, counted from the beginning of the segment's file.
    pub offset: u32,
}

impl Place {
    /// Returns the place so many bytes further on in the same segment.
    #[must_use]
    pub fn plus(self, bytes: u32) -> Self {
        // A segment is far shorter than 4 GiB, and the bytes are of one record in it.
        let offset = self.offset.saturating_add(bytes);
        Self { offset, ..self }
    }
}

/// A segment that no start needs any more for its entries, and that is kept for the contents in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The segment.
    pub segment: u32,
    /// The length of its file.
    pub bytes: u64,
}

/// Called by a driver, from any thread: something is there for [`Journal::poll`], or [`Journal::epoch`] has changed.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Something became known about the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The entry is durable and has its place for good.
    Committed {
        /// Its place. Indexes rise; one is left out where the driver keeps something of its own in the log.
        index: LogIndex,
        /// The term it was proposed in; 0 on a single node.
        term: Term,
        /// Whose entry it is.
        source: Source,
        /// Where its bytes lie, if the driver keeps them in segments.
        place: Option<Place>,
    },
    /// The proposal will never commit.
    Rejected {
        /// The proposal.
        ticket: Ticket,
    },
    /// Contents that were written once more before the last start, between the entries that were handed out already and
    /// the next one.
    Copied {
        /// What [`Journal::copy_forward`] was given.
        copies: Vec<u8>,
        /// Where it lies.
        place: Place,
    },
    /// Nobody can say whether the proposal will commit. If it does after all, it comes as one of another proposer.
    Unknown {
        /// The proposal.
        ticket: Ticket,
    },
    /// Another reign began; `None` while this process may not propose. A reign of this process begins when every entry
    /// of earlier reigns was handed out.
    EpochChanged {
        /// The epoch from here on.
        epoch: Option<Epoch>,
    },
    /// The state is that of a snapshot of another node: [`Journal::replay`] gives it, and the events that follow go on
    /// from there. Proposals without an outcome are unknown, and no event names them any more.
    Replaced,
}

/// Whose entry was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// One that this process proposed and still has.
    Own(Ticket),
    /// The bytes of one that another proposer wrote.
    Foreign(Vec<u8>),
}

/// Why an entry was not taken. Nothing of it will ever commit.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// The reign that the proposer counts on is over.
    #[error("the epoch has changed")]
    EpochChanged {
        /// The present one, if this process may propose at all.
        epoch: Option<Epoch>,
    },
    /// The entry is larger than the driver allows.
    #[error("entry of {bytes} bytes, at most {bytes_max} are allowed")]
    TooLarge {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The disk is full; the journal goes on when there is room again.
    #[error("no space left to write {file}")]
    Full {
        /// The file that could not be written.
        file: String,
    },
    /// Something else failed. The journal cannot go on if its epoch is none from here on.
    #[error(transparent)]
    Journal(JournalError),
}

impl From<JournalError> for ProposeError {
    fn from(error: JournalError) -> Self {
        if let JournalError::Full { file } = error {
            Self::Full { file }
        } else {
            Self::Journal(error)
        }
    }
}

/// Makes entries durable and ordered.
pub trait Journal: Debug + Send {
    /// Returns the present reign, or none while this process may not propose. The owner answers from its state only
    /// while this is the epoch of the last [`Event::EpochChanged`], so a driver for several nodes says none as soon as
    /// another node may reign. One that commits by itself has none before its first such event.
    fn epoch(&self) -> Option<Epoch>;

    /// Writes an entry, which is not durable yet. An error means that it will never commit.
    fn propose(&mut self, entry: &[u8], expected: Epoch) -> Result<Ticket, ProposeError>;

    /// Waits until something is known and appends it to `events`. A driver on a local disk makes everything proposed
    /// durable with one sync; with nothing proposed it returns at once. After [`JournalError::SyncFailed`] the
    /// process must abort: no answer may be given for what was proposed.
    fn wait(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError>;

    /// Appends what is known now to `events`, without waiting for more.
    fn poll(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError> {
        self.wait(events)
    }

    /// Whether proposals become durable although nobody calls [`Journal::wait`]. Their events then come through
    /// [`Journal::poll`], and the owner never waits.
    fn commits_by_itself(&self) -> bool {
        false
    }

    /// Takes what a driver that commits by itself calls when there is something to poll.
    fn set_waker(&mut self, _waker: Waker) {}

    /// Returns how many proposals without an outcome the owner may have, at least 1.
    fn batches_in_flight_max(&self) -> usize {
        1
    }

    /// Replays the stored state once more, after [`Event::Replaced`]: a snapshot, and what follows it that no event
    /// brings. A driver that never says so has nothing to replay.
    fn replay(&mut self, _replay: &mut dyn Replay) -> Result<(), JournalError> {
        Err(JournalError::NothingToReplay)
    }

    /// Begins a snapshot of the state after `index`, which must be committed and not behind the last snapshot. The
    /// sink may be written on another thread while the journal goes on. `segments` are those that hold contents which
    /// the state still needs: once the snapshot is complete, they stay and all others before it may go.
    fn begin_snapshot(
        &mut self,
        index: LogIndex,
        segments: &[u32],
    ) -> Result<Box<dyn SnapshotSink>, JournalError>;

    /// Takes a finished snapshot into account: older snapshots and the log before it may go.
    fn complete_snapshot(&mut self, receipt: SnapshotReceipt) -> Result<(), JournalError>;

    /// Returns how many bytes of log would be replayed at a start.
    fn log_bytes_since_snapshot(&self) -> u64;

    /// Writes contents that lie in an old segment once more, so that the old one can go. It is a record of this node
    /// alone and no entry; it is durable with the next sync, and a start replays it in its place among the entries.
    /// None if the driver keeps nothing in segments. Not allowed while a proposal is not waited for, unless the driver
    /// commits by itself.
    fn copy_forward(&mut self, _copies: &[u8]) -> Result<Option<Place>, JournalError> {
        Ok(None)
    }

    /// Returns the file of a segment to read from. It is not used for anything else while somebody holds it.
    fn segment(&self, _segment: u32) -> Option<Arc<dyn File>> {
        None
    }

    /// Returns the segments that are kept only for the contents in them.
    fn kept(&self) -> Vec<Kept> {
        Vec::new()
    }

    /// Returns the length of a usual segment; 0 if the driver has none.
    fn segment_bytes(&self) -> u64 {
        0
    }

    /// Returns how much room there is where the journal writes, if that is a file system.
    fn space(&self) -> io::Result<Option<Space>> {
        Ok(None)
    }

    /// Returns work that should run on another thread and come back through [`Journal::install`]: the next segment,
    /// files to remove. `None` while there is none or the last one has not come back.
    fn take_preparation(&mut self) -> Option<Preparation> {
        None
    }

    /// Takes the result of a preparation. An error is that of the preparation: the journal works without it, and
    /// [`Journal::take_preparation`] offers the work again, which the owner should not try at once.
    fn install(&mut self, prepared: Prepared) -> Result<(), JournalError> {
        prepared.into_result().map(|_| ())
    }

    /// Marks everything committed as known to be durable, so that damage to it can be told from a torn tail. The
    /// owner calls it after 100 ms without a proposal and at a clean stop. Does nothing while a proposal is not
    /// waited for, or if there is nothing to mark.
    fn seal(&mut self) -> Result<(), JournalError>;

    /// Returns what was counted since the journal was opened.
    fn counters(&self) -> Counters;
}

/// What a journal has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Entries written.
    pub entries: u64,
    /// Bytes written for them, headers and padding included.
    pub bytes_written: u64,
    /// Syncs of the log by the thread that proposes.
    pub syncs: u64,
    /// How long the last one took.
    pub last_sync_nanos: u64,
    /// How long all of them took together.
    pub sync_nanos: u64,
    /// Segments that were not ready in time and were made while a proposal waited.
    pub segments_waited_for: u64,
}

/// Takes the bytes of one snapshot. Dropped before [`SnapshotSink::finish`], it leaves nothing behind that counts.
/// After [`JournalError::SyncFailed`] the process must abort; any other error only costs this snapshot.
pub trait SnapshotSink: Debug + Send {
    /// Appends bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<(), JournalError>;
    /// Makes the snapshot durable under its name and reads it back to verify it.
    fn finish(self: Box<Self>) -> Result<SnapshotReceipt, JournalError>;
}

/// Proof that a snapshot is durable and was verified.
#[derive(Debug)]
pub struct SnapshotReceipt {
    index: LogIndex,
    bytes: u64,
    log_position: u64,
    /// Where the log ended when the snapshot was begun.
    begun_at: u64,
    segments: Vec<u32>,
    /// What the snapshot stands for in a cluster.
    raft: Option<RaftSnapshot>,
    /// Whether it already counts.
    is_named: bool,
}

impl SnapshotReceipt {
    /// Makes the receipt of a snapshot that covers the log up to a position of the driver's own counting, and names
    /// these segments.
    pub fn new(index: LogIndex, bytes: u64, log_position: u64, segments: Vec<u32>) -> Self {
        Self {
            index,
            bytes,
            log_position,
            begun_at: log_position,
            segments,
            raft: None,
            is_named: true,
        }
    }

    pub(crate) fn begun_at(self, position: u64) -> Self {
        Self {
            begun_at: position,
            ..self
        }
    }

    /// Returns where the log ended when the snapshot was begun. It says nothing of what was written since.
    pub(crate) fn log_end(&self) -> u64 {
        self.begun_at
    }

    pub(crate) fn of_cluster(self, raft: Option<RaftSnapshot>, is_named: bool) -> Self {
        Self {
            raft,
            is_named,
            ..self
        }
    }

    /// Returns what the snapshot stands for in a cluster; none on a single node.
    pub fn raft(&self) -> Option<&RaftSnapshot> {
        self.raft.as_ref()
    }

    /// Returns the receipt of the same snapshot once it has its name, and stands for the log up to a position.
    pub(crate) fn named(&self, log_position: u64) -> Self {
        Self {
            is_named: true,
            log_position,
            raft: self.raft.clone(),
            segments: self.segments.clone(),
            ..*self
        }
    }

    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// Returns the last entry that the snapshot contains.
    pub fn index(&self) -> LogIndex {
        self.index
    }

    /// Returns how many bytes were stored, framing included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the driver's position in the log that the snapshot stands for.
    pub fn log_position(&self) -> u64 {
        self.log_position
    }

    /// Returns the segments that hold contents which the snapshot needs.
    pub fn segments(&self) -> &[u32] {
        &self.segments
    }
}

/// What an owner says when it cannot take stored state.
pub type ReplayError = Box<dyn std::error::Error + Send + Sync>;

/// Takes the stored state at a start: at most one snapshot, then entries after it, in order. A driver that commits by
/// itself may leave entries out at the end, and hands them out as events when it knows that they count.
pub trait Replay {
    /// Takes the snapshot of the state after `index`. It was verified as a whole before this call.
    fn snapshot(&mut self, index: LogIndex, content: &mut dyn Read) -> Result<(), ReplayError>;
    /// Takes the next entry, and where its bytes lie if the driver keeps them in segments.
    fn entry(&mut self, index: LogIndex, entry: &[u8], place: Option<Place>) -> Result<(), ReplayError>;
    /// Takes what [`Journal::copy_forward`] wrote between two entries. Also comes for copies that the snapshot knows.
    fn copies(&mut self, _copies: &[u8], _place: Place) -> Result<(), ReplayError> {
        Ok(())
    }
    /// Hears from time to time how many bytes of the log have been read, and of how many.
    fn progress(&mut self, _bytes_done: u64, _bytes_total: u64) {}
}
