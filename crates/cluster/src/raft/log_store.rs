//! openraft's log in the journal's segments.
//!
//! One worker writes, on a thread of its own: entries, votes, truncations and purges in the order in which they were asked for, as many as wait
//! with one sync, and reports each done in that order. An entry can be read at once, from memory, and counts as stored when
//! its sync is done.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker::Process;
use bytes::Bytes;
use journal::{EntryKind, JournalError, LogReader, NewEntry, Place, ReplicatedLog, SnapshotReceipt, Ticket};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};
use types::LogIndex;

use super::codec::{self, Mark, StoredPayload, decode_raft_payload, stored_payload};
use super::outgoing::Outgoings;
use super::types::{Batch, Entry, LogId, Payload, Types, Vote, from_journal, journal_index, to_journal};

/// Memory for entries that were just written: what followers and the owner read next.
const RECENT_BYTES_MAX: usize = 32 << 20;
/// Most bytes of entries in one request to a follower; one entry always fits.
const APPEND_BYTES_MAX: usize = (4 << 20) - (64 << 10);
/// Most operations that one sync waits for.
const BATCH_MAX: usize = 256;
/// How long the writer waits for room on a full disk before it tries again.
const FULL_PAUSE: Duration = Duration::from_millis(200);

/// What the writer is asked for.
enum Write {
    Append(Vec<Entry>, IOFlushed<Types>),
    Mark(Mark, oneshot::Sender<()>),
    Truncate(LogIndex, oneshot::Sender<()>),
    Purge(LogIndex, oneshot::Sender<()>),
    /// A received state takes the place of this node's.
    Install(SnapshotReceipt, oneshot::Sender<()>),
}

/// Entries that lie in memory: the last ones, without a gap.
#[derive(Debug, Default)]
struct Recent {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// The first entry, as Raft counts, that cannot be read from the segments yet.
    unwritten: u64,
}

impl Recent {
    fn first_index(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.log_id.index)
    }

    fn get(&self, index: u64) -> Option<&Entry> {
        let at = index.checked_sub(self.first_index()?)?;
        self.entries.get(usize::try_from(at).ok()?)
    }

    fn push(&mut self, entry: Entry) {
        self.bytes += bytes_of(&entry);
        self.entries.push_back(entry);
    }

    /// Forgets the entries from this one on.
    fn truncate_from(&mut self, next: u64) {
        while self
            .entries
            .pop_back_if(|entry| entry.log_id.index >= next)
            .map(|entry| self.bytes -= bytes_of(&entry))
            .is_some()
        {}
        self.unwritten = self.unwritten.min(next);
    }

    /// Forgets the entries before this one.
    fn forget_before(&mut self, first: u64) {
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.log_id.index < first) {
            self.bytes -= bytes_of(&entry);
        }
    }

    /// Forgets what can be read from the segments, from the oldest on, until the rest fits.
    fn trim(&mut self) {
        let (unwritten, mut bytes) = (self.unwritten, self.bytes);
        while bytes > RECENT_BYTES_MAX
            && let Some(entry) = self.entries.pop_front_if(|entry| entry.log_id.index < unwritten)
        {
            bytes -= bytes_of(&entry);
        }
        self.bytes = bytes;
    }
}

fn bytes_of(entry: &Entry) -> usize {
    let content = match &entry.payload {
        Payload::Normal(batch) => batch.bytes.len(),
        Payload::Blank | Payload::Membership(_) => 64,
    };
    size_of::<Entry>() + content
}

/// Proposals of this node that are in its log and not yet known to be committed, by index.
#[derive(Debug, Default)]
struct Own(BTreeMap<u64, (LogId, Ticket)>);

/// What everybody shares who reads or writes the log.
pub(crate) struct Shared {
    log: Mutex<ReplicatedLog>,
    reader: LogReader,
    recent: Mutex<Recent>,
    /// Hears when more can be read from the segments.
    written: Notify,
    /// The last entry, as the journal counts, that the owner has or is about to get.
    applied: AtomicU64,
    mark: Mutex<Mark>,
    own: Mutex<Own>,
    outgoings: Outgoings,
    process: Arc<dyn Process>,
    /// Whose timers are used.
    runtime: Handle,
}

