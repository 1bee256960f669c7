//! A take whose answer did not reach its client is undone: as if the receive had never been.

use broker::Request;
use queue_core::Command;

use crate::node::{Node, received, text};
use crate::requests::{create, send, send_fifo};

#[test]
fn a_take_whose_client_has_gone_is_given_back_with_position_and_count() {
    let mut node = Node::with(&[create("q", &[])]);
    node.ask(send("q", &["1", "2", "3"]));
    let receive = node.receive("q", 0);
    let gone = node.submit(Request::Receive(receive));
    node.leave(gone);
    node.settle();
    let again = node.take("q").unwrap();
    assert_eq!((text(&again).as_str(), again.delivery.receive_count), ("1", 1));
    let next = node.take("q").unwrap();
    assert_eq!((text(&next).as_str(), next.delivery.receive_count), ("2", 1));
}

#[test]
fn a_parked_receive_whose_client_has_gone_gives_back_to_the_next_waiter() {
    let mut node = Node::with(&[create("q", &[])]);
    let gone = node.poll("q", 20);
    node.leave(gone);
    let stays = node.poll("q", 20);
    node.ask(send("q", &["m"]));
    let messages = received(node.take_reply(stays).unwrap());
    assert_eq!(
        (text(&messages[0]).as_str(), messages[0].delivery.receive_count),
        ("m", 1)
    );
}

#[test]
fn a_group_that_is_given_back_stands_where_it_stood() {
    let mut node = Node::with(&[create("q.fifo", &[])]);
    node.ask(send_fifo("q.fifo", "g", &["g1", "g2"]));
    node.ask(send_fifo("q.fifo", "h", &["h1"]));
    let mut receive = node.receive("q.fifo", 0);
    receive.max = 2;
    let gone = node.submit(Request::Receive(receive.clone()));
    node.leave(gone);
    node.settle();
    receive.max = 3;
    let again = node.submit(Request::Receive(receive));
    node.settle();
    let messages = received(node.take_reply(again).unwrap());
    assert_eq!(messages.iter().map(text).collect::<Vec<_>>(), ["g1", "g2", "h1"]);
    assert!(messages.iter().all(|message| message.delivery.receive_count == 1));
}

#[test]
fn what_was_given_back_twice_or_received_again_meanwhile_counts_once() {
    let mut node = Node::with(&[create("q", &[])]);
    node.ask(send("q", &["m"]));
    let first = node.take("q").unwrap();
    node.give_back(std::slice::from_ref(&first));
    node.give_back(std::slice::from_ref(&first));
    node.settle();
    let second = node.take("q").unwrap();
    assert_eq!(second.delivery.receive_count, 1);
    node.give_back(&[first]);
    node.settle();
    assert_eq!(node.take("q"), None, "the newer lease runs on");
}

#[test]
fn a_give_back_that_the_journal_refuses_is_done_later() {
    let mut node = Node::with(&[create("q", &[])]);
    node.ask(send("q", &["m"]));
    let taken = node.take("q").unwrap();
    node.refusal = Some(broker::Reply::NotTaken);
    node.give_back(&[taken]);
    let played = node.settle();
    assert!(matches!(played[0].commands[..], [Command::GiveBack { .. }]));
    node.refusal = None;
    let poll = node.poll("q", 20);
    node.pass_seconds(1);
    assert_eq!(node.text(poll).as_deref(), Some("m"), "before its lease ends");
}
