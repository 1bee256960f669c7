//! Housekeeping between commit turns: segments, snapshots, copies forward, room on the disk, the seal of an idle log.
//!
//! Whatever takes long runs on a thread of its own, which hands its result back and wakes the commit thread.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use journal::{JournalError, Prepared, SnapshotReceipt, SnapshotSink};
use queue_core::{Command, PartitionSnapshot};
use tracing::{error, info, warn};
use types::{LogIndex, WallTime};

use crate::agreement::Checkpoint;
use crate::contents::ContentsSnapshot;
use crate::copies;
use crate::evacuation::{Evacuation, ReadContent, ReadContents};
use crate::outcomes::internal;
use crate::replay::write_snapshot;
use crate::room::Room;
use crate::turn::{Committer, Shared};

/// Idle time after which the log is sealed.
const SEAL_AFTER: Duration = Duration::from_millis(100);
/// How long a segment or snapshot that failed is left alone: a full disk does not have room a moment later.
const PAUSE: Duration = Duration::from_secs(1);
/// A segment of which less than one part in so many is needed is emptied by copying that forward.
const LIVE_PARTS: u64 = 2;
/// The same while room is short, as a share of 8.
const LIVE_EIGHTHS_WHEN_SHORT: u64 = 7;

/// What other threads hand back to the commit thread.
enum Finished {
    Prepared(Prepared),
    Snapshot {
        result: Result<SnapshotReceipt, JournalError>,
        seconds: f64,
    },
    Read(ReadContents),
    /// A state was hashed, to be compared with that of other nodes.
    Hashed(Checkpoint),
    /// The thread could not be started, or has panicked.
    Lost,
}

/// Hands a result back when its thread ends, however that is.
struct HandBack {
    shared: Arc<Shared>,
    finished: Sender<Finished>,
    result: Finished,
}

impl HandBack {
    fn fill(&mut self, result: Finished) {
        self.result = result;
    }
}

impl Drop for HandBack {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Finished::Lost);
        // The receiver is gone only when the commit thread has ended, and then nobody needs the result.
        if self.finished.send(result).is_ok() {
            self.shared.inbox.nudge();
        }
    }
}

/// What is under way, and when to look at it again.
pub(crate) struct House {
    finished: (Sender<Finished>, Receiver<Finished>),
    /// Threads that have not handed their result back.
    running: usize,
    is_snapshot_running: bool,
    snapshot_bytes: u64,
    /// What the last snapshot was begun with: the entry, and how many contents had been copied. Another one of the same would
    /// free nothing.
    snapshot_of: Option<(LogIndex, u64)>,
    /// Contents copied forward.
    copied: u64,
    /// In monotonic time; until then nothing is begun.
    from: Duration,
    /// When the last record was written, in monotonic time, until the log is sealed.
    unsealed_since: Option<Duration>,
    is_evacuating: bool,
    is_hashing: bool,
    /// Contents written by the evacuation that is under way.
    evacuated: usize,
    /// In monotonic time; until then no segment is emptied: the last one held nothing that could be.
    evacuate_from: Duration,
    /// Segments with contents that cannot be read: they stay.
    stuck: BTreeSet<u32>,
    pub(crate) room: Room,
}

impl House {
    pub(crate) fn new(reserve_bytes: Option<u64>) -> Self {
        Self {
            finished: channel(),
            running: 0,
            is_snapshot_running: false,
            snapshot_bytes: 0,
            snapshot_of: None,
            copied: 0,
            from: Duration::ZERO,
            unsealed_since: None,
            is_evacuating: false,
            is_hashing: false,
            evacuated: 0,
            evacuate_from: Duration::ZERO,
            stuck: BTreeSet::new(),
            room: Room::new(reserve_bytes),
        }
    }

    /// Hears that something was written to the log.
    pub(crate) fn written(&mut self, now: Duration) {
        self.unsealed_since = Some(now);
    }

    /// How long the commit thread may sleep.
    pub(crate) fn sleep(&self, now: Duration) -> Option<Duration> {
        let seal = self
            .unsealed_since
            .map(|since| (since + SEAL_AFTER).saturating_sub(now));
        let pause = Some(self.from).filter(|from| *from > now).map(|from| from - now);
        let room = self.room.sleep(now);
        seal.into_iter().chain(pause).chain(room).min()
    }
}

