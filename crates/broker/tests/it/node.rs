//! One owner played by hand: requests and the time go in, answers come out, and the log is a list in memory.
//!
//! It does what the commit thread does, one turn at a time and without a thread, a file or a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use broker::{Held, Input, Limits, Now, Owner, Receive, Recovered, Reply, Request, Taken, Turn, recover};
use journal::Replay;
use queue_core::{Command, Entry, Handle};
use types::{LogIndex, WallTime};

const STARTED_AT: u64 = 1_700_000_000_000;
/// More turns than any amount of work takes at one instant.
const TURNS_MAX: usize = 20_000;

/// What one turn did.
#[derive(Debug, Default)]
pub(crate) struct Played {
    /// The commands that were journaled; none if there was no batch.
    pub(crate) commands: Vec<Command>,
    pub(crate) entry_bytes: usize,
    /// The answers in their order.
    pub(crate) replies: Vec<(u64, Reply)>,
}

pub(crate) struct Node {
    pub(crate) owner: Owner<u64>,
    pub(crate) now: Duration,
    /// What the journal answers instead of a commit, for as long as it is set.
    pub(crate) refusal: Option<Reply>,
    limits: Limits,
    log: Vec<Vec<u8>>,
    inputs: Vec<Input<u64>>,
    replies: BTreeMap<u64, Reply>,
    gone: BTreeSet<u64>,
    last_reply: u64,
    last_waiter: u64,
}

impl Node {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            owner: Owner::new(recover(), limits, now_at(Duration::ZERO)),
            now: Duration::ZERO,
            refusal: None,
            limits,
            log: Vec::new(),
            inputs: Vec::new(),
            replies: BTreeMap::new(),
            gone: BTreeSet::new(),
            last_reply: 0,
            last_waiter: 0,
        }
    }

    /// Makes a node that has these queues.
    pub(crate) fn with(queues: &[Request]) -> Self {
        let mut node = Self::new(Limits::RELAXED);
        for queue in queues {
            let created = node.ask(queue.clone());
            assert_eq!(created, Reply::Done);
        }
        node
    }

    /// Ends the process and starts it again on the same log. Parked receives end with it.
    pub(crate) fn restart(&mut self) {
        let mut recovered = recover();
        for (index, entry) in (1..).zip(&self.log) {
            recovered.apply(LogIndex(index), entry, None).unwrap();
        }
        recovered.partition.check_invariants();
        assert_eq!(
            recovered.partition.state_hash(),
            self.owner.partition().state_hash(),
            "the log leads to the state that was served"
        );
        self.owner = Owner::new(recovered, self.limits, now_at(self.now));
    }

    /// Puts a request into the inbox; returns the number under which its answer comes.
    pub(crate) fn submit(&mut self, request: Request) -> u64 {
        self.last_reply += 1;
        self.inputs.push(Input {
            request,
            reply: Some(self.last_reply),
        });
        self.last_reply
    }

    /// Puts a request into the inbox that has no answer.
    pub(crate) fn tell(&mut self, request: Request) {
        self.inputs.push(Input { request, reply: None });
    }

    /// Sends a request and returns its answer.
    pub(crate) fn ask(&mut self, request: Request) -> Reply {
        let reply = self.submit(request);
        self.settle();
        self.take_reply(reply).expect("it was answered at once")
    }

    /// Begins a receive of one message; it is answered or parked when this returns.
    pub(crate) fn poll(&mut self, name: &str, wait_seconds: u32) -> u64 {
        let receive = self.receive(name, wait_seconds);
        let reply = self.submit(Request::Receive(receive));
        self.settle();
        reply
    }

    /// Writes a receive of one message under a new name.
    pub(crate) fn receive(&mut self, name: &str, wait_seconds: u32) -> Receive {
        self.last_waiter += 1;
        crate::requests::receive(self.last_waiter, name, wait_seconds)
    }

    /// Receives one message without waiting.
    pub(crate) fn take(&mut self, name: &str) -> Option<Taken> {
        let reply = self.poll(name, 0);
        let mut messages = received(self.take_reply(reply).expect("a short poll is answered at once"));
        assert!(messages.len() <= 1);
        messages.pop()
    }

    /// Says that the client of this answer has gone: its answer cannot be delivered.
    pub(crate) fn leave(&mut self, reply: u64) {
        self.gone.insert(reply);
    }

    /// Returns the answer, once.
    pub(crate) fn take_reply(&mut self, reply: u64) -> Option<Reply> {
        self.replies.remove(&reply)
    }

    /// Returns the text of the one message that a receive was answered with; `None` if it is still parked.
    pub(crate) fn text(&mut self, reply: u64) -> Option<String> {
        let messages = received(self.take_reply(reply)?);
        let [message] = &*messages else {
            panic!("one message, not {messages:?}");
        };
        Some(text(message))
    }

    pub(crate) fn is_empty_answer(&mut self, reply: u64) -> bool {
        self.take_reply(reply) == Some(Reply::Received(Vec::new()))
    }

    /// One turn: what is in the inbox becomes a batch, is committed and answered.
    pub(crate) fn turn(&mut self) -> Played {
        let mut played = Played::default();
        let (mut entry, mut turn) = (Vec::new(), Turn::default());
        let now = now_at(self.now);
        if self.owner.step(now, &mut self.inputs, &mut entry, &mut turn) {
            played.commands = Entry::decode(&entry).unwrap().commands;
            played.entry_bytes = entry.len();
            match &self.refusal {
                Some(refusal) => self.owner.abandon(refusal, &mut turn),
                None => {
                    self.log.push(entry);
                    let index = LogIndex(self.log.len() as u64);
                    self.owner.commit(index, None, now, &mut turn);
                }
            }
        }
        played.replies.clone_from(&turn.replies);
        for (to, reply) in turn.replies {
            if let (Reply::Received(messages), true) = (&reply, self.gone.contains(&to)) {
                self.owner.give_back(messages);
            }
            let earlier = self.replies.insert(to, reply);
            assert_eq!(earlier, None, "answered twice: {to}");
        }
        played
    }

    /// Gives messages back as a client's connection does that could not deliver them.
    pub(crate) fn give_back(&mut self, messages: &[Taken]) {
        let handles: Vec<Handle> = messages.iter().map(|message| message.delivery.handle).collect();
        if let Some(first) = handles.first() {
            let queue = first.queue;
            self.tell(Request::GiveBack { queue, handles });
        }
    }

    /// Takes turns until there is nothing to do at this instant.
    pub(crate) fn settle(&mut self) -> Vec<Played> {
        let mut all = Vec::new();
        loop {
            all.push(self.turn());
            if self.inputs.is_empty() && self.owner.next_wake().is_none_or(|at| at > self.now) {
                return all;
            }
            assert!(all.len() < TURNS_MAX, "the owner never comes to rest");
        }
    }

    /// Lets time pass, with a turn whenever the owner asks for one.
    pub(crate) fn pass(&mut self, by: Duration) -> Vec<Played> {
        let until = self.now + by;
        let mut all = Vec::new();
        while let Some(at) = self.owner.next_wake().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            all.extend(self.settle());
        }
        self.now = until;
        all
    }

    pub(crate) fn pass_seconds(&mut self, seconds: u64) -> Vec<Played> {
        self.pass(Duration::from_secs(seconds))
    }

    /// Returns the entries that were committed.
    pub(crate) fn log(&self) -> &[Vec<u8>] {
        &self.log
    }

    /// Returns what is held of contents, by slot, as a snapshot stores and restores it.
    pub(crate) fn contents(&self) -> BTreeMap<u32, Vec<u8>> {
        let (state, contents) = self.owner.snapshot();
        let mut bytes = Vec::new();
        broker::write_snapshot(WallTime::default(), &state, &contents, &mut bytes).unwrap();
        let mut recovered = recover();
        recovered.snapshot(LogIndex(1), &mut &bytes[..]).unwrap();
        contents_of(&recovered)
    }

    /// Returns how many entries were committed.
    pub(crate) fn entries(&self) -> usize {
        self.log.len()
    }
}

