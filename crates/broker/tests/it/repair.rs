//! A damaged data directory: it is found to be, what is lost goes, everything else stays.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker::{Inspection, ReceiveOptions, Received, inspect, repair};
use journal::{Discarding, Disk, Journal, JournalError, Overlay, segment_name, verify};
use queue_core::EnqueueEntry;
use simulator::{Fault, SimDisk};

use crate::node::text_of;
use crate::requests::{entry, fifo_entry, key};
use crate::served::{Driver, Served, Settings, until};

const FOLDER: &str = "damaged-20261130T235959Z";
const MESSAGES: usize = 60;

fn settings() -> Settings {
    Settings {
        segment_bytes: 32 << 10,
        snapshot_log_bytes: 64 << 10,
        cache_bytes: 0,
        ..Settings::of(Driver::CommitThread)
    }
}

fn text(queue: &str, number: usize) -> String {
    format!("<{queue} {number}> {}", "x".repeat(1_500))
}

/// A disk with messages of two queues in segments that are kept for them, and the numbers of those segments.
async fn stored() -> (SimDisk, Vec<u32>) {
    let served = Served::with_queue(&settings()).await;
    served
        .broker
        .create_queue(key("q.fifo"), Vec::new(), Vec::new())
        .await
        .unwrap();
    for number in 0..MESSAGES {
        let standard = entry(&text("q", number));
        let fifo = fifo_entry(&format!("group {}", number % 3), &text("q.fifo", number));
        // An id as long as the text would be too long.
        let id = queue_core::Deduplication::Id(format!("{number}").into());
        let deduplication = Some(id);
        let fifo = EnqueueEntry {
            deduplication,
            ..fifo
        };
        for (queue, entry) in [("q", standard), ("q.fifo", fifo)] {
            let results = served.broker.enqueue(key(queue), vec![entry]).await.unwrap();
            assert!(results.iter().all(Result::is_ok));
        }
    }
    until("a snapshot", || served.counts.now().snapshots > 1).await;
    let disk = served.stop().kill();
    let (_, journal) = verify(Arc::new(disk.clone()), &mut Discarding).unwrap();
    let kept: Vec<u32> = journal.unwrap().kept().iter().map(|kept| kept.segment).collect();
    assert!(kept.len() > 1, "{kept:?}");
    (disk, kept)
}

