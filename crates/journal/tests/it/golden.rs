//! Files of every format version, as they were written by the version that introduced it, stay readable.
//!
//! With `UPDATE_FIXTURES=1` a fixture that does not exist yet is written; one that exists is never changed.

use std::path::PathBuf;

use journal::conformance::Replayed;
use journal::{Journal, conformance};
use simulator::SimDisk;
use types::LogIndex;

use crate::support::{commit, open};

const SEGMENT: &str = "log-00000000000000000001.seg";
const SNAPSHOT: &str = "snapshot-00000000000000000002.snap";

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/v1")
        .join(name)
}

/// Writes what the fixtures hold.
fn written_now() -> SimDisk {
    let disk = SimDisk::new(0x5eed);
    let (mut journal, ..) = open(&disk);
    for entry in ["first", "", "the third entry, in the log only"] {
        let index = commit(&mut journal, entry.as_bytes());
        if index == LogIndex(2) {
            conformance::snapshot(&mut journal, index, b"the state after the second entry");
        }
    }
    journal.seal().unwrap();
    disk
}

#[test]
fn version_1_is_still_read() {
    let disk = SimDisk::new(1);
    for name in [SEGMENT, SNAPSHOT] {
        if std::env::var_os("UPDATE_FIXTURES").is_some() && !fixture(name).exists() {
            std::fs::create_dir_all(fixture("")).unwrap();
            std::fs::write(fixture(name), written_now().content(name)).unwrap();
        }
        disk.put(name, &std::fs::read(fixture(name)).unwrap());
    }
    let (mut journal, report, replayed) = open(&disk);
    assert_eq!(
        replayed,
        Replayed {
            snapshot: Some((LogIndex(2), b"the state after the second entry".to_vec())),
            entries: vec![(LogIndex(3), b"the third entry, in the log only".to_vec())],
        }
    );
    assert_eq!(report.torn_tail, None);
    assert_eq!(commit(&mut journal, b"goes on"), LogIndex(4));
}

#[test]
fn version_1_is_still_written_byte_for_byte() {
    for name in [SEGMENT, SNAPSHOT] {
        let (stored, now) = (std::fs::read(fixture(name)).unwrap(), written_now().content(name));
        let differs = stored.iter().zip(&now).position(|(a, b)| a != b);
        assert_eq!((stored.len(), differs), (now.len(), None), "{name}");
    }
}
