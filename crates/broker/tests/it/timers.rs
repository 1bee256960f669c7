//! What happens without a request: due timers, expiry, reclaiming, and the clock that can be turned.

use std::time::Duration;

use broker::{Limits, QueueDescription, Reply, Request};
use queue_core::{AttributeChange, Command, Counters, QueueError};

use crate::node::Node;
use crate::requests::{create, describe, entry, key, send, send_delayed};

fn description(node: &mut Node, name: &str) -> QueueDescription {
    let reply = node.ask(describe(name));
    let Reply::Description(description) = reply else {
        panic!("a description, not {reply:?}");
    };
    *description
}

fn counters(node: &mut Node, name: &str) -> (u64, u64, u64) {
    let Counters {
        visible,
        delayed,
        in_flight,
    } = description(node, name).counters;
    (visible, delayed, in_flight)
}

#[test]
fn counters_are_exact_when_timers_are_due_and_cost_an_entry_only_then() {
    let mut node = Node::with(&[create("q", &[AttributeChange::VisibilityTimeout(2)])]);
    node.ask(send("q", &["1", "2"]));
    node.ask(send_delayed("q", "3", 1));
    node.take("q").unwrap();
    let entries = node.entries();
    assert_eq!(counters(&mut node, "q"), (1, 1, 1));
    assert_eq!(node.entries(), entries, "nothing was due");
    node.pass_seconds(1);
    assert_eq!(counters(&mut node, "q"), (2, 0, 1));
    assert_eq!(node.entries(), entries + 1);
    node.pass_seconds(1);
    let reply = node.submit(describe("q"));
    assert_eq!(node.turn().commands, [Command::Tick]);
    assert!(node.take_reply(reply).is_some());
    assert_eq!(counters(&mut node, "q"), (3, 0, 0));
}

#[test]
fn counters_do_not_show_what_has_expired() {
    let mut node = Node::with(&[create("q", &[AttributeChange::MessageRetentionPeriod(60)])]);
    node.ask(send("q", &["m"]));
    node.now = Duration::from_millis(59_999);
    assert_eq!(counters(&mut node, "q"), (1, 0, 0));
    node.now = Duration::from_secs(60);
    assert_eq!(counters(&mut node, "q"), (0, 0, 0));
}

#[test]
fn counters_are_exact_even_if_one_tick_is_not_enough() {
    let mut node = Node::with(&[create("q", &[AttributeChange::DelaySeconds(5)])]);
    send_many(&mut node, 30_000);
    node.now = Duration::from_secs(5);
    assert_eq!(counters(&mut node, "q"), (30_000, 0, 0));
}

fn send_many(node: &mut Node, messages: usize) {
    let entries: Vec<_> = (0..10).map(|n| entry(&n.to_string())).collect();
    for _ in 0..messages / 10 {
        let entries = entries.clone();
        node.submit(Request::Enqueue {
            key: key("q"),
            entries,
        });
    }
    node.settle();
}

#[test]
fn a_read_of_a_queue_that_goes_meanwhile_is_refused() {
    let mut node = Node::with(&[create("q", &[])]);
    node.ask(send_delayed("q", "m", 1));
    node.now = Duration::from_secs(1);
    let read = node.submit(describe("q"));
    node.submit(Request::DeleteQueue { key: key("q") });
    node.settle();
    assert_eq!(
        node.take_reply(read),
        Some(Reply::Refused(QueueError::NoSuchQueue))
    );
}

#[test]
fn a_purge_is_reclaimed_by_ticks_without_any_request() {
    let mut node = Node::with(&[create("q", &[])]);
    send_many(&mut node, 50_000);
    node.submit(Request::PurgeQueue { key: key("q") });
    let played = node.settle();
    assert!(!node.owner.partition().has_garbage());
    let ticks = played
        .iter()
        .filter(|turn| turn.commands == [Command::Tick])
        .count();
    assert!((5..20).contains(&ticks), "{ticks} ticks");
    let wake = node.owner.next_wake();
    assert!(
        wake.is_none_or(|at| at >= Duration::from_secs(3_600)),
        "then it rests"
    );
    assert!(node.contents().is_empty(), "the contents go with their slots");
}

