//! Contents on the disk: they come back as they were, one that stays pins nothing, damage is found, a full disk passes.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::{BrokerError, ReceiveOptions, Received};
use journal::{Journal, LocalJournal, LocalOptions, Replay, ReplayError};
use queue_core::{Content, EnqueueEntry};
use simulator::{Random, SimDisk};
use types::{LogIndex, MessageId};

use crate::node::text_of;
use crate::requests::{entry, fifo_entry, key};
use crate::served::{Driver, Served, Settings, until};

by_both_drivers!(
    contents_come_back_from_the_disk_as_they_were,
    a_message_that_stays_pins_nothing,
    a_damaged_content_is_left_out_and_not_counted,
    a_damaged_content_lets_none_of_its_group_pass,
    below_the_reserve_only_sends_are_refused,
    contents_of_an_earlier_version_are_moved_to_the_disk,
    contents_in_flight_are_bounded_and_a_refused_receive_takes_nothing,
    deduplication_ids_are_bounded_and_none_is_forgotten_early,
);

const SEGMENT_BYTES: u64 = 32 << 10;
const SNAPSHOT_LOG_BYTES: u64 = 64 << 10;

/// Small files, and nothing in memory that lies on the disk.
fn small(driver: Driver) -> Settings {
    Settings {
        segment_bytes: SEGMENT_BYTES,
        snapshot_log_bytes: SNAPSHOT_LOG_BYTES,
        cache_bytes: 0,
        ..Settings::of(driver)
    }
}

async fn take(served: &Served, queue: &str, max: u32) -> Received {
    let options = ReceiveOptions {
        max,
        visibility_timeout_seconds: None,
        wait_seconds: Some(0),
        attempt: None,
    };
    served.broker.receive(key(queue), options).await.unwrap()
}

/// Receives and keeps; returns texts with receive counts.
async fn taken(served: &Served, queue: &str, max: u32) -> Vec<(String, u32)> {
    let Received { messages, take } = take(served, queue, max).await;
    take.into_iter().for_each(broker::Take::delivered);
    let shown =
        |message: &broker::ReceivedMessage| (text_of(&message.content), message.delivery.receive_count);
    messages.iter().map(shown).collect()
}

/// Receives and deletes; returns the texts.
async fn consume(served: &Served, queue: &str, max: u32) -> Vec<String> {
    let Received { messages, take } = take(served, queue, max).await;
    take.into_iter().for_each(broker::Take::delivered);
    let handles: Vec<_> = messages.iter().map(|message| message.delivery.handle).collect();
    if !handles.is_empty() {
        let results = served.broker.delete(key(queue), handles).await.unwrap();
        assert!(results.iter().all(Result::is_ok));
    }
    messages.iter().map(|message| text_of(&message.content)).collect()
}

async fn enqueue(served: &Served, queue: &str, entry: EnqueueEntry) -> Result<(), BrokerError> {
    let results = served.broker.enqueue(key(queue), vec![entry]).await?;
    assert!(results.iter().all(Result::is_ok));
    Ok(())
}

async fn create(served: &Served, queue: &str) {
    served
        .broker
        .create_queue(key(queue), Vec::new(), Vec::new())
        .await
        .unwrap();
}

async fn contents_come_back_from_the_disk_as_they_were(driver: Driver) {
    let settings = small(driver);
    let served = Served::with_queue(&settings).await;
    let mut random = Random::new(3);
    let texts: Vec<_> = (0..200)
        .map(|n| format!("{n} {}", "x".repeat(random.below(3_000) as usize)))
        .collect();
    for text in &texts {
        served.send(text).await.unwrap();
    }
    until("a snapshot", || served.counts.now().snapshots > 0).await;
    let (cut, stopped) = (served.disk.fork().crash(5), served.stop().kill());
    for disk in [cut, stopped] {
        let served = Served::start(&disk, &settings);
        assert!(served.report.snapshot.is_some());
        let mut found = Vec::new();
        while found.len() < texts.len() {
            let more = taken(&served, "q", 10).await;
            assert!(!more.is_empty(), "only {} are there", found.len());
            found.extend(more.into_iter().map(|(text, _)| text));
        }
        assert!(found == texts, "the contents are not what was sent");
        assert_eq!(served.counts.now().damaged, 0);
        served.stop();
    }
}

