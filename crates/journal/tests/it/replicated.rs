//! The log of a node of a cluster: what it takes and refuses, damage, a full disk, and how a single node becomes one.

use std::io::Read;
use std::sync::Arc;

use journal::conformance::Replayed;
use journal::{
    Corruption, Discarding, Disk, EntryKind, Journal, JournalError, Layout, LocalJournal, LogId, NewEntry,
    RaftSnapshot, ReplayError, ReplicatedLog, ReplicatedRecovery, RestoreSnapshot, repair_log, verify,
    verify_replicated,
};
use simulator::{Fault, SimDisk};
use types::{LogIndex, NodeId, Term};

use crate::support::{commit, entry, open, small, try_open};

pub(crate) fn id(term: u64, index: u64) -> LogId {
    LogId {
        term: Term(term),
        node: NodeId(100 + term),
        index: LogIndex(index),
    }
}

/// Takes what a start finds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Restored {
    pub(crate) snapshot: Option<RaftSnapshot>,
    pub(crate) content: Vec<u8>,
}

impl RestoreSnapshot for Restored {
    fn snapshot(&mut self, snapshot: &RaftSnapshot, content: &mut dyn Read) -> Result<(), ReplayError> {
        self.snapshot = Some(snapshot.clone());
        content.read_to_end(&mut self.content)?;
        Ok(())
    }
}

type Started = (ReplicatedLog, ReplicatedRecovery, Restored);

pub(crate) fn try_start(disk: &SimDisk) -> Result<Started, JournalError> {
    let mut restored = Restored::default();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (log, recovery) = ReplicatedLog::open(shared, small(), &mut restored)?;
    assert_eq!(restored.snapshot.as_ref(), log.snapshot());
    Ok((log, recovery, restored))
}

pub(crate) fn start(disk: &SimDisk) -> Started {
    try_start(disk).unwrap()
}

/// Appends one entry of a term behind the last.
pub(crate) fn append(log: &mut ReplicatedLog, term: u64, bytes: &[u8]) -> Result<LogId, JournalError> {
    let id = id(term, log.last_id().index.0 + 1);
    log.append(&[NewEntry {
        id,
        kind: EntryKind::Commands,
        bytes,
    }])?;
    Ok(id)
}

pub(crate) fn snapshot(log: &mut ReplicatedLog, index: u64, segments: &[u32]) {
    let mut sink = log.begin_snapshot(LogIndex(index), b"members", segments).unwrap();
    sink.write(b"state").unwrap();
    log.complete_snapshot(sink.finish().unwrap()).unwrap();
}

type Entries = Vec<(LogId, Vec<u8>)>;

