//! The journal of a node as its owner has it, watched, and with a bug planted in it if a run is to find one.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use cluster::{Cluster, ClusterJournal};
use journal::{
    Counters, Epoch, Event, File, Journal, JournalError, Kept, Place, Preparation, Prepared, ProposeError,
    Replay, SnapshotReceipt, SnapshotSink, Source, Space, Ticket, Waker,
};
use queue_core::{Command, Entry, EntryEncoder};
use simulator::Random;
use types::{LogIndex, MessageId, Term};
use xxhash_rust::xxh3::xxh3_64;

use crate::bug::Bug;
use crate::ledger::Ledger;
use crate::trace::Trace;

/// How often in a hundred entries a bug of one node shows.
const BUG_PERCENT: u64 = 5;
/// The node that has those bugs that only one has.
const SICK_NODE: usize = 1;

pub(crate) struct Watched {
    pub(crate) inner: ClusterJournal,
    pub(crate) cluster: Cluster,
    pub(crate) node: usize,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) bug: Option<Bug>,
    pub(crate) random: Random,
    pub(crate) memory: Memory,
}

/// What the watcher keeps.
#[derive(Default)]
pub(crate) struct Memory {
    own: BTreeMap<u64, Vec<u8>>,
    /// Proposals that were answered early, or never made.
    early: BTreeMap<u64, Vec<u8>>,
    queued: VecDeque<Event>,
    held: Option<(LogIndex, Term, Vec<u8>, Option<Place>)>,
    last: u64,
    reign: Option<Epoch>,
    waker: Option<Waker>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl Watched {
    /// Whether a bug shows now that only one node has.
    fn is_sick(&mut self, bug: Bug) -> bool {
        self.bug == Some(bug) && self.node == SICK_NODE && self.random.percent(BUG_PERCENT)
    }

    /// Passes an event on, as it came or as a bug makes it.
    fn pass(&mut self, event: Event, events: &mut Vec<Event>) {
        match event {
            Event::Committed {
                index,
                term,
                source,
                place,
            } => self.pass_entry(index, term, source, place, events),
            Event::Rejected { ticket } | Event::Unknown { ticket }
                if self.bug == Some(Bug::AnswersRejected) && self.memory.own.contains_key(&ticket.0) =>
            {
                self.memory.own.remove(&ticket.0);
                self.answer(ticket, events);
            }
            Event::Unknown { ticket } if self.bug == Some(Bug::RefusesUnknown) => {
                self.memory.own.remove(&ticket.0);
                events.push(Event::Rejected { ticket });
            }
            Event::Rejected { ticket } | Event::Unknown { ticket } => {
                self.memory.own.remove(&ticket.0);
                if self.memory.early.remove(&ticket.0).is_none() {
                    self.trace.note(format_args!("node {} {event:?}", self.node));
                    self.trace.count("outcome unknown or rejected");
                    events.push(event);
                }
            }
            Event::Replaced => {
                self.trace
                    .note(format_args!("node {} has another state", self.node));
                self.trace.count("state installed");
                self.memory.own.clear();
                self.memory.early.clear();
                if self.bug != Some(Bug::IgnoresInstall) {
                    events.push(event);
                }
            }
            Event::EpochChanged { epoch } => {
                self.trace.note(format_args!("node {} {event:?}", self.node));
                if epoch.is_some() || self.bug != Some(Bug::IgnoresLease) {
                    events.push(event);
                }
            }
            Event::Copied { .. } => events.push(event),
        }
    }

    fn pass_entry(
        &mut self,
        index: LogIndex,
        term: Term,
        source: Source,
        place: Option<Place>,
        events: &mut Vec<Event>,
    ) {
        let event = |index, source| Event::Committed {
            index,
            term,
            source,
            place,
        };
        let bytes = match source {
            Source::Own(ticket) => {
                let early = self.memory.early.remove(&ticket.0);
                let own = self.memory.own.remove(&ticket.0);
                if let Some(bytes) = own.as_ref().or(early.as_ref()) {
                    self.ledger.committed(self.node, index.0, term.0, xxh3_64(bytes));
                }
                self.trace
                    .note(format_args!("node {} own {}", self.node, index.0));
                if own.is_some() {
                    self.memory.last = index.0;
                    events.push(event(index, source));
                }
                return;
            }
            Source::Foreign(bytes) => bytes,
        };
        self.ledger.committed(self.node, index.0, term.0, xxh3_64(&bytes));
        self.trace
            .note(format_args!("node {} entry {}", self.node, index.0));
        self.memory.last = index.0;
        if self.is_sick(Bug::DropsEntry) {
            return;
        }
        if let Some((held, _, held_bytes, _)) = self.memory.held.take() {
            events.push(event(held, Source::Foreign(bytes)));
            events.push(event(index, Source::Foreign(held_bytes)));
            return;
        }
        if self.is_sick(Bug::SwapsEntries) {
            self.memory.held = Some((index, term, bytes, place));
            return;
        }
        let bytes = self.altered(bytes);
        if self.is_sick(Bug::AppliesTwice) {
            events.push(event(index, Source::Foreign(bytes.clone())));
        }
        events.push(event(index, Source::Foreign(bytes)));
    }

    /// Returns an entry of another node as this one applies it.
    fn altered(&self, bytes: Vec<u8>) -> Vec<u8> {
        let Some(bug @ (Bug::ForgetsLeases | Bug::ForgetsDeduplication | Bug::ForgetsDeletes)) = self.bug
        else {
            return bytes;
        };
        let Ok(entry) = Entry::decode(&bytes) else {
            return bytes;
        };
        let mut out = Vec::new();
        let mut encoder = EntryEncoder::begin(&mut out, entry.at, entry.wall);
        for mut command in entry.commands {
            if let (
                Bug::ForgetsLeases,
                Command::Receive {
                    visibility_timeout_seconds,
                    ..
                },
            ) = (bug, &mut command)
            {
                *visibility_timeout_seconds = Some(0);
            }
            if let (Bug::ForgetsDeduplication, Command::Enqueue { entries, .. }) = (bug, &mut command) {
                for entry in entries {
                    let other = MessageId::from_random(*entry.message_id.as_bytes()).to_string();
                    if let Some(deduplication) = &mut entry.deduplication {
                        *deduplication = queue_core::Deduplication::Id(other.into());
                    }
                }
            }
            let is_forgotten = bug == Bug::ForgetsDeletes && matches!(command, Command::Delete { .. });
            encoder.push(if is_forgotten { &Command::Tick } else { &command });
        }
        encoder.finish();
        out
    }

    /// Makes an entry that nobody else may ever have.
    fn answer(&mut self, ticket: Ticket, events: &mut Vec<Event>) {
        let applied = self.cluster.started().map_or(0, |node| node.view().applied + 1);
        self.memory.last = self.memory.last.max(applied) + 1;
        events.push(Event::Committed {
            index: LogIndex(self.memory.last),
            term: Term(0),
            source: Source::Own(ticket),
            place: None,
        });
    }

    fn answer_early(&mut self, ticket: Ticket, entry: &[u8]) {
        let mut events = Vec::new();
        self.answer(ticket, &mut events);
        self.memory.early.insert(ticket.0, entry.to_vec());
        self.memory.queued.extend(events);
        if let Some(waker) = &self.memory.waker {
            waker();
        }
    }
}

impl Journal for Watched {
    fn epoch(&self) -> Option<Epoch> {
        let mut epoch = self.inner.epoch();
        if epoch.is_none() && self.bug == Some(Bug::IgnoresLease) {
            epoch = self.memory.reign;
        }
        if let Some(Epoch(term)) = epoch {
            let id = self.cluster.started().map_or(0, cluster::Node::id);
            self.ledger.reigns(self.node, term, id);
        }
        epoch
    }

