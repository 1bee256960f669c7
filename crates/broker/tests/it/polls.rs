//! Long polls: who parks, who is woken and in which order, and how a wait ends.

use std::time::Duration;

use broker::{Reply, Request, WaiterId};
use queue_core::{AttributeChange, Command, QueueError};

use crate::node::Node;
use crate::requests::{create, key, send};

const NO_SUCH_QUEUE: Reply = Reply::Refused(QueueError::NoSuchQueue);

fn is_receive(command: &Command) -> bool {
    matches!(command, Command::Receive { .. })
}

#[test]
fn a_receive_that_finds_nothing_parks_without_an_entry_and_the_next_send_answers_it() {
    let mut node = Node::with(&[create("q", &[])]);
    let entries = node.entries();
    let poll = node.poll("q", 20);
    assert_eq!((node.owner.parked(), node.entries()), (1, entries));
    let deadline = node.owner.next_wake();
    assert_eq!(deadline, Some(Duration::from_secs(20)));
    node.pass_seconds(7);
    node.ask(send("q", &["m"]));
    assert_eq!(
        node.now,
        Duration::from_secs(7),
        "the commit woke it, not a timer"
    );
    assert_eq!(node.text(poll).as_deref(), Some("m"));
    assert_eq!(
        (node.owner.parked(), node.owner.next_wake().is_none()),
        (0, false)
    );
}

#[test]
fn a_short_poll_of_an_empty_queue_is_answered_without_an_entry() {
    let mut node = Node::with(&[create("q", &[])]);
    let entries = node.entries();
    let poll = node.poll("q", 0);
    assert!(node.is_empty_answer(poll));
    assert_eq!((node.owner.parked(), node.entries()), (0, entries));
}

#[test]
fn each_message_wakes_one_waiter_and_the_longest_waiting_comes_first() {
    let mut node = Node::with(&[create("q", &[])]);
    let polls: Vec<u64> = (0..4).map(|_| node.poll("q", 20)).collect();
    node.submit(send("q", &["1"]));
    let receives = |played: &[crate::node::Played]| {
        let commands = played.iter().flat_map(|turn| &turn.commands);
        commands.filter(|command| is_receive(command)).count()
    };
    assert_eq!(receives(&node.settle()), 1, "one message, one take");
    node.submit(send("q", &["2", "3"]));
    assert_eq!(receives(&node.settle()), 2);
    let texts: Vec<_> = polls.iter().map(|poll| node.text(*poll)).collect();
    assert_eq!(
        texts,
        [Some("1".into()), Some("2".into()), Some("3".into()), None]
    );
}

#[test]
fn waiters_that_were_woken_for_nothing_keep_their_order() {
    let mut node = Node::with(&[create("q", &[])]);
    let mut first = node.receive("q", 20);
    first.max = 10;
    let first = node.submit(Request::Receive(first));
    let others: Vec<u64> = (0..3).map(|_| node.poll("q", 20)).collect();
    // Four messages wake all four; the first takes everything.
    node.ask(send("q", &["1", "2", "3", "4"]));
    assert_eq!(crate::node::received(node.take_reply(first).unwrap()).len(), 4);
    assert_eq!(node.owner.parked(), 3);
    for (number, poll) in others.iter().enumerate() {
        let text = format!("{number} of the others");
        node.ask(send("q", &[&text]));
        assert_eq!(node.text(*poll), Some(text));
    }
}

#[test]
fn the_wait_of_the_request_goes_before_the_wait_of_the_queue() {
    let mut node = Node::with(&[create("q", &[AttributeChange::ReceiveMessageWaitTimeSeconds(3)])]);
    let mut own = node.receive("q", 0);
    own.wait = None;
    let own = node.submit(Request::Receive(own));
    let short = node.poll("q", 0);
    let long = node.poll("q", 5);
    assert!(node.is_empty_answer(short), "a request of 0 does not wait");
    node.pass(Duration::from_millis(2_999));
    assert_eq!(node.owner.parked(), 2);
    node.pass(Duration::from_millis(1));
    assert!(node.is_empty_answer(own));
    node.pass(Duration::from_millis(1_999));
    assert_eq!(node.take_reply(long), None);
    node.pass(Duration::from_millis(1));
    assert!(node.is_empty_answer(long));
    assert_eq!((node.owner.parked(), node.owner.next_wake()), (0, None));
}

