//! A log that several brokers share, in memory, and the way between them: what a cluster is to a broker.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use broker::{
    Broker, BrokerOptions, BudgetLimits, Checkpoint, ForwardError, Forwarding, InboxLimits, Leader, Limits,
    OsClock, Recovered, SeededRandom,
};
use bytes::Bytes;
use journal::{
    Counters, Epoch, Event, Journal, JournalError, ProposeError, Replay, SnapshotReceipt, SnapshotSink,
    Source, Space, Ticket, Waker,
};
use tokio::runtime::Handle;
use types::{LogIndex, Term};

use crate::served::{Counts, until};

#[derive(Default)]
struct Seat {
    events: VecDeque<Event>,
    waker: Option<Waker>,
    broker: Option<Broker>,
    /// The snapshot that replaces the state.
    snapshot: Option<(LogIndex, Vec<u8>)>,
}

#[derive(Default)]
struct State {
    seats: Vec<Seat>,
    index: u64,
    entries: Vec<(LogIndex, Vec<u8>)>,
    leader: Option<usize>,
    epoch: u64,
    /// The one that leads is not sure of it.
    is_unsure: bool,
    last_ticket: u64,
    /// Nothing commits for as long as it is set.
    is_stuck: bool,
    waiting: VecDeque<(usize, Ticket, Vec<u8>)>,
    /// The next requests between nodes are not sent, or their answers are lost.
    losses: VecDeque<ForwardError>,
    forwarded: usize,
    told: usize,
    /// What brokers came to, by entry.
    compared: BTreeMap<LogIndex, Vec<Checkpoint>>,
}

/// The log, and who leads.
#[derive(Clone, Default)]
pub(crate) struct SharedLog(Arc<Mutex<State>>);

impl fmt::Debug for SharedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedLog")
    }
}

impl SharedLog {
    pub(crate) fn new(nodes: usize) -> Self {
        let log = Self::default();
        log.state().seats.resize_with(nodes, Seat::default);
        log
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Changes something, and then wakes everybody.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let result = change(&mut state);
        let wakers: Vec<_> = state.seats.iter().filter_map(|seat| seat.waker.clone()).collect();
        drop(state);
        wakers.iter().for_each(|wake| wake());
        result
    }

    /// Ends the reign of the one that leads, and begins that of another.
    pub(crate) fn elect(&self, leader: Option<usize>) {
        self.change(|state| {
            if let Some(old) = std::mem::replace(&mut state.leader, leader) {
                let ended = Event::EpochChanged { epoch: None };
                state.seats[old].events.push_back(ended);
            }
            if let Some(new) = leader {
                // A leader begins with an entry that is none of its owner's.
                state.index += 1;
                state.epoch += 1;
                let epoch = Some(Epoch(state.epoch));
                state.seats[new].events.push_back(Event::EpochChanged { epoch });
            }
        });
    }

    /// Lets the one that leads be sure of it or not, for a while and without an event.
    pub(crate) fn set_unsure(&self, is_unsure: bool) {
        self.change(|state| state.is_unsure = is_unsure);
    }

    /// Lets nothing commit.
    pub(crate) fn stick(&self) {
        self.state().is_stuck = true;
    }

    /// Commits what waits.
    pub(crate) fn unstick(&self) {
        self.change(|state| {
            state.is_stuck = false;
            state.commit();
        });
    }

    /// Says of everything that waits that nobody knows, and drops or commits it as another's.
    pub(crate) fn lose_track(&self, commits: bool) {
        self.change(|state| {
            for (node, ticket, bytes) in std::mem::take(&mut state.waiting) {
                state.seats[node].events.push_back(Event::Unknown { ticket });
                if commits {
                    state.waiting.push_back((usize::MAX, ticket, bytes));
                }
            }
            state.is_stuck = false;
            state.commit();
        });
    }

