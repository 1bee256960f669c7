//! What a broker finds when it starts again on the same disk.

use std::sync::mpsc;

use broker::{
    Broker, BrokerError, BrokerOptions, InboxLimits, Limits, NoObserver, OsClock, OsRandom, Status,
};
use journal::JournalError;
use queue_core::{AttributeChange, Counters};
use simulator::SimDisk;
use types::TenantId;

use crate::requests::{entry, key};
use crate::served::{Driver, Served, Settings, poll_once, until};

by_both_drivers!(
    everything_answered_is_there_after_a_power_cut_and_after_a_clean_stop,
    a_restart_begins_at_the_last_snapshot_and_the_log_before_it_is_gone,
    a_take_whose_client_went_during_the_last_commit_is_still_given_back,
);

async fn everything_answered_is_there_after_a_power_cut_and_after_a_clean_stop(driver: Driver) {
    let served = Served::with_queue(&Settings::of(driver)).await;
    let broker = &served.broker;
    let change = AttributeChange::VisibilityTimeout(77);
    broker.set_queue_attributes(key("q"), vec![change]).await.unwrap();
    for text in ["deleted", "in flight", "waiting"] {
        served.send(text).await.unwrap();
    }
    let mut sealed = Vec::new();
    for _ in 0..2 {
        let received = served.receive(0).await.unwrap();
        received.take.unwrap().delivered();
        sealed.push(broker.seal(TenantId::DEV, &received.messages[0].delivery.handle));
    }
    let first = broker.open(TenantId::DEV, &sealed[0]).unwrap();
    broker.delete(key("q"), vec![first]).await.unwrap();

    let cut = served.disk.fork().crash(11);
    let stopped = served.stop().kill();
    for disk in [cut, stopped] {
        let served = Served::start(&disk, &Settings::of(driver));
        let description = served.broker.describe_queue(key("q")).await.unwrap();
        assert_eq!(description.attributes.visibility_timeout_seconds, 77);
        let expected = Counters {
            visible: 1,
            delayed: 0,
            in_flight: 1,
        };
        assert_eq!(description.counters, expected);
        assert_eq!(served.take().await, Some(("waiting".to_owned(), 1)));
        // Handles from before open, and prove what they proved.
        let handles = sealed
            .iter()
            .map(|text| served.broker.open(TenantId::DEV, text).unwrap());
        let results = served.broker.delete(key("q"), handles.collect()).await.unwrap();
        assert_eq!(results, [Ok(()), Ok(())]);
        let left = served.broker.describe_queue(key("q")).await.unwrap().counters;
        assert_eq!((left.total(), left.in_flight), (1, 1));
        served.stop();
    }
}

async fn a_restart_begins_at_the_last_snapshot_and_the_log_before_it_is_gone(driver: Driver) {
    let settings = Settings {
        segment_bytes: 32 << 10,
        snapshot_log_bytes: 64 << 10,
        ..Settings::of(driver)
    };
    let served = Served::with_queue(&settings).await;
    let body = "x".repeat(2_000);
    let mut sent = 0;
    // A segment that is no longer needed is taken for a new one, or removed, on another thread.
    let first = "log-00000000000000000001.seg".to_owned();
    while served.counts.now().snapshots < 3 || served.disk.names().contains(&first) {
        assert!(sent < 5_000, "kept for ever: {:?}", served.disk.names());
        let text = format!("{sent:04} {body}");
        served.send(&text).await.unwrap();
        sent += 1;
        if sent % 4 != 0 {
            let received = served.receive(0).await.unwrap();
            received.take.unwrap().delivered();
            let handles = received.messages.iter().map(|m| m.delivery.handle).collect();
            served.broker.delete(key("q"), handles).await.unwrap();
        }
    }
    let before = served.broker.describe_queue(key("q")).await.unwrap().counters;
    let disk = served.stop().kill();

    let served = Served::start(&disk, &settings);
    let report = &served.report;
    let snapshot = report.snapshot.expect("there were three").0;
    assert!(snapshot > 10, "{report:?}");
    assert_eq!(
        report.entries_replayed,
        report.last_index.0 - snapshot,
        "{report:?}"
    );
    let after = served.broker.describe_queue(key("q")).await.unwrap().counters;
    assert_eq!((before, after.total() > 0), (after, true));
    let mut left = Vec::new();
    while let Some((text, _)) = served.take().await {
        assert!(text.ends_with(&body), "the content came with the snapshot");
        left.push(text[..4].to_owned());
    }
    let mut sorted = left.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(
        (left.len() as u64, &left),
        (after.visible, &sorted),
        "in order, each once"
    );
    served.stop();
}

