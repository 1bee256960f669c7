//! An owner that begins and ceases to reign, and one with several batches on their way, played by hand.

use std::time::Duration;

use broker::{Input, Limits, Owner, Reply, Request, Taken, Turn, WaiterId, recover};
use journal::Ticket;
use queue_core::{Command, Entry};
use types::LogIndex;

use crate::node::{now_at, received};
use crate::requests::{create, describe, key, receive, send, send_delayed};

struct Hand {
    owner: Owner<u64>,
    now: Duration,
    index: u64,
    replies: Vec<(u64, Reply)>,
    entry: Vec<u8>,
}

impl Hand {
    /// Makes an owner of the queue `q` that may have two batches on their way.
    fn new() -> Self {
        let mut hand = Self {
            owner: Owner::new(recover(), Limits::RELAXED, now_at(Duration::ZERO)),
            now: Duration::ZERO,
            index: 0,
            replies: Vec::new(),
            entry: Vec::new(),
        };
        hand.owner.allow_batches(2);
        hand.propose(1, &[(0, create("q", &[]))]);
        hand.commit(1);
        hand.replies.clear();
        hand
    }

    /// Makes a batch of these requests, if they make one. Returns its commands.
    fn step(&mut self, requests: &[(u64, Request)]) -> Option<Vec<Command>> {
        let inputs = requests.iter().map(|(reply, request)| Input {
            request: request.clone(),
            reply: Some(*reply),
        });
        let (mut inputs, mut turn) = (inputs.collect(), Turn::default());
        let now = now_at(self.now);
        let has_batch = self.owner.step(now, &mut inputs, &mut self.entry, &mut turn);
        self.replies.append(&mut turn.replies);
        has_batch.then(|| Entry::decode(&self.entry).unwrap().commands)
    }

    fn propose(&mut self, ticket: u64, requests: &[(u64, Request)]) -> Vec<Command> {
        let commands = self.step(requests).expect("there is a batch");
        self.owner.proposed(Ticket(ticket));
        commands
    }

    fn commit(&mut self, ticket: u64) {
        let mut turn = Turn::default();
        self.index += 1;
        let entry = (LogIndex(self.index), None);
        let now = now_at(self.now);
        assert!(self.owner.commit_proposal(Ticket(ticket), entry, now, &mut turn));
        self.replies.append(&mut turn.replies);
    }

    fn abandon(&mut self, ticket: u64, reply: &Reply) {
        let mut turn = Turn::default();
        assert!(self.owner.abandon_proposal(Ticket(ticket), reply, &mut turn));
        self.replies.append(&mut turn.replies);
    }

    fn end_reign(&mut self) {
        let mut turn = Turn::default();
        self.owner.end_reign(now_at(self.now), &mut turn);
        self.replies.append(&mut turn.replies);
    }

    fn poll(&self, reply: u64, wait_seconds: u32) -> (u64, Request) {
        (reply, Request::Receive(receive(reply, "q", wait_seconds)))
    }

    fn taken(&mut self, reply: u64) -> Vec<Taken> {
        let at = self.replies.iter().position(|(to, _)| *to == reply);
        received(self.replies.remove(at.expect("it was answered")).1)
    }
}

#[test]
fn a_receive_cancelled_while_its_batch_is_on_its_way_does_not_wait_again() {
    let mut hand = Hand::new();
    hand.propose(2, &[(1, send("q", &["m"]))]);
    hand.commit(2);
    let receives = [hand.poll(2, 0), hand.poll(3, 20)];
    hand.propose(3, &receives);
    let cancel = Request::Cancel { waiter: WaiterId(3) };
    assert_eq!(hand.step(&[(4, cancel)]), None);
    hand.commit(3);
    assert_eq!(hand.taken(2).len(), 1);
    assert!(hand.taken(3).is_empty(), "whoever is told nothing has gone");
    assert_eq!(hand.owner.parked(), 0);
}

#[test]
fn a_receive_that_an_earlier_batch_left_nothing_waits_again() {
    let mut hand = Hand::new();
    hand.propose(2, &[(1, send("q", &["m"]))]);
    hand.commit(2);
    let (first, second) = (hand.poll(2, 0), hand.poll(3, 20));
    hand.propose(3, &[first]);
    hand.propose(4, &[second]);
    assert!(!hand.owner.may_step(), "two are on their way");
    assert_eq!(
        hand.owner.next_wake(),
        None,
        "nothing can be done before one has arrived"
    );
    hand.commit(3);
    hand.commit(4);
    assert_eq!(hand.taken(2).len(), 1);
    assert_eq!(hand.owner.parked(), 1);
    hand.propose(5, &[(4, send("q", &["n"]))]);
    hand.commit(5);
    hand.propose(6, &[]);
    hand.commit(6);
    assert_eq!(hand.taken(3).len(), 1);
}

#[test]
fn what_undoes_a_take_is_proposed_until_it_is_committed() {
    let mut hand = Hand::new();
    hand.propose(2, &[(1, send("q", &["m"]))]);
    hand.commit(2);
    let poll = hand.poll(2, 0);
    hand.propose(3, &[poll]);
    hand.commit(3);
    let taken = hand.taken(2);
    hand.owner.give_back(&taken);
    let is_give_back = |commands: &[Command]| matches!(commands, [Command::GiveBack { .. }]);
    assert!(is_give_back(&hand.propose(4, &[])));
    hand.abandon(4, &Reply::Unknown);
    hand.end_reign();
    assert_eq!(hand.step(&[]), None, "it may not");
    hand.owner.reign();
    assert!(is_give_back(&hand.propose(5, &[])));
    hand.commit(5);
    let poll = hand.poll(6, 0);
    hand.propose(6, &[poll]);
    hand.commit(6);
    assert_eq!(hand.taken(6)[0].delivery.receive_count, 1);
    assert_eq!(hand.step(&[]), None, "once is enough");
}

