//! Files of every format version, as they were written by the version that introduced it, stay readable.
//!
//! With `UPDATE_FIXTURES=1` a fixture of the present version that does not exist yet is written; one that exists is
//! never changed.

use std::path::PathBuf;

use journal::{EntryKind, Journal, LogId, NewEntry, conformance};
use simulator::SimDisk;
use types::LogIndex;

use crate::replicated::{append, id, snapshot, start};
use crate::support::{commit, open};

const SEGMENT: &str = "log-00000000000000000001.seg";
const SECOND_SEGMENT: &str = "log-00000000000000000002.seg";
const SNAPSHOT: &str = "snapshot-00000000000000000002.snap";
/// Version 1 had no copies, and its snapshots named no segments.
const PRESENT: &str = "v2";
/// The log and the snapshot of a node of a cluster.
const REPLICATED: &str = "v3";

fn fixture(version: &str, name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(version)
        .join(name)
}

/// Writes what the fixtures of the present version hold.
fn written_now() -> SimDisk {
    let disk = SimDisk::new(0x5eed);
    let (mut journal, ..) = open(&disk);
    for entry in ["first", "", "the third entry, in the log only"] {
        let index = commit(&mut journal, entry.as_bytes());
        if index == LogIndex(2) {
            journal.copy_forward(b"contents of before").unwrap();
            conformance::snapshot_naming(&mut journal, index, b"the state after the second entry", &[1]);
        }
    }
    journal.seal().unwrap();
    disk
}

/// Writes what the fixtures of a node of a cluster hold.
fn replicated_written_now() -> SimDisk {
    let disk = SimDisk::new(0x5eed);
    let (mut log, ..) = start(&disk);
    log.set_mark(b"the first vote").unwrap();
    for entry in ["first", "second", "third, that is truncated", "fourth, too"] {
        append(&mut log, 1, entry.as_bytes()).unwrap();
    }
    log.truncate_after(LogIndex(2)).unwrap();
    let blank = NewEntry {
        id: id(2, 3),
        kind: EntryKind::Raft,
        bytes: b"blank of the next term",
    };
    log.append(&[blank]).unwrap();
    log.sync().unwrap();
    snapshot(&mut log, 2, &[1]);
    log.copy_forward(LogIndex(2), b"contents of before").unwrap();
    append(&mut log, 2, b"").unwrap();
    // With this one the log goes on in the next segment, which begins with the newest mark.
    log.set_mark(b"the second vote").unwrap();
    append(&mut log, 2, &[7; 4_000]).unwrap();
    log.seal().unwrap();
    disk
}

fn check_replicated_read(version: &str) {
    let disk = SimDisk::new(1);
    for name in [SEGMENT, SECOND_SEGMENT, SNAPSHOT] {
        disk.put(name, &std::fs::read(fixture(version, name)).unwrap());
    }
    let (mut log, recovery, restored) = start(&disk);
    assert_eq!(restored.content, b"state");
    let found = log.snapshot().unwrap();
    assert_eq!((found.id, &found.membership[..]), (id(1, 2), &b"members"[..]));
    assert_eq!(
        (log.purged_id(), log.mark()),
        (LogId::default(), &b"the second vote"[..])
    );
    let expected = [
        (id(1, 1), EntryKind::Commands, &b"first"[..]),
        (id(1, 2), EntryKind::Commands, b"second"),
        (id(2, 3), EntryKind::Raft, b"blank of the next term"),
        (id(2, 4), EntryKind::Commands, b""),
        (id(2, 5), EntryKind::Commands, &[7; 4_000]),
    ];
    for (id, kind, bytes) in expected {
        let found = log.entry(id.index).unwrap().unwrap();
        assert_eq!((found.id, found.kind, &found.bytes[..]), (id, kind, bytes));
    }
    let copies = recovery.copies.iter();
    let copies: Vec<_> = copies
        .map(|it| (it.applied, log.reader().copies(it).unwrap().unwrap()))
        .collect();
    assert_eq!(copies, [(LogIndex(2), b"contents of before".to_vec())]);
    assert_eq!(recovery.report.torn_tail, None);
    assert_eq!(append(&mut log, 2, b"goes on").unwrap(), id(2, 6));
}

fn check_read(version: &str, copies: &[&str]) {
    let disk = SimDisk::new(1);
    for name in [SEGMENT, SNAPSHOT] {
        disk.put(name, &std::fs::read(fixture(version, name)).unwrap());
    }
    let (mut journal, report, replayed) = open(&disk);
    let snapshot = b"the state after the second entry".to_vec();
    let entry = b"the third entry, in the log only".to_vec();
    assert_eq!(replayed.snapshot, Some((LogIndex(2), snapshot)));
    assert_eq!(replayed.entries, [(LogIndex(3), entry)]);
    let copies: Vec<_> = copies
        .iter()
        .map(|copies| (LogIndex(2), copies.as_bytes().to_vec()))
        .collect();
    assert_eq!(replayed.copies, copies);
    assert_eq!(report.torn_tail, None);
    assert_eq!(commit(&mut journal, b"goes on"), LogIndex(4));
}

fn check_written(version: &str, written: &SimDisk, names: &[&str]) {
    for name in names {
        let (path, now) = (fixture(version, name), written.content(name));
        if std::env::var_os("UPDATE_FIXTURES").is_some() && !path.exists() {
            std::fs::create_dir_all(fixture(version, "")).unwrap();
            std::fs::write(&path, &now).unwrap();
        }
        let stored = std::fs::read(path).unwrap();
        let differs = stored.iter().zip(&now).position(|(a, b)| a != b);
        assert_eq!((stored.len(), differs), (now.len(), None), "{name}");
    }
}

#[test]
fn version_1_is_still_read() {
    check_read("v1", &[]);
}

#[test]
fn version_2_is_still_read_and_written_byte_for_byte() {
    check_written(PRESENT, &written_now(), &[SEGMENT, SNAPSHOT]);
    check_read(PRESENT, &["contents of before"]);
}

#[test]
fn version_3_is_that_of_a_cluster_and_is_still_read_and_written_byte_for_byte() {
    let now = replicated_written_now();
    check_written(REPLICATED, &now, &[SEGMENT, SECOND_SEGMENT, SNAPSHOT]);
    check_replicated_read(REPLICATED);
}
