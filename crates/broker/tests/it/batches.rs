//! Batches: when they close, and what becomes of one that is not committed.

use std::time::Duration;

use broker::{Reply, Request};
use queue_core::Command;

use crate::node::Node;
use crate::requests::{create, describe, key, send, send_delayed};

const BATCH_BYTES: usize = 256 * 1024;

#[test]
fn a_batch_closes_at_its_size_and_the_rest_follows_in_order() {
    let mut node = Node::with(&[create("q", &[])]);
    let body = "x".repeat(100 * 1024);
    let sends: Vec<u64> = (0..8).map(|_| node.submit(send("q", &[&body]))).collect();
    let played = node.settle();
    let sizes: Vec<usize> = played.iter().map(|turn| turn.commands.len()).collect();
    assert_eq!(
        sizes,
        [3, 3, 2],
        "it closes with the command that reaches the limit"
    );
    assert!(
        played
            .iter()
            .all(|turn| turn.entry_bytes < BATCH_BYTES + 101 * 1024)
    );
    let answered = played.iter().flat_map(|turn| &turn.replies).map(|(to, _)| *to);
    assert_eq!(answered.collect::<Vec<_>>(), sends);
}

#[test]
fn one_command_is_always_taken_however_large() {
    let mut node = Node::with(&[create("q", &[])]);
    let body = "x".repeat(1024 * 1024);
    let (first, second) = (
        node.submit(send("q", &[&body])),
        node.submit(send("q", &["small"])),
    );
    let played = node.settle();
    assert_eq!(played.len(), 2);
    assert_eq!((played[0].replies[0].0, played[1].replies[0].0), (first, second));
}

#[test]
fn a_batch_of_unknown_outcome_is_answered_as_such_to_everybody_in_it() {
    let mut node = Node::with(&[create("q", &[]), create("r", &[])]);
    node.ask(send("q", &["m"]));
    node.ask(send_delayed("r", "due", 1));
    node.now = Duration::from_secs(1);
    let receive = Request::Receive(node.receive("q", 20));
    let requests = [send("q", &["n"]), receive, create("s", &[]), describe("r")];
    let replies = requests.map(|request| node.submit(request));
    node.refusal = Some(Reply::Unknown);
    let played = node.turn();
    assert!(
        matches!(played.commands.last(), Some(Command::Tick)),
        "the read waits for a tick"
    );
    for reply in replies {
        assert_eq!(node.take_reply(reply), Some(Reply::Unknown));
    }
    node.refusal = None;
    assert_eq!(node.ask(Request::FindQueue { key: key("s") }), missing());
    assert_eq!(node.take("q").map(|m| m.delivery.receive_count), Some(1));
    node.restart();
}

#[test]
fn a_refused_take_leaves_its_message_to_the_next_waiter() {
    let mut node = Node::with(&[create("q", &[])]);
    let polls = [node.poll("q", 20), node.poll("q", 20)];
    node.submit(send("q", &["m"]));
    node.turn();
    node.refusal = Some(Reply::NotTaken);
    node.turn();
    assert_eq!(node.take_reply(polls[0]), Some(Reply::NotTaken));
    node.refusal = None;
    node.pass_seconds(1);
    assert_eq!(
        node.text(polls[1]).as_deref(),
        Some("m"),
        "it does not wait for its deadline"
    );
}

#[test]
fn a_journal_that_takes_nothing_is_not_asked_again_and_again() {
    let mut node = Node::with(&[create("q", &[])]);
    for _ in 0..100 {
        node.submit(send("q", &["m"]));
    }
    node.settle();
    node.ask(send_delayed("q", "later", 1));
    node.ask(Request::PurgeQueue { key: key("q") });
    node.ask(send_delayed("q", "due", 1));
    let poll = node.poll("q", 20);
    node.now = Duration::from_secs(1);
    node.refusal = Some(Reply::NotTaken);
    let turns = node.pass_seconds(10).len();
    assert!((2..=200).contains(&turns), "{turns} turns in ten seconds");
    assert_eq!(node.take_reply(poll), None, "its wait is not over");
    node.refusal = None;
    node.pass_seconds(1);
    assert_eq!(node.text(poll).as_deref(), Some("due"));
}

#[test]
fn a_request_is_answered_while_the_journal_takes_nothing() {
    let mut node = Node::with(&[create("q", &[])]);
    node.refusal = Some(Reply::NotTaken);
    for _ in 0..3 {
        assert_eq!(node.ask(send("q", &["m"])), Reply::NotTaken);
        assert_eq!(node.ask(Request::FindQueue { key: key("q") }), Reply::Done);
    }
    node.refusal = None;
    assert!(
        matches!(node.ask(send("q", &["m"])), Reply::Enqueued(_)),
        "at once when it takes again"
    );
}

fn missing() -> Reply {
    Reply::Refused(queue_core::QueueError::NoSuchQueue)
}