#[test]
fn a_tick_on_its_way_is_not_proposed_again_and_wakes_nobody() {
    let mut hand = Hand::new();
    hand.propose(2, &[(1, send_delayed("q", "m", 5))]);
    hand.commit(2);
    hand.now = Duration::from_secs(5);
    assert_eq!(hand.propose(3, &[(2, describe("q"))]), [Command::Tick]);
    assert_eq!(hand.owner.next_wake(), None);
    assert_eq!(hand.step(&[(3, describe("q"))]), None, "it is on its way");
    hand.commit(3);
    let visible = |reply: &Reply| {
        if let Reply::Description(description) = reply {
            Some(description.counters.visible)
        } else {
            None
        }
    };
    let told: Vec<_> = hand
        .replies
        .iter()
        .map(|(to, reply)| (*to, visible(reply)))
        .collect();
    assert_eq!(told[1..], [(2, Some(1)), (3, Some(1))]);
}

#[test]
fn a_read_waits_for_a_tick_of_its_own_time() {
    let mut hand = Hand::new();
    hand.propose(
        2,
        &[(1, send_delayed("q", "m", 5)), (1, send_delayed("q", "n", 6))],
    );
    hand.commit(2);
    hand.replies.clear();
    hand.now = Duration::from_secs(5);
    hand.propose(3, &[(2, describe("q"))]);
    hand.now = Duration::from_secs(6);
    assert_eq!(hand.step(&[(3, describe("q"))]), None);
    hand.commit(3);
    let told: Vec<_> = hand.replies.iter().map(|(to, _)| *to).collect();
    assert_eq!(told, [2], "the second was due later");
    assert_eq!(hand.propose(4, &[]), [Command::Tick]);
    hand.commit(4);
    assert!(matches!(
        &hand.replies[1],
        (3, Reply::Description(description)) if description.counters.visible == 2
    ));
}

#[test]
fn whoever_does_not_reign_refuses_everything_and_says_how_long_is_left_to_wait() {
    let mut hand = Hand::new();
    let poll = hand.poll(1, 20);
    assert_eq!(hand.step(&[poll]), None);
    hand.propose(2, &[(2, send("q", &["m"]))]);
    hand.now = Duration::from_secs(5);
    hand.end_reign();
    let left = |seconds: u64| Reply::NotLeader {
        wait_left: Some(Duration::from_secs(seconds)),
    };
    assert_eq!(std::mem::take(&mut hand.replies), [(1, left(15))]);
    let refused = [
        (3, send("q", &["n"])),
        (4, describe("q")),
        (5, Request::FindQueue { key: key("q") }),
        hand.poll(6, 20),
    ];
    assert_eq!(hand.step(&refused), None);
    let answers = std::mem::take(&mut hand.replies);
    assert_eq!(answers.len(), 4);
    let not_leader = Reply::NotLeader { wait_left: None };
    assert!(
        answers.iter().all(|(_, reply)| *reply == not_leader),
        "{answers:?}"
    );
    assert_eq!(hand.owner.next_wake(), None);
    // What was on its way arrives nevertheless.
    hand.commit(2);
    assert!(matches!(&*hand.replies, [(2, Reply::Enqueued(_))]));
}

#[test]
fn a_take_rejected_after_the_reign_leaves_its_receive_the_rest_of_its_wait() {
    let mut hand = Hand::new();
    hand.propose(2, &[(1, send("q", &["m"]))]);
    hand.commit(2);
    let poll = hand.poll(2, 20);
    hand.propose(3, &[poll]);
    hand.now = Duration::from_secs(2);
    hand.end_reign();
    hand.replies.clear();
    hand.abandon(3, &Reply::NotTaken);
    let wait_left = Some(Duration::from_secs(18));
    assert_eq!(hand.replies, [(2, Reply::NotLeader { wait_left })]);
}

#[test]
fn entries_of_others_set_the_clock_that_a_reign_goes_on_with() {
    let mut leader = Hand::new();
    let mut follower = Owner::<u64>::new(recover(), Limits::RELAXED, now_at(Duration::ZERO));
    follower.suspend();
    // Its own clock goes by another start.
    let ahead = Duration::from_secs(1_000);
    let mut turn = Turn::default();
    let mut entries = vec![leader.entry.clone()];
    leader.now = Duration::from_secs(50);
    leader.propose(2, &[(1, send_delayed("q", "m", 10))]);
    entries.push(leader.entry.clone());
    leader.commit(2);
    for (index, entry) in (1..).zip(&entries) {
        let mut now = now_at(leader.now);
        now.monotonic += ahead;
        follower
            .commit_foreign(LogIndex(index), entry, None, now, &mut turn)
            .unwrap();
    }
    assert!(turn.replies.is_empty() && turn.commit == broker::Commit::default());
    follower.reign();
    let mut take = |seconds: u64| {
        let mut now = now_at(Duration::from_secs(seconds));
        now.monotonic += ahead;
        let (mut turn, mut entry) = (Turn::default(), Vec::new());
        let request = Request::Receive(receive(1, "q", 0));
        let mut inputs = vec![Input {
            request,
            reply: Some(1),
        }];
        if follower.step(now, &mut inputs, &mut entry, &mut turn) {
            follower.commit(follower.index().next(), None, now, &mut turn);
        }
        received(turn.replies.remove(0).1).len()
    };
    assert_eq!((take(59), take(60)), (0, 1));
}
