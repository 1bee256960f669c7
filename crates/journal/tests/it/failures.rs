//! A disk that is full, a sync that fails, a second process.

use std::sync::Arc;

use journal::conformance::{self, Replayed};
use journal::{Disk, Journal, JournalError, LocalJournal, OsDisk, ProposeError};
use simulator::{Fault, SimDisk};
use types::LogIndex;

use crate::support::{commit, entry, open, propose, small, try_open, wait};

#[test]
fn a_short_write_is_a_full_disk_and_leaves_no_half_record() {
    // The entry ends in zeros, as the segment behind it: half of it and what is there would make a whole one.
    let mut refused = entry(7, 1_000);
    refused[40..].fill(0);
    for taken in 0..1_064 {
        let disk = SimDisk::new(2);
        let (mut journal, ..) = open(&disk);
        commit(&mut journal, b"before");
        propose(&mut journal, b"not waited for");
        disk.arm(Fault::ShortWrite { at: 1, bytes: taken });
        let epoch = journal.epoch().unwrap();
        let error = journal.propose(&refused, epoch).unwrap_err();
        assert!(matches!(error, ProposeError::Full { .. }), "{error}");
        for seed in [1, 7, 20, 33] {
            let (_, _, replayed) = open(&disk.fork().crash(seed));
            assert!(
                (1..=2).contains(&replayed.entries.len()),
                "{taken} bytes, seed {seed}"
            );
        }
        // There is room again.
        assert_eq!(wait(&mut journal), [LogIndex(2)]);
        assert_eq!(commit(&mut journal, b"after"), LogIndex(3));
        drop(journal);
        let (_, report, replayed) = open(&disk.crash(taken as u64));
        let bytes: Vec<&[u8]> = replayed
            .entries
            .iter()
            .map(|(_, bytes)| bytes.as_slice())
            .collect();
        assert_eq!(bytes, [&b"before"[..], b"not waited for", b"after"]);
        assert_eq!(report.torn_tail, None);
    }
}

#[test]
fn what_was_cut_back_before_a_kill_does_not_come_back_with_a_power_cut() {
    let mut refused = entry(7, 1_000);
    refused[40..].fill(0);
    let mut hits = 0;
    for halt in 1..8 {
        let disk = SimDisk::new(2);
        let (mut journal, ..) = open(&disk);
        // The next entry goes to the next segment.
        commit(&mut journal, &entry(1, 3_500));
        conformance::prepare(&mut journal);
        disk.arm(Fault::ShortWrite { at: 1, bytes: 1_000 });
        disk.arm(Fault::Halt { at: halt, bytes: 0 });
        let epoch = journal.epoch().unwrap();
        assert!(journal.propose(&refused, epoch).is_err());
        let disk = disk.kill();
        let entries = open(&disk).2.entries.len();
        hits += u32::from(entries == 1);
        for seed in 0..40 {
            let again = open(&disk.fork().crash(seed)).2.entries.len();
            assert_eq!(again, entries, "halted at {halt}, seed {seed}");
        }
    }
    assert!(hits > 2, "it was cut back only {hits} times");
}

#[test]
fn a_disk_too_small_for_the_next_segment_refuses_until_there_is_room() {
    let disk = SimDisk::new(2);
    let (mut journal, ..) = open(&disk);
    disk.set_capacity(Some(disk.bytes_used() + 6_000));
    let mut written = 0;
    let epoch = journal.epoch().unwrap();
    while journal.propose(&entry(written, 500), epoch).is_ok() {
        written += 1;
        wait(&mut journal);
    }
    let error = journal.propose(&entry(written, 500), epoch).unwrap_err();
    assert!(matches!(error, ProposeError::Full { .. }), "{error}");
    let preparation = journal.take_preparation().unwrap();
    let error = journal.install(preparation.run()).unwrap_err();
    assert!(matches!(error, JournalError::Full { .. }), "{error}");
    // What was begun is gone, so that the room is there for others.
    assert_eq!(disk.names(), ["log-00000000000000000001.seg"]);
    disk.set_capacity(None);
    conformance::prepare(&mut journal);
    assert_eq!(commit(&mut journal, b"room again"), LogIndex(written + 1));
    assert_eq!(open(&disk.kill()).2.entries.len() as u64, written + 1);
}

#[test]
fn a_snapshot_that_does_not_fit_leaves_the_older_one() {
    let disk = SimDisk::new(2);
    let (mut journal, ..) = open(&disk);
    commit(&mut journal, b"one");
    conformance::snapshot(&mut journal, LogIndex(1), b"state one");
    commit(&mut journal, b"two");
    disk.set_capacity(Some(disk.bytes_used() + 5_000));
    let mut sink = journal.begin_snapshot(LogIndex(2), &[]).unwrap();
    let error = sink.write(&[1; 1_000_000]).unwrap_err();
    assert!(matches!(error, JournalError::Full { .. }), "{error}");
    drop(sink);
    disk.set_capacity(None);
    let (_, report, replayed) = open(&disk.kill());
    assert_eq!(report.snapshot, Some(LogIndex(1)));
    assert_eq!(replayed.last_index(), LogIndex(2));
}