/// Returns all entries that are there, by id.
fn entries(log: &ReplicatedLog) -> Result<Entries, JournalError> {
    let indexes = log.purged_id().index.0 + 1..=log.last_id().index.0;
    let read = indexes.map(|index| log.entry(LogIndex(index)));
    read.map(|read| read.map(|read| read.unwrap()))
        .map(|read| read.map(|read| (read.id, read.bytes)))
        .collect()
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let disk = SimDisk::new(1);
    let (mut log, ..) = start(&disk);
    assert_eq!(
        (log.last_id(), log.purged_id()),
        (LogId::default(), LogId::default())
    );
    for _ in 0..5 {
        append(&mut log, 1, b"entry").unwrap();
    }
    log.sync().unwrap();
    snapshot(&mut log, 3, &[]);
    log.purge(LogIndex(2)).unwrap();
    let before = disk.counters();
    let entry = |index| NewEntry {
        id: id(2, index),
        kind: EntryKind::Raft,
        bytes: b"",
    };
    for entries in [
        &[entry(5)][..],
        &[entry(7)],
        &[entry(6), entry(8)],
        &[entry(6), entry(6)],
    ] {
        let error = log.append(entries).unwrap_err();
        assert!(matches!(error, JournalError::Order { .. }), "{error}");
    }
    // Entry 3 is in the snapshot, entry 1 is purged, entry 6 is not there.
    for index in [1, 2, 6] {
        let error = log.truncate_after(LogIndex(index)).unwrap_err();
        assert!(matches!(error, JournalError::Order { .. }), "{error}");
    }
    assert!(matches!(log.purge(LogIndex(6)), Err(JournalError::Order { .. })));
    for index in [0, 1, 2, 6] {
        let error = log.begin_snapshot(LogIndex(index), b"", &[]).unwrap_err();
        assert!(matches!(error, JournalError::SnapshotIndex { .. }), "{error}");
    }
    let foreign = RaftSnapshot {
        id: id(2, 3),
        membership: Vec::new(),
    };
    let error = log.begin_install(&foreign, &[]).unwrap_err();
    assert!(matches!(error, JournalError::SnapshotIndex { .. }), "{error}");
    let error = log.set_mark(&[0; 4097]).unwrap_err();
    assert!(matches!(error, JournalError::TooLarge { .. }), "{error}");
    assert_eq!(disk.counters(), before);
    assert_eq!((log.purged_id(), log.last_id()), (id(1, 2), id(1, 5)));
    log.truncate_after(LogIndex(3)).unwrap();
    assert_eq!(append(&mut log, 2, b"").unwrap(), id(2, 4));
    assert_eq!(log.id(LogIndex(5)), None);
    assert_eq!(log.entry(LogIndex(5)).unwrap(), None);
}

#[test]
fn a_batch_and_its_mark_are_one_write_each_and_one_sync() {
    let disk = SimDisk::new(1);
    let (mut log, ..) = start(&disk);
    let before = disk.counters();
    let entries: Vec<_> = (1..=5)
        .map(|index| NewEntry {
            id: id(1, index),
            kind: EntryKind::Commands,
            bytes: b"some commands",
        })
        .collect();
    let places = log.append(&entries).unwrap();
    log.set_mark(b"voted for myself").unwrap();
    log.set_mark(b"voted for myself").unwrap();
    log.sync().unwrap();
    log.sync().unwrap();
    let after = disk.counters();
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (2, 1));
    assert_eq!(after.changes - before.changes, 3);
    for (index, place) in (1..).zip(places) {
        assert_eq!(log.entry(LogIndex(index)).unwrap().unwrap().place, place);
    }
    assert_eq!(log.counters().entries, 5);
}

#[test]
fn the_mark_is_found_in_any_suffix_of_segments() {
    let disk = SimDisk::new(1);
    let (mut log, ..) = start(&disk);
    log.set_mark(b"vote of the beginning").unwrap();
    for number in 1..=60 {
        append(&mut log, 1, &entry(number, 900)).unwrap();
        log.sync().unwrap();
        if number % 20 == 0 {
            snapshot(&mut log, number, &[]);
            log.purge(LogIndex(number)).unwrap();
            while let Some(preparation) = log.take_preparation() {
                log.install(preparation.run()).unwrap();
            }
            drop(log);
            log = start(&disk.fork().crash(number)).0;
            assert_eq!(log.mark(), b"vote of the beginning");
            log = start(&disk.kill()).0;
        }
    }
}

#[test]
fn segments_go_when_they_are_purged_and_a_snapshot_has_their_entries() {
    let disk = SimDisk::new(1);
    let (mut log, ..) = start(&disk);
    for number in 1..=60 {
        append(&mut log, 1, &entry(number, 900)).unwrap();
    }
    log.sync().unwrap();
    let place = |log: &ReplicatedLog, index| log.entry(LogIndex(index)).unwrap().unwrap().place;
    let (first, named) = (place(&log, 1).segment, place(&log, 20).segment);
    let is_there = |log: &ReplicatedLog, segment| log.segment(segment).is_some();
    snapshot(&mut log, 50, &[named]);
    // Nothing is purged yet, so a follower can still be given every entry.
    assert!(is_there(&log, first));
    assert_eq!(log.entry(LogIndex(1)).unwrap().unwrap().bytes, entry(1, 900));
    log.purge(LogIndex(55)).unwrap();
    assert!(!is_there(&log, first) && is_there(&log, named));
    assert_eq!(
        log.kept().iter().map(|kept| kept.segment).collect::<Vec<_>>(),
        [named]
    );
    assert_eq!(log.id(LogIndex(55)), Some(id(1, 55)));
    assert_eq!(log.id(LogIndex(54)), None);
    // A start needs the entries behind the snapshot, purged or not.
    assert_eq!(log.entry(LogIndex(55)).unwrap(), None);
    drop(log);
    let (log, ..) = start(&disk.kill());
    assert!(log.purged_id().index <= LogIndex(50));
    assert_eq!(log.entry(LogIndex(51)).unwrap().unwrap().bytes, entry(51, 900));
    assert!(is_there(&log, named));
}