#[test]
fn a_message_at_the_very_deadline_is_delivered_or_kept_but_not_lost() {
    let mut node = Node::with(&[create("q", &[])]);
    let poll = node.poll("q", 2);
    node.now = Duration::from_secs(2);
    node.submit(send("q", &["m"]));
    node.settle();
    assert!(
        node.is_empty_answer(poll),
        "its time was over when the message came"
    );
    assert_eq!(node.take("q").map(|m| m.delivery.receive_count), Some(1));
}

#[test]
fn waiters_of_a_deleted_queue_end_and_a_new_queue_of_the_name_does_not_wake_them() {
    let mut node = Node::with(&[create("q", &[])]);
    let polls = [node.poll("q", 20), node.poll("q", 20)];
    node.submit(Request::DeleteQueue { key: key("q") });
    let created = node.submit(create("q", &[]));
    // The new queue and its first message come in the same turn as the end of the old one.
    node.settle();
    node.ask(send("q", &["of the new queue"]));
    assert_eq!(node.take_reply(created), Some(Reply::Done));
    for poll in polls {
        assert_eq!(node.take_reply(poll), Some(NO_SUCH_QUEUE));
    }
    assert_eq!(node.owner.parked(), 0);
    assert!(node.take("q").is_some());
}

#[test]
fn a_waiter_that_was_woken_before_its_queue_was_deleted_ends_too() {
    let mut node = Node::with(&[create("q", &[])]);
    let poll = node.poll("q", 20);
    node.submit(send("q", &["m"]));
    node.submit(Request::DeleteQueue { key: key("q") });
    node.settle();
    assert_eq!(node.take_reply(poll), Some(NO_SUCH_QUEUE));
    assert_eq!(node.owner.parked(), 0);
}

#[test]
fn a_cancelled_waiter_is_out_and_nothing_is_taken_for_it() {
    let mut node = Node::with(&[create("q", &[])]);
    let cancelled = node.poll("q", 20);
    let stays = node.poll("q", 20);
    node.tell(Request::Cancel { waiter: WaiterId(1) });
    node.settle();
    assert_eq!(node.owner.parked(), 1);
    node.ask(send("q", &["m"]));
    assert_eq!(node.text(stays).as_deref(), Some("m"));
    assert_eq!(node.take_reply(cancelled), None);
}

#[test]
fn a_waiter_cancelled_after_it_was_woken_takes_nothing_and_the_next_one_is_woken() {
    let mut node = Node::with(&[create("q", &[])]);
    let cancelled = node.poll("q", 20);
    let stays = node.poll("q", 20);
    node.submit(send("q", &["m"]));
    node.turn();
    node.tell(Request::Cancel { waiter: WaiterId(1) });
    let played = node.settle();
    let takes = played
        .iter()
        .flat_map(|turn| &turn.commands)
        .filter(|c| is_receive(c));
    assert_eq!(takes.count(), 1, "no take is made for a client that has gone");
    assert_eq!(node.take_reply(cancelled), None);
    let messages = crate::node::received(node.take_reply(stays).unwrap());
    assert_eq!(messages[0].delivery.receive_count, 1);
}

#[test]
fn a_receive_whose_cancel_is_in_the_same_inbox_takes_nothing() {
    let mut node = Node::with(&[create("q", &[])]);
    node.ask(send("q", &["m"]));
    let receive = node.receive("q", 20);
    let waiter = receive.waiter;
    let reply = node.submit(Request::Receive(receive));
    node.tell(Request::Cancel { waiter });
    let played = node.turn();
    assert!(!played.commands.iter().any(is_receive), "{:?}", played.commands);
    assert_eq!((node.take_reply(reply), node.owner.parked()), (None, 0));
}

#[test]
fn end_polls_answers_all_with_nothing_and_later_receives_do_not_wait() {
    let mut node = Node::with(&[create("q", &[]), create("r", &[])]);
    let polls = [node.poll("q", 20), node.poll("r", 20), node.poll("q", 5)];
    assert_eq!(node.ask(Request::EndPolls), Reply::Done);
    for poll in polls {
        assert!(node.is_empty_answer(poll));
    }
    let late = node.poll("q", 20);
    assert!(node.is_empty_answer(late));
    assert_eq!((node.owner.parked(), node.owner.next_wake()), (0, None));
    node.ask(send("q", &["m"]));
    let finds = node.poll("q", 20);
    assert_eq!(
        node.text(finds).as_deref(),
        Some("m"),
        "what is there is still served"
    );
}

