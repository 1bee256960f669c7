//! The running broker: threads, the inbox, and futures that are dropped.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use broker::{BrokerError, InboxLimits, ReceiveOptions, Status};
use queue_core::{Counters, QueueError};
use simulator::Random;
use tokio::time::timeout;
use types::{QueueKey, TenantId};

use crate::node::text_of;
use crate::requests::{entry, key};
use crate::served::{Driver, Served, Settings, poll_once, receive, send, until};

by_both_drivers!(
    waits_and_leases_end_in_real_time_also_right_after_a_restart,
    a_message_is_sent_received_and_deleted,
    senders_that_come_while_a_sync_runs_share_the_next_one,
    a_full_inbox_refuses_and_loses_nothing_that_it_took,
    what_waits_is_bounded_although_batches_are_small,
    a_dropped_receive_is_cancelled_and_nothing_is_taken_for_it,
    a_receive_dropped_after_its_answer_was_sent_is_undone,
    a_take_is_given_back_unless_it_was_delivered,
    polls_end_with_nothing_when_they_are_ended_and_when_the_broker_stops,
    a_stop_answers_what_was_accepted_and_refuses_the_rest,
    d15_senders_and_consumers_that_come_and_go_lose_nothing_and_share_nothing,
);

async fn a_message_is_sent_received_and_deleted(driver: Driver) {
    let served = Served::with_queue(&Settings::of(driver)).await;
    let broker = &served.broker;
    assert_eq!(broker.status(), Status::Serving);
    served.send("hello").await.unwrap();
    let received = served.receive(0).await.unwrap();
    let [message] = &*received.messages else {
        panic!("one message, not {received:?}");
    };
    assert_eq!(
        (text_of(&message.content).as_str(), message.delivery.receive_count),
        ("hello", 1)
    );
    received.take.unwrap().delivered();
    let handle = message.delivery.handle;
    let sealed = broker.seal(TenantId::DEV, &handle);
    assert_eq!(broker.open(TenantId::DEV, &sealed), Some(handle));
    assert_eq!(
        broker.change_visibility(key("q"), vec![(handle, 60)]).await,
        Ok(vec![Ok(())])
    );
    assert_eq!(broker.delete(key("q"), vec![handle]).await, Ok(vec![Ok(())]));
    let description = broker.describe_queue(key("q")).await.unwrap();
    assert_eq!(description.counters, Counters::default());
    let missing: QueueKey = key("no-such");
    let refused = broker.delete(missing, vec![handle]).await;
    assert_eq!(refused, Err(BrokerError::Queue(QueueError::NoSuchQueue)));
    let page = broker
        .list_queues(TenantId::DEV, String::new(), None, 10)
        .await
        .unwrap();
    assert_eq!((page.names, page.has_more), (vec![key("q").name], false));
    served.stop();
}

async fn senders_that_come_while_a_sync_runs_share_the_next_one(driver: Driver) {
    let served = Served::with_queue(&Settings::of(driver)).await;
    let before = served.counts.now();
    let came = served.gate.came();
    served.gate.shut();
    let mut senders = vec![tokio::spawn(send(served.broker.clone(), "first".to_owned()))];
    until("the first commit stands before its sync", || {
        served.gate.came() > came
    })
    .await;
    for n in 0..64 {
        senders.push(tokio::spawn(send(served.broker.clone(), n.to_string())));
    }
    until("all others wait", || served.broker.waiting() == 64).await;
    served.gate.open();
    for sender in senders {
        sender.await.unwrap().unwrap();
    }
    let after = served.counts.now();
    assert_eq!(
        (after.sent - before.sent, after.commits - before.commits),
        (65, 2)
    );
    // An idle log is sealed, which is a sync too.
    assert!(
        after.syncs - before.syncs <= 4,
        "{} syncs",
        after.syncs - before.syncs
    );
    served.stop();
}

