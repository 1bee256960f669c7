//! The journal contract over Raft: what the broker's owner sees of the cluster.
//!
//! Proposals go to openraft, which replicates them; what is committed comes back through [`Deliveries`], whoever proposed
//! it. This node may propose while it leads, everything of earlier reigns was handed out, and a quorum answered it within
//! the lease.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::FutureExt;
use journal::{
    Counters, Epoch, Event, File, Journal, JournalError, Kept, Place, Preparation, Prepared, ProposeError,
    Replay, SnapshotReceipt, SnapshotSink, Source, Space, StoredCopies, Ticket, Waker,
};
use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use types::{LogIndex, Term};

use crate::raft::log_store;
use crate::raft::types::{Batch, LeaderId, Raft};

/// Bytes of committed entries that may wait for the owner before Raft waits for it.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Batches in flight: one is on its way while the next is encoded and the last is applied.
const IN_FLIGHT_MAX: usize = 4;

/// Something that the owner has to hear, in the order of the log.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// An entry of commands is committed.
    Entry {
        index: LogIndex,
        term: Term,
        /// The proposal that it is on this node.
        own: Option<Ticket>,
        bytes: Bytes,
        place: Option<Place>,
    },
    /// The state is now that of a snapshot from another node.
    Replaced { index: LogIndex },
    /// An entry of a reign of this node is committed: everything of earlier reigns was before it.
    Reigned { term: u64 },
    /// The proposal will never commit.
    Rejected { ticket: Ticket },
    /// The proposal may commit or not.
    Unknown { ticket: Ticket },
}

#[derive(Debug, Default)]
struct Waiting {
    deliveries: VecDeque<Delivery>,
    bytes: usize,
    /// The last term in which this node was seen to reign.
    reigned: u64,
    /// Memberships in their stored form, each from its index on.
    memberships: VecDeque<(LogIndex, Vec<u8>)>,
}

/// What goes from Raft to the owner.
#[derive(Default)]
pub(crate) struct Deliveries {
    waiting: Mutex<Waiting>,
    waker: OnceLock<Waker>,
    /// Hears when the owner has taken what waited.
    taken: Notify,
    /// Proposals without an outcome.
    proposals: AtomicUsize,
}

impl fmt::Debug for Deliveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliveries").finish_non_exhaustive()
    }
}

impl Deliveries {
    /// Adds one. Waits while the owner is far behind.
    pub(crate) async fn push(&self, delivery: Delivery) {
        loop {
            let taken = self.taken.notified();
            if self.lock().bytes < WAITING_BYTES_MAX {
                break;
            }
            taken.await;
        }
        self.push_now(delivery);
    }

    /// Adds one that is small.
    fn push_now(&self, delivery: Delivery) {
        let bytes = match &delivery {
            Delivery::Entry { bytes, .. } => bytes.len(),
            Delivery::Replaced { .. }
            | Delivery::Reigned { .. }
            | Delivery::Rejected { .. }
            | Delivery::Unknown { .. } => 0,
        };
        let was_empty = {
            let mut waiting = self.lock();
            waiting.bytes += bytes;
            waiting.deliveries.push_back(delivery);
            waiting.deliveries.len() == 1
        };
        if was_empty {
            self.wake();
        }
    }

    /// Takes note that an entry of a reign of this node was committed.
    pub(crate) fn reigned(&self, term: u64) {
        let is_new = {
            let mut waiting = self.lock();
            let is_new = waiting.reigned < term;
            if is_new {
                waiting.reigned = term;
                waiting.deliveries.push_back(Delivery::Reigned { term });
            }
            is_new
        };
        if is_new {
            self.wake();
        }
    }

    /// Takes note of the membership from an index on.
    pub(crate) fn member(&self, index: LogIndex, stored: Vec<u8>) {
        self.lock().memberships.push_back((index, stored));
    }

    /// Returns the membership at the index of a snapshot. Snapshots only go forward, so earlier ones are forgotten.
    fn membership_at(&self, index: LogIndex) -> Vec<u8> {
        let mut waiting = self.lock();
        while waiting.memberships.get(1).is_some_and(|(from, _)| *from <= index) {
            waiting.memberships.pop_front();
        }
        // The first one is that of the start, and stands for everything before the first change.
        let first = waiting.memberships.front();
        first.map_or_else(Vec::new, |(_, stored)| stored.clone())
    }