    /// Returns how many proposals wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// Loses the next requests between nodes in this way.
    pub(crate) fn lose(&self, losses: &[ForwardError]) {
        self.state().losses.extend(losses);
    }

    /// Returns how many requests nodes have sent each other.
    pub(crate) fn forwarded(&self) -> usize {
        self.state().forwarded
    }

    /// Returns how many requests were sent that nobody waits for.
    /// Returns what brokers said that they came to, by entry.
    pub(crate) fn compared(&self) -> BTreeMap<LogIndex, Vec<Checkpoint>> {
        self.state().compared.clone()
    }

    pub(crate) fn told(&self) -> usize {
        self.state().told
    }

    /// Replaces the state of a node by a snapshot of all that was committed.
    pub(crate) fn replace(&self, node: usize) {
        self.change(|state| {
            let mut recovered = broker::recover();
            for (index, bytes) in &state.entries {
                recovered.apply(*index, bytes, None).unwrap();
            }
            let (partition, contents) = (recovered.partition.snapshot(), recovered.contents.snapshot());
            let mut bytes = Vec::new();
            broker::write_snapshot(recovered.last_wall, &partition, &contents, &mut bytes).unwrap();
            let seat = &mut state.seats[node];
            seat.snapshot = Some((recovered.index, bytes));
            seat.events.clear();
            seat.events.push_back(Event::Replaced);
        });
    }

    /// Hides entries from a node: they are not handed to it.
    pub(crate) fn forget_events(&self, node: usize) {
        self.state().seats[node].events.clear();
    }

    /// Starts a broker on a seat.
    pub(crate) fn start(&self, node: usize) -> Running {
        let counts = Arc::new(Counts::default());
        let options = BrokerOptions {
            in_flight_max: types::limits::IN_FLIGHT_MAX,
            limits: Limits::RELAXED,
            inbox: InboxLimits::default(),
            budget: BudgetLimits::default(),
            deduplication_ids_max: 1_000_000,
            kick_on_push: true,
            // Not to be done: the log commits by itself.
            inline: true,
            snapshot_log_bytes: u64::MAX,
            cache_bytes: 1 << 20,
            reserve_bytes: None,
            clock: Arc::new(OsClock),
            random: Arc::new(SeededRandom::new(node as u64)),
            process: Arc::new(broker::OsProcess),
            observer: counts.clone(),
            leader: Some(Arc::new(Way {
                node,
                log: self.clone(),
                runtime: Handle::current(),
            })),
        };
        let log = self.clone();
        let opener = move |_: &mut Recovered| Ok(Box::new(SharedJournal { node, log }) as Box<dyn Journal>);
        let (opened, is_open) = mpsc::channel();
        let opened = move |result| opened.send(result).unwrap();
        let (broker, thread) = Broker::start(options, Box::new(opener), opened).unwrap();
        is_open.recv_timeout(Duration::from_secs(30)).unwrap().unwrap();
        self.state().seats[node].broker = Some(broker.clone());
        Running {
            broker,
            thread,
            counts,
        }
    }
}

impl State {
    fn commit(&mut self) {
        while !self.is_stuck
            && let Some((from, ticket, bytes)) = self.waiting.pop_front()
        {
            self.index += 1;
            let index = LogIndex(self.index);
            for (node, seat) in self.seats.iter_mut().enumerate() {
                let source = match node == from {
                    true => Source::Own(ticket),
                    false => Source::Foreign(bytes.clone()),
                };
                seat.events.push_back(Event::Committed {
                    index,
                    term: Term(self.epoch),
                    source,
                    place: None,
                });
            }
            self.entries.push((index, bytes));
        }
    }
}

/// A broker on its seat.
pub(crate) struct Running {
    pub(crate) broker: Broker,
    pub(crate) thread: JoinHandle<()>,
    pub(crate) counts: Arc<Counts>,
}

impl Running {
    pub(crate) async fn leads(&self) {
        until("it leads", || self.broker.leads()).await;
    }