impl Committer {
    /// Takes what other threads finished, starts what is due, seals an idle log.
    pub(crate) fn keep_house(&mut self) -> Result<(), JournalError> {
        while let Ok(finished) = self.house.finished.1.try_recv() {
            self.house.running -= 1;
            match finished {
                Finished::Prepared(prepared) => match self.journal.install(prepared) {
                    Ok(()) => {}
                    Err(failure @ JournalError::SyncFailed { .. }) => return Err(failure),
                    Err(failure) => {
                        warn!(error = %failure, "a segment could not be prepared; it is tried again");
                        self.pause_house();
                    }
                },
                Finished::Snapshot { result, seconds } => self.complete_snapshot(result, seconds)?,
                Finished::Read(read) => self.copy_forward(read)?,
                Finished::Hashed(checkpoint) => {
                    self.house.is_hashing = false;
                    if let Some(leader) = &self.shared.options.leader {
                        leader.compare(checkpoint);
                    }
                }
                Finished::Lost => {
                    error!("housekeeping was not done: its thread could not be started, or has panicked")
                }
            }
        }
        let has_looked = self.look_for_room();
        let now = self.shared.options.clock.monotonic();
        if now >= self.house.from {
            self.prepare();
            if self.is_log_long() || (has_looked && self.is_snapshot_worthwhile()) {
                self.begin_snapshot()?;
            }
            // Old segments may be many: they are gone through now and then, and not with every turn.
            if has_looked {
                self.begin_evacuation();
            }
        }
        if self
            .house
            .unsealed_since
            .is_some_and(|since| now >= since + SEAL_AFTER)
        {
            self.house.unsealed_since = match self.journal.seal() {
                Ok(()) => None,
                // It has no room for a further segment: what is written is durable without the seal.
                Err(JournalError::Full { .. }) => Some(now),
                Err(failure) => return Err(failure),
            };
        }
        Ok(())
    }

    /// Waits for the threads that still run: whoever opens the directory next must be alone in it.
    pub(crate) fn leave_house(&mut self) {
        while self.house.running > 0 && self.house.finished.1.recv().is_ok() {
            self.house.running -= 1;
        }
    }

    /// Begins anew with another state.
    pub(crate) fn move_house(&mut self) {
        self.house.snapshot_of = None;
        self.house.stuck.clear();
        self.house.evacuate_from = Duration::ZERO;
    }

    fn pause_house(&mut self) {
        self.house.from = self.shared.options.clock.monotonic() + PAUSE;
    }

    /// Looks now and then whether there is room for more messages, on the disk and in memory. Returns whether it was time.
    fn look_for_room(&mut self) -> bool {
        let now = self.shared.options.clock.monotonic();
        let written = self.journal.counters().bytes_written;
        if !self.house.room.is_due(now, written, self.journal.segment_bytes()) {
            return false;
        }
        let ids_max = self.shared.options.deduplication_ids_max;
        self.owner.count_ids(ids_max, now);
        let cached = self.owner.contents.cached_bytes();
        self.shared.options.observer.cached(cached);
        match self.journal.space() {
            Ok(Some(space)) => {
                let state_bytes = self.owner.state_bytes();
                self.house.room.look(space, state_bytes);
                let is_short = self.house.room.is_short();
                let leader = self.shared.options.leader.as_deref();
                let has_quorum = leader.is_none_or(|leader| leader.room(space, is_short));
                self.owner.refuse_sends(is_short || !has_quorum);
                self.shared.options.observer.room(space, is_short);
            }
            Ok(None) => {}
            Err(failure) => warn!(error = %failure, "the room on the disk cannot be read"),
        }
        true
    }

    pub(crate) fn prepare(&mut self) {
        if let Some(preparation) = self.journal.take_preparation() {
            // Lost if no thread can be started: then segments are made while a proposal waits.
            self.spawn("journal-prepare", move || Finished::Prepared(preparation.run()));
        }
    }

