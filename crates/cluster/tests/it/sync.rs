//! A node that is far behind gets the whole state, over a way that breaks off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use broker::{Held, OsProcess, Recovered, Restoring, Stored, recover, write_snapshot};
use bytes::Bytes;
use cluster::{CallError, Calling, ClusterJournal, ElectionSilence, Kind, Node, NodeOptions, Peers};
use journal::{Epoch, Event, Journal, LocalOptions, ReplicatedLog, Source};
use queue_core::{Command, EnqueueEntry, EntryEncoder};
use simulator::SimDisk;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;
use types::{LogIndex, MessageId, QueueKey, Slot, TenantId, Timestamp, WallTime};

/// Whether a part of a state gets through: the request is lost, or its answer, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Request,
    Answer,
    None,
}

/// The way to the only other node there is.
#[derive(Default)]
struct Way {
    other: Mutex<Option<Node>>,
    /// What happens to the requests about states, the last first; nothing is lost behind the first.
    losses: Mutex<Vec<Loss>>,
    /// How many requests about states there were, and how many of them began one.
    parts: AtomicUsize,
    begins: AtomicUsize,
    /// The request about a state that waits, by its number, until it may go.
    held: Mutex<Option<usize>>,
    may_go: Notify,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Way")
    }
}

#[derive(Debug, Clone)]
struct Port(Arc<Way>);

impl Peers for Port {
    fn call<'a>(&'a self, node: u64, _: &'a str, kind: Kind, body: Bytes, within: Duration) -> Calling<'a> {
        Box::pin(async move {
            let lost = |reason: &str| CallError::Unknown {
                node,
                reason: reason.to_owned(),
            };
            let other = self.0.other.lock().unwrap().clone();
            let other = other.ok_or_else(|| lost("nobody is there"))?;
            let mut loss = Loss::None;
            if matches!(kind, Kind::SyncBegin | Kind::SyncPart) {
                let begins = usize::from(kind == Kind::SyncBegin);
                self.0.begins.fetch_add(begins, Ordering::Relaxed);
                let number = self.0.parts.fetch_add(1, Ordering::Relaxed);
                loss = self.0.losses.lock().unwrap().pop().unwrap_or(Loss::None);
                let is_held = *self.0.held.lock().unwrap() == Some(number);
                if is_held {
                    self.0.may_go.notified().await;
                }
            }
            if loss == Loss::Request {
                return Err(lost("the request was lost"));
            }
            let answer = tokio::time::timeout(within, other.answer(kind, body)).await;
            match answer {
                _ if loss == Loss::Answer => Err(lost("the answer was lost")),
                Ok(answer) => answer.map_err(|error| lost(&error.to_string())),
                Err(_) => Err(lost("no answer in time")),
            }
        })
    }
}

/// A node with an owner that applies what it hears, and no more.
struct Owner {
    node: Node,
    journal: ClusterJournal,
    disk: SimDisk,
    state: Recovered,
    epoch: Option<Epoch>,
    own: BTreeMap<u64, Vec<u8>>,
    replaced: usize,
}

fn local() -> LocalOptions {
    LocalOptions {
        segment_bytes: 256 << 10,
        first_segment_bytes: 64 << 10,
        ..LocalOptions::default()
    }
}

impl Owner {
    fn start(id: u64, disk: SimDisk, way: &Arc<Way>, runtime: &Handle) -> Self {
        let mut state = recover();
        let (log, recovery) =
            ReplicatedLog::open(Arc::new(disk.clone()), local(), &mut Restoring(&mut state)).unwrap();
        let options = NodeOptions {
            fresh_id: id,
            election_silence: ElectionSilence::default(),
            replicate_timeout: Duration::from_secs(60),
            entries_kept: 0,
        };
        let port = Arc::new(Port(Arc::clone(way)));
        let process = Arc::new(OsProcess);
        let (node, journal) = Node::start(&options, log, recovery.copies, port, process, runtime).unwrap();
        Self {
            node,
            journal,
            disk,
            state,
            epoch: None,
            own: BTreeMap::new(),
            replaced: 0,
        }
    }