async fn a_message_that_stays_pins_nothing(driver: Driver) {
    const BODY_BYTES: usize = 2_000;
    const STAY: usize = 20;
    let settings = small(driver);
    let served = Served::with_queue(&settings).await;
    create(&served, "stay").await;
    let stays: Vec<_> = (0..STAY)
        .map(|n| format!("{n} {}", "s".repeat(BODY_BYTES)))
        .collect();
    // What is needed, twice. The log since the last snapshot; segments that are open, ready, spare or being left; two
    // snapshots.
    let bound = 2 * (STAY * BODY_BYTES) as u64 + 2 * SNAPSHOT_LOG_BYTES + 10 * SEGMENT_BYTES;
    for round in 0..3_000 {
        // They begin in many segments, each full of others that go.
        if let Some(text) = stays.get(round / 20).filter(|_| round % 20 == 0) {
            enqueue(&served, "stay", entry(text)).await.unwrap();
        }
        let text = format!("{round} {}", "p".repeat(BODY_BYTES));
        served.send(&text).await.unwrap();
        assert_eq!(consume(&served, "q", 1).await, [text]);
        if round % 100 == 0 {
            until("what passed is gone", || {
                // The house is looked at now and then.
                served.clock.advance(Duration::from_millis(10));
                served.disk.bytes_used() <= bound
            })
            .await;
        }
    }
    assert!(served.counts.now().copied_bytes > 0);
    let (cut, stopped) = (served.disk.fork().crash(5), served.stop().kill());
    for disk in [cut, stopped] {
        let served = Served::start(&disk, &settings);
        let mut found = Vec::new();
        while found.len() < STAY {
            let more = consume(&served, "stay", 10).await;
            assert!(!more.is_empty(), "only {} are there", found.len());
            found.extend(more);
        }
        assert_eq!(found, stays);
        served.stop();
    }
}

/// Changes a byte of a content where it lies, on a disk that nobody uses.
fn damage(disk: &SimDisk, text: &str) {
    let mut places = 0;
    for name in disk.names().iter().filter(|name| name.ends_with(".seg")) {
        let content = disk.content(name);
        let found = content
            .windows(text.len())
            .rposition(|window| window == text.as_bytes());
        if let Some(at) = found {
            disk.flip(name, at as u64, 1);
            places += 1;
        }
    }
    assert_eq!(places, 1, "where {text:?} lies");
}

async fn a_damaged_content_is_left_out_and_not_counted(driver: Driver) {
    let settings = small(driver);
    let served = Served::with_queue(&settings).await;
    for text in ["one", "the damaged one", "three"] {
        served.send(text).await.unwrap();
    }
    damage(&served.disk, "the damaged one");
    let good = [("one".to_owned(), 1), ("three".to_owned(), 1)];
    assert_eq!(taken(&served, "q", 10).await, good);
    assert_eq!(served.counts.now().damaged, 1);
    let counters = served.broker.describe_queue(key("q")).await.unwrap().counters;
    assert_eq!(
        (counters.visible, counters.in_flight),
        (0, 3),
        "it stays hidden for its lease"
    );

    // The disk may have been mended by then.
    damage_mended(&served.disk);
    served
        .broker
        .advance_clock(std::time::Duration::from_secs(31))
        .await
        .unwrap();
    let again =
        [("one", 2), ("the damaged one", 1), ("three", 2)].map(|(text, count)| (text.to_owned(), count));
    assert_eq!(taken(&served, "q", 10).await, again);
    served.stop();
}

fn damage_mended(disk: &SimDisk) {
    let mut flipped = b"the damaged one".to_vec();
    flipped[0] ^= 1;
    for name in disk.names().iter().filter(|name| name.ends_with(".seg")) {
        let content = disk.content(name);
        if let Some(at) = content
            .windows(flipped.len())
            .position(|window| window == flipped)
        {
            disk.flip(name, at as u64, 1);
        }
    }
}

/// A message of a group, stored as the API stores it.
fn grouped(group: &str, body: &str) -> EnqueueEntry {
    let content = Content {
        message_id: MessageId::from_random([1; 16]),
        body_md5: [0; 16],
        sender: "000000000000",
        group: Some(group),
        deduplication_id: None,
        trace_header: None,
        attributes: Vec::new(),
        body,
    };
    EnqueueEntry {
        content: content.encode().into(),
        ..fifo_entry(group, body)
    }
}

async fn a_damaged_content_lets_none_of_its_group_pass(driver: Driver) {
    let settings = small(driver);
    let served = Served::with_queue(&settings).await;
    create(&served, "q.fifo").await;
    for (group, body) in [("a", "a1"), ("a", "the damaged one"), ("a", "a3"), ("b", "b1")] {
        enqueue(&served, "q.fifo", grouped(group, body)).await.unwrap();
    }
    damage(&served.disk, "the damaged one");
    let bodies = |received: Received| {
        received.take.into_iter().for_each(broker::Take::delivered);
        let bodies = received.messages.iter().map(|message| {
            let content = Content::decode(&message.content).unwrap();
            content.body.to_owned()
        });
        bodies.collect::<Vec<_>>()
    };
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.extend(bodies(take(&served, "q.fifo", 10).await));
    }
    assert_eq!(seen, ["a1", "b1"], "what stands behind the damaged one waits");
    let counters = served
        .broker
        .describe_queue(key("q.fifo"))
        .await
        .unwrap()
        .counters;
    assert_eq!((counters.visible, counters.in_flight), (1, 3));
    served.stop();
}