    fn begin_snapshot(&mut self) -> Result<(), JournalError> {
        let of = Some((self.owner.index(), self.house.copied));
        if self.house.is_snapshot_running || self.owner.index().0 == 0 || self.house.snapshot_of == of {
            return Ok(());
        }
        let clock = Arc::clone(&self.shared.options.clock);
        let began = clock.monotonic();
        let mut sink = match self
            .journal
            .begin_snapshot(self.owner.index(), &self.owner.contents.segments())
        {
            Ok(sink) => sink,
            Err(JournalError::Full { file }) => {
                warn!(file, "no room for a snapshot; the log is kept");
                self.pause_house();
                return Ok(());
            }
            Err(failure @ JournalError::SyncFailed { .. }) => return Err(failure),
            Err(failure) => {
                warn!(error = %failure, "a snapshot cannot begin; the log is kept and it is tried again");
                self.pause_house();
                return Ok(());
            }
        };
        let (wall, (state, contents)) = (self.owner.last_wall(), self.owner.snapshot());
        let held = clock.monotonic().saturating_sub(began);
        self.shared.options.observer.snapshot_begun(held);
        self.house.is_snapshot_running = self.spawn("journal-snapshot", move || {
            let started = clock.monotonic();
            let result = store_snapshot(&mut *sink, wall, &state, &contents).and_then(|()| sink.finish());
            Finished::Snapshot {
                result,
                seconds: clock.monotonic().saturating_sub(started).as_secs_f64(),
            }
        });
        self.house.snapshot_of = of.filter(|_| self.house.is_snapshot_running);
        // Once in a while is enough, and a snapshot stands for so much work anyway.
        if self.shared.options.leader.is_some() && self.owner.is_reigning {
            self.inputs.push(internal(Command::Compare));
        }
        Ok(())
    }

    /// Hashes a state, to be compared with that of other nodes. One at a time: what is compared seldom may be left out.
    pub(crate) fn hash_state(&mut self, index: LogIndex, state: PartitionSnapshot) {
        if self.house.is_hashing || self.shared.options.leader.is_none() {
            return;
        }
        self.house.is_hashing = self.spawn("state-hash", move || {
            let hash = state.hash();
            let since = None;
            Finished::Hashed(Checkpoint { index, since, hash })
        });
    }

    /// Whether so much of the log was written that a start would take long.
    fn is_log_long(&self) -> bool {
        self.journal.log_bytes_since_snapshot() >= self.snapshot_threshold()
    }

    fn snapshot_threshold(&self) -> u64 {
        let log_bytes = self.shared.options.snapshot_log_bytes;
        log_bytes.max(self.house.snapshot_bytes)
    }

    /// Whether a snapshot would free enough: of the log, and of segments that were emptied since the last one.
    fn is_snapshot_worthwhile(&self) -> bool {
        let log_bytes = self.journal.log_bytes_since_snapshot();
        let kept = self.journal.kept().into_iter();
        let empty_bytes: u64 = kept
            .filter(|kept| self.owner.contents.live(kept.segment).contents == 0)
            .map(|kept| kept.bytes)
            .sum();
        let worthwhile = if self.house.room.is_short() {
            2 * self.journal.segment_bytes()
        } else {
            self.snapshot_threshold()
        };
        log_bytes > 0 && log_bytes + empty_bytes >= worthwhile
    }

    fn complete_snapshot(
        &mut self,
        result: Result<SnapshotReceipt, JournalError>,
        seconds: f64,
    ) -> Result<(), JournalError> {
        self.house.is_snapshot_running = false;
        match result {
            Ok(receipt) => {
                self.house.snapshot_bytes = receipt.bytes();
                self.shared.options.observer.snapshot(receipt.bytes(), seconds);
                info!(index = %receipt.index(), bytes = receipt.bytes(), seconds, "snapshot");
                self.journal.complete_snapshot(receipt)
            }
            Err(JournalError::SyncFailed { file, source }) => Err(JournalError::SyncFailed { file, source }),
            Err(failure) => {
                warn!(error = %failure, "a snapshot failed; the log is kept and it is tried again");
                self.house.snapshot_of = None;
                self.pause_house();
                Ok(())
            }
        }
    }

    /// Begins to empty the segment of which least is needed, if that is little enough.
    fn begin_evacuation(&mut self) {
        let now = self.shared.options.clock.monotonic();
        if self.house.is_evacuating || now < self.house.evacuate_from {
            return;
        }
        let is_short = self.house.room.is_short();
        let candidates = self.journal.kept().into_iter().filter_map(|kept| {
            let live = self.owner.contents.live(kept.segment);
            let is_sparse = if is_short {
                live.bytes < kept.bytes / 8 * LIVE_EIGHTHS_WHEN_SHORT
            } else {
                live.bytes < kept.bytes / LIVE_PARTS
            };
            let is_candidate = live.contents > 0 && is_sparse && !self.house.stuck.contains(&kept.segment);
            is_candidate.then_some((live.bytes, kept.segment))
        });
        let Some((_, segment)) = candidates.min() else {
            return;
        };
        let Some(file) = self.journal.segment(segment) else {
            return;
        };
        self.house.evacuated = 0;
        let (state, contents) = self.owner.snapshot();
        let evacuation = move || Finished::Read(Evacuation::begin(segment, file, &state, &contents).read());
        self.house.is_evacuating = self.spawn("journal-copy", evacuation);
    }

