//! Every way in which a message can become available wakes one waiter, at the instant at which it does.

use std::time::Duration;

use broker::{Reply, Request};
use queue_core::AttributeChange;
use types::limits::IN_FLIGHT_MAX;

use crate::node::{Node, received};
use crate::requests::{
    change_visibility, create, create_source, delete, entry, key, send, send_delayed, send_fifo,
};

const LONG: u32 = 20;

/// Checks that of two waiters the first was answered with this message at this second, and the other waits on.
fn check(node: &mut Node, polls: [u64; 2], text: &str, at_seconds: u64) {
    assert_eq!(
        node.now,
        Duration::from_secs(at_seconds),
        "at this instant, by the effect of a commit"
    );
    assert_eq!(node.text(polls[0]).as_deref(), Some(text));
    assert_eq!(node.take_reply(polls[1]), None);
    assert_eq!(node.owner.parked(), 1, "one waiter woken for one message");
}

fn two_polls(node: &mut Node, name: &str) -> [u64; 2] {
    [node.poll(name, LONG), node.poll(name, LONG)]
}

#[test]
fn a_send() {
    let mut node = Node::with(&[create("q", &[])]);
    let polls = two_polls(&mut node, "q");
    node.ask(send("q", &["m"]));
    check(&mut node, polls, "m", 0);
}

#[test]
fn the_end_of_a_delay() {
    let mut node = Node::with(&[create("q", &[])]);
    node.ask(send_delayed("q", "m", 3));
    let polls = two_polls(&mut node, "q");
    node.pass(Duration::from_millis(2_999));
    assert_eq!(node.owner.parked(), 2);
    node.pass(Duration::from_millis(1));
    check(&mut node, polls, "m", 3);
}

#[test]
fn a_visibility_change_to_zero() {
    let mut node = Node::with(&[create("q", &[])]);
    node.ask(send("q", &["m"]));
    let taken = node.take("q").unwrap();
    let polls = two_polls(&mut node, "q");
    node.pass_seconds(1);
    node.ask(change_visibility("q", taken.delivery.handle, 0));
    check(&mut node, polls, "m", 1);
}

#[test]
fn the_end_of_a_lease() {
    let mut node = Node::with(&[create("q", &[AttributeChange::VisibilityTimeout(4)])]);
    node.ask(send("q", &["m"]));
    node.take("q").unwrap();
    let polls = two_polls(&mut node, "q");
    node.pass_seconds(4);
    check(&mut node, polls, "m", 4);
}

#[test]
fn a_group_unblocked_by_the_delete_of_its_head() {
    let mut node = Node::with(&[create("q.fifo", &[])]);
    node.ask(send_fifo("q.fifo", "g", &["1", "2"]));
    let head = node.take("q.fifo").unwrap();
    let polls = two_polls(&mut node, "q.fifo");
    node.pass_seconds(2);
    node.ask(delete("q.fifo", &[head.delivery.handle]));
    check(&mut node, polls, "2", 2);
}

#[test]
fn a_group_unblocked_by_the_lapse_of_its_head() {
    let mut node = Node::with(&[create("q.fifo", &[AttributeChange::VisibilityTimeout(4)])]);
    node.ask(send_fifo("q.fifo", "g", &["1", "2"]));
    node.take("q.fifo").unwrap();
    let polls = two_polls(&mut node, "q.fifo");
    node.pass_seconds(4);
    check(&mut node, polls, "1", 4);
}

#[test]
fn a_dead_letter_arrival() {
    let mut node = Node::with(&[create("dead", &[]), create_source("q", "dead")]);
    node.ask(send("q", &["m"]));
    let taken = node.take("q").unwrap();
    node.ask(change_visibility("q", taken.delivery.handle, 0));
    let polls = two_polls(&mut node, "dead");
    assert_eq!(node.take("q"), None, "the second receive moves it");
    check(&mut node, polls, "m", 0);
}

#[test]
fn a_give_back() {
    let mut node = Node::with(&[create("q", &[])]);
    node.ask(send("q", &["m"]));
    let taken = node.take("q").unwrap();
    let polls = two_polls(&mut node, "q");
    node.give_back(&[taken]);
    node.settle();
    check(&mut node, polls, "m", 0);
}