#[test]
fn a_failed_append_leaves_the_log_as_it_was() {
    // The entries end in zeros, as the segment behind them: a part of them and what is there could make a whole one.
    let mut refused = entry(7, 300);
    refused[40..].fill(0);
    for taken in (0..2 * (64 + 304)).step_by(3) {
        let disk = SimDisk::new(2);
        let (mut log, ..) = start(&disk);
        append(&mut log, 1, b"before").unwrap();
        log.set_mark(b"mark").unwrap();
        log.sync().unwrap();
        let entries: Vec<_> = [2, 3]
            .map(|index| NewEntry {
                id: id(2, index),
                kind: EntryKind::Commands,
                bytes: &refused,
            })
            .into();
        disk.arm(Fault::ShortWrite { at: 1, bytes: taken });
        let error = log.append(&entries).unwrap_err();
        assert!(matches!(error, JournalError::Full { .. }), "{error}");
        assert!(log.is_usable());
        assert_eq!((log.last_id(), log.id(LogIndex(2))), (id(1, 1), None));
        for seed in [1, 7, 20, 33] {
            let (log, ..) = start(&disk.fork().crash(seed));
            assert_eq!((log.last_id(), log.mark()), (id(1, 1), &b"mark"[..]), "{taken}");
        }
        append(&mut log, 3, b"after").unwrap();
        log.sync().unwrap();
        drop(log);
        let (log, recovery, _) = start(&disk.crash(taken as u64));
        assert_eq!(log.last_id(), id(3, 2));
        assert_eq!(recovery.report.torn_tail, None);
    }
}

#[test]
fn a_full_disk_refuses_an_install_and_the_log_goes_on() {
    let disk = SimDisk::new(2);
    let (mut log, ..) = start(&disk);
    append(&mut log, 1, b"one").unwrap();
    log.sync().unwrap();
    let foreign = RaftSnapshot {
        id: id(5, 100),
        membership: b"members".to_vec(),
    };
    let mut sink = log.begin_install(&foreign, &[]).unwrap();
    sink.write(b"state of another node").unwrap();
    let receipt = sink.finish().unwrap();
    disk.set_capacity(Some(disk.bytes_used() + 3_000));
    let error = log.install_snapshot(&receipt).unwrap_err();
    assert!(matches!(error, JournalError::Full { .. }), "{error}");
    assert_eq!(append(&mut log, 1, b"two").unwrap(), id(1, 2));
    log.sync().unwrap();
    assert_eq!(start(&disk.fork().kill()).0.last_id(), id(1, 2));
    // There is room again.
    disk.set_capacity(None);
    log.install_snapshot(&receipt).unwrap();
    assert_eq!((log.purged_id(), log.last_id()), (id(5, 100), id(5, 100)));
    assert_eq!(append(&mut log, 6, b"goes on").unwrap(), id(6, 101));
    log.sync().unwrap();
    drop(log);
    let (log, _, restored) = start(&disk.crash(1));
    assert_eq!((restored.snapshot, log.last_id()), (Some(foreign), id(6, 101)));
    assert_eq!(restored.content, b"state of another node");
}

