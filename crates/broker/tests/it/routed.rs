//! Two brokers over one log: a request is answered by whoever leads, over any change.

use broker::{BrokerError, ForwardError, Receive, ReceiveOptions, Received, Reply, Request};
use queue_core::QueueError;
use types::TenantId;

use crate::node::text_of;
use crate::requests::{self, entry, fifo_entry, key};
use crate::served::{poll_once, receive, send, until};
use crate::shared_log::{Running, SharedLog};

/// Two brokers, of which the second leads, and a queue.
async fn pair() -> (SharedLog, Running, Running) {
    let log = SharedLog::new(2);
    let (front, leader) = (log.start(0), log.start(1));
    log.elect(Some(1));
    leader.leads().await;
    let created = leader.broker.create_queue(key("q"), Vec::new(), Vec::new());
    created.await.unwrap();
    // A follower receives nothing before it has the key of receipt handles from the log.
    assert_eq!(texts(&receive(front.broker.clone(), 0).await.unwrap()), [""; 0]);
    (log, front, leader)
}

fn texts(received: &Received) -> Vec<String> {
    let messages = received.messages.iter();
    messages.map(|message| text_of(&message.content)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_sends_receives_and_deletes_by_way_of_the_leader() {
    let (log, front, leader) = pair().await;
    let broker = &front.broker;
    assert!(!broker.leads() && leader.broker.leads());
    send(broker.clone(), "hello".to_owned()).await.unwrap();
    let received = receive(broker.clone(), 20).await.unwrap();
    assert_eq!(texts(&received), ["hello"]);
    received.take.unwrap().delivered();
    let handle = received.messages[0].delivery.handle;
    let sealed = broker.seal(TenantId::DEV, &handle);
    for node in [&front, &leader] {
        assert_eq!(node.broker.open(TenantId::DEV, &sealed), Some(handle));
    }
    assert_eq!(broker.delete(key("q"), vec![handle]).await, Ok(vec![Ok(())]));
    let description = broker.describe_queue(key("q")).await.unwrap();
    assert_eq!(description.counters.total(), 0);
    let page = broker.list_queues(TenantId::DEV, String::new(), None, 10).await;
    assert_eq!(page.unwrap().names, [key("q").name]);
    let missing = broker.find_queue(key("no-such")).await;
    assert_eq!(missing, Err(BrokerError::Queue(QueueError::NoSuchQueue)));
    let moved = broker.advance_clock(std::time::Duration::from_secs(1)).await;
    assert_eq!(moved, Err(BrokerError::Overloaded), "nobody allowed it");
    assert!(log.forwarded() >= 7);
    assert_eq!(front.counts.now().sent, 0, "the leader counts it");
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_poll_waits_on_over_changes_of_leader() {
    let (log, front, leader) = pair().await;
    let poll = tokio::spawn(receive(front.broker.clone(), 20));
    until("it waits at the leader", || leader.counts.now().parked == 1).await;
    log.elect(Some(0));
    until("it waits here", || front.counts.now().parked == 1).await;
    log.elect(None);
    until("it waits nowhere", || front.counts.now().parked == 0).await;
    log.elect(Some(1));
    until("it waits at the leader again", || leader.counts.now().parked == 1).await;
    send(front.broker.clone(), "late".to_owned()).await.unwrap();
    let received = poll.await.unwrap().unwrap();
    assert_eq!(texts(&received), ["late"]);
    assert_eq!(received.messages[0].delivery.receive_count, 1);
    received.take.unwrap().delivered();
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_not_sure_answers_nothing_and_keeps_its_polls() {
    let (log, front, leader) = pair().await;
    let poll = tokio::spawn(receive(leader.broker.clone(), 20));
    until("it waits", || leader.counts.now().parked == 1).await;
    log.set_unsure(true);
    until("it knows", || !leader.broker.leads()).await;
    let mut finding = Box::pin(leader.broker.find_queue(key("q")));
    assert!(poll_once(&mut finding).is_pending());
    assert_eq!(leader.counts.now().parked, 1);
    log.set_unsure(false);
    assert_eq!(finding.await, Ok(()));
    send(front.broker.clone(), "m".to_owned()).await.unwrap();
    assert_eq!(texts(&poll.await.unwrap().unwrap()), ["m"]);
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receive_whose_client_goes_is_cancelled_where_it_waits() {
    let (_log, front, leader) = pair().await;
    let mut poll = Box::pin(receive(front.broker.clone(), 20));
    assert!(poll_once(&mut poll).is_pending());
    until("it waits at the leader", || leader.counts.now().parked == 1).await;
    drop(poll);
    until("it is out", || leader.counts.now().parked == 0).await;
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_that_was_not_delivered_is_given_back_at_the_leader() {
    let (log, front, leader) = pair().await;
    send(front.broker.clone(), "m".to_owned()).await.unwrap();
    drop(receive(front.broker.clone(), 0).await.unwrap());
    assert_eq!(log.told(), 1);
    let again = receive(front.broker.clone(), 20).await.unwrap();
    assert_eq!(again.messages[0].delivery.receive_count, 1);
    // The leader is another one when this is given back.
    log.elect(Some(0));
    front.leads().await;
    drop(again);
    let again = receive(leader.broker.clone(), 20).await.unwrap();
    assert_eq!(again.messages[0].delivery.receive_count, 1);
    again.take.unwrap().delivered();
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_nobody_waits_for_any_more_is_given_back() {
    let (_log, front, leader) = pair().await;
    send(front.broker.clone(), "m".to_owned()).await.unwrap();
    let request = broker::encode_request(&Request::Receive(requests::receive(0, "q", 0)));
    let answer = leader.broker.serve_forwarded(&request, false).await;
    front.broker.take_back(&request, &answer);
    let again = receive(front.broker.clone(), 20).await.unwrap();
    assert_eq!(again.messages[0].delivery.receive_count, 1);
    again.take.unwrap().delivered();
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_whose_attempt_was_repeated_meanwhile_takes_nothing_from_the_client_that_repeated_it() {
    let (_log, front, leader) = pair().await;
    let fifo = || key("q.fifo");
    let created = front.broker.create_queue(fifo(), Vec::new(), Vec::new());
    created.await.unwrap();
    let sent = front.broker.enqueue(fifo(), vec![fifo_entry("g", "m")]);
    assert!(sent.await.unwrap()[0].is_ok());
    let attempt = Some([7; 16]);
    let request = broker::encode_request(&Request::Receive(Receive {
        attempt,
        ..requests::receive(0, "q.fifo", 0)
    }));
    let late = leader.broker.serve_forwarded(&request, false).await;
    let options = |attempt| ReceiveOptions {
        max: 1,
        visibility_timeout_seconds: None,
        wait_seconds: Some(0),
        attempt,
    };
    // The client did not wait for that answer, and asks at another node.
    let repeated = leader.broker.receive(fifo(), options(attempt)).await.unwrap();
    let handle = repeated.messages[0].delivery.handle;
    repeated.take.unwrap().delivered();
    // The node that asked leads by now, so what it gives back comes before what is asked next.
    leader.broker.take_back(&request, &late);
    let others = leader.broker.receive(fifo(), options(None)).await.unwrap();
    assert_eq!(texts(&others), [""; 0], "two clients have it");
    assert_eq!(front.broker.delete(fifo(), vec![handle]).await, Ok(vec![Ok(())]));
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_lead_answers_nothing_for_others_and_damaged_requests_do_nothing() {
    let (_log, front, leader) = pair().await;
    let serve = async |node: &Running, request: &[u8]| {
        let answer = node.broker.serve_forwarded(request, false).await;
        broker::decode_reply(&answer).unwrap()
    };
    let find = broker::encode_request(&Request::FindQueue { key: key("q") });
    assert_eq!(serve(&leader, &find).await, Reply::Done);
    let not_leader = Reply::NotLeader { wait_left: None };
    assert_eq!(serve(&front, &find).await, not_leader, "it does not send it on");
    assert_eq!(serve(&leader, &find[1..]).await, Reply::NotTaken);
    let by = std::time::Duration::from_secs(1);
    let advance = broker::encode_request(&Request::AdvanceClock { by });
    assert_eq!(serve(&leader, &advance).await, Reply::NotTaken);
    let allowed = leader.broker.serve_forwarded(&advance, true).await;
    assert_eq!(broker::decode_reply(&allowed), Ok(Reply::Done));
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_node_has_taken_is_tried_again_and_refused_when_nobody_leads() {
    let (log, front, leader) = pair().await;
    log.lose(&[ForwardError::NotSent, ForwardError::NoLeader]);
    send(front.broker.clone(), "third try".to_owned()).await.unwrap();
    log.elect(None);
    until("nobody leads", || !leader.broker.leads()).await;
    let outcomes = tokio::join!(
        send(front.broker.clone(), "never".to_owned()),
        send(leader.broker.clone(), "never".to_owned()),
        receive(front.broker.clone(), 0),
        front.broker.find_queue(key("q")),
    );
    assert_eq!(outcomes.0, Err(BrokerError::NoLeader));
    assert_eq!(outcomes.1, Err(BrokerError::NoLeader));
    assert_eq!(outcomes.2.unwrap_err(), BrokerError::NoLeader);
    assert_eq!(outcomes.3, Err(BrokerError::NoLeader));
    let sending = tokio::spawn(send(front.broker.clone(), "soon".to_owned()));
    log.elect(Some(0));
    sending.await.unwrap().unwrap();
    let options = ReceiveOptions {
        max: 10,
        visibility_timeout_seconds: None,
        wait_seconds: Some(0),
        attempt: None,
    };
    let received = leader.broker.receive(key("q"), options).await.unwrap();
    assert_eq!(texts(&received), ["third try", "soon"]);
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_unknown_and_only_a_long_poll_goes_on() {
    let (log, front, leader) = pair().await;
    log.lose(&[
        ForwardError::Unknown,
        ForwardError::Unknown,
        ForwardError::Unknown,
    ]);
    let sent = front.broker.enqueue(key("q"), vec![entry("may be there")]).await;
    assert_eq!(sent, Err(BrokerError::Unknown));
    let taken = receive(front.broker.clone(), 0).await;
    assert_eq!(taken.unwrap_err(), BrokerError::Unknown);
    let poll = tokio::spawn(receive(front.broker.clone(), 20));
    until("it waits at the leader", || leader.counts.now().parked == 1).await;
    send(leader.broker.clone(), "lost on the way".to_owned())
        .await
        .unwrap();
    until("it waits there again", || {
        leader.counts.now().received == 2 && leader.counts.now().parked == 1
    })
    .await;
    send(leader.broker.clone(), "found".to_owned()).await.unwrap();
    let received = poll.await.unwrap().unwrap();
    assert_eq!(texts(&received), ["found"]);
    received.take.unwrap().delivered();
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_on_their_way_when_a_reign_ends_are_answered_when_their_outcome_is_known() {
    for commits in [true, false] {
        let (log, front, leader) = pair().await;
        log.stick();
        let sends = ["a", "b", "c", "d"].map(|text| {
            let broker = leader.broker.clone();
            tokio::spawn(send(broker, text.to_owned()))
        });
        until("they are proposed", || log.waiting() > 0).await;
        log.elect(Some(0));
        until("the reign is over", || !leader.broker.leads()).await;
        let proposed = log.waiting();
        log.lose_track(commits);
        let mut unknown = 0;
        for sending in sends {
            match sending.await.unwrap() {
                // It was not proposed yet, and went to the new leader.
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error, BrokerError::Unknown);
                    unknown += 1;
                }
            }
        }
        assert!(unknown >= proposed.min(1), "{unknown} of {proposed}");
        let counters = front.broker.describe_queue(key("q")).await.unwrap().counters;
        let lost = if commits { 0 } else { unknown };
        assert_eq!(counters.visible, 4 - lost as u64, "commits: {commits}");
        front.stop();
        leader.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_turns_wait_for_what_is_on_its_way() {
    let (log, front, leader) = pair().await;
    log.stick();
    let sending = tokio::spawn(send(leader.broker.clone(), "m".to_owned()));
    until("it is proposed", || log.waiting() == 1).await;
    leader.broker.stop();
    log.unstick();
    leader.thread.join().unwrap();
    sending.await.unwrap().unwrap();
    front.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_that_wait_elsewhere_end_when_this_node_drains() {
    let (_log, front, leader) = pair().await;
    let poll = tokio::spawn(receive(front.broker.clone(), 20));
    until("it waits at the leader", || leader.counts.now().parked == 1).await;
    front.broker.end_polls().await.unwrap();
    assert!(poll.await.unwrap().unwrap().messages.is_empty());
    assert!(
        receive(front.broker.clone(), 20)
            .await
            .unwrap()
            .messages
            .is_empty()
    );
    send(front.broker.clone(), "accepted while it drains".to_owned())
        .await
        .unwrap();
    front.broker.stop();
    let refused = send(front.broker.clone(), "too late".to_owned()).await;
    assert_eq!(refused, Err(BrokerError::Stopping));
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_state_was_replaced_goes_on_from_there() {
    let (log, front, leader) = pair().await;
    // A second node takes the seat of the first, and is given a snapshot instead of the entries.
    front.stop();
    for text in ["one", "two"] {
        send(leader.broker.clone(), text.to_owned()).await.unwrap();
    }
    log.forget_events(0);
    let front = log.start(0);
    log.replace(0);
    send(leader.broker.clone(), "three".to_owned()).await.unwrap();
    log.elect(Some(0));
    front.leads().await;
    for expected in ["one", "two", "three"] {
        let received = receive(front.broker.clone(), 0).await.unwrap();
        assert_eq!(texts(&received), [expected]);
        let handle = received.messages[0].delivery.handle;
        let sealed = front.broker.seal(TenantId::DEV, &handle);
        assert_eq!(leader.broker.open(TenantId::DEV, &sealed), Some(handle));
        received.take.unwrap().delivered();
    }
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_say_what_they_came_to_once_in_a_thousand_entries() {
    let (log, front, leader) = pair().await;
    for _ in 0..1_100 {
        send(leader.broker.clone(), "message".to_owned()).await.unwrap();
    }
    // Every entry reaches both in the end.
    until("two checkpoints", || {
        log.compared().values().any(|checkpoints| checkpoints.len() == 2)
    })
    .await;
    let compared = log.compared();
    assert_eq!(compared.len(), 1, "{compared:?}");
    let (index, checkpoints) = compared.first_key_value().unwrap();
    assert_eq!(index.0, 1_000);
    assert_eq!(checkpoints[0], checkpoints[1]);
    assert!(
        checkpoints[0].since.is_some_and(|since| since.0 > 0),
        "since the level was raised"
    );
    front.stop();
    leader.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_key_of_handles_calls_none_of_them_forged() {
    let log = SharedLog::new(2);
    let front = log.start(0);
    assert_eq!(front.broker.knows_handles(), Err(BrokerError::NoLeader));
    let leader = log.start(1);
    log.elect(Some(1));
    leader.leads().await;
    until("the key to be there", || front.broker.knows_handles().is_ok()).await;
    front.stop();
    leader.stop();
}