    /// Whether proposals of this node have no outcome yet.
    pub(crate) fn has_proposals(&self) -> bool {
        self.proposals.load(Ordering::Relaxed) > 0
    }

    /// Calls the owner.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker();
        }
    }

    fn take(&self) -> VecDeque<Delivery> {
        let mut waiting = self.lock();
        waiting.bytes = 0;
        let deliveries = std::mem::take(&mut waiting.deliveries);
        drop(waiting);
        self.taken.notify_waiters();
        deliveries
    }

    /// Puts deliveries before all others again.
    fn put_back(&self, mut deliveries: VecDeque<Delivery>) {
        let mut waiting = self.lock();
        deliveries.append(&mut waiting.deliveries);
        waiting.deliveries = deliveries;
        drop(waiting);
        self.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Every change of it is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this node leads, as far as it can know.
#[derive(Debug, Default)]
pub(crate) struct Office {
    state: Mutex<OfficeState>,
}

#[derive(Debug, Default, Clone, Copy)]
struct OfficeState {
    /// The term in which openraft says that this node leads.
    leads: Option<u64>,
    /// Until when the quorum that answered last may not elect another.
    lease_until: Option<Instant>,
    /// The reign that this node has given up.
    resigned: Option<u64>,
    /// Who leads, this node or another.
    leader: Option<u64>,
    leader_since_millis: u64,
}

impl Office {
    /// Takes note of what openraft says: the term in which this node leads, and until when its lease lasts.
    pub(crate) fn set(&self, leads: Option<u64>, lease_until: Option<Instant>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.leads, state.lease_until) = (leads, lease_until);
    }

    /// Takes note of who leads.
    pub(crate) fn set_leader(&self, leader: Option<u64>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut state.leader, leader) != leader {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
            state.leader_since_millis = if leader.is_some() { millis } else { 0 };
        }
    }

    pub(crate) fn leader_since_millis(&self) -> u64 {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .leader_since_millis
    }

    /// Gives the present reign up: its successor may be elected at any time, whatever the lease says.
    pub(crate) fn resign(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.resigned = state.leads;
    }

    /// Returns the term in which this node leads now, with a quorum behind it.
    pub(crate) fn term(&self, now: Instant) -> Option<u64> {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let has_lease = state.lease_until.is_some_and(|until| now < until);
        state.leads.filter(|_| has_lease && state.leads != state.resigned)
    }
}

/// What the journal shares with Raft.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<log_store::Shared>,
    pub(crate) deliveries: Arc<Deliveries>,
    pub(crate) office: Arc<Office>,
}

/// The journal of a node of a cluster.
pub struct ClusterJournal {
    raft: Raft,
    runtime: Handle,
    node: u64,
    store: Arc<log_store::Shared>,
    deliveries: Arc<Deliveries>,
    office: Arc<Office>,
    /// How long a proposal may take before its outcome counts as unknown.
    replicate_timeout: Duration,
    /// Proposals without an outcome, with when they were made.
    pending: BTreeMap<u64, Instant>,
    next_ticket: u64,
    /// The last reign of this node of which the owner has an entry.
    reigned: u64,
    /// What the owner was told last.
    told: Option<Epoch>,
    /// The last entry that was handed out.
    applied: LogIndex,
    /// Copies of before the start that the owner has not heard of.
    copies: VecDeque<StoredCopies>,
    entries: u64,
}

impl fmt::Debug for ClusterJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterJournal")
            .field("node", &self.node)
            .field("applied", &self.applied)
            .finish_non_exhaustive()
    }
}