async fn a_full_inbox_refuses_and_loses_nothing_that_it_took(driver: Driver) {
    let inbox = InboxLimits {
        requests_max: 4,
        ..InboxLimits::default()
    };
    let served = Served::with_queue(&Settings {
        inbox,
        ..Settings::of(driver)
    })
    .await;
    let came = served.gate.came();
    served.gate.shut();
    let mut accepted = vec![tokio::spawn(send(served.broker.clone(), "0".to_owned()))];
    until("the first commit stands before its sync", || {
        served.gate.came() > came
    })
    .await;
    for n in 1..=4 {
        accepted.push(tokio::spawn(send(served.broker.clone(), n.to_string())));
        until("it waits", || served.broker.waiting() == n).await;
    }
    assert_eq!(served.send("too many").await, Err(BrokerError::Overloaded));
    assert_eq!(served.receive(20).await.unwrap_err(), BrokerError::Overloaded);
    let ends = tokio::spawn({
        let broker = served.broker.clone();
        async move { broker.end_polls().await }
    });
    until("the end of polls is never refused", || {
        served.broker.waiting() == 5
    })
    .await;
    served.gate.open();
    for sender in accepted {
        sender.await.unwrap().unwrap();
    }
    ends.await.unwrap().unwrap();
    assert_eq!(served.counts.now().sent, 5);
    served.stop();
}

async fn what_waits_is_bounded_although_batches_are_small(driver: Driver) {
    const MOST: usize = 8;
    let inbox = InboxLimits {
        requests_max: MOST,
        ..InboxLimits::default()
    };
    let served = Served::with_queue(&Settings {
        inbox,
        ..Settings::of(driver)
    })
    .await;
    // Two fill a batch.
    let body = "x".repeat(200 * 1024);
    served.gate.shut();
    let mut accepted = Vec::new();
    for round in 0..20 {
        let came = served.gate.came();
        loop {
            let mut sender = Box::pin(send(served.broker.clone(), body.clone()));
            match poll_once(&mut sender) {
                Poll::Pending => accepted.push(sender),
                Poll::Ready(result) => {
                    assert_eq!(result, Err(BrokerError::Overloaded));
                    break;
                }
            }
        }
        if round > 0 {
            served.gate.let_one_pass();
        }
        until("the next commit stands before its sync", || {
            served.gate.came() > came
        })
        .await;
    }
    let unanswered = accepted.len() as u64 - served.counts.now().sent;
    assert!(unanswered <= 3 * MOST as u64, "{unanswered} requests wait");
    served.gate.open();
    for sender in accepted {
        sender.await.unwrap();
    }
    served.stop();
}

async fn a_dropped_receive_is_cancelled_and_nothing_is_taken_for_it(driver: Driver) {
    let served = Served::with_queue(&Settings::of(driver)).await;
    let mut parked = Box::pin(served.receive(20));
    assert!(poll_once(&mut parked).is_pending());
    until("it is parked", || served.counts.now().parked == 1).await;
    drop(parked);
    until("it is out", || served.counts.now().parked == 0).await;
    served.send("m").await.unwrap();
    assert_eq!(served.take().await, Some(("m".to_owned(), 1)));
    assert_eq!(
        (served.counts.now().received, served.counts.now().given_back),
        (1, 0)
    );
    served.stop();
}

async fn a_receive_dropped_after_its_answer_was_sent_is_undone(driver: Driver) {
    let served = Served::with_queue(&Settings::of(driver)).await;
    let mut parked = Box::pin(served.receive(20));
    assert!(poll_once(&mut parked).is_pending());
    served.send("m").await.unwrap();
    until("the take is committed", || served.counts.now().received == 1).await;
    // When a later request is answered, so is every earlier one.
    served.broker.find_queue(key("q")).await.unwrap();
    drop(parked);
    let again = served.receive(20).await.unwrap();
    assert_eq!(again.messages[0].delivery.receive_count, 1);
    assert_eq!(served.counts.now().given_back, 1);
    again.take.unwrap().delivered();
    served.stop();
}

