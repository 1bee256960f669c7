//! Repeated receives by name: for how long, and what a repetition begins anew.

use queue_core::{Command, Outcome, QueueError};

use crate::node::Node;
use crate::runner::restored;

const A: Option<[u8; 16]> = Some([0xaa; 16]);
const B: Option<[u8; 16]> = Some([0xbb; 16]);

#[test]
fn an_attempt_is_repeated_for_five_minutes_however_often_it_was_repeated() {
    let mut node = Node::new();
    let queue = node.create(2, Vec::new());
    node.send(queue, 20, 0, None);
    let first = node.take_as(queue, 2, 1_000, A).unwrap();
    node.at += 200_000;
    node.take_as(queue, 2, 1_000, B).unwrap();
    for millis in [50_000, 49_999] {
        node.at += millis;
        assert_eq!(node.take_as(queue, 2, 1_000, A).as_ref(), Ok(&first));
        node.partition = restored(&node.partition);
    }
    node.at += 1;
    let new = node.take_as(queue, 2, 1_000, A).unwrap();
    assert_eq!(new.len(), 2);
    assert!(new.iter().all(|delivery| !first.contains(delivery)), "{new:?}");
}

#[test]
fn a_repetition_begins_the_twelve_hours_anew() {
    let mut node = Node::new();
    let queue = node.create(2, Vec::new());
    node.send(queue, 1, 0, None);
    node.take_as(queue, 1, 600, A).unwrap();
    node.at += 200_000;
    let again = node.take_as(queue, 1, 600, A).unwrap();
    let change = |seconds| Command::ChangeVisibility {
        queue,
        entries: vec![(again[0].handle, seconds)],
    };
    assert_eq!(
        node.apply(&change(43_200)).outcome,
        Ok(Outcome::Entries(vec![Ok(())]))
    );
}

#[test]
fn an_attempt_whose_answer_was_lost_on_the_way_is_a_new_receive() {
    let mut node = Node::new();
    let queue = node.create(2, Vec::new());
    node.send(queue, 1, 0, None);
    let lost = node.take_as(queue, 1, 600, A).unwrap();
    node.give_back(lost[0].handle);
    let new = node.take_as(queue, 1, 600, A).unwrap();
    assert_eq!((new.len(), new[0].receive_count), (1, 1));
    assert_eq!(node.take_as(queue, 1, 600, A), Ok(new));
}

#[test]
fn an_attempt_whose_message_was_deleted_is_refused_until_its_leases_end() {
    let mut node = Node::new();
    let queue = node.create(2, Vec::new());
    node.send(queue, 3, 0, None);
    let taken = node.take_as(queue, 2, 60, A).unwrap();
    node.delete(taken[0].handle);
    assert_eq!(node.take_as(queue, 2, 60, A), Err(QueueError::AttemptChanged));
    node.partition = restored(&node.partition);
    node.at += 59_999;
    assert_eq!(node.take_as(queue, 2, 60, A), Err(QueueError::AttemptChanged));
    node.at += 1;
    let new = node.take_as(queue, 2, 60, A).unwrap();
    assert_eq!(new.len(), 2);
    node.at += 1;
    assert_eq!(node.take_as(queue, 2, 60, A), Ok(new));
}