#[test]
fn a_failed_sync_ends_the_journal() {
    let disk = SimDisk::new(2);
    let (mut journal, ..) = open(&disk);
    commit(&mut journal, b"one");
    propose(&mut journal, b"two");
    disk.arm(Fault::SyncFails { at: 1 });
    let mut events = Vec::new();
    let error = journal.wait(&mut events).unwrap_err();
    assert!(matches!(error, JournalError::SyncFailed { .. }), "{error}");
    assert_eq!(events, []);
    assert_eq!(journal.epoch(), None);
    assert!(matches!(journal.wait(&mut events), Err(JournalError::Poisoned)));
    assert!(matches!(journal.seal(), Err(JournalError::Poisoned)));
    assert!(matches!(
        journal.begin_snapshot(LogIndex(1), &[]),
        Err(JournalError::Poisoned)
    ));
    assert!(matches!(
        journal.propose(b"three", journal::Epoch(1)),
        Err(ProposeError::Journal(JournalError::Poisoned))
    ));
    assert!(journal.take_preparation().is_none());
    assert_eq!(events, []);
}

#[test]
fn what_a_start_replays_after_a_failed_sync_survives_the_next_power_cut() {
    for seed in 0..30 {
        let disk = SimDisk::new(2);
        let (mut journal, ..) = open(&disk);
        commit(&mut journal, b"one");
        propose(&mut journal, &entry(2, 3_000));
        disk.arm(Fault::SyncFails { at: 1 });
        journal.wait(&mut Vec::new()).unwrap_err();
        drop(journal);
        // The pages are clean now and still hold what never reached the disk.
        let disk = disk.kill();
        let (journal, _, replayed) = open(&disk);
        assert_eq!(replayed.entries.len(), 2);
        drop(journal);
        assert_eq!(open(&disk.crash(seed)).2.entries.len(), 2);
    }
}

#[test]
fn a_failed_write_ends_the_journal() {
    let disk = SimDisk::new(2);
    let (mut journal, ..) = open(&disk);
    commit(&mut journal, b"one");
    disk.arm(Fault::WriteFails { at: 1 });
    let epoch = journal.epoch().unwrap();
    let error = journal.propose(b"two", epoch).unwrap_err();
    assert!(
        matches!(error, ProposeError::Journal(JournalError::Io { .. })),
        "{error}"
    );
    assert_eq!(journal.epoch(), None);
}

#[test]
fn a_preparation_whose_sync_fails_ends_the_journal() {
    for fault in [Fault::SyncFails { at: 1 }, Fault::DirSyncFails { at: 1 }] {
        let disk = SimDisk::new(2);
        let (mut journal, ..) = open(&disk);
        let preparation = journal.take_preparation().unwrap();
        disk.arm(fault);
        let error = journal.install(preparation.run()).unwrap_err();
        assert!(matches!(error, JournalError::SyncFailed { .. }), "{error}");
        assert_eq!(journal.epoch(), None);
    }
}

#[test]
fn a_second_process_is_refused_until_the_first_is_gone() {
    let disk = SimDisk::new(2);
    let (journal, ..) = open(&disk);
    let error = try_open(&disk, small()).unwrap_err();
    assert!(matches!(error, JournalError::Locked { .. }), "{error}");
    drop(journal);
    open(&disk);
}

#[test]
fn on_the_real_disk_the_refusal_names_the_lock_file_and_the_holder() {
    let directory = tempfile::tempdir().unwrap();
    let disk = || -> Arc<dyn Disk> { Arc::new(OsDisk::open(directory.path()).unwrap()) };
    let (journal, _) = LocalJournal::open(disk(), small(), &mut Replayed::default()).unwrap();
    let error = LocalJournal::open(disk(), small(), &mut Replayed::default()).unwrap_err();
    let JournalError::Locked { path, pid } = &error else {
        panic!("{error}")
    };
    assert_eq!(path, &directory.path().join("lock").display().to_string());
    assert_eq!(*pid, Some(std::process::id()));
    assert!(
        error
            .to_string()
            .contains(&format!("in use by process {}", std::process::id())),
        "{error}"
    );
    drop(journal);
    LocalJournal::open(disk(), small(), &mut Replayed::default()).unwrap();
}

#[test]
fn files_on_the_real_disk_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("a").join("b");
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::open(&root).unwrap());
    let (mut journal, _) = LocalJournal::open(disk, small(), &mut Replayed::default()).unwrap();
    commit(&mut journal, b"one");
    conformance::snapshot(&mut journal, LogIndex(1), b"state");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&root), 0o700);
    let names: Vec<_> = root
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for path in names {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn an_entry_beyond_the_limit_is_refused() {
    let disk = SimDisk::new(2);
    let (mut journal, ..) = open(&disk);
    let epoch = journal.epoch().unwrap();
    let error = journal
        .propose(&vec![0; journal::ENTRY_BYTES_MAX + 1], epoch)
        .unwrap_err();
    assert!(matches!(error, ProposeError::TooLarge { .. }), "{error}");
    assert_eq!(
        commit(&mut journal, &vec![1; journal::ENTRY_BYTES_MAX]),
        LogIndex(1)
    );
    let (_, _, replayed) = open(&disk.kill());
    assert_eq!(replayed.entries[0].1.len(), journal::ENTRY_BYTES_MAX);
}
