//! Three owners over one log that several nodes share: batches in flight, changes of leader, snapshots of other nodes.
//!
//! Everything happens in a random order under a seed. What is checked: every owner has the state of the log applied in
//! order, whatever was its own in it; what a client was told is what happened; nobody waits for ever; no message is with
//! two clients while a lease holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use broker::{Input, Limits, Now, Owner, Recovered, Reply, Request, Turn, WaiterId, recover};
use journal::{Replay, Ticket};
use queue_core::{Command, Context, Entry, Handle, Outcome, Partition, entry_hash};
use simulator::Random;
use types::{LogIndex, MessageId, QueueId, Sequence, Timestamp};

use crate::node::now_at;
use crate::requests::{create, delete, entry, key, receive};

const NODES: usize = 3;
const IN_FLIGHT_MAX: usize = 3;
const STEPS: usize = 3_000;
const VISIBILITY_SECONDS: u32 = 30;

/// An entry of the log; without bytes it is none of the owners'.
struct Logged {
    bytes: Option<Vec<u8>>,
    from: Option<(usize, Ticket)>,
    term: u64,
}

/// What a node hears beside entries.
enum Told {
    Rejected(Ticket),
    Unknown(Ticket),
    ReignEnded,
}

struct Member {
    owner: Owner<u64>,
    /// Entries of the log that it was given.
    given: usize,
    /// Its proposals that it will hear of by name.
    own: BTreeSet<Ticket>,
    told: VecDeque<Told>,
    inputs: Vec<Input<u64>>,
    /// The term in which it reigns, from when it was given all entries before.
    reign: Option<u64>,
}

/// What a client asked for.
enum Asked {
    Send(MessageId),
    Poll { waiter: WaiterId, node: usize },
    Other,
}

struct World {
    random: Random,
    now: Duration,
    members: Vec<Member>,
    log: Vec<Logged>,
    committed: usize,
    leader: usize,
    term: u64,
    last_ticket: u64,
    /// The log applied in order, and its hash after each entry.
    reference: Recovered,
    hashes: BTreeMap<u64, u64>,
    /// The log applied once more, for what it gives out.
    shadow: Partition,
    leases: BTreeMap<(QueueId, Sequence), (Handle, Timestamp)>,
    committed_handles: BTreeSet<Handle>,
    asked: BTreeMap<u64, Asked>,
    answered: BTreeMap<u64, Reply>,
    gone: BTreeSet<u64>,
    held: Vec<Handle>,
    handed_out: BTreeSet<Handle>,
    last_request: u64,
    seen: Seen,
}

