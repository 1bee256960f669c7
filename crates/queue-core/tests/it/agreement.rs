//! What nodes compare: it is the same for the same entries, and another as soon as one of them comes to something else.

use queue_core::{Command, Context, Partition, RunningHash, entry_hash};
use types::{LogIndex, QueueId, Timestamp, WallTime};

use crate::steps::key;

fn apply(partition: &mut Partition, index: u64, at: u64, command: &Command) {
    let context = Context {
        at: Timestamp::from_millis(at),
        wall: WallTime::from_millis(1),
        index: LogIndex(index),
        ordinal: 0,
    };
    partition.begin_entry(entry_hash(&index.to_le_bytes()));
    partition.apply(context, command);
}

fn receive() -> Command {
    Command::Receive {
        queue: QueueId(1),
        max: 10,
        visibility_timeout_seconds: None,
        is_long_poll: false,
        attempt: None,
    }
}

/// A queue with two messages; the second is delayed by a second.
fn partition() -> Partition {
    let mut partition = Partition::default();
    let create = Command::CreateQueue {
        key: key(0),
        attributes: Vec::new(),
        tags: Vec::new(),
        deleted_name_wait_seconds: 0,
    };
    apply(&mut partition, 1, 1_000, &create);
    let message = |delay_seconds| queue_core::EnqueueEntry {
        message_id: types::MessageId::from_random([0; 16]),
        content: [].into(),
        size_bytes: 1,
        delay_seconds,
        group: None,
        deduplication: None,
    };
    let entries = vec![message(None), message(Some(1))];
    apply(
        &mut partition,
        2,
        1_000,
        &Command::Enqueue {
            queue: QueueId(1),
            entries,
        },
    );
    partition
}

#[test]
fn the_same_entries_give_the_same_hash_also_across_a_snapshot() {
    let mut one = partition();
    let mut stored = Vec::new();
    one.snapshot().write(&mut stored).unwrap();
    let mut other = Partition::restore(&mut stored.as_slice()).unwrap();
    for partition in [&mut one, &mut other] {
        apply(partition, 3, 2_500, &receive());
    }
    assert_eq!(one.running_hash(), other.running_hash());
    assert_ne!(one.running_hash(), partition().running_hash());
}

#[test]
fn another_entry_or_another_outcome_gives_another_hash() {
    let (mut one, mut other) = (partition(), partition());
    other.begin_entry(entry_hash(b"only here"));
    assert_ne!(one.running_hash(), other.running_hash());
    // The same entry, but for one of them the delay of the second message is over.
    let mut late = partition();
    apply(&mut one, 3, 1_500, &receive());
    apply(&mut late, 3, 2_500, &receive());
    assert_ne!(one.running_hash(), late.running_hash());
}

#[test]
fn a_raised_level_begins_the_hash_anew_and_a_lower_one_changes_nothing() {
    let mut partition = partition();
    assert_eq!(
        (partition.level(), partition.running_hash().since),
        (0, LogIndex(0))
    );
    apply(&mut partition, 7, 3_000, &Command::RaiseLevel { level: 1 });
    let begun = partition.running_hash();
    assert_eq!((partition.level(), begun.since), (1, LogIndex(7)));
    assert_ne!(
        begun,
        RunningHash {
            since: LogIndex(7),
            hash: 0
        },
        "its own outcome counts"
    );
    for level in [0, 1] {
        apply(&mut partition, 8, 3_000, &Command::RaiseLevel { level });
        assert_eq!(
            (partition.level(), partition.running_hash().since),
            (1, LogIndex(7))
        );
    }
}
