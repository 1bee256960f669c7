//! Random clients against one owner, seeded: nothing is lost, nothing is leased twice, and nobody waits for nothing.
//!
//! The model knows each message by its text and follows the answers. After every step that lets the owner come to
//! rest it checks "always" (no poll is parked while a message of its queue is due) and after every answer "never"
//! (nothing is delivered within its lease, no wait ends early).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use broker::{Reply, Request};
use queue_core::{Handle, QueueError};
use simulator::Random;

use crate::node::{Node, Played, text};
use crate::requests::{change_visibility, create, delete, entry, fifo_entry, key};

const QUEUES: [&str; 3] = ["a", "b", "c.fifo"];
const RUNS: u64 = 4_000;
const STEPS: u64 = 60;

#[derive(Debug)]
struct Message {
    queue: usize,
    group: u64,
    number: u64,
    /// In milliseconds of the state clock.
    visible_at: u64,
    /// What the receive count may be before the next delivery.
    receive_counts: Vec<u32>,
    /// Of the last delivery, unless that was given back.
    handle: Option<Handle>,
}

#[derive(Debug, Clone)]
struct Poll {
    queue: usize,
    waiter: u64,
    deadline: Duration,
    visibility_timeout_seconds: u64,
    is_gone: bool,
}

/// What an outstanding request was.
#[derive(Debug, Clone)]
enum Asked {
    Create(usize),
    DeleteQueue(usize),
    Purge(usize),
    Send {
        queue: usize,
        group: u64,
        texts: Vec<String>,
        delay_seconds: u64,
    },
    Poll(Poll),
    Delete {
        text: String,
        handle: Handle,
    },
    ChangeVisibility {
        text: String,
        handle: Handle,
        seconds: u64,
    },
}

