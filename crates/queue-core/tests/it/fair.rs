//! Fair queues by name: how long a quiet group waits behind a noisy one.

use queue_core::{AttributeChange, Delivery, Handle};
use types::QueueId;

use crate::node::{Node, redrive};
use crate::rng::Rng;
use crate::runner::restored;

const NOISY: u32 = 10_000;
/// Most takes that a group with nothing in flight waits.
const TAKES_MAX: usize = 4;

/// Sends what a noisy group has, and lets consumers hold some of it, or get rid of it, or give it back.
fn flooded(rng: &mut Rng) -> (Node, QueueId) {
    let mut node = Node::new();
    let queue = node.create(0, vec![AttributeChange::VisibilityTimeout(600)]);
    for n in 0..NOISY {
        // Some without a group: together they are one group more.
        let group = (n % 7 > 0).then_some("noisy");
        node.send_to(queue, group);
    }
    for _ in 0..rng.below(300) {
        let max = rng.pick(&[1, 2, 10]);
        let taken = node.take(queue, max, 600);
        match rng.below(4) {
            0 => taken
                .iter()
                .for_each(|delivery| drop(node.delete(delivery.handle))),
            1 => taken.iter().for_each(|delivery| node.give_back(delivery.handle)),
            _ => {}
        }
    }
    (node, queue)
}

#[test]
fn a_quiet_group_waits_a_few_takes_behind_10_000_of_a_noisy_one() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let (mut node, queue) = flooded(&mut rng);
        for round in 0..5 {
            let quiet = node.send_to(queue, Some("quiet"));
            if rng.percent(50) {
                node.partition = restored(&node.partition);
            }
            let is_quiet = |delivery: &Delivery| delivery.handle.sequence == quiet;
            let mut takes = 1;
            while !node.take(queue, 1, 600).iter().any(is_quiet) {
                takes += 1;
            }
            assert!(takes <= TAKES_MAX, "seed {seed}, round {round}: {takes} takes");
        }
        node.partition.check_invariants();
    }
}

#[test]
fn a_batch_brings_a_quiet_group_at_once() {
    for seed in 0..10 {
        let (mut node, queue) = flooded(&mut Rng::new(seed));
        let quiet = node.send_to(queue, Some("quiet"));
        let taken: Vec<Handle> = node.take(queue, 10, 600).iter().map(|d| d.handle).collect();
        assert_eq!(taken.len(), 10);
        assert!(taken.is_sorted_by_key(|handle| handle.sequence), "{taken:?}");
        assert!(
            taken.iter().any(|handle| handle.sequence == quiet),
            "seed {seed}: {taken:?}"
        );
    }
}

/// Every fourth take is the oldest, so that even the group with the most in flight gets on.
#[test]
fn no_group_starves_while_others_come_and_go() {
    let mut node = Node::new();
    let queue = node.create(0, Vec::new());
    node.send_to(queue, Some("waits"));
    node.take(queue, 1, 43_200);
    let waits = node.send_to(queue, Some("waits"));
    let mut takes = 0;
    loop {
        for n in 0..3 {
            node.send_to(queue, Some(&format!("{takes}-{n}")));
        }
        takes += 1;
        let taken = node.take(queue, 1, 600);
        if taken[0].handle.sequence == waits {
            break;
        }
        node.delete(taken[0].handle);
    }
    assert!(takes <= TAKES_MAX, "{takes} takes");
}

#[test]
fn groups_of_one_message_come_in_the_order_of_sending() {
    let mut node = Node::new();
    let queue = node.create(0, Vec::new());
    for n in 0..20 {
        node.send_to(queue, Some(&format!("first-{n}")));
    }
    for n in 0..200 {
        let taken = node.take(queue, 1, 600);
        assert_eq!(taken[0].handle.sequence.0, n + 1);
        node.delete(taken[0].handle);
        node.send_to(queue, Some(&format!("{n}")));
        if n % 50 == 0 {
            node.partition = restored(&node.partition);
        }
    }
}

#[test]
fn a_give_back_leaves_the_order_of_groups_as_it_is() {
    let mut node = Node::new();
    let queue = node.create(0, Vec::new());
    for _ in 0..4 {
        node.send_to(queue, Some("a"));
        node.send_to(queue, Some("b"));
    }
    for _ in 0..6 {
        let taken = node.take(queue, 1, 600);
        node.give_back(taken[0].handle);
        node.partition.check_invariants();
    }
    assert_eq!(node.drain(queue, 600), 8);
}

#[test]
fn a_moved_message_without_a_group_is_no_worse_off_in_a_fair_queue() {
    let mut node = Node::new();
    let target = node.create(0, Vec::new());
    let source = node.create(1, vec![redrive(0)]);
    for _ in 0..1_000 {
        node.send_to(target, Some("noisy"));
    }
    node.take(target, 10, 600);
    node.send_to(source, None);
    node.take(source, 1, 0);
    assert_eq!(node.take(source, 1, 0), Vec::new());
    let is_moved = |delivery: &Delivery| delivery.dead_letter_source.is_some();
    let mut takes = 1;
    while !node.take(target, 1, 600).iter().any(is_moved) {
        takes += 1;
    }
    assert!(takes <= TAKES_MAX, "{takes} takes");
}