async fn a_take_whose_client_went_during_the_last_commit_is_still_given_back(driver: Driver) {
    let served = Served::with_queue(&Settings::of(driver)).await;
    served.send("m").await.unwrap();
    let came = served.gate.came();
    served.gate.shut();
    let mut receive = Box::pin(served.receive(0));
    assert!(poll_once(&mut receive).is_pending());
    until("the take stands before its sync", || served.gate.came() > came).await;
    drop(receive);
    served.broker.stop();
    served.gate.open();
    let disk = served.stop().kill();
    let served = Served::start(&disk, &Settings::of(driver));
    assert_eq!(served.take().await, Some(("m".to_owned(), 1)));
    served.stop();
}

#[tokio::test]
async fn while_the_log_is_read_nothing_is_taken_and_nothing_waits() {
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let opener = move |recovered: &mut broker::Recovered| {
        journal::Replay::progress(recovered, 5, 10);
        may_go_on.recv().unwrap();
        Err(JournalError::Full {
            file: "the only one".to_owned(),
        })
    };
    let (opened, is_open) = mpsc::channel();
    let opened = move |result: Result<(), JournalError>| opened.send(result.is_ok()).unwrap();
    let (broker, thread) = Broker::start(options(), Box::new(opener), opened).unwrap();
    assert_eq!(broker.status(), Status::Recovering);
    until("it says how far it is", || {
        broker.progress().log_bytes() == (5, 10)
    })
    .await;
    assert_eq!(broker.find_queue(key("q")).await, Err(BrokerError::Recovering));
    assert_eq!(
        broker.enqueue(key("q"), vec![entry("m")]).await,
        Err(BrokerError::Recovering)
    );
    go_on.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!((is_open.recv(), broker.status()), (Ok(false), Status::Stopped));
    assert_eq!(broker.find_queue(key("q")).await, Err(BrokerError::Stopping));
}

#[test]
fn a_stop_while_the_log_is_read_ends_the_thread_once_it_is() {
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let disk = SimDisk::new(1);
    let opener = move |recovered: &mut broker::Recovered| {
        may_go_on.recv().unwrap();
        let disk = std::sync::Arc::new(disk);
        let (journal, _) = journal::LocalJournal::open(disk, journal::LocalOptions::default(), recovered)?;
        Ok(Box::new(journal) as Box<dyn journal::Journal>)
    };
    let (broker, thread) = Broker::start(options(), Box::new(opener), |result| result.unwrap()).unwrap();
    broker.stop();
    go_on.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(broker.status(), Status::Stopped);
}

fn options() -> BrokerOptions {
    BrokerOptions {
        limits: Limits::RELAXED,
        inbox: InboxLimits::default(),
        budget: broker::BudgetLimits::default(),
        deduplication_ids_max: 1_000_000,
        in_flight_max: types::limits::IN_FLIGHT_MAX,
        kick_on_push: true,
        inline: false,
        snapshot_log_bytes: u64::MAX,
        cache_bytes: 1 << 20,
        reserve_bytes: None,
        clock: std::sync::Arc::new(OsClock),
        random: std::sync::Arc::new(OsRandom),
        process: std::sync::Arc::new(broker::OsProcess),
        observer: std::sync::Arc::new(NoObserver),
        leader: None,
    }
}