#[test]
fn a_snapshot_of_another_node_that_the_log_agrees_with_leaves_the_entries_behind_it() {
    let disk = SimDisk::new(2);
    let (mut log, ..) = start(&disk);
    for number in 1..=10 {
        append(&mut log, 1, &entry(number, 200)).unwrap();
    }
    log.set_mark(b"vote").unwrap();
    for (id, last) in [(id(1, 6), id(1, 10)), (id(2, 9), id(2, 9))] {
        let foreign = RaftSnapshot {
            id,
            membership: Vec::new(),
        };
        let receipt = log.begin_install(&foreign, &[]).unwrap().finish().unwrap();
        log.install_snapshot(&receipt).unwrap();
        assert_eq!((log.last_id(), log.mark()), (last, &b"vote"[..]));
        let behind = last.index.0 - id.index.0;
        // Entries of 200 bytes, and the mark.
        let bytes = behind * 264 + if behind > 0 { 64 + 8 } else { 0 };
        assert!(log.log_bytes_since_snapshot().abs_diff(bytes) <= 64, "{behind}");
        let (started, ..) = start(&disk.fork().crash(1));
        assert_eq!((started.last_id(), started.mark()), (last, &b"vote"[..]));
        assert_eq!(started.snapshot(), Some(&foreign));
    }
}

#[test]
fn a_failed_sync_ends_the_log() {
    let disk = SimDisk::new(2);
    let (mut log, ..) = start(&disk);
    append(&mut log, 1, b"one").unwrap();
    disk.arm(Fault::SyncFails { at: 1 });
    assert!(matches!(log.sync(), Err(JournalError::SyncFailed { .. })));
    assert!(!log.is_usable());
    assert!(matches!(log.sync(), Err(JournalError::Poisoned)));
    assert!(matches!(append(&mut log, 1, b"two"), Err(JournalError::Poisoned)));
    assert!(matches!(log.set_mark(b"mark"), Err(JournalError::Poisoned)));
    assert!(matches!(log.set_mark(b""), Err(JournalError::Poisoned)));
    assert!(matches!(
        log.truncate_after(LogIndex(0)),
        Err(JournalError::Poisoned)
    ));
    assert!(matches!(log.purge(LogIndex(0)), Err(JournalError::Poisoned)));
}

#[test]
fn a_reader_on_another_thread_sees_whole_entries_while_the_log_is_cut_purged_and_reused() {
    let disk = SimDisk::new(3);
    let (mut log, ..) = start(&disk);
    let reader = log.reader();
    let is_done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = std::thread::scope(|scope| {
        let done = Arc::clone(&is_done);
        let reading = scope.spawn(move || {
            let mut seen = 0;
            while !done.load(std::sync::atomic::Ordering::Acquire) || seen == 0 {
                let indexes = reader.purged_id().index.0 + 1..=reader.last_id().index.0;
                for index in indexes {
                    if let Some(found) = reader.entry(LogIndex(index)).unwrap() {
                        assert_eq!(found.bytes, entry(found.id.index.0, 700));
                        assert_eq!(found.id.index, LogIndex(index));
                        seen += 1;
                    }
                }
            }
            seen
        });
        for number in 1..=400 {
            let last = log.last_id().index.0;
            append(&mut log, number, &entry(last + 1, 700)).unwrap();
            if number % 7 == 0 {
                log.truncate_after(LogIndex(last - 2)).unwrap();
            }
            if number % 40 == 0 {
                log.sync().unwrap();
                let index = log.last_id().index.0;
                snapshot(&mut log, index, &[]);
                log.purge(LogIndex(index)).unwrap();
                while let Some(preparation) = log.take_preparation() {
                    log.install(preparation.run()).unwrap();
                }
                append(&mut log, number, &entry(index + 1, 700)).unwrap();
                append(&mut log, number, &entry(index + 2, 700)).unwrap();
                append(&mut log, number, &entry(index + 3, 700)).unwrap();
            }
        }
        is_done.store(true, std::sync::atomic::Ordering::Release);
        reading.join().unwrap()
    });
    assert!(seen > 0);
}

