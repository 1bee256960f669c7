//! What a commit costs, and what happens to segments that are no longer needed.

use std::collections::BTreeSet;

use journal::{Fsync, Journal, LocalOptions, conformance};
use simulator::{Fault, SimDisk};
use types::LogIndex;

use crate::support::{commit, entry, open, propose, small, try_open, wait};

#[test]
fn a_commit_is_one_write_and_one_sync() {
    let disk = SimDisk::new(4);
    let (mut journal, ..) = open(&disk);
    for number in 0..3 {
        let before = disk.counters();
        commit(&mut journal, &entry(number, 600));
        let after = disk.counters();
        assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 1));
        assert_eq!(after.changes - before.changes, 2);
    }
    let before = (disk.counters(), journal.counters());
    for number in 0..3 {
        propose(&mut journal, &entry(number, 100));
    }
    assert_eq!(wait(&mut journal).len(), 3);
    let after = (disk.counters(), journal.counters());
    assert_eq!(
        (after.0.writes - before.0.writes, after.0.syncs - before.0.syncs),
        (3, 1)
    );
    assert_eq!(after.1.entries - before.1.entries, 3);
    assert_eq!(after.1.bytes_written - before.1.bytes_written, 3 * (64 + 104));
    assert_eq!(after.1.syncs - before.1.syncs, 1);
    assert!(wait(&mut journal).is_empty());
    assert_eq!(disk.counters(), after.0, "waiting for nothing does nothing");
}

#[test]
fn a_switch_to_a_prepared_segment_is_one_write_and_one_sync_too() {
    let disk = SimDisk::new(4);
    let (mut journal, ..) = open(&disk);
    conformance::prepare(&mut journal);
    let names = disk.names().len();
    for number in 0..40 {
        let before = disk.counters();
        commit(&mut journal, &entry(number, 900));
        let after = disk.counters();
        assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 1));
        conformance::prepare(&mut journal);
    }
    assert!(disk.names().len() > names + 2);
    assert_eq!(journal.counters().segments_waited_for, 0);
}

#[test]
fn a_segment_that_is_not_ready_in_time_is_made_and_counted() {
    let disk = SimDisk::new(4);
    let (mut journal, ..) = open(&disk);
    let late = journal.take_preparation().unwrap();
    assert!(journal.take_preparation().is_none(), "one preparation at a time");
    for number in 0..14 {
        commit(&mut journal, &entry(number, 900));
    }
    assert_eq!(journal.counters().segments_waited_for, 2);
    // It comes back when its place in the order is taken: its file serves the one after.
    journal.install(late.run()).unwrap();
    let names = disk.names().len();
    conformance::prepare(&mut journal);
    assert_eq!(disk.names().len(), names);
    for number in 14..30 {
        commit(&mut journal, &entry(number, 900));
    }
    assert_eq!(open(&disk.kill()).2.entries.len(), 30);
}

#[test]
fn segments_before_a_snapshot_are_used_again_and_what_was_in_them_never_counts() {
    let disk = SimDisk::new(4);
    let (mut journal, ..) = open(&disk);
    let mut most = 0;
    for number in 1..=400 {
        let index = commit(&mut journal, &entry(number, 900));
        if number % 25 == 0 {
            conformance::snapshot(&mut journal, index, &number.to_le_bytes());
        }
        conformance::prepare(&mut journal);
        most = most.max(disk.names().len());
        if number % 7 == 0 {
            let (_, report, replayed) = open(&disk.fork());
            assert_eq!((replayed.last_index(), report.torn_tail), (index, None));
            let (_, report, replayed) = open(&disk.fork().crash(number));
            assert_eq!((replayed.last_index(), report.torn_tail), (index, None));
        }
    }
    assert!(most < 12, "{most} files for a log of few segments");
    // Files in use still hold whole records of an earlier use, of another generation.
    let stale: usize = disk
        .names()
        .into_iter()
        .filter(|name| name.starts_with("log-"))
        .map(|name| stale_records(&disk.content(&name)))
        .sum();
    assert!(stale > 3, "{stale} stale records");
    assert_eq!(journal.counters().segments_waited_for, 0);
}

fn stale_records(segment: &[u8]) -> usize {
    let words: Vec<&[u8]> = segment.chunks_exact(8).collect();
    let headers = (512..words.len() - 4).filter(|at| words[*at].starts_with(b"HFrc"));
    headers.filter(|at| words[at + 3] != words[3]).count()
}