#[test]
fn end_polls_ends_a_waiter_that_was_woken_and_its_message_stays() {
    let mut node = Node::with(&[create("q", &[])]);
    let poll = node.poll("q", 20);
    node.submit(send("q", &["m"]));
    node.turn();
    node.ask(Request::EndPolls);
    let answer = crate::node::received(node.take_reply(poll).unwrap());
    let left = node.take("q");
    assert_eq!(answer.len() + usize::from(left.is_some()), 1, "handed out once");
}

#[test]
fn requests_to_a_missing_queue_are_refused_without_an_entry() {
    let mut node = Node::with(&[create("q", &[])]);
    let entries = node.entries();
    let (handles, no_such) = (Vec::new(), key("no-such"));
    let receive = Request::Receive(node.receive("no-such", 20));
    for request in [
        send("no-such", &["m"]),
        receive,
        Request::Delete {
            key: no_such.clone(),
            handles,
        },
        Request::ChangeVisibility {
            key: no_such.clone(),
            entries: Vec::new(),
        },
        Request::SetQueueAttributes {
            key: no_such.clone(),
            attributes: Vec::new(),
        },
        Request::PurgeQueue { key: no_such.clone() },
        Request::DeleteQueue { key: no_such.clone() },
        Request::DescribeQueue { key: no_such.clone() },
        Request::FindQueue { key: no_such },
    ] {
        assert_eq!(node.ask(request.clone()), NO_SUCH_QUEUE, "{request:?}");
    }
    assert_eq!((node.entries(), node.owner.parked()), (entries, 0));
}

#[test]
fn the_number_of_waiters_is_bounded() {
    const PARKED_MAX: usize = 100_000;
    let mut node = Node::with(&[create("q", &[])]);
    for _ in 0..PARKED_MAX {
        let receive = node.receive("q", 20);
        node.submit(Request::Receive(receive));
    }
    let refused = node.poll("q", 20);
    assert_eq!(node.take_reply(refused), Some(Reply::NotTaken));
    assert_eq!(node.owner.parked(), PARKED_MAX);
    node.ask(send("q", &["m"]));
    node.poll("q", 20);
    assert_eq!(node.owner.parked(), PARKED_MAX, "there is room again");
}

/// Field case: many pollers, no lost wake-up, no early end.
#[test]
fn d16_five_hundred_polls_of_one_queue_and_of_as_many_queues_end_by_a_message_or_at_their_time() {
    let names: Vec<String> = (0..500).map(|n| format!("q{n}")).collect();
    let queues: Vec<Request> = names.iter().map(|name| create(name, &[])).collect();
    let mut node = Node::with(&queues);
    let alone: Vec<u64> = names.iter().map(|name| node.poll(name, 20)).collect();
    let crowd: Vec<u64> = (0..500).map(|_| node.poll("q0", 20)).collect();
    for second in 0..19_u64 {
        node.pass_seconds(1);
        let text = second.to_string();
        let name = &names[usize::try_from(second).unwrap() + 1];
        node.ask(send(name, &[&text]));
        node.ask(send("q0", &[&text]));
        assert_eq!(
            node.owner.parked(),
            1_000 - 2 * (usize::try_from(second).unwrap() + 1)
        );
    }
    node.pass(Duration::from_millis(999));
    assert_eq!(node.owner.parked(), 962, "nobody ended early");
    node.pass(Duration::from_millis(1));
    assert_eq!(node.owner.parked(), 0, "nor late");
    let mut texts = |polls: &[u64]| -> Vec<String> {
        let answers = polls
            .iter()
            .map(|poll| crate::node::received(node.take_reply(*poll).unwrap()));
        answers
            .flatten()
            .map(|message| crate::node::text(&message))
            .collect()
    };
    let sent: Vec<String> = (0..19).map(|second| second.to_string()).collect();
    // The longest waiting of the crowd is the one that stood alone at its queue.
    assert_eq!(texts(&[&alone[..1], &crowd].concat()), sent);
    assert_eq!(texts(&alone[1..]), sent);
}