/// A sealed log with everything in it, behind a snapshot.
fn eventful() -> (SimDisk, Entries, Vec<u8>) {
    let disk = SimDisk::new(3);
    let (mut log, ..) = start(&disk);
    for number in 1..=24 {
        append(&mut log, 1, &entry(number, 400)).unwrap();
        match number {
            5 => log.set_mark(b"first vote").unwrap(),
            9 => {
                log.sync().unwrap();
                snapshot(&mut log, 8, &[1]);
                log.purge(LogIndex(8)).unwrap();
            }
            12 => {
                log.truncate_after(LogIndex(10)).unwrap();
                append(&mut log, 2, b"instead").unwrap();
                append(&mut log, 2, b"").unwrap();
            }
            16 => drop(log.copy_forward(LogIndex(9), &entry(99, 200)).unwrap()),
            20 => log.set_mark(b"second vote, longer than the first").unwrap(),
            _ => {}
        }
    }
    log.seal().unwrap();
    let entries = entries(&log).unwrap();
    let mark = log.mark().to_vec();
    drop(log);
    (disk.kill(), entries, mark)
}

#[test]
fn every_flipped_byte_is_noticed_or_costs_nothing() {
    let (disk, expected, mark) = eventful();
    let (started, recovery, _) = start(&disk.fork());
    let copies = recovery.copies;
    let expected: Vec<_> = expected
        .into_iter()
        .filter(|(id, _)| *id > started.purged_id())
        .collect();
    assert_eq!(entries(&started).unwrap(), expected);
    let (mut noticed, mut harmless) = (0, 0);
    for name in disk.names() {
        for offset in 0..disk.content(&name).len() as u64 {
            let copy = disk.fork();
            copy.flip(&name, offset, 1 << (offset % 8));
            match try_start(&copy) {
                Ok((log, recovery, restored)) => {
                    assert!(entries(&log).unwrap().ends_with(&expected), "{name} at {offset}");
                    assert_eq!((log.mark(), &recovery.copies), (&mark[..], &copies));
                    // Without the snapshot the log serves if it is there from its beginning.
                    match restored.snapshot {
                        Some(_) => assert_eq!(restored.content, b"state"),
                        None => assert_eq!(log.purged_id(), LogId::default()),
                    }
                    harmless += 1;
                }
                Err(JournalError::NodeCorruption(_)) => noticed += 1,
                Err(error) => panic!("{name} at {offset}: {error}"),
            }
            // Nobody ever takes it for a single node's.
            assert!(try_open(&copy, small()).is_err(), "{name} at {offset}");
        }
    }
    assert!(
        noticed > 14 * 464 && harmless > 0,
        "{noticed} noticed, {harmless} harmless"
    );
}

#[test]
fn an_entry_that_is_damaged_later_is_not_returned() {
    let disk = SimDisk::new(3);
    let (mut log, ..) = start(&disk);
    for number in 1..=3 {
        append(&mut log, 1, &entry(number, 100)).unwrap();
    }
    log.sync().unwrap();
    let place = log.entry(LogIndex(2)).unwrap().unwrap().place;
    let name = journal::segment_name(place.segment);
    for offset in u64::from(place.offset) - 64..u64::from(place.offset) + 104 {
        disk.flip(&name, offset, 1);
        let error = log.entry(LogIndex(2)).unwrap_err();
        assert!(matches!(error, JournalError::Corruption(_)), "{error}");
        disk.flip(&name, offset, 1);
    }
    assert_eq!(log.entry(LogIndex(2)).unwrap().unwrap().bytes, entry(2, 100));
}