pub(crate) fn now_at(monotonic: Duration) -> Now {
    let millis = u64::try_from(monotonic.as_millis()).unwrap();
    Now {
        monotonic,
        wall: WallTime::from_millis(STARTED_AT + millis),
    }
}

pub(crate) fn received(reply: Reply) -> Vec<Taken> {
    match reply {
        Reply::Received(messages) => messages,
        Reply::Done
        | Reply::Enqueued(_)
        | Reply::Entries(_)
        | Reply::Moved(_)
        | Reply::Tasks(_)
        | Reply::Page(_)
        | Reply::Description(_)
        | Reply::Refused(_)
        | Reply::Unknown
        | Reply::NoRoom
        | Reply::NotLeader { .. }
        | Reply::NotTaken => panic!("messages, not {reply:?}"),
    }
}

pub(crate) fn contents_of(recovered: &Recovered) -> BTreeMap<u32, Vec<u8>> {
    let slots = u32::try_from(recovered.partition.slots()).unwrap();
    let content = |slot: u32| match recovered.contents.get(types::Slot(slot), 0) {
        Held::Memory(content) => Some((slot, content.to_vec())),
        Held::Nowhere => None,
        Held::Disk(stored) => panic!("{stored:?}, and there is no disk"),
    };
    (0..slots).filter_map(content).collect()
}

pub(crate) fn text(message: &Taken) -> String {
    match &message.content {
        Held::Memory(content) => text_of(content),
        Held::Disk(_) | Held::Nowhere => panic!("not in memory: {message:?}"),
    }
}

pub(crate) fn text_of(content: &[u8]) -> String {
    String::from_utf8(content.to_vec()).unwrap()
}