    /// Writes contents forward that were read from an old segment, and goes on with the next ones.
    fn copy_forward(&mut self, read: ReadContents) -> Result<(), JournalError> {
        self.house.is_evacuating = false;
        let evacuation = match read {
            ReadContents::Some { evacuation, contents } => {
                match self.write_copies(evacuation.segment(), &contents) {
                    Ok(()) => evacuation,
                    Err(JournalError::Full { file }) => {
                        warn!(file, "no room to copy contents forward; it is tried again");
                        self.pause_house();
                        return Ok(());
                    }
                    Err(failure) => return Err(failure),
                }
            }
            ReadContents::End { segment, damaged } => {
                if damaged > 0 {
                    self.house.stuck.insert(segment);
                    self.shared.options.observer.damaged(damaged);
                }
                if self.house.evacuated == 0 {
                    // What it holds is purged and not reclaimed yet, for instance.
                    self.house.evacuate_from = self.shared.options.clock.monotonic() + PAUSE;
                }
                return Ok(());
            }
        };
        self.house.is_evacuating = self.spawn("journal-copy", move || Finished::Read(evacuation.read()));
        Ok(())
    }

    fn write_copies(&mut self, segment: u32, contents: &[ReadContent]) -> Result<(), JournalError> {
        let Self { owner, copies, .. } = self;
        let is_needed = |content: &&ReadContent| owner.holds(content.slot, content.id, segment);
        copies::begin(copies);
        let before = self.house.evacuated;
        for content in contents.iter().filter(is_needed) {
            copies::push(copies, content.slot, content.id, &content.bytes);
            self.house.evacuated += 1;
        }
        if self.house.evacuated == before {
            return Ok(());
        }
        let Some(place) = self.journal.copy_forward(&self.copies)? else {
            return Ok(());
        };
        self.owner.copied(&self.copies, place);
        self.house.copied += (self.house.evacuated - before) as u64;
        let now = self.shared.options.clock.monotonic();
        self.house.written(now);
        self.shared.options.observer.copied(self.copies.len() as u64);
        Ok(())
    }

    /// Runs work on a thread of its own. Returns whether it was started.
    fn spawn(&mut self, name: &str, work: impl FnOnce() -> Finished + Send + 'static) -> bool {
        let mut hand_back = HandBack {
            shared: self.shared.clone(),
            finished: self.house.finished.0.clone(),
            result: Finished::Lost,
        };
        let run = async move { hand_back.fill(work()) };
        // One that could not be started hands back that it is lost.
        self.house.running += 1;
        let started = self.shared.options.process.spawn(name, Box::pin(run));
        if let Err(failure) = &started {
            warn!(error = %failure, name, "a thread could not be started");
        }
        started.is_ok()
    }
}

pub(crate) fn store_snapshot(
    sink: &mut dyn SnapshotSink,
    wall: WallTime,
    state: &queue_core::PartitionSnapshot,
    contents: &ContentsSnapshot,
) -> Result<(), JournalError> {
    store(sink, |out| write_snapshot(wall, state, contents, out))
}

/// Lets a snapshot be written to a sink.
pub(crate) fn store(
    sink: &mut dyn SnapshotSink,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), JournalError> {
    let mut out = SinkWriter {
        sink,
        failure: None,
        // What comes at a time is shorter than that.
        buffer: Vec::with_capacity(2 * SinkWriter::BYTES),
    };
    let written = write(&mut out).and_then(|()| out.flush());
    match (written, out.failure) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(failure)) => Err(failure),
        (Err(source), None) => Err(JournalError::Io {
            operation: "encode",
            file: "snapshot".to_owned(),
            source,
        }),
    }
}

/// Lets the writers of state and contents write to a sink, and keeps the sink's own error.
struct SinkWriter<'a> {
    sink: &'a mut dyn SnapshotSink,
    failure: Option<JournalError>,
    buffer: Vec<u8>,
}

impl SinkWriter<'_> {
    const BYTES: usize = 64 * 1024;
}

impl Write for SinkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= Self::BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.sink.write(&self.buffer);
        self.buffer.clear();
        written.map_err(|failure| {
            self.failure = Some(failure);
            io::Error::other("the snapshot could not be written")
        })
    }
}