impl ClusterJournal {
    /// Begins with what the owner has from the snapshot: `applied`.
    pub(crate) fn new(
        raft: Raft,
        runtime: Handle,
        shared: Shared,
        replicate_timeout: Duration,
        applied: LogIndex,
        copies: Vec<StoredCopies>,
    ) -> Self {
        let Shared {
            store,
            deliveries,
            office,
        } = shared;
        Self {
            node: *raft.node_id(),
            raft,
            runtime,
            store,
            deliveries,
            office,
            replicate_timeout,
            pending: BTreeMap::new(),
            next_ticket: 1,
            reigned: 0,
            told: None,
            applied,
            copies: copies.into(),
            entries: 0,
        }
    }

    fn count_pending(&self) {
        self.deliveries
            .proposals
            .store(self.pending.len(), Ordering::Relaxed);
    }

    /// Takes a proposal's outcome into account. Returns whether the owner still waits for it.
    fn settle(&mut self, ticket: Ticket) -> bool {
        self.pending.remove(&ticket.0).is_some()
    }

    /// Hands out what was copied when the owner had what it has now, and no more.
    fn hand_copies(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError> {
        let applied = self.applied;
        while let Some(found) = self.copies.pop_front_if(|copies| copies.applied <= applied) {
            // None if a later snapshot does without them.
            if let Some(copies) = self.store.reader().copies(&found)? {
                events.push(Event::Copied {
                    copies,
                    place: found.place,
                });
            }
        }
        Ok(())
    }

    fn deliver(&mut self, delivery: Delivery, events: &mut Vec<Event>) -> Result<(), JournalError> {
        match delivery {
            Delivery::Entry {
                index,
                term,
                own,
                bytes,
                place,
            } => {
                self.hand_copies(events)?;
                self.applied = index;
                let source = match own.filter(|ticket| self.settle(*ticket)) {
                    Some(ticket) => Source::Own(ticket),
                    // Also one of our own whose outcome was unknown for too long.
                    None => Source::Foreign(bytes.into()),
                };
                events.push(Event::Committed {
                    index,
                    term,
                    source,
                    place,
                });
            }
            Delivery::Replaced { index } => {
                self.applied = index;
                self.pending.clear();
                // The new state knows where its contents lie.
                self.copies.clear();
                events.push(Event::Replaced);
            }
            Delivery::Reigned { term } => self.reigned = term,
            Delivery::Rejected { ticket } => {
                if self.settle(ticket) {
                    events.push(Event::Rejected { ticket });
                }
            }
            Delivery::Unknown { ticket } => {
                if self.settle(ticket) {
                    events.push(Event::Unknown { ticket });
                }
            }
        }
        Ok(())
    }

    /// Gives up waiting for proposals that take too long: they may commit or not.
    fn expire(&mut self, events: &mut Vec<Event>) {
        let now = Instant::now();
        let is_late = |made: &Instant| now.duration_since(*made) >= self.replicate_timeout;
        while let Some(oldest) = self.pending.first_entry().filter(|oldest| is_late(oldest.get())) {
            let ticket = Ticket(*oldest.key());
            oldest.remove();
            events.push(Event::Unknown { ticket });
        }
    }
}

fn failed(operation: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> JournalError {
    JournalError::Io {
        operation,
        file: "the Raft log".to_owned(),
        source: io::Error::other(error),
    }
}

impl Journal for ClusterJournal {
    fn epoch(&self) -> Option<Epoch> {
        let term = self.office.term(Instant::now());
        term.filter(|term| *term == self.reigned).map(Epoch)
    }

    fn propose(&mut self, entry: &[u8], expected: Epoch) -> Result<Ticket, ProposeError> {
        let epoch = self.epoch();
        if epoch != Some(expected) {
            return Err(ProposeError::EpochChanged { epoch });
        }
        let bytes_max = journal::ENTRY_BYTES_MAX;
        if entry.len() > bytes_max {
            return Err(ProposeError::TooLarge {
                bytes: entry.len() as u64,
                bytes_max: bytes_max as u64,
            });
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let batch = Batch {
            bytes: Bytes::copy_from_slice(entry),
            ticket: Some(ticket),
        };
        let leader = LeaderId {
            term: expected.0,
            node_id: self.node,
        };
        let (responder, outcome) = ProgressResponder::complete_only();
        let write = self.raft.write(batch).with_leader(leader).responder(responder);
        let mut write = Box::pin(async { write.await });
        // Ready at once, unless very much waits for Raft already.
        write
            .as_mut()
            .now_or_never()
            .unwrap_or_else(|| self.runtime.block_on(write))
            .map_err(|error| ProposeError::Journal(failed("propose to", error)))?;
        let deliveries = Arc::clone(&self.deliveries);
        self.runtime.spawn(async move {
            match outcome.await {
                // It comes with the entries.
                Ok(Ok(_)) => {}
                Ok(Err(ClientWriteError::ForwardToLeader(_))) => {
                    deliveries.push_now(Delivery::Rejected { ticket });
                }
                Ok(Err(_)) | Err(_) => deliveries.push_now(Delivery::Unknown { ticket }),
            }
        });
        self.pending.insert(ticket.0, Instant::now());
        self.count_pending();
        self.entries += 1;
        Ok(ticket)
    }

    /// Never waits: what is committed wakes the owner.
    fn wait(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError> {
        self.poll(events)
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError> {
        let mut deliveries = self.deliveries.take();
        while let Some(delivery) = deliveries.pop_front() {
            let is_replaced = matches!(delivery, Delivery::Replaced { .. });
            self.deliver(delivery, events)?;
            if is_replaced {
                // The owner takes the new state before it hears of anything else.
                self.deliveries.put_back(deliveries);
                return Ok(());
            }
        }
        self.hand_copies(events)?;
        self.expire(events);
        self.count_pending();
        let epoch = self.epoch();
        if std::mem::replace(&mut self.told, epoch) != epoch {
            events.push(Event::EpochChanged { epoch });
        }
        Ok(())
    }

    fn commits_by_itself(&self) -> bool {
        true
    }

    fn set_waker(&mut self, waker: Waker) {
        if self.deliveries.waker.set(waker).is_ok() {
            self.deliveries.wake();
        }
    }

    fn batches_in_flight_max(&self) -> usize {
        IN_FLIGHT_MAX
    }

    fn replay(&mut self, replay: &mut dyn Replay) -> Result<(), JournalError> {
        self.store.log().replay_snapshot(replay)
    }

    fn begin_snapshot(
        &mut self,
        index: LogIndex,
        segments: &[u32],
    ) -> Result<Box<dyn SnapshotSink>, JournalError> {
        let membership = self.deliveries.membership_at(index);
        self.store.log().begin_snapshot(index, &membership, segments)
    }

    fn complete_snapshot(&mut self, receipt: SnapshotReceipt) -> Result<(), JournalError> {
        self.store.log().complete_snapshot(receipt)?;
        let raft = self.raft.clone();
        self.runtime.spawn(async move {
            // Raft finds the snapshot and lets the log before it go. If Raft has ended, so has this node.
            if let Err(error) = raft.trigger().snapshot().await {
                tracing::warn!(%error, "a snapshot could not be told to Raft");
            }
        });
        Ok(())
    }

    fn log_bytes_since_snapshot(&self) -> u64 {
        self.store.log().log_bytes_since_snapshot()
    }

    fn copy_forward(&mut self, copies: &[u8]) -> Result<Option<Place>, JournalError> {
        self.store.log().copy_forward(self.applied, copies).map(Some)
    }

    fn segment(&self, segment: u32) -> Option<Arc<dyn File>> {
        self.store.reader().file(segment)
    }

    fn kept(&self) -> Vec<Kept> {
        self.store.log().kept()
    }

    fn segment_bytes(&self) -> u64 {
        self.store.log().segment_bytes()
    }

    fn space(&self) -> io::Result<Option<Space>> {
        self.store.log().space()
    }

    fn take_preparation(&mut self) -> Option<Preparation> {
        self.store.log().take_preparation()
    }

    fn install(&mut self, prepared: Prepared) -> Result<(), JournalError> {
        self.store.log().install(prepared)
    }

    fn seal(&mut self) -> Result<(), JournalError> {
        self.store.log().seal()
    }

    fn counters(&self) -> Counters {
        Counters {
            entries: self.entries,
            ..self.store.log().counters()
        }
    }
}