    pub(crate) fn stop(self) {
        self.broker.stop();
        self.thread.join().unwrap();
    }
}

struct SharedJournal {
    node: usize,
    log: SharedLog,
}

impl fmt::Debug for SharedJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedJournal").field("node", &self.node).finish()
    }
}

impl Journal for SharedJournal {
    fn epoch(&self) -> Option<Epoch> {
        let state = self.log.state();
        let is_sure = state.leader == Some(self.node) && !state.is_unsure;
        is_sure.then_some(Epoch(state.epoch))
    }

    fn propose(&mut self, entry: &[u8], expected: Epoch) -> Result<Ticket, ProposeError> {
        let epoch = self.epoch();
        if epoch != Some(expected) {
            return Err(ProposeError::EpochChanged { epoch });
        }
        Ok(self.log.change(|state| {
            state.last_ticket += 1;
            let ticket = Ticket(state.last_ticket);
            state.waiting.push_back((self.node, ticket, entry.to_vec()));
            state.commit();
            ticket
        }))
    }

    fn wait(&mut self, _events: &mut Vec<Event>) -> Result<(), JournalError> {
        panic!("nobody waits for a log that commits by itself")
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError> {
        events.extend(self.log.state().seats[self.node].events.drain(..));
        Ok(())
    }

    fn commits_by_itself(&self) -> bool {
        true
    }

    fn set_waker(&mut self, waker: Waker) {
        self.log.state().seats[self.node].waker = Some(waker);
    }

    fn batches_in_flight_max(&self) -> usize {
        3
    }

    fn replay(&mut self, replay: &mut dyn Replay) -> Result<(), JournalError> {
        let (index, bytes) = self.log.state().seats[self.node].snapshot.clone().unwrap();
        replay.snapshot(index, &mut &bytes[..]).unwrap();
        Ok(())
    }

    fn begin_snapshot(&mut self, _: LogIndex, _: &[u32]) -> Result<Box<dyn SnapshotSink>, JournalError> {
        panic!("the log never grows long")
    }

    fn complete_snapshot(&mut self, _: SnapshotReceipt) -> Result<(), JournalError> {
        panic!("no snapshot was begun")
    }

    fn log_bytes_since_snapshot(&self) -> u64 {
        0
    }

    fn seal(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// The way from a node to the one that leads.
struct Way {
    node: usize,
    log: SharedLog,
    runtime: Handle,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("node", &self.node).finish()
    }
}

impl Way {
    fn target(&self) -> Option<Broker> {
        let state = self.log.state();
        let leader = state.leader.filter(|leader| *leader != self.node)?;
        state.seats[leader].broker.clone()
    }
}

impl Leader for Way {
    fn forward(&self, request: Bytes, _within: Duration) -> Forwarding {
        let target = self.target();
        let loss = {
            let mut state = self.log.state();
            state.forwarded += 1;
            state.losses.pop_front()
        };
        Box::pin(async move {
            if let Some(loss @ (ForwardError::NotSent | ForwardError::NoLeader)) = loss {
                return Err(loss);
            }
            let target = target.ok_or(ForwardError::NoLeader)?;
            let answer = target.serve_forwarded(&request, false).await;
            loss.map_or(Ok(answer), Err)
        })
    }

    fn compare(&self, checkpoint: Checkpoint) {
        let index = checkpoint.index;
        self.log
            .state()
            .compared
            .entry(index)
            .or_default()
            .push(checkpoint);
    }

    fn level(&self) -> u32 {
        1
    }

    fn room(&self, _: Space, is_short: bool) -> bool {
        !is_short
    }

    fn raised(&self, level: u32) {
        assert_eq!(level, 1);
    }

    fn tell(&self, request: Bytes) {
        self.log.state().told += 1;
        if let Some(target) = self.target() {
            self.runtime
                .spawn(async move { target.serve_forwarded(&request, false).await });
        }
    }
}