    fn propose(&mut self, entry: &[u8], expected: Epoch) -> Result<Ticket, ProposeError> {
        let ticket = match self.inner.propose(entry, expected) {
            Err(ProposeError::EpochChanged { .. })
                if self.bug == Some(Bug::IgnoresLease) && self.memory.reign == Some(expected) =>
            {
                let ticket = Ticket(u64::MAX - self.memory.last);
                self.answer_early(ticket, entry);
                return Ok(ticket);
            }
            proposed => proposed?,
        };
        let is_first = self.memory.own.is_empty() && self.memory.early.is_empty();
        if self.bug == Some(Bug::AnswersBeforeQuorum) && is_first {
            self.answer_early(ticket, entry);
        } else {
            self.memory.own.insert(ticket.0, entry.to_vec());
        }
        Ok(ticket)
    }

    fn wait(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError> {
        self.poll(events)
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError> {
        events.extend(self.memory.queued.drain(..));
        let mut heard = Vec::new();
        self.inner.poll(&mut heard)?;
        for event in heard {
            self.pass(event, events);
        }
        self.memory.reign = self.inner.epoch().or(self.memory.reign);
        Ok(())
    }

    fn commits_by_itself(&self) -> bool {
        self.inner.commits_by_itself()
    }

    fn set_waker(&mut self, waker: Waker) {
        self.memory.waker = Some(Arc::clone(&waker));
        self.inner.set_waker(waker);
    }

    fn batches_in_flight_max(&self) -> usize {
        self.inner.batches_in_flight_max()
    }

    fn replay(&mut self, replay: &mut dyn Replay) -> Result<(), JournalError> {
        self.inner.replay(replay)
    }

    fn begin_snapshot(
        &mut self,
        index: LogIndex,
        segments: &[u32],
    ) -> Result<Box<dyn SnapshotSink>, JournalError> {
        let index = match self.bug {
            Some(Bug::SnapshotTooEarly) => LogIndex(index.0.saturating_sub(1).max(1)),
            Some(_) | None => index,
        };
        self.trace
            .note(format_args!("node {} snapshot {}", self.node, index.0));
        self.trace.count("snapshot");
        self.inner.begin_snapshot(index, segments)
    }

    fn complete_snapshot(&mut self, receipt: SnapshotReceipt) -> Result<(), JournalError> {
        self.inner.complete_snapshot(receipt)
    }

    fn log_bytes_since_snapshot(&self) -> u64 {
        self.inner.log_bytes_since_snapshot()
    }

    fn copy_forward(&mut self, copies: &[u8]) -> Result<Option<Place>, JournalError> {
        self.trace.count("contents copied");
        self.inner.copy_forward(copies)
    }

    fn segment(&self, segment: u32) -> Option<Arc<dyn File>> {
        self.inner.segment(segment)
    }

    fn kept(&self) -> Vec<Kept> {
        self.inner.kept()
    }

    fn segment_bytes(&self) -> u64 {
        self.inner.segment_bytes()
    }

    fn space(&self) -> io::Result<Option<Space>> {
        self.inner.space()
    }

    fn take_preparation(&mut self) -> Option<Preparation> {
        self.inner.take_preparation()
    }

    fn install(&mut self, prepared: Prepared) -> Result<(), JournalError> {
        self.inner.install(prepared)
    }

    fn seal(&mut self) -> Result<(), JournalError> {
        self.inner.seal()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