async fn below_the_reserve_only_sends_are_refused(driver: Driver) {
    let settings = Settings {
        reserve_bytes: Some(16 * SEGMENT_BYTES),
        has_real_time: true,
        ..small(driver)
    };
    let served = Served::with_queue(&settings).await;
    served.disk.set_capacity(Some(64 * SEGMENT_BYTES));
    let body = "x".repeat(2_000);
    let mut sent = 0;
    let refused = loop {
        match served.send(&format!("{sent} {body}")).await {
            Ok(()) => sent += 1,
            Err(refusal) => break refusal,
        }
        assert!(sent < 100_000, "never refused");
    };
    assert_eq!(refused, BrokerError::NoRoom);
    assert!(sent > 100, "refused after {sent}");
    let visible = served
        .broker
        .describe_queue(key("q"))
        .await
        .unwrap()
        .counters
        .visible;
    assert_eq!(visible, sent);

    // Everything else goes on, and brings the room back.
    let mut consumed = 0;
    while consumed < sent {
        let texts = consume(&served, "q", 10).await;
        assert!(!texts.is_empty(), "{consumed} of {sent}");
        for text in texts {
            assert_eq!(text, format!("{consumed} {body}"));
            consumed += 1;
        }
    }
    until("there is room again", || !served.counts.now().is_short).await;
    served.send("again").await.unwrap();
    assert_eq!(consume(&served, "q", 10).await, ["again"]);
    served.stop();
}

/// Replays nothing.
struct Nobody;

impl Replay for Nobody {
    fn snapshot(&mut self, _: LogIndex, _: &mut dyn std::io::Read) -> Result<(), ReplayError> {
        Err("there is none".into())
    }

    fn entry(&mut self, _: LogIndex, _: &[u8], _: Option<journal::Place>) -> Result<(), ReplayError> {
        Err("there is none".into())
    }
}

async fn contents_of_an_earlier_version_are_moved_to_the_disk(driver: Driver) {
    let stored = include_bytes!("../fixtures/snapshot-1.bin");
    let disk = SimDisk::new(1);
    let (mut journal, _) = LocalJournal::open(
        std::sync::Arc::new(disk.clone()),
        LocalOptions::default(),
        &mut Nobody,
    )
    .unwrap();
    for _ in 0..9 {
        journal
            .propose(b"in the snapshot", journal.epoch().unwrap())
            .unwrap();
    }
    journal.wait(&mut Vec::new()).unwrap();
    journal::conformance::snapshot(&mut journal, LogIndex(9), stored);
    drop(journal);
    let mut disk = disk.kill();
    for _ in 0..3 {
        let served = Served::start(&disk, &small(driver));
        assert_eq!(served.report.snapshot, Some(LogIndex(9)));
        let Received { messages, take } = take(&served, "q", 10).await;
        let texts: Vec<_> = messages.iter().map(|message| text_of(&message.content)).collect();
        assert_eq!(texts, ["waiting"]);
        drop(take);
        let segments = served
            .disk
            .names()
            .into_iter()
            .filter(|name| name.ends_with(".seg"));
        let bytes: Vec<u8> = segments.flat_map(|name| served.disk.content(&name)).collect();
        assert!(
            bytes.windows(9).any(|window| window == b"in flight"),
            "it lies in the log now"
        );
        disk = served.stop().kill();
    }
}

async fn contents_in_flight_are_bounded_and_a_refused_receive_takes_nothing(driver: Driver) {
    let settings = Settings {
        budget: broker::BudgetLimits {
            bytes_max: 1 << 20,
            tenant_bytes_max: 10_000,
        },
        ..small(driver)
    };
    let served = Served::with_queue(&settings).await;
    for number in 0..4 {
        served
            .send(&format!("{number} {}", "x".repeat(4_000)))
            .await
            .unwrap();
    }
    // Two answers of 4,000 bytes are on their way; a third would be too much.
    let held = [take(&served, "q", 1).await, take(&served, "q", 1).await];
    assert!(held.iter().all(|received| received.messages.len() == 1));
    assert_eq!(served.receive(0).await.err(), Some(BrokerError::Overloaded));
    assert_eq!(
        served.send(&"x".repeat(4_000)).await,
        Err(BrokerError::Overloaded)
    );
    until("what was refused is back", || served.counts.now().given_back == 1).await;
    for Received { take, .. } in held {
        take.unwrap().delivered();
    }
    let (text, count) = served.take().await.unwrap();
    assert_eq!(
        (&text[..2], count),
        ("2 ", 1),
        "the refused receive is not counted"
    );
    served.send(&"x".repeat(4_000)).await.unwrap();
    served.stop();
}

