//! Stored bytes: no bytes panic, what can be read is written back as the same, and all commands can be applied.

use queue_core::{Content, Context, Entry, EntryEncoder, Partition};
use types::{LogIndex, Timestamp, WallTime};

/// Checks the bytes as a journal entry, and applies its commands.
pub fn journal_entry(input: &[u8]) {
    let Ok(entry) = Entry::decode(input) else {
        return;
    };
    let mut bytes = Vec::new();
    let mut encoder = EntryEncoder::begin(&mut bytes, entry.at, entry.wall);
    entry.commands.iter().for_each(|command| encoder.push(command));
    encoder.finish();
    assert_eq!(Entry::decode(&bytes).as_ref(), Ok(&entry));
    apply(&entry);
}

/// No command stops a partition, and all of them mean the same on two.
fn apply(entry: &Entry) {
    let (mut one, mut other) = (Partition::default(), Partition::default());
    for (command, index) in entry.commands.iter().zip(1..) {
        let context = Context {
            // Half a billion years: the owner's clock ends before sums of times and seconds do.
            at: Timestamp::from_millis(entry.at.as_millis() >> 2),
            wall: WallTime::from_millis(entry.wall.as_millis() >> 2),
            index: LogIndex(index),
            ordinal: 0,
        };
        let applied = one.apply(context, command);
        assert_eq!(applied, other.apply(context, command), "{command:?}");
        one.check_invariants();
    }
    assert_eq!(one.state_hash(), other.state_hash());
    assert_eq!(through_bytes(&one).state_hash(), one.state_hash());
}

/// Checks the bytes as the content of a message.
pub fn content(input: &[u8]) {
    if let Ok(content) = Content::decode(input) {
        assert_eq!(Content::decode(&content.encode()), Ok(content));
    }
}

/// Checks the bytes as a snapshot.
pub fn snapshot(input: &[u8]) {
    if let Ok(partition) = Partition::restore(&mut &input[..]) {
        assert_eq!(through_bytes(&partition).state_hash(), partition.state_hash());
    }
}

fn through_bytes(partition: &Partition) -> Partition {
    let mut bytes = Vec::new();
    partition
        .snapshot()
        .write(&mut bytes)
        .expect("memory takes every write");
    Partition::restore(&mut &bytes[..]).expect("a written snapshot is read back")
}