#[test]
fn a_truncation_that_was_synced_is_no_damage_and_does_not_come_undone() {
    for seed in 0..40 {
        let disk = SimDisk::new(3);
        let (mut log, ..) = start(&disk);
        for number in 1..=30 {
            append(&mut log, 1, &entry(number, 900)).unwrap();
            log.sync().unwrap();
        }
        log.truncate_after(LogIndex(4)).unwrap();
        log.sync().unwrap();
        append(&mut log, 2, b"not synced").unwrap();
        drop(log);
        let (log, recovery, _) = start(&disk.crash(seed));
        assert!([id(1, 4), id(2, 5)].contains(&log.last_id()));
        assert_eq!(log.entry(LogIndex(6)).unwrap(), None);
        assert_eq!(recovery.report.last_index, log.last_id().index);
    }
}

#[test]
fn the_two_layouts_refuse_each_other() {
    let disk = SimDisk::new(3);
    assert_eq!(Layout::of(&disk).unwrap(), None);
    drop(start(&disk));
    let disk = disk.kill();
    assert_eq!(Layout::of(&disk).unwrap(), Some(Layout::Replicated));
    for disk in [disk, eventful().0] {
        let error = try_open(&disk, small()).unwrap_err();
        assert!(matches!(error, JournalError::IsReplicated { .. }), "{error}");
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let error = verify(shared, &mut Discarding).unwrap_err();
        assert!(matches!(error, JournalError::IsReplicated { .. }), "{error}");
        let before: Vec<_> = disk.names().iter().map(|name| disk.content(name)).collect();
        let error = repair_log(&disk, "damaged", &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, JournalError::NotRepaired { .. }), "{error}");
        assert!(error.to_string().contains("join its cluster again"), "{error}");
        let after: Vec<_> = disk.names().iter().map(|name| disk.content(name)).collect();
        assert_eq!(before, after);
    }
    let disk = SimDisk::new(3);
    drop(open(&disk));
    let disk = disk.kill();
    assert_eq!(Layout::of(&disk).unwrap(), Some(Layout::Local));
    let error = try_start(&disk).unwrap_err();
    assert!(matches!(error, JournalError::IsLocal { .. }), "{error}");
}

#[test]
fn verify_reads_everything_and_changes_nothing() {
    let (disk, entries, _) = eventful();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let before = disk.counters().changes;
    let (found, log) = verify_replicated(Arc::clone(&shared), &mut Discarding).unwrap();
    assert_eq!((found.snapshot, found.damage), (Some(LogIndex(8)), Vec::new()));
    assert_eq!(found.last_index, entries.last().unwrap().0.index);
    assert_eq!(log.unwrap().last_id(), entries.last().unwrap().0);
    disk.flip("snapshot-00000000000000000008.snap", 70, 1);
    let (found, log) = verify_replicated(shared, &mut Discarding).unwrap();
    // The log serves without it, as it is there from its beginning.
    assert_eq!(log.unwrap().purged_id(), LogId::default());
    let Corruption { file, .. } = &found.damage[0];
    assert_eq!(file, "sim/snapshot-00000000000000000008.snap");
    assert_eq!(disk.counters().changes, before);
}

/// A stopped single node, with a snapshot at its last entry or before.
fn single_node(snapshot_at: Option<u64>) -> SimDisk {
    let disk = SimDisk::new(7);
    let (mut journal, ..) = open(&disk);
    for number in 1..=20 {
        let index = commit(&mut journal, &entry(number, 700));
        if Some(index.0) == snapshot_at {
            journal::conformance::snapshot_naming(&mut journal, index, &entry(number, 400), &[1]);
        }
    }
    journal.seal().unwrap();
    drop(journal);
    disk.kill()
}

fn first_node() -> RaftSnapshot {
    RaftSnapshot {
        id: id(1, 20),
        membership: b"this node alone".to_vec(),
    }
}

fn convert(disk: &SimDisk) -> Result<(), JournalError> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (mut journal, _) = LocalJournal::open(shared, small(), &mut Replayed::default())?;
    let mut sink = journal.begin_conversion(&first_node(), &[1, 2])?;
    sink.write(b"state after entry 20")?;
    let receipt = sink.finish()?;
    journal.convert(&receipt, b"voted for itself in term 1")
}