/// Returns the messages whose content lies in a file.
fn texts_in(disk: &SimDisk, name: &str) -> BTreeSet<String> {
    let bytes = disk.content(name);
    let all = ["q", "q.fifo"]
        .into_iter()
        .flat_map(|queue| (0..MESSAGES).map(move |number| text(queue, number)));
    all.filter(|text| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
        .collect()
}

fn inspected(disk: &SimDisk) -> Inspection {
    inspect(Arc::new(disk.clone()), true).unwrap()
}

fn repaired(disk: &SimDisk, folder: &str) -> Result<broker::Repair, JournalError> {
    let lock = disk.lock().unwrap();
    repair(Arc::new(disk.clone()), lock, folder)
}

/// Starts, and takes everything out of a queue.
async fn drained(served: &Served, queue: &str) -> Vec<String> {
    let mut texts = Vec::new();
    loop {
        let options = ReceiveOptions {
            max: 10,
            visibility_timeout_seconds: None,
            wait_seconds: Some(0),
            attempt: None,
        };
        let Received { messages, take } = served.broker.receive(key(queue), options).await.unwrap();
        take.into_iter().for_each(broker::Take::delivered);
        if messages.is_empty() {
            return texts;
        }
        let handles: Vec<_> = messages.iter().map(|message| message.delivery.handle).collect();
        texts.extend(messages.iter().map(|message| text_of(&message.content)));
        let results = served.broker.delete(key(queue), handles).await.unwrap();
        assert!(results.iter().all(Result::is_ok));
    }
}

/// Checks that everything is there but for what is lost, each group in its order.
async fn check_served(disk: &SimDisk, lost: &BTreeSet<String>) {
    let served = Served::start(disk, &settings());
    for queue in ["q", "q.fifo"] {
        let mut expected: Vec<String> = (0..MESSAGES).map(|number| text(queue, number)).collect();
        expected.retain(|text| !lost.contains(text));
        let mut found = drained(&served, queue).await;
        if queue == "q.fifo" {
            let number = |text: &String| -> usize {
                let word = text.split([' ', '>']).nth(1).unwrap();
                word.parse().unwrap()
            };
            for group in 0..3 {
                let of_group = found.iter().map(number).filter(|number| number % 3 == group);
                assert!(of_group.is_sorted(), "group {group}");
            }
            found.sort_by_key(number);
        }
        assert!(
            found == expected,
            "{queue}: {} of {}",
            found.len(),
            expected.len()
        );
    }
    assert_eq!(served.counts.now().damaged, 0);
    served.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_a_lost_segment_go_and_all_others_stay() {
    let (disk, kept) = stored().await;
    assert!(inspected(&disk).is_whole());
    let name = segment_name(kept[0]);
    let lost = texts_in(&disk, &name);
    assert!(lost.len() > 10, "{}", lost.len());
    disk.remove(&name).unwrap();
    disk.sync_dir().unwrap();
    assert!(inspected(&disk).log.is_start_refused);

    // Tried on a copy first: it says the same and changes nothing.
    let before = disk.counters();
    let overlay = Arc::new(Overlay::new(Arc::new(disk.clone())));
    let tried = repair(overlay.clone(), overlay.lock().unwrap(), FOLDER).unwrap();
    assert_eq!(disk.counters(), before);
    let done = repaired(&disk, FOLDER).unwrap();
    assert!(done.is_needed());
    assert_eq!((&tried.lost, &tried.log), (&done.lost, &done.log));
    assert_eq!(done.lost.values().sum::<u64>(), lost.len() as u64);
    assert_eq!(done.messages, (2 * MESSAGES - lost.len()) as u64);
    assert_eq!(done.log.dropped_to, None);

    let found = inspected(&disk.kill());
    assert!(found.is_whole(), "{found:?}");
    assert_eq!(found.state.unwrap().messages, done.messages);
    check_served(&disk.kill(), &lost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_flipped_content_costs_one_message() {
    let (disk, kept) = stored().await;
    let name = segment_name(kept[1]);
    let all = texts_in(&disk, &name);
    let lost = all.first().unwrap();
    let bytes = disk.content(&name);
    let at = bytes
        .windows(lost.len())
        .position(|window| window == lost.as_bytes());
    disk.flip(&name, at.unwrap() as u64 + 700, 1);
    let damaged = disk.content(&name);
    let found = inspected(&disk);
    assert!(!found.is_whole() && !found.log.is_start_refused);
    let state = found.state.unwrap();
    assert_eq!(state.lost.values().map(Vec::len).sum::<usize>(), 1);

    let done = repaired(&disk, FOLDER).unwrap();
    assert_eq!(done.lost.values().sum::<u64>(), 1);
    assert_eq!(done.rescued, all.len() as u64 - 1);
    assert_eq!(disk.content(&format!("{FOLDER}/{name}")), damaged);
    assert!(inspected(&disk.kill()).is_whole());
    assert!(!repaired(&disk.kill(), "again").unwrap().is_needed());
    check_served(&disk.kill(), &BTreeSet::from([lost.clone()])).await;
}

/// What was purged is reclaimed step by step, and until then its content holds on to its segment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purged_messages_keep_no_damaged_segment() {
    let served = Served::with_queue(&settings()).await;
    for batch in 0..120 {
        let entries = (0..100).map(|n| entry(&format!("{batch} {n}"))).collect();
        let results = served.broker.enqueue(key("q"), entries).await.unwrap();
        assert!(results.iter().all(Result::is_ok));
    }
    until("a snapshot", || served.counts.now().snapshots > 1).await;
    // So many that the purge itself does not reclaim them all. The copy is as if the process were killed.
    served.broker.purge_queue(key("q")).await.unwrap();
    let disk = served.disk.fork();
    served.stop();
    let (_, journal) = verify(Arc::new(disk.clone()), &mut Discarding).unwrap();
    let kept = journal.unwrap().kept();
    let last = kept.last().unwrap().segment;
    disk.flip(&segment_name(last), 4096 + 88 + 64 + 300, 1);
    let done = repaired(&disk, FOLDER).unwrap();
    assert_eq!((done.messages, done.lost.len()), (0, 0));
    assert!(inspected(&disk.kill()).is_whole());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_log_says_what_clients_did_behind_the_damage() {
    let served = Served::with_queue(&settings()).await;
    for number in 0..10 {
        served.send(&text("q", number)).await.unwrap();
    }
    let deleted = served.broker.clone();
    let options = ReceiveOptions {
        max: 1,
        visibility_timeout_seconds: None,
        wait_seconds: Some(0),
        attempt: None,
    };
    let Received { messages, take } = deleted.receive(key("q"), options).await.unwrap();
    take.into_iter().for_each(broker::Take::delivered);
    let handles = vec![messages[0].delivery.handle];
    deleted.delete(key("q"), handles).await.unwrap();
    let disk = served.stop().kill();
    let name = segment_name(1);
    let bytes = disk.content(&name);
    let damaged = text("q", 6);
    let at = bytes
        .windows(damaged.len())
        .position(|window| window == damaged.as_bytes());
    disk.flip(&name, at.unwrap() as u64, 1);
    let done = repaired(&disk, FOLDER).unwrap();
    assert_eq!((done.dropped.sent, done.dropped.deleted), (3, 1));
    assert_eq!(
        (done.messages, done.lost.len()),
        (6, 0),
        "it is behind the damage that one was deleted"
    );
    assert!(inspected(&disk.kill()).is_whole());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_that_is_interrupted_is_run_again() {
    let (whole, kept) = stored().await;
    for is_removed in [true, false] {
        let name = segment_name(kept[0]);
        let mut lost = texts_in(&whole, &name);
        let damaged = whole.fork();
        if is_removed {
            damaged.remove(&name).unwrap();
            damaged.sync_dir().unwrap();
        } else {
            damaged.flip(&name, 4096 + 88 + 64 + 300, 1);
            lost.retain(|text| !texts_in(&damaged, &name).contains(text));
        }
        let mut interruptions = 0;
        for halt in 1.. {
            let disk = damaged.fork();
            disk.arm(Fault::Halt {
                at: halt,
                bytes: 50 * halt as usize,
            });
            if repaired(&disk, FOLDER).is_ok() {
                break;
            }
            interruptions += 1;
            let disk = match halt % 3 {
                0 => disk.kill(),
                _ => disk.crash(halt),
            };
            repaired(&disk, "damaged-again").unwrap();
            let found = inspected(&disk.kill());
            assert!(found.is_whole(), "halted at {halt}: {found:?}");
            let messages = found.state.unwrap().messages;
            assert_eq!(messages, (2 * MESSAGES - lost.len()) as u64, "halted at {halt}");
            if halt % 10 == 0 {
                check_served(&disk.kill(), &lost).await;
            }
        }
        assert!(interruptions > 10, "{interruptions}");
    }
}
