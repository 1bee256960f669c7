//! A snapshot, as it was first written, stays readable; the newest is still written so.
//!
//! With `UPDATE_FIXTURES=1` a fixture that does not exist yet is written; one that exists is never changed.

use std::path::PathBuf;

use broker::{Held, Recovered, Request, recover, write_snapshot};
use journal::{Place, Replay};
use queue_core::{Command, Partition};
use types::{LogIndex, Slot, WallTime};

use crate::node::{Node, contents_of, text_of};
use crate::requests::{create, delete, send, send_delayed, send_fifo};

const WALL: WallTime = WallTime::from_millis(1_700_000_000_123);

/// The newest snapshot: an owner's of version 2 around a state of version 3.
const NEWEST: &str = "snapshot-2-state-3.bin";

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Makes a state with a slot of every kind: waiting, in flight, delayed, of a group, free.
fn node() -> Node {
    let mut node = Node::with(&[create("q", &[]), create("q.fifo", &[])]);
    node.ask(Request::Internal(Command::AddSealKey { key: [7; 32] }));
    node.ask(send("q", &["deleted", "in flight", "waiting"]));
    node.ask(send_delayed("q", "delayed", 600));
    node.ask(send_fifo("q.fifo", "group", &["first", "second"]));
    let deleted = node.take("q").unwrap().delivery.handle;
    node.take("q").unwrap();
    node.ask(delete("q", &[deleted]));
    node
}

/// Writes the snapshot of the node as it is when every second entry lies on the disk.
fn written(node: &Node) -> Vec<u8> {
    let mut recovered = recover();
    for (index, entry) in (1..).zip(node.log()) {
        let place = Place {
            segment: 3,
            offset: 1_000 * index,
        };
        let place = Some(place).filter(|_| index % 2 == 0);
        recovered.apply(LogIndex(index.into()), entry, place).unwrap();
    }
    let (state, contents) = (recovered.partition.snapshot(), recovered.contents.snapshot());
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
fn the_newest_is_still_written_byte_for_byte() {
    let (node, path) = (node(), fixture(NEWEST));
    if std::env::var_os("UPDATE_FIXTURES").is_some() && !path.exists() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, written(&node)).unwrap();
    }
    let stored = std::fs::read(path).unwrap();
    assert!(
        stored == written(&node),
        "the bytes have changed: that is a new version"
    );
}

#[test]
fn all_that_were_ever_written_are_read() {
    let recovered = check_read("snapshot-1.bin");
    let texts = contents_of(&recovered)
        .into_iter()
        .map(|(slot, text)| (slot, text_of(&text)));
    let expected = ["in flight", "waiting", "delayed", "first", "second"].map(str::to_owned);
    assert_eq!(texts.collect::<Vec<_>>(), (1..).zip(expected).collect::<Vec<_>>());

    check_read("snapshot-2-state-2.bin");
    let recovered = check_read(NEWEST);
    let held: Vec<_> = (0..6).map(|slot| recovered.contents.get(Slot(slot), 6)).collect();
    let [
        Held::Nowhere,
        Held::Disk(in_flight),
        Held::Disk(_),
        Held::Memory(delayed),
        Held::Disk(first),
        Held::Disk(_),
    ] = &held[..]
    else {
        panic!("{held:?}");
    };
    assert_eq!(text_of(delayed), "delayed");
    assert!(in_flight.place.segment == 3 && in_flight.place < first.place);
    assert_eq!(in_flight.crc, crc32c::crc32c(b"in flight"));
}

fn check_read(name: &str) -> Recovered {
    let (recovered, node) = (read(&std::fs::read(fixture(name)).unwrap()).unwrap(), node());
    assert_eq!((recovered.index, recovered.last_wall), (LogIndex(9), WALL));
    recovered.partition.check_invariants();
    let (found, expected) = (&recovered.partition, node.owner.partition());
    let counters = |partition: &Partition| {
        let queues = partition.queues();
        queues.map(queue_core::Queue::counters).collect::<Vec<_>>()
    };
    assert_eq!(counters(found), counters(expected));
    // Earlier ones do not have the hash of what was applied.
    if name == NEWEST {
        assert_eq!(found.state_hash(), expected.state_hash());
    }
    recovered
}

#[test]
fn a_snapshot_that_is_cut_too_long_or_of_another_version_is_refused() {
    let bytes = written(&node());
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "cut at {length}");
    }
    assert!(read(&[&bytes[..], &[0]].concat()).is_err());
    let newer = [b"HFOWNER\x03", &bytes[8..]].concat();
    assert!(read(&newer).unwrap_err().contains("version"));
}