/// What has happened at all, so that a test that checks nothing is noticed.
#[derive(Debug, Default)]
struct Seen {
    own: u64,
    foreign: u64,
    rejected: u64,
    unknown: u64,
    late: u64,
    replaced: u64,
    in_flight_most: usize,
    moved_polls: u64,
    delivered: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let member = |_| {
            let mut owner = Owner::new(recover(), Limits::RELAXED, now_at(Duration::ZERO));
            owner.suspend();
            owner.allow_batches(IN_FLIGHT_MAX);
            Member {
                owner,
                given: 0,
                own: BTreeSet::new(),
                told: VecDeque::new(),
                inputs: Vec::new(),
                reign: None,
            }
        };
        let mut world = Self {
            random: Random::new(seed),
            now: Duration::ZERO,
            members: (0..NODES).map(member).collect(),
            log: Vec::new(),
            committed: 0,
            leader: 0,
            term: 0,
            last_ticket: 0,
            reference: recover(),
            hashes: BTreeMap::new(),
            shadow: Partition::default(),
            leases: BTreeMap::new(),
            committed_handles: BTreeSet::new(),
            asked: BTreeMap::new(),
            answered: BTreeMap::new(),
            gone: BTreeSet::new(),
            held: Vec::new(),
            handed_out: BTreeSet::new(),
            last_request: 0,
            seen: Seen::default(),
        };
        world.elect(0);
        world
    }

    fn now(&self) -> Now {
        now_at(self.now)
    }

    /// Makes a node the leader. What is not committed may be lost, or commit later; its proposer may learn which.
    fn elect(&mut self, leader: usize) {
        let kept = self.committed + self.below(self.log.len() - self.committed + 1);
        for position in self.committed..self.log.len() {
            let Some((node, ticket)) = self.log[position].from else {
                continue;
            };
            let is_lost = position >= kept;
            if !self.members[node].own.contains(&ticket) || !(is_lost || self.random.percent(30)) {
                continue;
            }
            self.members[node].own.remove(&ticket);
            let is_known = is_lost && self.random.percent(50);
            self.members[node].told.push_back(match is_known {
                true => Told::Rejected(ticket),
                false => Told::Unknown(ticket),
            });
        }
        self.log.truncate(kept);
        for member in &mut self.members {
            // Another may reign from here on, also before a node hears of it.
            member.owner.suspend();
            if member.reign.take().is_some() {
                member.told.push_back(Told::ReignEnded);
            }
        }
        self.term += 1;
        self.leader = leader;
        self.log.push(Logged {
            bytes: None,
            from: None,
            term: self.term,
        });
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.random.below(limit as u64)).unwrap()
    }

    /// Commits some of the log, and applies that to the reference.
    fn commit(&mut self, most: usize) {
        let until = self.committed.saturating_add(most).min(self.log.len());
        for position in self.committed..until {
            let index = position as u64 + 1;
            if let Some(bytes) = &self.log[position].bytes {
                let bytes = bytes.clone();
                self.reference.apply(LogIndex(index), &bytes, None).unwrap();
                self.reference.partition.check_invariants();
                self.follow_leases(LogIndex(index), &bytes);
            }
            self.hashes.insert(index, self.reference.partition.state_hash());
        }
        self.committed = until;
    }

    /// Applies an entry to a partition of its own, and sees that nothing is leased twice.
    fn follow_leases(&mut self, index: LogIndex, bytes: &[u8]) {
        let entry = Entry::decode(bytes).unwrap();
        self.shadow.begin_entry(entry_hash(bytes));
        let mut ordinal = 0;
        for command in &entry.commands {
            let context = Context {
                at: entry.at,
                wall: entry.wall,
                index,
                ordinal,
            };
            let applied = self.shadow.apply(context, command);
            let clock = self.shadow.clock();
            if let Ok(Outcome::Received(deliveries)) = applied.outcome {
                for handle in deliveries.into_iter().map(|delivery| delivery.handle) {
                    let until = clock.plus_seconds(VISIBILITY_SECONDS);
                    let message = (handle.queue, handle.sequence);
                    let earlier = self.leases.insert(message, (handle, until));
                    assert!(earlier.is_none_or(|(_, until)| until <= clock), "{handle:?}");
                    self.committed_handles.insert(handle);
                }
            }
            if let Command::GiveBack { handles, .. } | Command::Delete { handles, .. } = command {
                let ended: BTreeSet<&Handle> = handles.iter().collect();
                self.leases.retain(|_, (handle, _)| !ended.contains(handle));
            }
            if let Command::Enqueue { entries, .. } = command {
                ordinal += u32::try_from(entries.len()).unwrap();
            }
        }
    }

    /// Gives a node the next thing that it has to hear. Returns whether there was one.
    fn give(&mut self, node: usize) -> bool {
        let (now, mut turn) = (self.now(), Turn::default());
        let member = &mut self.members[node];
        if let Some(told) = member.told.pop_front() {
            match told {
                Told::Rejected(ticket) => {
                    self.seen.rejected += 1;
                    assert!(member.owner.abandon_proposal(ticket, &Reply::NotTaken, &mut turn));
                }
                Told::Unknown(ticket) => {
                    self.seen.unknown += 1;
                    assert!(member.owner.abandon_proposal(ticket, &Reply::Unknown, &mut turn));
                }
                Told::ReignEnded => member.owner.end_reign(now, &mut turn),
            }
        } else if member.given < self.committed {
            let logged = &self.log[member.given];
            member.given += 1;
            let index = LogIndex(member.given as u64);
            match (&logged.bytes, logged.from) {
                (None, _) if logged.term == self.term && self.leader == node => {
                    member.reign = Some(self.term);
                    member.owner.end_reign(now, &mut turn);
                }
                (None, _) => {}
                (Some(_), Some((from, ticket))) if from == node && member.own.remove(&ticket) => {
                    self.seen.own += 1;
                    let entry = (index, None);
                    assert!(member.owner.commit_proposal(ticket, entry, now, &mut turn));
                }
                (Some(bytes), from) => {
                    self.seen.foreign += 1;
                    self.seen.late += u64::from(from.is_some_and(|(from, _)| from == node));
                    let applied = member.owner.commit_foreign(index, bytes, None, now, &mut turn);
                    applied.unwrap();
                }
            }
            assert_eq!(
                member.owner.partition().state_hash(),
                self.hashes[&index.0],
                "node {node} at {index}"
            );
        } else {
            return false;
        }
        self.answer(node, turn);
        true
    }

    /// Takes a turn at a node. Returns whether it made a batch.
    fn turn(&mut self, node: usize) -> bool {
        let (now, mut turn, mut entry) = (self.now(), Turn::default(), Vec::new());
        let is_refused = self.random.percent(5);
        let member = &mut self.members[node];
        match member.reign {
            Some(_) => member.owner.reign(),
            None => member.owner.suspend(),
        }
        let mut has_batch = false;
        if member.owner.may_step() {
            has_batch = member.owner.step(now, &mut member.inputs, &mut entry, &mut turn);
        }
        if has_batch && is_refused {
            member.owner.abandon(&Reply::NotTaken, &mut turn);
        } else if has_batch {
            assert_eq!((member.reign, node), (Some(self.term), self.leader));
            self.last_ticket += 1;
            let ticket = Ticket(self.last_ticket);
            member.owner.proposed(ticket);
            member.own.insert(ticket);
            self.seen.in_flight_most = self.seen.in_flight_most.max(member.owner.batches());
            self.log.push(Logged {
                bytes: Some(entry),
                from: Some((node, ticket)),
                term: self.term,
            });
            self.check_ticks(node);
        }
        self.answer(node, turn);
        has_batch
    }

    /// At most one tick of a node is on its way.
    fn check_ticks(&self, node: usize) {
        let own = self.log.iter().filter(|logged| {
            logged
                .from
                .is_some_and(|(from, ticket)| from == node && self.members[node].own.contains(&ticket))
        });
        let commands = own.flat_map(|logged| Entry::decode(logged.bytes.as_ref().unwrap()).unwrap().commands);
        let ticks = commands.filter(|command| matches!(command, Command::Tick));
        assert!(ticks.count() <= 1, "a tick is on its way already");
    }

    fn answer(&mut self, node: usize, turn: Turn<u64>) {
        for (to, reply) in turn.replies {
            if let Reply::Received(taken) = &reply {
                if self.gone.contains(&to) {
                    self.members[node].owner.give_back(taken);
                } else {
                    for taken in taken {
                        let handle = taken.delivery.handle;
                        assert!(
                            self.committed_handles.contains(&handle),
                            "{handle:?} is not committed"
                        );
                        assert!(self.handed_out.insert(handle), "{handle:?} is with two clients");
                        self.held.push(handle);
                        self.seen.delivered += 1;
                    }
                }
            }
            if let Reply::NotLeader {
                wait_left: Some(left),
            } = &reply
            {
                assert!(*left <= Duration::from_secs(20));
                self.seen.moved_polls += 1;
            }
            let earlier = self.answered.insert(to, reply);
            assert_eq!(earlier, None, "{to} was answered twice");
        }
    }

    fn submit(&mut self, node: usize, request: Request, asked: Asked) {
        self.last_request += 1;
        self.asked.insert(self.last_request, asked);
        self.members[node].inputs.push(Input {
            request,
            reply: Some(self.last_request),
        });
    }

    fn ask_something(&mut self) {
        // Mostly where the answer is.
        let node = match self.random.percent(70) {
            true => self.leader,
            false => self.below(NODES),
        };
        match self.random.below(100) {
            0..40 => {
                let entry = entry(&format!("m{}", self.last_request));
                let asked = Asked::Send(entry.message_id);
                let key = key("q");
                let entries = vec![entry];
                self.submit(node, Request::Enqueue { key, entries }, asked);
            }
            40..80 => {
                let wait_seconds = if self.random.percent(70) { 20 } else { 0 };
                let waiter = self.last_request + 1;
                let request = Request::Receive(receive(waiter, "q", wait_seconds));
                let waiter = WaiterId(waiter);
                self.submit(node, request, Asked::Poll { waiter, node });
            }
            80..90 => {
                if let Some(handle) = self.held.pop() {
                    self.submit(node, delete("q", &[handle]), Asked::Other);
                }
            }
            90..95 => self.leave(),
            _ => {
                let key = key("q");
                self.submit(node, Request::DescribeQueue { key }, Asked::Other);
            }
        }
    }

    /// Lets the client of a receive go that was not answered.
    fn leave(&mut self) {
        let waits = |(to, asked): (&u64, &Asked)| match asked {
            Asked::Poll { waiter, node } if !self.answered.contains_key(to) => Some((*to, *waiter, *node)),
            Asked::Poll { .. } | Asked::Send(_) | Asked::Other => None,
        };
        let waiting: Vec<_> = self.asked.iter().filter_map(waits).collect();
        if waiting.is_empty() {
            return;
        }
        let (to, waiter, node) = waiting[self.below(waiting.len())];
        self.gone.insert(to);
        let request = Request::Cancel { waiter };
        self.members[node].inputs.push(Input { request, reply: None });
    }

    /// Replaces the state of a node that lags behind by a snapshot of the reference.
    fn replace(&mut self, node: usize) {
        let is_leading = self.leader == node;
        if is_leading || self.members[node].given + 5 > self.committed {
            return;
        }
        let mut bytes = Vec::new();
        let (state, contents) = (
            self.reference.partition.snapshot(),
            self.reference.contents.snapshot(),
        );
        broker::write_snapshot(self.reference.last_wall, &state, &contents, &mut bytes).unwrap();
        let mut recovered = recover();
        recovered
            .snapshot(LogIndex(self.committed as u64), &mut &bytes[..])
            .unwrap();
        let (now, mut turn) = (self.now(), Turn::default());
        let member = &mut self.members[node];
        member.owner.replace(recovered, now, &mut turn);
        member.given = self.committed;
        member.own.clear();
        // Its proposals are unknown by now, and are not named any more.
        member.told.retain(|told| matches!(told, Told::ReignEnded));
        self.seen.replaced += 1;
        self.answer(node, turn);
    }

    fn play(&mut self) {
        while self.members[0].reign.is_none() {
            self.commit(1);
            self.give(0);
        }
        self.submit(0, create("q", &[]), Asked::Other);
        for _ in 0..STEPS {
            match self.random.below(100) {
                0..30 => self.ask_something(),
                30..60 => {
                    let node = self.below(NODES);
                    self.turn(node);
                }
                60..75 => {
                    let most = self.below(3);
                    self.commit(most);
                }
                75..94 => {
                    let node = self.below(NODES);
                    for _ in 0..=self.below(3) {
                        self.give(node);
                    }
                }
                94..97 => self.now += Duration::from_millis(self.random.below(4_000)),
                97..99 => {
                    let node = self.below(NODES);
                    self.replace(node);
                }
                _ => {
                    let leader = self.below(NODES);
                    self.elect(leader);
                }
            }
        }
        self.come_to_rest();
    }

    /// Lets everything arrive, and time pass until every wait is over.
    fn come_to_rest(&mut self) {
        let end = self.now + Duration::from_secs(60);
        while self.now < end {
            let mut rounds = 0;
            loop {
                let mut has_changed = false;
                for node in 0..NODES {
                    has_changed |= self.turn(node);
                    self.commit(usize::MAX);
                    while self.give(node) {
                        has_changed = true;
                    }
                }
                if !has_changed {
                    break;
                }
                rounds += 1;
                assert!(rounds < 1_000, "the owners never come to rest");
            }
            self.now += Duration::from_millis(200);
        }
    }

    fn check(&self, seed: u64) {
        let hash = self.reference.partition.state_hash();
        assert_eq!(self.shadow.state_hash(), hash);
        for member in &self.members {
            assert_eq!(member.given, self.log.len(), "seed {seed}");
            assert_eq!(member.owner.partition().state_hash(), hash, "seed {seed}");
            assert_eq!(member.owner.parked(), 0, "seed {seed}: somebody waits for ever");
        }
        let commands = self
            .log
            .iter()
            .filter_map(|logged| logged.bytes.as_ref())
            .flat_map(|bytes| Entry::decode(bytes).unwrap().commands);
        let sent: BTreeSet<MessageId> = commands
            .filter_map(|command| {
                if let Command::Enqueue { entries, .. } = command {
                    Some(entries[0].message_id)
                } else {
                    None
                }
            })
            .collect();
        for (to, asked) in &self.asked {
            let reply = self.answered.get(to);
            if self.gone.contains(to) {
                continue;
            }
            let reply = reply.unwrap_or_else(|| panic!("seed {seed}: {to} was never answered"));
            if let Asked::Send(id) = asked {
                let is_there = sent.contains(id);
                if matches!(reply, Reply::Enqueued(_)) {
                    assert!(is_there, "seed {seed}: {to} is lost");
                } else if *reply != Reply::Unknown {
                    assert!(
                        !is_there,
                        "seed {seed}: {to} happened, and was answered {reply:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn three_owners_agree_and_keep_their_word_over_any_order_of_events() {
    let mut all = Seen::default();
    for seed in 0..100 {
        let mut world = World::new(seed);
        world.play();
        world.check(seed);
        let seen = &world.seen;
        all.own += seen.own;
        all.foreign += seen.foreign;
        all.rejected += seen.rejected;
        all.unknown += seen.unknown;
        all.late += seen.late;
        all.replaced += seen.replaced;
        all.moved_polls += seen.moved_polls;
        all.delivered += seen.delivered;
        all.in_flight_most = all.in_flight_most.max(seen.in_flight_most);
    }
    assert_eq!(all.in_flight_most, IN_FLIGHT_MAX);
    let least = [
        all.own,
        all.foreign,
        all.rejected,
        all.unknown,
        all.late,
        all.replaced,
        all.moved_polls,
        all.delivered,
    ];
    assert!(least.iter().all(|seen| *seen > 20), "{all:?}");
}
