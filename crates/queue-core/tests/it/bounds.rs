//! Limits that seeded sequences do not reach: messages in flight, work of one command, moves of one receive.

use queue_core::{AttributeChange, Command, Effect, Outcome, QueueError};

use crate::node::{Node, counters, redrive};
use crate::runner::restored;

#[test]
fn a_standard_queue_has_at_most_120_000_messages_in_flight() {
    let mut node = Node::new();
    let queue = node.create(0, Vec::new());
    node.send(queue, 120_005, 0, None);
    let first = node.receive(queue, 600)[0].handle;
    assert_eq!(node.drain(queue, 600), 119_990);
    assert_eq!(node.counters(queue), counters(5, 0, 120_000));
    assert!(
        !node.partition.has_available(queue),
        "what cannot be received wakes nobody"
    );
    assert_eq!(node.receive_as(queue, 600, false), Err(QueueError::OverLimit));
    assert_eq!(node.receive_as(queue, 600, true), Ok(Vec::new()));

    let applied = node.delete(first);
    assert!(
        applied.effects.contains(&Effect::Available(queue)),
        "room for one wakes a waiter"
    );
    assert_eq!(node.receive(queue, 600).len(), 1, "as many as there is room for");
    node.at += 600_000;
    assert_eq!(node.receive(queue, 600).len(), 10, "lapsed leases make room");
}

#[test]
fn a_fifo_queue_at_its_limit_gives_nothing_and_no_error() {
    let mut node = Node::new();
    let queue = node.create(2, Vec::new());
    node.send(queue, 120_005, 0, None);
    let first = node.receive(queue, 600)[0].handle;
    assert_eq!(node.drain(queue, 600), 119_990);
    assert_eq!(node.receive_as(queue, 600, false), Ok(Vec::new()));
    assert_eq!(node.receive_as(queue, 600, true), Ok(Vec::new()));
    assert!(
        !node.partition.has_available(queue),
        "what cannot be received wakes nobody"
    );
    let applied = node.delete(first);
    assert!(
        applied.effects.contains(&Effect::Available(queue)),
        "room for one wakes a waiter of another group"
    );
    assert_eq!(node.receive(queue, 600).len(), 1, "as many as there is room for");
    node.partition.check_invariants();
}

#[test]
fn a_command_ends_at_most_1_000_delays_and_a_tick_the_rest() {
    let mut node = Node::new();
    let (queue, other) = (node.create(0, Vec::new()), node.create(1, Vec::new()));
    node.send(queue, 5_000, 10, None);
    node.at += 10_000;
    node.send(other, 1, 0, None);
    assert_eq!(node.counters(queue), counters(1_000, 4_000, 0));
    let due = node.partition.next_due().unwrap();
    assert!(due <= node.partition.clock(), "what is left is due now");
    node.apply(&Command::Tick);
    assert_eq!(node.counters(queue), counters(5_000, 0, 0));
}

#[test]
fn a_receive_finds_its_message_behind_any_number_of_due_timers() {
    let mut node = Node::new();
    let (busy, queue) = (node.create(0, Vec::new()), node.create(1, Vec::new()));
    node.send(busy, 30_000, 10, None);
    node.at += 1;
    node.send(queue, 1, 10, None);
    node.at += 20_000;
    assert_eq!(node.receive(queue, 30).len(), 1);
}

#[test]
fn an_expired_message_is_never_delivered_however_many_there_are() {
    let mut node = Node::new();
    let queue = node.create(0, vec![AttributeChange::MessageRetentionPeriod(60)]);
    node.send(queue, 30_000, 0, None);
    node.at += 1_000;
    node.send(queue, 3, 0, None);
    node.at += 59_000;
    assert_eq!(node.receive(queue, 0).len(), 3);
    for _ in 0..4 {
        node.apply(&Command::Tick);
    }
    assert_eq!(node.counters(queue), counters(3, 0, 0));
    node.partition.check_invariants();
}

#[test]
fn one_receive_moves_at_most_100_messages_and_loses_none() {
    for (queue, dlq, group, most) in [(1, 0, None, 100), (3, 2, None, 100), (3, 2, Some("one"), 10)] {
        let mut node = Node::new();
        let target = node.create(dlq, Vec::new());
        let queue = node.create(queue, vec![redrive(dlq)]);
        node.send(queue, 250, 0, group);
        let mut moved_at_once = 0;
        for _ in 0..30 {
            let mut taken = 1;
            while taken > 0 {
                let before = node.counters(target).visible;
                taken = node.receive(queue, 5).len();
                let moved = node.counters(target).visible;
                assert_eq!(node.counters(queue).total() + moved, 250);
                moved_at_once = moved_at_once.max(moved - before);
                node.partition.check_invariants();
            }
            node.at += 5_000;
        }
        assert_eq!(node.counters(target).visible, 250);
        assert_eq!(moved_at_once, most);
    }
}

