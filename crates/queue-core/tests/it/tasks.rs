//! Message move tasks by name: their pace, their end, and many of them at once.

use std::collections::BTreeSet;

use queue_core::{Command, TaskFailure, TaskStatus};
use types::QueueId;

use crate::node::{Node, counters, redrive};
use crate::runner::restored;
use crate::steps::key;

/// A dead-letter queue and its source, both standard or both FIFO.
fn pair(node: &mut Node, dlq: usize) -> (QueueId, QueueId) {
    let target = node.create(dlq, Vec::new());
    (target, node.create(dlq + 1, vec![redrive(dlq)]))
}

#[test]
fn a_task_moves_each_message_once_whenever_the_server_starts_again() {
    for dlq in [0, 2] {
        let mut node = Node::new();
        let (source, target) = pair(&mut node, dlq);
        node.send(source, 9_000, 0, None);
        let held = node.receive(source, 3);
        node.start(source, Some(dlq + 1), None);
        node.send_as(source, "later", "later");
        let mut steps = 0;
        while node.task(source).0 == TaskStatus::Running {
            steps += 1;
            node.partition = restored(&node.partition);
            node.tick(1_000);
            let moved = node.task(source).1;
            let (left, there) = (node.counters(source).total(), node.counters(target).visible);
            assert_eq!((left, there), (9_001 - moved, moved));
        }
        assert_eq!(node.task(source), (TaskStatus::Completed, 9_000));
        let ids = node.take(target, 10_000, 30).into_iter();
        let ids: BTreeSet<_> = ids.filter_map(|delivery| delivery.message_id).collect();
        assert_eq!(ids.len(), 9_000, "each has an id of its own");
        assert_eq!(node.counters(source), counters(1, 0, 0), "what came later stays");
        assert!(
            (3..8).contains(&steps),
            "{steps} steps, {} messages held for 3 s",
            held.len()
        );
        node.partition.check_invariants();
    }
}

#[test]
fn a_task_is_complete_with_its_last_message() {
    let mut node = Node::new();
    let (source, _) = pair(&mut node, 0);
    node.send(source, 2, 0, None);
    node.start(source, Some(1), Some(1));
    node.tick(0);
    assert_eq!(node.task(source), (TaskStatus::Running, 1));
    node.tick(1_000);
    assert_eq!(node.task(source), (TaskStatus::Completed, 2));
    assert_eq!(node.partition.next_task(), None);
}

#[test]
fn a_slow_task_never_moves_two_within_a_second() {
    let mut node = Node::new();
    let (source, _) = pair(&mut node, 0);
    node.send(source, 20, 0, None);
    node.start(source, Some(1), Some(1));
    let mut moves: Vec<u64> = Vec::new();
    // The server stands still now and then.
    for millis in [0, 1, 999, 5_000, 1, 1, 998, 10_000, 1_000, 1_500, 499, 1, 500] {
        let before = node.task(source).1;
        node.tick(millis);
        let moved = node.task(source).1 - before;
        moves.extend((0..moved).map(|_| node.at));
    }
    assert!(
        moves.len() >= 7 && moves.windows(2).all(|two| two[1] - two[0] >= 1_000),
        "{moves:?}"
    );
}

#[test]
fn a_task_finds_its_message_behind_any_number_of_new_groups() {
    let mut node = Node::new();
    let (source, target) = pair(&mut node, 2);
    node.send_as(source, "old", "old");
    assert_eq!(node.receive(source, 10).len(), 1);
    node.start(source, Some(3), None);
    node.send(source, 20_000, 0, None);
    node.at += 10_000;
    for _ in 0..5 {
        node.tick(1_000);
        node.partition = restored(&node.partition);
        node.partition.check_invariants();
    }
    assert_eq!(node.task(source), (TaskStatus::Completed, 1));
    assert_eq!(node.counters(target).visible, 1);
}

/// A group that was passed over comes back to the head of the order when its receive is given back.
#[test]
fn a_task_finds_a_message_that_was_given_back() {
    let mut node = Node::new();
    let (source, _) = pair(&mut node, 2);
    node.send_as(source, "old", "old");
    let old = node.receive(source, 600);
    node.start(source, Some(3), None);
    node.send(source, 2_000, 0, None);
    node.tick(1_000);
    node.give_back(old[0].handle);
    node.tick(1_000);
    node.tick(1_000);
    assert_eq!(node.task(source), (TaskStatus::Completed, 1));
}

#[test]
fn tasks_take_turns() {
    let mut node = Node::new();
    let (long, _) = pair(&mut node, 0);
    let (short, _) = pair(&mut node, 2);
    node.send(long, 50_000, 0, None);
    node.send(short, 10, 0, None);
    node.start(long, Some(1), None);
    node.start(short, Some(3), None);
    node.receive(long, 0);
    assert_eq!(node.task(short), (TaskStatus::Completed, 10));
    let (status, moved) = node.task(long);
    assert!(
        status == TaskStatus::Running && moved <= 2_000,
        "{moved} messages moved by two commands"
    );
}

#[test]
fn at_most_ten_tasks_of_a_source_are_kept() {
    let mut node = Node::new();
    let (source, _) = pair(&mut node, 0);
    let mut ids = Vec::new();
    for _ in 0..25 {
        ids.push(node.start(source, Some(1), None));
        node.tick(0);
    }
    let kept: Vec<_> = node.partition.move_tasks(source).map(|task| task.id).collect();
    assert_eq!(kept, ids.into_iter().rev().take(10).collect::<Vec<_>>());
    node.apply(&Command::DeleteQueue { queue: source });
    assert_eq!(node.partition.move_tasks(source).count(), 0);
}

#[test]
fn a_task_whose_destination_goes_leaves_the_rest() {
    let mut node = Node::new();
    let (source, target) = pair(&mut node, 0);
    node.send(source, 5, 0, None);
    node.start(source, Some(1), Some(1));
    node.tick(0);
    node.apply(&Command::DeleteQueue { queue: target });
    node.tick(1_000);
    let failed = TaskStatus::Failed(TaskFailure::NoDestination);
    assert_eq!(node.task(source), (failed, 1));
    assert_eq!(node.receive(source, 30).len(), 4, "the rest can be received");
    assert_eq!(node.partition.queue_id(&key(1)), None);
}

#[test]
fn tasks_that_wait_look_at_the_same_instants() {
    let mut node = Node::new();
    let mut next = Vec::new();
    for dlq in [0, 2] {
        let (source, _) = pair(&mut node, dlq);
        node.send(source, 1, 0, None);
        assert_eq!(node.receive(source, 600).len(), 1);
        node.at += 300;
        node.start(source, None, None);
        node.tick(0);
        next.push(node.partition.next_task());
    }
    assert_eq!(next[0], next[1]);
    assert!(next[0].is_some_and(|at| at > node.partition.clock()));
}