#[test]
fn a_receive_that_leaves_its_message_visible() {
    let mut node = Node::with(&[create("q", &[])]);
    let mut fleeting = node.receive("q", LONG);
    fleeting.visibility_timeout_seconds = Some(0);
    let fleeting = node.submit(Request::Receive(fleeting));
    let polls = two_polls(&mut node, "q");
    node.ask(send("q", &["m"]));
    assert_eq!(node.text(fleeting).as_deref(), Some("m"));
    check(&mut node, polls, "m", 0);
}

#[test]
fn after_a_restart_a_receive_finds_what_is_available() {
    let mut node = Node::with(&[create("q", &[AttributeChange::VisibilityTimeout(30)])]);
    node.ask(send("q", &["m"]));
    node.restart();
    let poll = node.poll("q", LONG);
    assert_eq!(
        node.text(poll).as_deref(),
        Some("m"),
        "at once, without a new message"
    );
    node.restart();
    let polls = two_polls(&mut node, "q");
    assert_eq!(node.owner.parked(), 2, "its lease came through the restart");
    node.pass_seconds(19);
    node.restart();
    assert_eq!(node.owner.parked(), 0);
    let polls_after = two_polls(&mut node, "q");
    node.pass_seconds(11);
    check(&mut node, polls_after, "m", 30);
    assert_eq!(polls.map(|poll| node.take_reply(poll)), [None, None]);
}

#[test]
fn a_lease_that_ended_while_the_server_was_down() {
    let mut node = Node::with(&[create("q", &[AttributeChange::VisibilityTimeout(30)])]);
    node.ask(send("q", &["m"]));
    node.take("q").unwrap();
    node.now += Duration::from_secs(31);
    node.restart();
    let poll = node.poll("q", LONG);
    assert_eq!(node.text(poll).as_deref(), Some("m"));
}

/// Fills the set of messages in flight; returns their handles.
fn fill(node: &mut Node, name: &str) -> Vec<queue_core::Handle> {
    let entries: Vec<_> = (0..10).map(|n| entry(&n.to_string())).collect();
    for _ in 0..IN_FLIGHT_MAX / 10 {
        let entries = entries.clone();
        node.submit(Request::Enqueue {
            key: key(name),
            entries,
        });
    }
    node.settle();
    let receives: Vec<u64> = (0..IN_FLIGHT_MAX / 10)
        .map(|_| {
            let mut receive = node.receive(name, 0);
            receive.max = 10;
            receive.visibility_timeout_seconds = Some(600);
            node.submit(Request::Receive(receive))
        })
        .collect();
    node.settle();
    let messages = receives
        .into_iter()
        .flat_map(|reply| received(node.take_reply(reply).unwrap()));
    messages.map(|message| message.delivery.handle).collect()
}

#[test]
fn room_in_a_full_set_of_messages_in_flight_wakes_as_many_as_it_can_serve() {
    let mut node = Node::with(&[create("q", &[])]);
    let handles = fill(&mut node, "q");
    node.ask(send("q", &["1", "2", "3"]));
    assert_eq!(
        node.ask(Request::Receive(crate::requests::receive(0, "q", 0))),
        over_limit()
    );
    let polls = [node.poll("q", LONG), node.poll("q", LONG), node.poll("q", LONG)];
    assert_eq!(node.owner.parked(), 3, "a long poll waits for room");
    // One command makes room for two.
    node.ask(delete("q", &handles[..2]));
    let texts = polls.map(|poll| node.text(poll));
    assert_eq!(texts, [Some("1".into()), Some("2".into()), None]);
    node.ask(delete("q", &handles[2..3]));
    assert_eq!(node.text(polls[2]).as_deref(), Some("3"));
}

fn over_limit() -> Reply {
    Reply::Refused(queue_core::QueueError::OverLimit)
}

#[test]
fn a_message_behind_more_spent_ones_than_one_receive_moves() {
    let mut node = Node::with(&[create("dead", &[]), create_source("q", "dead")]);
    for _ in 0..15 {
        node.ask(Request::Enqueue {
            key: key("q"),
            entries: (0..10).map(|n| entry(&n.to_string())).collect(),
        });
        let mut receive = node.receive("q", 0);
        (receive.max, receive.visibility_timeout_seconds) = (10, Some(1));
        node.ask(Request::Receive(receive));
    }
    node.ask(send("q", &["fresh"]));
    node.pass_seconds(1);
    let polls = two_polls(&mut node, "q");
    check(&mut node, polls, "fresh", 1);
}