#[test]
fn a_queue_that_names_itself_keeps_its_messages() {
    for queue in [1, 3] {
        let mut node = Node::new();
        let id = node.create(queue, vec![redrive(queue)]);
        node.send(id, 2, 0, Some("one"));
        for _ in 0..20 {
            node.receive(id, 0);
            node.apply(&Command::Tick);
            assert_eq!(node.counters(id), counters(2, 0, 0));
            node.partition.check_invariants();
        }
    }
}

#[test]
fn a_purge_is_done_at_once_and_reclaimed_bit_by_bit() {
    for queue in [0, 2] {
        let mut node = Node::new();
        let id = node.create(queue, Vec::new());
        node.send(id, 5_000, 0, None);
        node.receive(id, 30);
        let purge = Command::PurgeQueue {
            queue: id,
            purge_wait_seconds: 60,
        };
        assert_eq!(node.apply(&purge).outcome, Ok(Outcome::Done));
        assert_eq!(node.counters(id), counters(0, 0, 0));
        let mut freed = 0;
        while node.partition.has_garbage() {
            let receive = Command::Receive {
                queue: id,
                max: 10,
                visibility_timeout_seconds: None,
                is_long_poll: true,
                attempt: None,
            };
            let applied = node.apply(&receive);
            assert_eq!(applied.outcome, Ok(Outcome::Received(Vec::new())));
            assert!(
                applied.effects.len() <= 256,
                "one command freed {} slots",
                applied.effects.len()
            );
            freed += applied.effects.len();
        }
        assert_eq!(freed, 5_000, "every slot is freed once");
        node.partition.check_invariants();
    }
}

#[test]
fn what_waits_is_found_after_any_number_of_short_lives() {
    for queue in [0, 2] {
        let mut node = Node::new();
        let id = node.create(queue, vec![AttributeChange::MessageRetentionPeriod(3_600)]);
        // Two that stay: one hidden for half an hour, one for an hour. Behind them thousands come and go,
        // whose timers and ages are forgotten in bulk.
        node.send(id, 1, 0, Some("stays"));
        assert_eq!(node.receive(id, 1_800).len(), 1);
        node.at += 1;
        node.send_as(id, "waits", "waits");
        assert_eq!(node.receive(id, 3_600).len(), 1);
        for n in 0..6_000 {
            node.send_as(id, "passes", &format!("passes-{n}"));
            let passing = node.receive(id, 3_000);
            assert_eq!(passing.len(), 1, "message {n}");
            node.delete(passing[0].handle);
            if n % 1_999 == 0 {
                node.partition.check_invariants();
                node.partition = restored(&node.partition);
            }
        }
        assert_eq!(node.counters(id), counters(0, 0, 2));
        node.at += 1_800_000 - 2;
        node.apply(&Command::Tick);
        assert_eq!(
            node.counters(id),
            counters(0, 0, 2),
            "a millisecond before the lease ends"
        );
        node.at += 1;
        node.apply(&Command::Tick);
        assert_eq!(node.counters(id), counters(1, 0, 1), "when the lease ends");
        node.at = 1_000 + 3_599_999;
        node.apply(&Command::Tick);
        assert_eq!(
            node.counters(id),
            counters(1, 0, 1),
            "a millisecond before the first expires"
        );
        node.at += 1;
        node.apply(&Command::Tick);
        assert_eq!(node.counters(id), counters(0, 0, 1), "when the first expires");
        node.at += 1;
        node.apply(&Command::Tick);
        assert_eq!(node.counters(id), counters(0, 0, 0), "when the second expires");
        node.partition.check_invariants();
    }
}

#[test]
fn the_limit_of_messages_in_flight_can_be_set() {
    for (queue, group) in [(0, None), (2, Some("one"))] {
        let mut node = Node::new();
        let before = node.create(queue, Vec::new());
        node.send(before, 5, 0, group);
        assert_eq!(node.receive(before, 60).len(), 5);
        node.apply(&Command::SetLimits { in_flight_max: 3 });
        assert_eq!(node.partition.in_flight_max(), 3);
        assert!(!node.partition.has_available(before));

        let after = node.create(queue + 1, Vec::new());
        node.send(after, 9, 0, group);
        assert_eq!(node.receive(after, 60).len(), 3, "as many as there is room for");
        assert_eq!(node.counters(after).in_flight, 3);
        let raised = node.apply(&Command::SetLimits { in_flight_max: 4 });
        assert!(
            raised.effects.contains(&Effect::Available(after)),
            "a waiter can be served again"
        );
        node.partition.check_invariants();
    }
}