    fn poll(&mut self) {
        let mut events = Vec::new();
        self.journal.poll(&mut events).unwrap();
        for event in events {
            match event {
                Event::Committed {
                    index, source, place, ..
                } => {
                    let bytes = match source {
                        Source::Own(ticket) => self.own.remove(&ticket.0).unwrap(),
                        Source::Foreign(bytes) => bytes,
                    };
                    self.state.apply(index, &bytes, place).unwrap();
                }
                Event::Rejected { .. } | Event::Unknown { .. } => panic!("nothing fails"),
                Event::EpochChanged { epoch } => self.epoch = epoch,
                Event::Copied { copies, place } => {
                    journal::Replay::copies(&mut self.state, &copies, place).unwrap();
                }
                Event::Replaced => {
                    self.state = recover();
                    self.journal.replay(&mut self.state).unwrap();
                    self.replaced += 1;
                }
            }
        }
    }

    fn wait(&mut self, what: &str, mut until: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        loop {
            self.poll();
            if until(self) {
                return;
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "waited in vain: {what}"
            );
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    fn propose(&mut self, commands: &[Command]) {
        let mut entry = Vec::new();
        let mut encoder =
            EntryEncoder::begin(&mut entry, Timestamp::from_millis(1), WallTime::from_millis(1));
        commands.iter().for_each(|command| encoder.push(command));
        encoder.finish();
        self.wait("this node leads", |owner| owner.epoch.is_some());
        let ticket = self.journal.propose(&entry, self.epoch.unwrap()).unwrap();
        self.own.insert(ticket.0, entry);
        self.wait("it is committed", |owner| owner.own.is_empty());
    }

    fn send(&mut self, contents: impl Iterator<Item = Vec<u8>>) {
        let queue = self.state.partition.queue_id(&key()).unwrap();
        let entries = contents.map(|content| EnqueueEntry {
            message_id: MessageId::from_random([7; 16]),
            size_bytes: 1,
            content: content.into(),
            delay_seconds: None,
            group: None,
            deduplication: None,
        });
        let entries = entries.collect();
        self.propose(&[Command::Enqueue { queue, entries }]);
    }

    /// Makes a snapshot of what is applied. Raft lets the log before it go.
    fn snapshot(&mut self) {
        let (state, contents) = (self.state.partition.snapshot(), self.state.contents.snapshot());
        let segments: BTreeSet<u32> = self.stored().map(|(_, stored)| stored.place.segment).collect();
        let segments: Vec<u32> = segments.into_iter().collect();
        let mut bytes = Vec::new();
        write_snapshot(self.state.last_wall, &state, &contents, &mut bytes).unwrap();
        let mut sink = self.journal.begin_snapshot(self.state.index, &segments).unwrap();
        sink.write(&bytes).unwrap();
        let receipt = sink.finish().unwrap();
        self.journal.complete_snapshot(receipt).unwrap();
    }

    /// Makes a snapshot, and waits until the log before it has gone.
    fn purge(&mut self) {
        self.snapshot();
        // Raft counts from 0.
        let last = self.state.index.0 - 1;
        self.wait("the log is purged", |owner| owner.node.view().purged >= last);
    }

    /// Returns where the contents of all messages lie.
    fn stored(&self) -> impl Iterator<Item = (Slot, Stored)> {
        let slots = (0..self.state.partition.slots()).map(|slot| Slot(slot as u32));
        slots.filter_map(|slot| {
            let bytes = self.state.partition.content_bytes(slot)?;
            match self.state.contents.get(slot, bytes) {
                Held::Disk(stored) => Some((slot, stored)),
                Held::Memory(_) | Held::Nowhere => panic!("{slot:?} does not lie on the disk"),
            }
        })
    }

    /// Returns the contents of all messages.
    fn contents(&self) -> Vec<Vec<u8>> {
        let read = |(slot, stored): (Slot, Stored)| {
            let file = self.journal.segment(stored.place.segment);
            let file = file.unwrap_or_else(|| panic!("the segment of {slot:?} has gone"));
            let mut content = vec![0; stored.bytes as usize];
            let read = file
                .read_at(&mut content, u64::from(stored.place.offset))
                .unwrap();
            assert!(
                read == content.len() && stored.fits(&content),
                "{slot:?} is damaged"
            );
            content
        };
        self.stored().map(read).collect()
    }

    fn end(self, runtime: &Runtime) -> SimDisk {
        runtime.block_on(self.node.shutdown()).unwrap();
        drop(self.journal);
        self.disk
    }
}

fn key() -> QueueKey {
    QueueKey {
        tenant: TenantId::DEV,
        name: "q".parse().unwrap(),
    }
}

/// A content that tells one message from all others.
fn content(number: u32, bytes: usize) -> Vec<u8> {
    let seed = number.to_le_bytes();
    (0..bytes).map(|at| seed[at % 4] ^ (at as u8)).collect()
}

struct Pair {
    runtime: Runtime,
    /// From the first to the second, and back.
    ways: [Arc<Way>; 2],
    first: Owner,
    second: Owner,
}

impl Pair {
    /// A cluster of one with messages, and a node that has nothing.
    fn new(messages: u32, bytes: usize) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let ways = [Arc::<Way>::default(), Arc::default()];
        let mut first = Owner::start(1, SimDisk::new(1), &ways[0], runtime.handle());
        let second = Owner::start(2, SimDisk::new(2), &ways[1], runtime.handle());
        let members = BTreeMap::from([(1, "first".to_owned())]);
        runtime.block_on(first.node.form(members)).unwrap();
        first.propose(&[Command::CreateQueue {
            key: key(),
            attributes: Vec::new(),
            tags: Vec::new(),
            deleted_name_wait_seconds: 0,
        }]);
        for from in (0..messages).step_by(10) {
            first.send((from..messages.min(from + 10)).map(|number| content(number, bytes)));
        }
        *ways[0].other.lock().unwrap() = Some(second.node.clone());
        *ways[1].other.lock().unwrap() = Some(first.node.clone());
        Self {
            runtime,
            ways,
            first,
            second,
        }
    }

    /// A cluster of one with messages whose entries are no longer in its log, and a node that has nothing.
    fn purged(messages: u32, bytes: usize) -> Self {
        let mut pair = Self::new(messages, bytes);
        pair.first.purge();
        pair
    }

    /// Adds the second node, while the first does what it is told meanwhile.
    fn join(&mut self, meanwhile: impl FnOnce(&mut Owner)) {
        let node = self.first.node.clone();
        let adding = self
            .runtime
            .spawn(async move { node.add_learner(2, "second".to_owned()).await });
        meanwhile(&mut self.first);
        let began = Instant::now();
        while !adding.is_finished() {
            self.first.poll();
            self.second.poll();
            assert!(began.elapsed() < Duration::from_secs(60), "it never caught up");
            std::thread::park_timeout(Duration::from_millis(2));
        }
        self.runtime.block_on(adding).unwrap().unwrap();
        let last = self.first.state.index;
        self.second
            .wait("it has everything", |owner| owner.state.index >= last);
    }

    fn check(&mut self) {
        assert_eq!(self.second.replaced, 1);
        assert_eq!(
            self.second.state.partition.state_hash(),
            self.first.state.partition.state_hash()
        );
        assert!(self.second.contents() == self.first.contents());
    }

    fn parts(&self) -> usize {
        self.ways[0].parts.load(Ordering::Relaxed)
    }
}

#[test]
fn the_whole_state_comes_and_is_there_after_a_start() {
    let mut pair = Pair::purged(300, 20_000);
    pair.join(|_| ());
    pair.check();
    let contents = pair.first.contents();
    pair.second.state = recover();
    let Pair {
        runtime,
        ways,
        second,
        first,
    } = pair;
    let disk = second.end(&runtime);
    // The power goes as well: everything was durable before it counted.
    let second = Owner::start(2, disk.crash(5), &ways[1], runtime.handle());
    assert!(second.contents() == contents);
    second.end(&runtime);
    first.end(&runtime);
}

#[test]
fn a_way_that_breaks_off_costs_the_part_that_was_lost() {
    let mut pair = Pair::purged(300, 20_000);
    pair.join(|_| ());
    let whole = pair.parts();
    assert!(whole >= 8, "the state has {whole} parts");
    for loss in [Loss::Request, Loss::Answer] {
        for lost in 1..whole {
            let mut pair = Pair::purged(300, 20_000);
            let mut losses = vec![Loss::None; lost];
            losses.insert(0, loss);
            *pair.ways[0].losses.lock().unwrap() = losses;
            pair.join(|_| ());
            pair.check();
            // Once more the beginning, and the part that was not taken.
            let again = if loss == Loss::Request { 2 } else { 1 };
            assert_eq!(pair.parts(), whole + again, "{loss:?} of part {lost}");
        }
    }
}

#[test]
fn the_entries_behind_a_state_stay_until_it_has_come() {
    let mut pair = Pair::purged(100, 20_000);
    let way = Arc::clone(&pair.ways[0]);
    *way.held.lock().unwrap() = Some(2);
    pair.join(|first| {
        first.wait("contents are on their way", |_| {
            way.parts.load(Ordering::Relaxed) > 2
        });
        // Each snapshot would let the log before it go, and the node would never catch up.
        for number in 1_000..1_010 {
            first.send([content(number, 100)].into_iter());
            first.snapshot();
        }
        // Raft has heard of the last one when it has done something else.
        for number in 2_000..2_010 {
            first.send([content(number, 100)].into_iter());
        }
        way.may_go.notify_one();
    });
    pair.check();
    assert_eq!(way.begins.load(Ordering::Relaxed), 1);
}

#[test]
fn a_snapshot_of_its_own_does_not_cost_a_node_what_came_of_a_state() {
    let mut pair = Pair::new(300, 20_000);
    // This comes by the log. Behind it there is no entry of Raft's own.
    pair.join(|_| ());
    pair.first.send([content(999, 20_000)].into_iter());
    let last = pair.first.state.index;
    pair.second
        .wait("it has everything", |owner| owner.state.index >= last);
    assert_eq!(pair.second.replaced, 0);
    *pair.ways[0].other.lock().unwrap() = None;
    for number in 1_000..1_100 {
        pair.first.send([content(number, 20_000)].into_iter());
    }
    pair.first.purge();
    let way = Arc::clone(&pair.ways[0]);
    let near_the_end = way.parts.load(Ordering::Relaxed) + 8;
    *way.held.lock().unwrap() = Some(near_the_end);
    *way.other.lock().unwrap() = Some(pair.second.node.clone());
    pair.first.wait("most of it has come", |_| {
        way.parts.load(Ordering::Relaxed) > near_the_end
    });
    pair.second.purge();
    way.may_go.notify_one();
    let last = pair.first.state.index;
    pair.second
        .wait("it has everything", |owner| owner.state.index >= last);
    pair.check();
    assert_eq!(way.begins.load(Ordering::Relaxed), 1);
}

#[test]
fn a_damaged_content_is_not_sent() {
    let mut pair = Pair::purged(20, 20_000);
    let stored = pair.first.state.contents.get(Slot(7), 20_000);
    let Held::Disk(stored) = stored else {
        panic!("it lies on the disk")
    };
    let file = pair.first.journal.segment(stored.place.segment).unwrap();
    file.write_at(b"?", u64::from(stored.place.offset) + 100).unwrap();
    let node = pair.first.node.clone();
    let adding = pair
        .runtime
        .spawn(async move { node.add_learner(2, "second".to_owned()).await });
    let way = Arc::clone(&pair.ways[0]);
    pair.first
        .wait("it is tried again", |_| way.parts.load(Ordering::Relaxed) > 3);
    adding.abort();
    assert_eq!(pair.second.replaced, 0);
    assert_eq!(pair.second.state.index, LogIndex(0));
}

#[test]
fn a_node_counts_as_added_only_when_it_has_everything() {
    let mut pair = Pair::purged(100, 20_000);
    let way = Arc::clone(&pair.ways[0]);
    *way.held.lock().unwrap() = Some(1);
    let node = pair.first.node.clone();
    let adding = pair
        .runtime
        .spawn(async move { node.add_learner(2, "second".to_owned()).await });
    pair.first.wait("the state is on its way", |_| {
        way.parts.load(Ordering::Relaxed) > 1
    });
    for number in 1_000..1_010 {
        pair.first.send([content(number, 100)].into_iter());
    }
    assert!(!adding.is_finished());
    way.may_go.notify_one();
    pair.first.wait("it is added", |_| adding.is_finished());
    pair.runtime.block_on(adding).unwrap().unwrap();
    pair.second.poll();
    assert_eq!(pair.second.replaced, 1);
}

#[test]
fn a_node_is_added_while_entries_go_on_coming() {
    let mut pair = Pair::purged(100, 20_000);
    let node = pair.first.node.clone();
    let adding = pair
        .runtime
        .spawn(async move { node.add_learner(2, "second".to_owned()).await });
    let began = Instant::now();
    let mut number = 1_000;
    while !adding.is_finished() {
        pair.first.send([content(number, 100)].into_iter());
        pair.second.poll();
        number += 1;
        assert!(began.elapsed() < Duration::from_secs(60), "it is never added");
    }
    pair.runtime.block_on(adding).unwrap().unwrap();
    let last = pair.first.state.index;
    pair.second
        .wait("it has everything", |owner| owner.state.index >= last);
    pair.check();
}