async fn deduplication_ids_are_bounded_and_none_is_forgotten_early(driver: Driver) {
    let settings = Settings {
        deduplication_ids_max: 100,
        has_real_time: true,
        ..small(driver)
    };
    let served = Served::with_queue(&settings).await;
    create(&served, "q.fifo").await;
    let began = std::time::Instant::now();
    let mut sent = 0;
    // The ids are counted now and then, so a few more pass.
    while enqueue(&served, "q.fifo", fifo_entry("g", &sent.to_string())).await != Err(BrokerError::Overloaded)
    {
        sent += 1;
        assert!(
            began.elapsed() < std::time::Duration::from_secs(60),
            "{sent} ids were taken"
        );
    }
    assert!(sent >= 100, "refused after {sent}");
    served.send("without an id").await.unwrap();
    served
        .broker
        .advance_clock(std::time::Duration::from_secs(301))
        .await
        .unwrap();
    // It is not known any more, and there is room again without a restart.
    while enqueue(&served, "q.fifo", fifo_entry("g", "0")).await == Err(BrokerError::Overloaded) {
        assert!(
            began.elapsed() < std::time::Duration::from_secs(60),
            "the ids stay"
        );
    }
    let counters = served
        .broker
        .describe_queue(key("q.fifo"))
        .await
        .unwrap()
        .counters;
    assert_eq!(counters.total(), sent + 1);
    served.stop();
}

/// Sends, receives and deletes at random while segments are emptied, and cuts the power at any moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_mixed_up_when_the_power_goes_while_contents_are_copied() {
    let (mut copied, mut restarts) = (0, 0);
    for seed in 0..12 {
        let settings = small(if seed % 2 == 0 {
            Driver::CommitThread
        } else {
            Driver::Reactor
        });
        let mut random = Random::new(seed);
        let mut served = Served::with_queue(&settings).await;
        let mut there: BTreeMap<u64, String> = BTreeMap::new();
        let mut next = 0;
        for _ in 0..1_500 {
            match random.below(100) {
                0..52 => {
                    let text = format!("{next} {}", "x".repeat(random.below(1_500) as usize));
                    served.send(&text).await.unwrap();
                    there.insert(next, text);
                    next += 1;
                }
                52..99 => {
                    // Most that are received go; some stay, hidden for longer than the test runs.
                    let keeps = random.below(8) == 0;
                    let Received { messages, take } = take(&served, "q", 3).await;
                    take.into_iter().for_each(broker::Take::delivered);
                    for message in &messages {
                        let text = text_of(&message.content);
                        let number: u64 = text.split(' ').next().unwrap().parse().unwrap();
                        assert_eq!(there.get(&number), Some(&text), "seed {seed}");
                        if !keeps {
                            let handles = vec![message.delivery.handle];
                            served.broker.delete(key("q"), handles).await.unwrap();
                            there.remove(&number);
                        }
                    }
                }
                _ => {
                    let disk = match random.below(2) {
                        0 => served.disk.fork().crash(random.below(1 << 40)),
                        _ => served.disk.fork(),
                    };
                    copied += served.counts.now().copied_bytes;
                    served.stop();
                    served = Served::start(&disk, &settings);
                    restarts += 1;
                }
            }
        }
        let counters = served.broker.describe_queue(key("q")).await.unwrap().counters;
        assert_eq!(counters.total(), there.len() as u64, "seed {seed}");
        served
            .broker
            .advance_clock(std::time::Duration::from_secs(31))
            .await
            .unwrap();
        while !there.is_empty() {
            let texts = consume(&served, "q", 10).await;
            assert!(!texts.is_empty(), "seed {seed}: {} are missing", there.len());
            for text in texts {
                let number: u64 = text.split(' ').next().unwrap().parse().unwrap();
                assert_eq!(there.remove(&number).as_ref(), Some(&text), "seed {seed}");
            }
        }
        assert_eq!(served.counts.now().damaged, 0, "seed {seed}");
        copied += served.counts.now().copied_bytes;
        served.stop();
    }
    assert!(
        copied > 0 && restarts > 20,
        "{copied} bytes copied, {restarts} restarts"
    );
}
