//! A snapshot of format version 1, as it was first written, stays readable and is still written so.
//!
//! With `UPDATE_FIXTURES=1` a fixture that does not exist yet is written; one that exists is never changed.

use std::path::PathBuf;

use broker::{Recovered, Request, recover, write_snapshot};
use journal::Replay;
use types::{LogIndex, Slot, WallTime};

use crate::node::Node;
use crate::requests::{create, delete, send, send_delayed, send_fifo};

const WALL: WallTime = WallTime::from_millis(1_700_000_000_123);

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snapshot-1.bin")
}

/// Makes a state with a slot of every kind: waiting, in flight, delayed, of a group, free.
fn node() -> Node {
    let mut node = Node::with(&[create("q", &[]), create("q.fifo", &[])]);
    node.ask(Request::AddSealKey { key: [7; 32] });
    node.ask(send("q", &["deleted", "in flight", "waiting"]));
    node.ask(send_delayed("q", "delayed", 600));
    node.ask(send_fifo("q.fifo", "group", &["first", "second"]));
    let deleted = node.take("q").unwrap().delivery.handle;
    node.take("q").unwrap();
    node.ask(delete("q", &[deleted]));
    node
}

fn written(node: &Node) -> Vec<u8> {
    let (state, contents) = node.owner.snapshot();
    let mut bytes = Vec::new();
    write_snapshot(WALL, &state, &contents, &mut bytes).unwrap();
    bytes
}

fn read(mut bytes: &[u8]) -> Result<Recovered, String> {
    let mut recovered = recover();
    let result = recovered.snapshot(LogIndex(9), &mut bytes);
    result.map_err(|error| error.to_string())?;
    Ok(recovered)
}

#[test]
fn version_1_is_still_read_and_written_byte_for_byte() {
    let (node, path) = (node(), fixture());
    if std::env::var_os("UPDATE_FIXTURES").is_some() && !path.exists() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, written(&node)).unwrap();
    }
    let stored = std::fs::read(path).unwrap();
    assert!(
        stored == written(&node),
        "the bytes have changed: that is a new version"
    );
    let recovered = read(&stored).unwrap();
    assert_eq!((recovered.index, recovered.last_wall), (LogIndex(9), WALL));
    recovered.partition.check_invariants();
    assert_eq!(
        recovered.partition.state_hash(),
        node.owner.partition().state_hash()
    );
    let contents = (0..6).map(|slot| recovered.contents.get(Slot(slot)).map(|content| content.to_vec()));
    let texts = [
        None,
        Some("in flight"),
        Some("waiting"),
        Some("delayed"),
        Some("first"),
        Some("second"),
    ];
    assert_eq!(
        contents.collect::<Vec<_>>(),
        texts.map(|text| text.map(|text| text.as_bytes().to_vec()))
    );
}

#[test]
fn a_snapshot_that_is_cut_too_long_or_of_another_version_is_refused() {
    let bytes = written(&node());
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "cut at {length}");
    }
    assert!(read(&[&bytes[..], &[0]].concat()).is_err());
    let newer = [b"HFOWNER\x02", &bytes[8..]].concat();
    assert!(read(&newer).unwrap_err().contains("version"));
}