async fn a_take_is_given_back_unless_it_was_delivered(driver: Driver) {
    let served = Served::with_queue(&Settings::of(driver)).await;
    served.send("m").await.unwrap();
    let received = served.receive(0).await.unwrap();
    drop(received);
    let again = served.receive(20).await.unwrap();
    assert_eq!(again.messages[0].delivery.receive_count, 1);
    again.take.unwrap().delivered();
    assert_eq!(served.take().await, None, "the lease runs");
    served.stop();
}

async fn polls_end_with_nothing_when_they_are_ended_and_when_the_broker_stops(driver: Driver) {
    let served = Served::with_queue(&Settings::of(driver)).await;
    let parked = tokio::spawn(served.receive(20));
    until("it is parked", || served.counts.now().parked == 1).await;
    served.broker.end_polls().await.unwrap();
    assert!(parked.await.unwrap().unwrap().messages.is_empty());
    assert!(served.receive(20).await.unwrap().messages.is_empty());
    served.send("accepted while it drains").await.unwrap();
    served.stop();

    let served = Served::with_queue(&Settings::of(driver)).await;
    let parked = tokio::spawn(served.receive(20));
    until("it is parked", || served.counts.now().parked == 1).await;
    served.stop();
    let answer = parked.await.unwrap().map(|received| received.messages.len());
    assert_eq!(answer, Ok(0), "what was accepted is answered");
}

async fn a_stop_answers_what_was_accepted_and_refuses_the_rest(driver: Driver) {
    let served = Served::with_queue(&Settings::of(driver)).await;
    let came = served.gate.came();
    served.gate.shut();
    let first = tokio::spawn(send(served.broker.clone(), "1".to_owned()));
    until("the first commit stands before its sync", || {
        served.gate.came() > came
    })
    .await;
    let second = tokio::spawn(send(served.broker.clone(), "2".to_owned()));
    until("the second waits", || served.broker.waiting() == 1).await;
    served.broker.stop();
    assert_eq!(served.send("3").await, Err(BrokerError::Stopping));
    assert_eq!(served.broker.status(), Status::Stopping);
    served.gate.open();
    let broker = served.broker.clone();
    served.thread.join().unwrap();
    assert_eq!(broker.status(), Status::Stopped);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(()), Ok(())));
    assert_eq!(broker.find_queue(key("q")).await, Err(BrokerError::Stopping));
}

async fn waits_and_leases_end_in_real_time_also_right_after_a_restart(driver: Driver) {
    let settings = Settings {
        has_real_time: true,
        ..Settings::of(driver)
    };
    let served = Served::with_queue(&settings).await;
    until("the next segment is there", || served.gate.prepared() > 0).await;
    let disk = served.stop().kill();
    let served = Served::start(&disk, &settings);
    let began = Instant::now();
    let patience = Duration::from_secs(10);
    let empty = timeout(patience, served.receive(1)).await.expect("its wait ends");
    assert!(empty.unwrap().messages.is_empty());
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "and not before its time"
    );
    served.send("m").await.unwrap();
    let options = ReceiveOptions {
        max: 1,
        visibility_timeout_seconds: Some(1),
        wait_seconds: Some(0),
        attempt: None,
    };
    let first = served.broker.receive(key("q"), options).await.unwrap();
    first.take.unwrap().delivered();
    let again = timeout(patience, served.receive(20))
        .await
        .expect("the lease ends");
    assert_eq!(again.unwrap().messages[0].delivery.receive_count, 2);
    served.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reactor_commits_by_itself_only_while_the_disk_is_quick() {
    let served = Served::with_queue(&Settings::of(Driver::Reactor)).await;
    // The commit thread may take any turn, as it wakes for other things; the reactor takes those that it is given.
    commits_on_the_reactor(&served).await;
    served.gate.slow_down(Duration::from_millis(50));
    served.send("slow").await.unwrap();
    for _ in 0..20 {
        served.send("slow still").await.unwrap();
        assert!(!served.gate.is_by_reactor(), "the disk is slow");
    }
    served.gate.slow_down(Duration::ZERO);
    commits_on_the_reactor(&served).await;
    served.stop();
}