struct Run {
    random: Random,
    node: Node,
    exists: [bool; QUEUES.len()],
    messages: BTreeMap<String, Message>,
    asked: BTreeMap<u64, Asked>,
    /// Polls whose cancel stood in the inbox before the last turn.
    cancelled: BTreeSet<u64>,
    /// What this turn handed to clients that have gone: the next one undoes it.
    undelivered: Vec<(String, Handle)>,
    last_message: u64,
    delivered: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut run = Self {
            random: Random::new(seed),
            node: Node::new(broker::Limits::RELAXED),
            exists: [false; QUEUES.len()],
            messages: BTreeMap::new(),
            asked: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            undelivered: Vec::new(),
            last_message: 0,
            delivered: 0,
        };
        for (queue, name) in QUEUES.iter().enumerate() {
            run.ask(create(name, &[]), Asked::Create(queue));
        }
        run.settle();
        run
    }

    fn ask(&mut self, request: Request, asked: Asked) {
        let reply = self.node.submit(request);
        self.asked.insert(reply, asked);
    }

    fn clock(&self) -> u64 {
        u64::try_from(self.node.now.as_millis()).unwrap()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).unwrap()
    }

    /// One action of some client, or of time.
    fn act(&mut self) {
        let queue = self.index(QUEUES.len());
        match self.below(100) {
            0..18 => self.send(queue),
            18..42 => self.poll(queue),
            42..48 => self.cancel(),
            48..52 => self.leave(),
            52..57 => self.delete(),
            57..62 => self.change_visibility(),
            62..65 => self.give_back(),
            65..75 => self.let_time_pass(),
            75..77 => self.ask(
                Request::PurgeQueue {
                    key: key(QUEUES[queue]),
                },
                Asked::Purge(queue),
            ),
            77 => self.ask(
                Request::DeleteQueue {
                    key: key(QUEUES[queue]),
                },
                Asked::DeleteQueue(queue),
            ),
            78..80 => self.ask(create(QUEUES[queue], &[]), Asked::Create(queue)),
            80..84 => self.refuse(),
            84 => self.restart(),
            85..88 => self.settle(),
            // One turn alone: what it wakes is still on its way when the next thing happens.
            _ => {
                let played = self.node.turn();
                self.follow(vec![played]);
            }
        }
    }

    fn send(&mut self, queue: usize) {
        let group = self.below(3);
        let texts: Vec<String> = (0..=self.below(3))
            .map(|_| {
                self.last_message += 1;
                format!("{:06}", self.last_message)
            })
            .collect();
        let is_fifo = is_fifo(queue);
        let delay_seconds = if is_fifo || self.random.percent(70) {
            0
        } else {
            self.below(4)
        };
        let make = |text: &String| match is_fifo {
            true => fifo_entry(&group.to_string(), text),
            false => queue_core::EnqueueEntry {
                delay_seconds: Some(u32::try_from(delay_seconds).unwrap()),
                ..entry(text)
            },
        };
        let entries = texts.iter().map(make).collect();
        let request = Request::Enqueue {
            key: key(QUEUES[queue]),
            entries,
        };
        self.ask(
            request,
            Asked::Send {
                queue,
                group,
                texts,
                delay_seconds,
            },
        );
    }

    fn poll(&mut self, queue: usize) {
        let wait_seconds = if self.random.percent(30) {
            0
        } else {
            self.below(20)
        };
        let visibility_timeout_seconds = if self.random.percent(10) {
            0
        } else {
            self.below(10)
        };
        let mut receive = self
            .node
            .receive(QUEUES[queue], u32::try_from(wait_seconds).unwrap());
        receive.max = u32::try_from(1 + self.below(4)).unwrap();
        receive.visibility_timeout_seconds = Some(u32::try_from(visibility_timeout_seconds).unwrap());
        let poll = Poll {
            queue,
            waiter: receive.waiter.0,
            deadline: self.node.now + Duration::from_secs(wait_seconds),
            visibility_timeout_seconds,
            is_gone: false,
        };
        self.ask(Request::Receive(receive), Asked::Poll(poll));
    }

    fn some_poll(&mut self) -> Option<u64> {
        let polls = self
            .asked
            .iter()
            .filter(|(_, asked)| matches!(asked, Asked::Poll(_)));
        let polls: Vec<u64> = polls.map(|(reply, _)| *reply).collect();
        (!polls.is_empty()).then(|| polls[self.index(polls.len())])
    }

    /// The client of a receive goes, and its connection sees it.
    fn cancel(&mut self) {
        let Some(reply) = self.some_poll() else { return };
        let Some(Asked::Poll(poll)) = self.asked.remove(&reply) else {
            return;
        };
        self.cancelled.insert(reply);
        self.node.tell(Request::Cancel {
            waiter: broker::WaiterId(poll.waiter),
        });
    }

    /// The client of a receive goes, and nobody sees it before the answer.
    fn leave(&mut self) {
        let Some(reply) = self.some_poll() else { return };
        if let Some(Asked::Poll(poll)) = self.asked.get_mut(&reply) {
            poll.is_gone = true;
            self.node.leave(reply);
        }
    }

    fn some_handle(&mut self) -> Option<(String, usize, Handle)> {
        let received = self
            .messages
            .iter()
            .filter_map(|(text, m)| Some((text.clone(), m.queue, m.handle?)));
        let received: Vec<_> = received.collect();
        (!received.is_empty()).then(|| received[self.index(received.len())].clone())
    }

    fn delete(&mut self) {
        if let Some((text, queue, handle)) = self.some_handle() {
            self.ask(delete(QUEUES[queue], &[handle]), Asked::Delete { text, handle });
        }
    }

    fn change_visibility(&mut self) {
        if let Some((text, queue, handle)) = self.some_handle() {
            let seconds = self.below(6);
            let request = change_visibility(QUEUES[queue], handle, u32::try_from(seconds).unwrap());
            self.ask(
                request,
                Asked::ChangeVisibility {
                    text,
                    handle,
                    seconds,
                },
            );
        }
    }

    fn give_back(&mut self) {
        // It has no answer that would tell the model when it was done; so nothing stands before it in the inbox.
        self.settle();
        if let Some((text, _, handle)) = self.some_handle() {
            let (queue, handles) = (handle.queue, vec![handle]);
            self.node.tell(Request::GiveBack { queue, handles });
            self.model_give_back(&text, handle);
        }
    }

    /// From here on it may be delivered, and once the owner rests it must be.
    fn model_give_back(&mut self, text: &str, handle: Handle) {
        let clock = self.clock();
        let message = self
            .messages
            .get_mut(text)
            .filter(|message| message.handle == Some(handle));
        let Some(message) = message else { return };
        message.handle = None;
        message.visible_at = clock;
        let before: Vec<u32> = message.receive_counts.iter().map(|count| count - 1).collect();
        message.receive_counts.extend(before);
    }

    fn let_time_pass(&mut self) {
        let to_next = self
            .node
            .owner
            .next_wake()
            .map(|at| at.saturating_sub(self.node.now));
        let millis = Duration::from_millis(1);
        let by = match (self.below(4), to_next) {
            (0, Some(to_next)) => to_next,
            (1, Some(to_next)) => to_next.saturating_sub(millis),
            (2, Some(to_next)) => to_next + millis,
            _ => Duration::from_millis(self.below(3_000)),
        };
        // Time does not stand still for the owner: it is asked whenever it wants to be.
        let until = self.node.now + by.min(Duration::from_secs(30));
        self.settle();
        while let Some(at) = self.node.owner.next_wake().filter(|at| *at <= until) {
            self.node.now = self.node.now.max(at);
            self.settle();
        }
        self.node.now = until;
        // Whatever became due by now, the owner asked to be woken for it.
        self.check_rest();
    }

    /// A batch is not committed, for one reason or the other; then the journal takes batches again.
    fn refuse(&mut self) {
        self.node.refusal = Some(if self.random.percent(50) {
            Reply::NotTaken
        } else {
            Reply::Unknown
        });
        let played = self.node.turn();
        self.follow(vec![played]);
        self.node.refusal = None;
        self.node.now += Duration::from_millis(200);
        self.settle();
    }

    fn restart(&mut self) {
        self.settle();
        self.asked.retain(|_, asked| !matches!(asked, Asked::Poll(_)));
        self.node.restart();
    }

    fn settle(&mut self) {
        let played = self.node.settle();
        self.follow(played);
        self.check_rest();
    }

    fn follow(&mut self, played: Vec<Played>) {
        for turn in played {
            for (to, reply) in turn.replies {
                assert!(
                    !self.cancelled.contains(&to),
                    "answered a cancelled receive: {reply:?}"
                );
                self.node.take_reply(to);
                let asked = self.asked.remove(&to).expect("only what was asked is answered");
                self.answered(asked, reply);
            }
            for (text, handle) in std::mem::take(&mut self.undelivered) {
                self.model_give_back(&text, handle);
            }
        }
    }

    fn answered(&mut self, asked: Asked, reply: Reply) {
        let clock = self.clock();
        match (asked, reply) {
            (_, Reply::NotTaken | Reply::Unknown) => {}
            (Asked::Create(queue), Reply::Done) => self.exists[queue] = true,
            (Asked::DeleteQueue(queue), Reply::Done) => {
                self.exists[queue] = false;
                self.messages.retain(|_, message| message.queue != queue);
            }
            (Asked::Purge(queue), Reply::Done) => self.messages.retain(|_, message| message.queue != queue),
            (
                Asked::Send {
                    queue,
                    group,
                    texts,
                    delay_seconds,
                },
                Reply::Enqueued(results),
            ) => {
                for (text, result) in texts.into_iter().zip(results) {
                    result.unwrap();
                    let message = Message {
                        queue,
                        group,
                        number: text.parse().unwrap(),
                        visible_at: clock + delay_seconds * 1_000,
                        receive_counts: vec![0],
                        handle: None,
                    };
                    self.messages.insert(text, message);
                }
            }
            (Asked::Poll(poll), Reply::Received(messages)) => {
                let is_early = messages.is_empty() && self.node.now < poll.deadline;
                assert!(!is_early, "a wait ended early: {poll:?} at {:?}", self.node.now);
                messages.iter().for_each(|message| self.delivered(&poll, message));
                if poll.is_gone {
                    let handles = messages
                        .iter()
                        .map(|message| (text(message), message.delivery.handle));
                    self.undelivered.extend(handles);
                }
            }
            (Asked::Delete { text, handle }, Reply::Entries(results)) => {
                // A FIFO queue says whether it deleted; a standard one lets any handle delete after the lease.
                let is_deleted = self.messages.get(&text).is_some_and(|message| {
                    is_fifo(message.queue) || message.handle == Some(handle) || message.visible_at <= clock
                });
                if is_deleted && results == [Ok(())] {
                    self.messages.remove(&text);
                }
            }
            (
                Asked::ChangeVisibility {
                    text,
                    handle,
                    seconds,
                },
                Reply::Entries(results),
            ) => {
                // On a standard queue an older handle changes the timeout of a newer receive.
                let message = self.messages.get_mut(&text).filter(|message| {
                    message.handle == Some(handle) || (!is_fifo(message.queue) && message.visible_at > clock)
                });
                if let (Some(message), [Ok(())]) = (message, &*results) {
                    message.visible_at = clock + seconds * 1_000;
                }
            }
            (asked, Reply::Refused(QueueError::NoSuchQueue)) => {
                assert!(!matches!(asked, Asked::Create(_)), "{asked:?}");
            }
            (asked, reply) => panic!("{reply:?} to {asked:?}"),
        }
    }

    fn delivered(&mut self, poll: &Poll, received: &broker::Taken) {
        let clock = self.clock();
        let text = text(received);
        let message = self.messages.get_mut(&text);
        let message = message.unwrap_or_else(|| panic!("{text} is gone and was delivered"));
        assert_eq!(message.queue, poll.queue);
        assert!(
            message.visible_at <= clock,
            "{text} was delivered in its lease: {message:?} at {clock}"
        );
        let before = received.delivery.receive_count - 1;
        assert!(
            message.receive_counts.contains(&before),
            "{text}: {received:?} of {message:?}"
        );
        message.receive_counts = vec![before + 1];
        message.handle = Some(received.delivery.handle);
        message.visible_at = clock + poll.visibility_timeout_seconds * 1_000;
        self.delivered += 1;
    }

    /// Whether a receive must find something: a message that is due, in a FIFO queue at the head of its group.
    fn has_due(&self, queue: usize) -> bool {
        let clock = self.clock();
        let of_queue = || self.messages.values().filter(|message| message.queue == queue);
        of_queue().any(|message| {
            let is_head =
                !of_queue().any(|other| other.group == message.group && other.number < message.number);
            message.visible_at <= clock && (is_head || !is_fifo(queue))
        })
    }

    /// Checks what holds whenever the owner has nothing to do at this instant.
    fn check_rest(&mut self) {
        let polls = self.asked.values().map(|asked| {
            let Asked::Poll(poll) = asked else {
                panic!("not answered: {asked:?}");
            };
            poll.clone()
        });
        let polls: Vec<Poll> = polls.collect();
        assert_eq!(self.node.owner.parked(), polls.len(), "{polls:?}");
        for poll in &polls {
            assert!(
                self.exists[poll.queue],
                "parked at a queue that is gone: {poll:?}"
            );
            assert!(
                poll.deadline > self.node.now,
                "parked beyond its deadline: {poll:?}"
            );
            assert!(
                !self.has_due(poll.queue),
                "parked while a message is due: {poll:?} {:?}",
                self.messages
            );
        }
        self.cancelled.clear();
    }

    /// Ends all polls and takes what is left out: it must be exactly what the model holds.
    fn drain(&mut self) {
        self.settle();
        assert_eq!(self.node.ask(Request::EndPolls), Reply::Done);
        for (reply, asked) in std::mem::take(&mut self.asked) {
            assert!(self.node.is_empty_answer(reply), "{asked:?}");
        }
        assert_eq!(self.node.owner.parked(), 0);
        self.node.restart();
        self.node.pass_seconds(20);
        for (queue, name) in QUEUES.iter().enumerate() {
            let held = self.messages.iter().filter(|(_, message)| message.queue == queue);
            let held: Vec<String> = held.map(|(text, _)| text.clone()).collect();
            let mut left = Vec::new();
            while self.exists[queue]
                && let Some(message) = self.node.take(name)
            {
                left.push(text(&message));
                self.node.ask(delete(name, &[message.delivery.handle]));
            }
            left.sort_unstable();
            assert_eq!(left, held, "{name}");
        }
        self.node.owner.partition().check_invariants();
    }
}

fn is_fifo(queue: usize) -> bool {
    QUEUES[queue].ends_with(".fifo")
}

fn play(seed: u64) -> u64 {
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.act();
    }
    run.drain();
    run.delivered
}

#[test]
fn random_clients_lose_nothing_and_never_wait_for_nothing() {
    let first: u64 = std::env::var("BROKER_SEED").map_or(0, |seed| seed.parse().unwrap());
    let runs = if first == 0 { RUNS } else { 1 };
    let mut delivered = 0;
    for seed in first..first + runs {
        let played = std::panic::catch_unwind(|| play(seed));
        delivered += played.unwrap_or_else(|_| panic!("failed with BROKER_SEED={seed}"));
    }
    assert!(
        runs == 1 || delivered > RUNS * 10,
        "{delivered} deliveries: the runs are not empty"
    );
}