/// What a conversion that was interrupted leaves is a single node's directory as it was, or a cluster's.
fn is_converted(disk: &SimDisk, before: &Replayed, what: &str) -> bool {
    if Layout::of(disk).unwrap() == Some(Layout::Local) {
        assert_eq!(open(&disk.fork()).2, *before, "{what}");
        return false;
    }
    let (mut log, recovery, restored) = start(&disk.fork());
    assert_eq!(log.snapshot(), Some(&first_node()), "{what}");
    assert_eq!(restored.content, b"state after entry 20", "{what}");
    assert_eq!((log.purged_id(), log.last_id()), (id(1, 20), id(1, 20)), "{what}");
    assert_eq!(log.mark(), b"voted for itself in term 1", "{what}");
    assert_eq!(recovery.copies, [], "{what}");
    assert_eq!(
        append(&mut log, 1, b"the first of the cluster").unwrap(),
        id(1, 21)
    );
    for segment in [1, 2] {
        assert!(log.segment(segment).is_some(), "{what}");
    }
    assert!(try_open(disk, small()).is_err());
    true
}

#[test]
fn a_single_node_becomes_a_cluster_whatever_interrupts_it() {
    for snapshot_at in [None, Some(9), Some(20)] {
        let original = single_node(snapshot_at);
        let before = open(&original.fork()).2;
        let (mut switched, mut interrupted) = (0, 0);
        for halt in 1.. {
            let disk = original.fork();
            disk.arm(Fault::Halt { at: halt, bytes: 100 });
            let finished = convert(&disk).is_ok();
            disk.disarm();
            for seed in 0..12 {
                let disk = match seed {
                    0 => disk.fork().kill(),
                    _ => disk.fork().crash(seed),
                };
                let what = format!("snapshot at {snapshot_at:?}, halted at {halt}, seed {seed}");
                let is_switched = is_converted(&disk, &before, &what);
                assert!(is_switched || !finished, "{what}");
                switched += u32::from(is_switched && !finished);
                interrupted += u32::from(!is_switched);
                if !is_switched {
                    // It can go on as a single node, or be converted again.
                    convert(&disk).unwrap();
                    assert!(is_converted(&disk.crash(seed), &before, &what));
                }
            }
            if finished {
                break;
            }
        }
        assert!(switched > 5 && interrupted > 100, "{switched} and {interrupted}");
    }
}

#[test]
fn a_damaged_snapshot_of_a_conversion_does_not_bring_the_single_node_back() {
    for snapshot_at in [None, Some(9)] {
        let disk = single_node(snapshot_at);
        convert(&disk).unwrap();
        let name = "snapshot-00000000000000000020.snap";
        for offset in 0..disk.content(name).len() as u64 {
            let copy = disk.fork().kill();
            copy.flip(name, offset, 4);
            assert!(try_open(&copy, small()).is_err(), "at {offset}");
            let error = try_start(&copy).unwrap_err();
            assert!(
                matches!(error, JournalError::NodeCorruption(_)),
                "at {offset}: {error}"
            );
            assert!(error.to_string().contains("remove sim, and let"), "{error}");
            let error = repair_log(&copy, "damaged", &mut |_, _| {}).unwrap_err();
            assert!(
                matches!(error, JournalError::NotRepaired { .. }),
                "at {offset}: {error}"
            );
        }
    }
}

#[test]
fn only_the_state_after_the_last_entry_converts() {
    let disk = single_node(None);
    let (mut journal, ..) = open(&disk);
    for index in [0, 19, 21] {
        let snapshot = RaftSnapshot {
            id: id(1, index),
            ..first_node()
        };
        let error = journal.begin_conversion(&snapshot, &[]).unwrap_err();
        assert!(matches!(error, JournalError::SnapshotIndex { .. }), "{error}");
    }
    let receipt = journal.begin_conversion(&first_node(), &[]).unwrap().finish();
    commit(&mut journal, b"one more");
    let error = journal.convert(&receipt.unwrap(), b"").unwrap_err();
    assert!(matches!(error, JournalError::SnapshotIndex { .. }), "{error}");
}