async fn commits_on_the_reactor(served: &Served) {
    for _ in 0..500 {
        served.send("quick").await.unwrap();
        if served.gate.is_by_reactor() {
            return;
        }
    }
    panic!("the commit thread goes on committing");
}

/// Field case: a few messages in neither state, or two consumers inside one lease.
async fn d15_senders_and_consumers_that_come_and_go_lose_nothing_and_share_nothing(driver: Driver) {
    const MESSAGES: usize = 4_000;
    let served = Served::with_queue(&Settings::of(driver)).await;
    let held: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let deleted: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let senders = (0..8).map(|sender| {
        let broker = served.broker.clone();
        tokio::spawn(async move {
            for n in 0..MESSAGES / 80 {
                let texts = (0..10).map(|k| format!("{sender}-{n}-{k}"));
                let entries = texts.map(|text| entry(&text)).collect();
                let results = broker.enqueue(key("q"), entries).await.unwrap();
                assert!(results.iter().all(Result::is_ok));
            }
        })
    });
    let senders: Vec<_> = senders.collect();
    let consumers = (0..8).map(|seed| {
        let (broker, held, deleted) = (served.broker.clone(), held.clone(), deleted.clone());
        tokio::spawn(consume(broker, seed, held, deleted, MESSAGES))
    });
    let consumers: Vec<_> = consumers.collect();
    for task in senders.into_iter().chain(consumers) {
        task.await.unwrap();
    }
    assert_eq!(deleted.lock().unwrap().len(), MESSAGES);
    let left = served.broker.describe_queue(key("q")).await.unwrap().counters;
    assert_eq!(left, Counters::default());
    assert_eq!(served.counts.now().parked, 0);
    served.stop();
}

async fn consume(
    broker: broker::Broker,
    seed: u64,
    held: Arc<Mutex<BTreeSet<String>>>,
    deleted: Arc<Mutex<BTreeSet<String>>>,
    messages: usize,
) {
    let mut random = Random::new(seed);
    let options = ReceiveOptions {
        max: 10,
        visibility_timeout_seconds: Some(600),
        wait_seconds: Some(1),
        attempt: None,
    };
    while deleted.lock().unwrap().len() < messages {
        let mut poll = Box::pin(broker.receive(key("q"), options));
        if random.percent(20) {
            // This one goes away, early or after its answer.
            for _ in 0..random.below(20) {
                if poll_once(&mut poll).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            continue;
        }
        // The clock stands still, so a wait has no end of its own.
        let received = tokio::select! {
            received = poll => received.unwrap(),
            () = until("all is deleted", || deleted.lock().unwrap().len() == messages) => continue,
        };
        let (texts, handles): (Vec<_>, Vec<_>) = received
            .messages
            .iter()
            .map(|message| (text_of(&message.content), message.delivery.handle))
            .unzip();
        for text in &texts {
            assert!(held.lock().unwrap().insert(text.clone()), "{text} is held by two");
        }
        let release = || {
            texts
                .iter()
                .for_each(|text| assert!(held.lock().unwrap().remove(text)))
        };
        match random.below(10) {
            0 => {
                release();
                drop(received.take);
            }
            1 => {
                received.take.unwrap().delivered();
                release();
                let entries = handles.iter().map(|handle| (*handle, 0)).collect();
                broker.change_visibility(key("q"), entries).await.unwrap();
            }
            _ => {
                received.take.unwrap().delivered();
                let results = broker.delete(key("q"), handles).await.unwrap();
                assert!(results.iter().all(Result::is_ok));
                release();
                let mut deleted = deleted.lock().unwrap();
                for text in texts {
                    assert!(deleted.insert(text.clone()), "{text} was deleted twice");
                }
            }
        }
    }
    drop(receive(broker, 0).await);
}