impl Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns the log itself. Its holder must be quick: the writer waits.
    pub(crate) fn log(&self) -> MutexGuard<'_, ReplicatedLog> {
        lock(&self.log)
    }

    pub(crate) fn reader(&self) -> &LogReader {
        &self.reader
    }

    /// Returns the process that writes the log.
    pub(crate) fn process(&self) -> &Arc<dyn Process> {
        &self.process
    }

    /// Returns the state that is sent to other nodes.
    pub(crate) fn outgoings(&self) -> &Outgoings {
        &self.outgoings
    }

    /// Writes contents of a state that comes from another node, and stands for the entries up to one. Returns where they
    /// lie; they are durable with the next sync.
    pub(crate) fn copy(&self, index: LogIndex, copies: &[u8]) -> io::Result<Place> {
        let written = self.log().copy_forward(index, copies);
        self.checked(written)
    }

    /// Makes everything durable that was written.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.checked(self.sync_written())
    }

    fn sync_written(&self) -> Result<(), JournalError> {
        let Some(pending) = self.log().begin_sync()? else {
            return Ok(());
        };
        let synced = pending.run();
        self.log().end_sync(synced)
    }

    /// Ends the process if the log cannot go on: nobody knows what is stored.
    fn checked<T>(&self, result: Result<T, JournalError>) -> io::Result<T> {
        if let Err(failure) = &result
            && !self.log().is_usable()
        {
            error!(error = %failure, "the log has failed: aborting, so that nothing counts that may not be stored");
            self.process.abort();
        }
        result.map_err(io::Error::other)
    }

    /// Returns the vote of this node.
    pub(crate) fn vote(&self) -> Option<Vote> {
        lock(&self.mark).vote
    }

    /// The log begins behind a received state, unless it holds that very entry.
    fn install(&self, log: &mut ReplicatedLog, receipt: &SnapshotReceipt) -> Result<(), JournalError> {
        log.install_snapshot(receipt)?;
        let last = log.last_id().index.0;
        let mut recent = lock(&self.recent);
        // What waits to be written behind it was asked for later, and goes on.
        if recent.first_index().is_some_and(|first| first < last) {
            recent.forget_before(last);
        }
        recent.unwritten = recent.unwritten.max(last);
        Ok(())
    }

    /// Takes note that the owner has what an entry comes to, or is about to.
    pub(crate) fn set_applied(&self, index: LogIndex) {
        self.applied.store(index.0, Ordering::Release);
    }

    /// Returns the last entry that the owner has or is about to get.
    pub(crate) fn applied(&self) -> LogIndex {
        LogIndex(self.applied.load(Ordering::Acquire))
    }

    /// Takes note that an entry is committed. Returns the proposal that it was on this node.
    pub(crate) fn committed(&self, id: LogId) -> Option<Ticket> {
        let (proposed, ticket) = lock(&self.own).0.remove(&id.index)?;
        (proposed == id).then_some(ticket)
    }

    /// Waits until an entry can be read from the segments. An entry may be committed before this node has written it; its
    /// place is known only then, and no snapshot can be made of it before.
    pub(crate) async fn written(&self, index: u64) {
        let mut written = pin!(self.written.notified());
        loop {
            // Listens before it looks, so that nothing is missed in between.
            written.as_mut().enable();
            if index < lock(&self.recent).unwritten {
                return;
            }
            written.as_mut().await;
            written.set(self.written.notified());
        }
    }

    fn entry(&self, index: u64) -> io::Result<Option<Entry>> {
        if let Some(entry) = lock(&self.recent).get(index) {
            return Ok(Some(entry.clone()));
        }
        let stored = self
            .reader
            .entry(journal_index(index))
            .map_err(io::Error::other)?;
        stored.map(entry_of).transpose()
    }

    /// Returns entries from `start` up to `end`, at least one if there is any and not many more bytes than asked for.
    fn entries(&self, start: u64, end: u64, bytes_max: usize) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for index in start..end {
            let Some(entry) = self.entry(index)? else { break };
            bytes += bytes_of(&entry) + codec::ENTRY_HEADER_BYTES;
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

fn entry_of(stored: journal::StoredEntry) -> io::Result<Entry> {
    let payload = match stored.kind {
        EntryKind::Commands => Payload::Normal(Batch {
            bytes: Bytes::from(stored.bytes),
            ticket: None,
        }),
        EntryKind::Raft => decode_raft_payload(&stored.bytes)?,
    };
    let log_id = from_journal(stored.id).ok_or_else(|| io::Error::other("an entry without a place"))?;
    Ok(Entry { log_id, payload })
}

/// The log as openraft sees it. Clones lead to the same log.
#[derive(Debug, Clone)]
pub(crate) struct LogStore {
    shared: Arc<Shared>,
    writes: UnboundedSender<Write>,
}

impl LogStore {
    /// Starts the writer. It ends when every clone of the store is gone.
    pub(crate) fn start(
        log: ReplicatedLog,
        mark: Mark,
        process: Arc<dyn Process>,
        runtime: Handle,
    ) -> io::Result<Self> {
        let reader = log.reader();
        let unwritten = log.last_id().index.0;
        let shared = Arc::new(Shared {
            log: Mutex::new(log),
            reader,
            recent: Mutex::new(Recent {
                unwritten,
                ..Recent::default()
            }),
            written: Notify::new(),
            applied: AtomicU64::new(0),
            mark: Mutex::new(mark),
            own: Mutex::default(),
            outgoings: Outgoings::default(),
            process,
            runtime,
        });
        let (writes, asked) = unbounded_channel();
        let writer = Writer(Arc::clone(&shared));
        shared.process.spawn("raft-log", Box::pin(writer.run(asked)))?;
        Ok(Self { shared, writes })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns what this node must not forget.
    pub(crate) fn mark(&self) -> Mark {
        *lock(&self.shared.mark)
    }

    /// Makes this node one of a cluster, durably.
    pub(crate) async fn set_cluster(&self, cluster: [u8; 16]) -> io::Result<()> {
        self.change_mark(|mark| mark.cluster = Some(cluster)).await
    }

    /// Changes the mark. It counts at once for the next change, and is durable when this returns.
    async fn change_mark(&self, change: impl FnOnce(&mut Mark)) -> io::Result<()> {
        let (done, heard) = oneshot::channel();
        {
            // Under the lock, so that marks are written in the order of their changes.
            let mut mark = lock(&self.shared.mark);
            change(&mut mark);
            self.ask(Write::Mark(*mark, done))?;
        }
        heard.await.map_err(|_| writer_gone())
    }

    /// Makes a received state that of this node, after everything that was asked for before.
    pub(crate) async fn install(&self, receipt: SnapshotReceipt) -> io::Result<()> {
        self.ask_and_wait(|done| Write::Install(receipt, done)).await
    }

    fn ask(&self, write: Write) -> io::Result<()> {
        self.writes.send(write).map_err(|_| writer_gone())
    }

    async fn ask_and_wait(&self, write: impl FnOnce(oneshot::Sender<()>) -> Write) -> io::Result<()> {
        let (done, heard) = oneshot::channel();
        self.ask(write(done))?;
        heard.await.map_err(|_| writer_gone())
    }
}

fn writer_gone() -> io::Error {
    io::Error::other("the writer of the log has ended")
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        self.shared.entries(start, end, usize::MAX)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        self.shared.entries(start, end, APPEND_BYTES_MAX)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(lock(&self.shared.mark).vote)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let reader = &self.shared.reader;
        Ok(LogState {
            last_purged_log_id: from_journal(reader.purged_id()),
            last_log_id: from_journal(reader.last_id()),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let vote = Some(*vote);
        self.change_mark(|mark| mark.vote = vote).await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        {
            let (mut recent, mut own) = (lock(&self.shared.recent), lock(&self.shared.own));
            for entry in &entries {
                if let Payload::Normal(Batch {
                    ticket: Some(ticket), ..
                }) = &entry.payload
                {
                    own.0.insert(entry.log_id.index, (entry.log_id, *ticket));
                }
                recent.push(entry.clone());
            }
        }
        self.ask(Write::Append(entries, callback))
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let next = last.map_or(0, |id| id.index + 1);
        lock(&self.shared.recent).truncate_from(next);
        // openraft tells who proposed them.
        drop(lock(&self.shared.own).0.split_off(&next));
        // The last entry that stays, as the journal counts.
        self.ask_and_wait(|done| Write::Truncate(LogIndex(next), done))
            .await
    }

    async fn purge(&mut self, id: LogId) -> Result<(), io::Error> {
        self.ask_and_wait(|done| Write::Purge(journal_index(id.index), done))
            .await
    }
}

/// The worker that writes.
struct Writer(Arc<Shared>);

impl Writer {
    async fn run(self, mut asked: UnboundedReceiver<Write>) {
        while let Some(first) = asked.recv().await {
            let rest = std::iter::from_fn(|| asked.try_recv().ok()).take(BATCH_MAX - 1);
            let batch: Vec<Write> = std::iter::once(first).chain(rest).collect();
            if let Err(failure) = self.write(&batch).await {
                error!(error = %failure, "the log has failed: aborting, so that nothing counts that may not be stored");
                self.0.process.abort();
            }
            batch.into_iter().for_each(report);
        }
    }

    /// Waits on a thread that no runtime owns.
    async fn pause(&self) {
        let pause = {
            let _in_time = self.0.runtime.enter();
            sleep_until(Instant::now() + FULL_PAUSE)
        };
        pause.await;
    }

    /// Writes all, in order, and makes it durable.
    async fn write(&self, batch: &[Write]) -> Result<(), JournalError> {
        let mut needs_sync = false;
        for write in batch {
            needs_sync |= !matches!(write, Write::Purge(..));
            self.retry_while_full(|log| match write {
                Write::Append(entries, _) => append(log, entries),
                Write::Mark(mark, _) => log.set_mark(&mark.encode()),
                Write::Truncate(index, _) => log.truncate_after(*index),
                Write::Purge(index, _) => log.purge(*index),
                Write::Install(receipt, _) => self.0.install(log, receipt),
            })
            .await?;
            if let Write::Append(entries, _) = write
                && let Some(last) = entries.last()
            {
                let mut recent = lock(&self.0.recent);
                recent.unwritten = last.log_id.index + 1;
                recent.trim();
                drop(recent);
                self.0.written.notify_waiters();
            }
        }
        if !needs_sync {
            return Ok(());
        }
        self.0.sync_written()
    }

    /// A full disk ends when somebody makes room: a follower waits and catches up, a leader loses its office meanwhile.
    async fn retry_while_full(
        &self,
        mut step: impl FnMut(&mut ReplicatedLog) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let mut is_waiting = false;
        loop {
            match step(&mut self.0.log()) {
                Err(JournalError::Full { file }) => {
                    if !std::mem::replace(&mut is_waiting, true) {
                        warn!(file, "the disk is full: this node's log waits for room");
                    }
                }
                result => {
                    if is_waiting {
                        info!("there is room on the disk again");
                    }
                    return result;
                }
            }
            self.pause().await;
        }
    }
}

fn append(log: &mut ReplicatedLog, entries: &[Entry]) -> Result<(), JournalError> {
    let payloads: Vec<_> = entries
        .iter()
        .map(|entry| stored_payload(&entry.payload))
        .collect();
    let new: Vec<_> = entries.iter().zip(&payloads).map(new_entry).collect();
    log.append(&new).map(|_: Vec<Place>| ())
}

fn new_entry<'a>((entry, payload): (&Entry, &'a StoredPayload<'a>)) -> NewEntry<'a> {
    let (kind, bytes) = match payload {
        StoredPayload::Commands(bytes) => (EntryKind::Commands, &bytes[..]),
        StoredPayload::Raft(bytes) => (EntryKind::Raft, &bytes[..]),
    };
    NewEntry {
        id: to_journal(entry.log_id),
        kind,
        bytes,
    }
}

fn report(write: Write) {
    match write {
        Write::Append(_, callback) => callback.io_completed(Ok(())),
        // Who no longer waits is on its way out.
        Write::Mark(_, done) | Write::Truncate(_, done) | Write::Purge(_, done) | Write::Install(_, done) => {
            done.send(()).unwrap_or_default()
        }
    }
}

/// A panic elsewhere ends the process by itself; what it left is not read as truth.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