#[test]
fn the_last_segment_with_records_stays_until_the_next_one_has_some() {
    let disk = SimDisk::new(4);
    let (mut journal, ..) = open(&disk);
    for number in 0..4 {
        commit(&mut journal, &entry(number, 900));
    }
    conformance::prepare(&mut journal);
    // The log goes on to the next segment, and the first write there fails.
    disk.arm(Fault::ShortWrite { at: 1, bytes: 100 });
    let epoch = journal.epoch().unwrap();
    journal.propose(&entry(4, 900), epoch).unwrap_err();
    conformance::snapshot(&mut journal, LogIndex(4), b"four");
    conformance::prepare(&mut journal);
    let (_, report, _) = open(&disk.fork());
    assert_eq!(report.last_index, LogIndex(4));
    assert_eq!(commit(&mut journal, b"five"), LogIndex(5));
    assert_eq!(open(&disk.kill()).2.last_index(), LogIndex(5));
}

#[test]
fn the_log_since_the_snapshot_is_counted_in_bytes() {
    let disk = SimDisk::new(4);
    let (mut journal, ..) = open(&disk);
    for number in 1..=10 {
        commit(&mut journal, &entry(number, 936));
    }
    let sink = journal.begin_snapshot(LogIndex(10), &[]).unwrap();
    commit(&mut journal, &entry(11, 936));
    journal.complete_snapshot(sink.finish().unwrap()).unwrap();
    assert_eq!(journal.log_bytes_since_snapshot(), 1_000);
    drop(journal);
    let (journal, ..) = open(&disk.kill());
    assert_eq!(journal.log_bytes_since_snapshot(), 1_000);
}

#[test]
fn what_was_never_finished_is_removed_at_the_next_start() {
    let disk = SimDisk::new(4);
    let (mut journal, ..) = open(&disk);
    commit(&mut journal, b"one");
    let mut sink = journal.begin_snapshot(LogIndex(1), &[]).unwrap();
    sink.write(b"half").unwrap();
    disk.put("endpoints.json.tmp", b"not ours");
    let disk = disk.kill();
    drop((sink, journal));
    assert_eq!(disk.names().len(), 3);
    open(&disk);
    assert_eq!(
        disk.names(),
        ["endpoints.json.tmp", "log-00000000000000000001.seg"]
    );
}

#[test]
fn contents_copied_while_a_snapshot_is_written_stay_until_the_next_one() {
    let disk = SimDisk::new(4);
    let (mut journal, ..) = open(&disk);
    let index = commit(&mut journal, b"all there is");
    let mut sink = journal.begin_snapshot(index, &[1]).unwrap();
    // They fill segments, and no entry comes.
    let copies: Vec<_> = (0..12)
        .map(|number| journal.copy_forward(&entry(number, 2_000)).unwrap().unwrap())
        .collect();
    sink.write(b"state").unwrap();
    journal.complete_snapshot(sink.finish().unwrap()).unwrap();
    conformance::prepare(&mut journal);
    for (number, place) in copies.iter().enumerate() {
        let file = journal.segment(place.segment);
        let mut found = vec![0; 2_000];
        file.expect("the segment is there")
            .read_at(&mut found, u64::from(place.offset))
            .unwrap();
        assert_eq!(found, entry(number as u64, 2_000), "{place:?}");
    }
    let segments: BTreeSet<u32> = copies.iter().map(|place| place.segment).collect();
    assert!(segments.len() > 2);
    let segments: Vec<u32> = segments.into_iter().collect();
    conformance::snapshot_naming(&mut journal, index, b"state", &segments);
    drop(journal);
    let (journal, ..) = open(&disk.kill());
    assert!(segments.iter().all(|segment| journal.segment(*segment).is_some()));
}

#[test]
fn without_fsync_the_segment_in_which_the_log_begins_is_durable_before_older_ones_go() {
    for seed in 0..20 {
        let disk = SimDisk::new(4);
        let options = LocalOptions {
            fsync: Fsync::Off,
            ..small()
        };
        let (mut journal, ..) = try_open(&disk, options.clone()).unwrap();
        let index = commit(&mut journal, b"all there is");
        conformance::snapshot(&mut journal, index, b"state");
        // The next segments begin behind the same entry, and nothing of them is durable.
        for number in 0..8 {
            journal.copy_forward(&entry(number, 3_000)).unwrap();
        }
        drop(journal);
        let disk = disk.kill();
        let (mut journal, ..) = try_open(&disk, options.clone()).unwrap();
        conformance::prepare(&mut journal);
        drop(journal);
        let (.., replayed) = try_open(&disk.crash(seed), options).unwrap();
        assert_eq!(replayed.snapshot, Some((index, b"state".to_vec())));
    }
}
