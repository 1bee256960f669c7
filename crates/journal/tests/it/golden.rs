//! Files of every format version, as they were written by the version that introduced it, stay readable.
//!
//! With `UPDATE_FIXTURES=1` a fixture of the present version that does not exist yet is written; one that exists is
//! never changed.

use std::path::PathBuf;

use journal::{Journal, conformance};
use simulator::SimDisk;
use types::LogIndex;

use crate::support::{commit, open};

const SEGMENT: &str = "log-00000000000000000001.seg";
const SNAPSHOT: &str = "snapshot-00000000000000000002.snap";
/// Version 1 had no copies, and its snapshots named no segments.
const PRESENT: &str = "v2";

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

#[test]
fn version_1_is_still_read() {
    check_read("v1", &[]);
}

#[test]
fn version_2_is_still_read_and_written_byte_for_byte() {
    for name in [SEGMENT, SNAPSHOT] {
        let (path, now) = (fixture(PRESENT, name), written_now().content(name));
        if std::env::var_os("UPDATE_FIXTURES").is_some() && !path.exists() {
            std::fs::create_dir_all(fixture(PRESENT, "")).unwrap();
            std::fs::write(&path, &now).unwrap();
        }
        let stored = std::fs::read(path).unwrap();
        let differs = stored.iter().zip(&now).position(|(a, b)| a != b);
        assert_eq!((stored.len(), differs), (now.len(), None), "{name}");
    }
    check_read(PRESENT, &["contents of before"]);
}