#[test]
fn an_idle_partition_removes_what_has_expired() {
    let mut node = Node::with(&[create("q", &[AttributeChange::MessageRetentionPeriod(60)])]);
    for _ in 0..20 {
        node.ask(send("q", &["m"]));
        node.pass(Duration::from_millis(500));
    }
    let entries = node.entries();
    node.pass_seconds(50);
    assert_eq!(left(&node), 19, "the first has expired and is gone");
    node.pass_seconds(20);
    assert_eq!(left(&node), 0);
    let ticks = node.entries() - entries;
    assert!(
        (1..=3).contains(&ticks),
        "{ticks} entries: an idle partition is not woken for each message"
    );
    assert_eq!(node.owner.next_wake(), None);
}

#[test]
fn a_backlog_of_expired_messages_is_gone_within_a_minute() {
    let mut node = Node::with(&[create("q", &[AttributeChange::MessageRetentionPeriod(60)])]);
    send_many(&mut node, 100_000);
    node.pass_seconds(60 + 60);
    assert_eq!(left(&node), 0);
}

fn left(node: &Node) -> u64 {
    let partition = node.owner.partition();
    let id = partition.queue_id(&key("q")).unwrap();
    partition.queue(id).unwrap().counters().total()
}

#[test]
fn due_timers_of_an_idle_partition_cost_nothing_until_somebody_asks() {
    let mut node = Node::with(&[create("q", &[AttributeChange::VisibilityTimeout(5)])]);
    node.ask(send("q", &["m"]));
    node.take("q").unwrap();
    let entries = node.entries();
    node.pass_seconds(1_000);
    assert_eq!(node.entries(), entries);
    assert_eq!(node.take("q").map(|m| m.delivery.receive_count), Some(2));
}

#[test]
fn the_clock_can_be_turned_and_everything_due_by_then_happens() {
    let mut node = Node::with(&[create("q", &[AttributeChange::VisibilityTimeout(30)])]);
    node.ask(send("q", &["m"]));
    node.take("q").unwrap();
    let poll = node.poll("q", 20);
    let by = Duration::from_secs(29);
    assert_eq!(node.ask(Request::AdvanceClock { by }), Reply::Done);
    assert_eq!(node.take_reply(poll), None);
    let by = Duration::from_secs(1);
    assert_eq!(node.ask(Request::AdvanceClock { by }), Reply::Done);
    assert_eq!(node.text(poll).as_deref(), Some("m"), "without any time passing");
    node.pass_seconds(29);
    assert_eq!(node.take("q"), None);
    node.pass_seconds(1);
    assert!(
        node.take("q").is_some(),
        "the clock goes on from where it was turned to"
    );
}

#[test]
fn a_turned_clock_moves_no_deadline_of_a_wait() {
    let mut node = Node::with(&[create("q", &[])]);
    let poll = node.poll("q", 20);
    let by = Duration::from_secs(3_600);
    node.ask(Request::AdvanceClock { by });
    node.pass_seconds(19);
    assert_eq!(node.owner.parked(), 1);
    node.pass_seconds(1);
    assert!(node.is_empty_answer(poll));
}

#[test]
fn the_waits_of_sqs_hold_unless_they_are_relaxed() {
    let mut strict = Node::new(Limits::STRICT);
    let mut relaxed = Node::new(Limits::RELAXED);
    for node in [&mut strict, &mut relaxed] {
        node.ask(create("q", &[]));
        node.ask(Request::PurgeQueue { key: key("q") });
    }
    let purge = Request::PurgeQueue { key: key("q") };
    let (in_progress, deleted_recently) = (QueueError::PurgeInProgress, QueueError::QueueDeletedRecently);
    assert_eq!(strict.ask(purge.clone()), Reply::Refused(in_progress));
    assert_eq!(relaxed.ask(purge), Reply::Done);
    for node in [&mut strict, &mut relaxed] {
        node.ask(Request::DeleteQueue { key: key("q") });
    }
    assert_eq!(strict.ask(create("q", &[])), Reply::Refused(deleted_recently));
    assert_eq!(relaxed.ask(create("q", &[])), Reply::Done);
    strict.now += Duration::from_secs(60);
    assert_eq!(strict.ask(create("q", &[])), Reply::Done);
}
