//! Stored bytes that every later version must read: one journal entry for each kind of command, and a snapshot.
//!
//! A file is never rewritten: a new layout is a new version with a file of its own. `UPDATE_FIXTURES=1` writes those
//! that are missing.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Arc;

use queue_core::attributes::{DeduplicationScope, FifoThroughputLimit, RedrivePolicy};
use queue_core::{
    AttributeChange, Command, Context, Deduplication, EnqueueEntry, Entry, EntryEncoder, Handle, LEVEL,
    Outcome, Partition, TaskStatus,
};
use types::{LeaseToken, LogIndex, MessageId, QueueId, Sequence, Slot, Timestamp, WallTime};

use crate::steps::key;

const AT: Timestamp = Timestamp::from_millis(0x0102_0304_0506);
const WALL: WallTime = WallTime::from_millis(1_764_000_000_123);

#[test]
fn every_kind_of_entry_keeps_its_bytes() {
    for (name, command) in entries() {
        let mut bytes = Vec::new();
        let mut encoder = EntryEncoder::begin(&mut bytes, AT, WALL);
        encoder.push(&command);
        encoder.finish();
        let stored = fixture(&format!("entry-1-{name}.hex"), &bytes);
        assert_eq!(hex(&bytes), hex(&stored), "{name} is written differently");
        let entry = Entry::decode(&stored).unwrap_or_else(|error| panic!("{name} cannot be read: {error}"));
        assert_eq!(
            entry,
            Entry {
                at: AT,
                wall: WALL,
                commands: vec![command]
            },
            "{name} is read differently"
        );
    }
}

#[test]
fn an_entry_cut_short_or_grown_is_refused() {
    let mut bytes = Vec::new();
    let mut encoder = EntryEncoder::begin(&mut bytes, AT, WALL);
    entries().iter().for_each(|(_, command)| encoder.push(command));
    encoder.finish();
    assert!(Entry::decode(&bytes).is_ok());
    for length in 0..bytes.len() {
        assert!(Entry::decode(&bytes[..length]).is_err(), "cut at {length}");
    }
    bytes.push(0);
    assert!(Entry::decode(&bytes).is_err());
}

#[test]
fn a_kind_or_version_that_is_not_known_is_refused() {
    let mut bytes = Vec::new();
    let mut encoder = EntryEncoder::begin(&mut bytes, AT, WALL);
    encoder.push(&Command::Tick);
    encoder.finish();
    let (version_of_entry, kind, version) = (0, bytes.len() - 2, bytes.len() - 1);
    for at in [version_of_entry, kind, version] {
        let mut newer = bytes.clone();
        newer[at] = 0xee;
        let error = Entry::decode(&newer).expect_err("a newer entry is not guessed at");
        assert!(error.to_string().contains("newer version"), "{error}");
    }
}

/// A node of an earlier version must not go on in a cluster that was raised beyond it.
#[test]
fn a_level_that_is_not_understood_is_refused() {
    let mut bytes = Vec::new();
    let mut encoder = EntryEncoder::begin(&mut bytes, AT, WALL);
    encoder.push(&Command::RaiseLevel { level: LEVEL + 1 });
    encoder.finish();
    let error = Entry::decode(&bytes).expect_err("an entry of a level above");
    assert!(error.to_string().contains("feature level"), "{error}");
    let mut partition = small_partition();
    let context = Context {
        at: AT,
        wall: WALL,
        index: LogIndex(1_000),
        ordinal: 0,
    };
    let raised = partition.apply(context, &Command::RaiseLevel { level: LEVEL + 1 });
    assert_eq!(raised.outcome, Ok(Outcome::Done));
    let mut bytes = Vec::new();
    partition.snapshot().write(&mut bytes).unwrap();
    let error = Partition::restore(&mut bytes.as_slice()).expect_err("a state of a level above");
    assert!(
        std::error::Error::source(&error).is_some_and(|source| source.to_string().contains("feature level"))
    );
}

#[test]
fn a_snapshot_keeps_its_bytes() {
    let partition = small_partition();
    let mut bytes = Vec::new();
    partition.snapshot().write(&mut bytes).unwrap();
    let stored = fixture("snapshot-3.hex", &bytes);
    assert_eq!(hex(&bytes), hex(&stored), "a snapshot is written differently");
    let restored = Partition::restore(&mut stored.as_slice()).unwrap();
    restored.check_invariants();
    assert_eq!(restored.state_hash(), partition.state_hash());
}

/// In version 1 the id that a move task gave a message stood in its content alone; before version 3 there were no levels.
#[test]
fn snapshots_of_earlier_versions_are_read() {
    for name in ["snapshot-1.hex", "snapshot-2.hex"] {
        is_read(name);
    }
}

fn is_read(name: &str) {
    let stored = fixture(name, &[]);
    let mut restored = Partition::restore(&mut stored.as_slice()).unwrap();
    let mut partition = small_partition();
    restored.check_invariants();
    assert_eq!(restored.level(), 0);
    assert_eq!(restored.clock(), partition.clock());
    assert_eq!(restored.seal_keys(), partition.seal_keys());
    let mut given = 0;
    for index in 0..2_000 {
        // All leases end, move tasks go on, and what is there is received.
        let context = Context {
            at: Timestamp::from_millis(partition.clock().as_millis() + 1_000),
            wall: WALL,
            index: LogIndex(10_000 + index),
            ordinal: 0,
        };
        let receive = Command::Receive {
            queue: QueueId(1 + index % 5),
            max: 10,
            visibility_timeout_seconds: Some(1),
            is_long_poll: false,
            attempt: None,
        };
        let mut one = restored.apply(context, &receive);
        let mut other = partition.apply(context, &receive);
        for outcome in [&mut one.outcome, &mut other.outcome] {
            if let Ok(Outcome::Received(deliveries)) = outcome {
                let ids = deliveries.iter_mut().map(|delivery| delivery.message_id.take());
                given += ids.flatten().count();
            }
        }
        assert_eq!(one, other, "{receive:?}");
    }
    assert!(given > 0, "no message that was moved was received");
}

#[test]
fn a_snapshot_cut_short_is_refused() {
    let mut bytes = Vec::new();
    small_partition().snapshot().write(&mut bytes).unwrap();
    for length in 0..bytes.len() {
        assert!(
            Partition::restore(&mut &bytes[..length]).is_err(),
            "cut at {length}"
        );
    }
}

/// What a rotten byte makes of stored bytes is refused or is another value, never a panic. The journal's checksums stand
/// before this; here it is the second line.
#[test]
fn a_flipped_byte_never_panics() {
    let mut entry = Vec::new();
    let mut encoder = EntryEncoder::begin(&mut entry, AT, WALL);
    entries().iter().for_each(|(_, command)| encoder.push(command));
    encoder.finish();
    let mut snapshot = Vec::new();
    small_partition().snapshot().write(&mut snapshot).unwrap();
    for mask in [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff] {
        for at in 0..entry.len() {
            let mut bytes = entry.clone();
            bytes[at] ^= mask;
            if let Ok(entry) = Entry::decode(&bytes) {
                let mut again = Vec::new();
                let mut encoder = EntryEncoder::begin(&mut again, entry.at, entry.wall);
                entry.commands.iter().for_each(|command| encoder.push(command));
                encoder.finish();
                assert_eq!(Entry::decode(&again), Ok(entry), "byte {at} with {mask:#x}");
            }
        }
        for (snapshot, version) in [&fixture("snapshot-1.hex", &[]), &snapshot].into_iter().zip(1..) {
            for at in 0..snapshot.len() {
                let mut bytes = snapshot.clone();
                bytes[at] ^= mask;
                let restored = catch_unwind(|| Partition::restore(&mut bytes.as_slice()).is_ok());
                assert!(restored.is_ok(), "byte {at} of snapshot {version} with {mask:#x}");
            }
        }
    }
}

fn entries() -> Vec<(&'static str, Command)> {
    let queue = QueueId(7);
    let handle = |n: u64| Handle {
        queue: QueueId(7),
        slot: Slot(0x0a0b_0c0d),
        sequence: Sequence(0x1112_1314_1516_1718 + n),
        token: LeaseToken(0x2122_2324_2526_2728 + n),
    };
    vec![
        (
            "create-queue",
            Command::CreateQueue {
                key: key(3),
                attributes: attributes(),
                tags: vec![("team".into(), "blue".into()), ("empty".into(), "".into())],
                deleted_name_wait_seconds: 60,
            },
        ),
        ("delete-queue", Command::DeleteQueue { queue }),
        (
            "set-queue-attributes",
            Command::SetQueueAttributes {
                queue,
                attributes: cleared(),
            },
        ),
        (
            "purge-queue",
            Command::PurgeQueue {
                queue,
                purge_wait_seconds: 60,
            },
        ),
        (
            "enqueue-standard",
            Command::Enqueue {
                queue,
                entries: vec![standard(1), standard(2)],
            },
        ),
        (
            "enqueue-fifo",
            Command::Enqueue {
                queue,
                entries: vec![fifo(3, true), fifo(4, false)],
            },
        ),
        (
            "receive",
            Command::Receive {
                queue,
                max: 10,
                visibility_timeout_seconds: Some(43_200),
                is_long_poll: true,
                attempt: None,
            },
        ),
        (
            "receive-default",
            Command::Receive {
                queue,
                max: 1,
                visibility_timeout_seconds: None,
                is_long_poll: false,
                attempt: None,
            },
        ),
        (
            "receive-attempt",
            Command::Receive {
                queue,
                max: 10,
                visibility_timeout_seconds: None,
                is_long_poll: false,
                attempt: Some([0xa7; 16]),
            },
        ),
        (
            "withhold",
            Command::Withhold {
                queue,
                handles: vec![handle(7)],
            },
        ),
        (
            "discard",
            Command::Discard {
                queue,
                handles: vec![handle(0)],
            },
        ),
        (
            "tag-queue",
            Command::TagQueue {
                queue,
                tags: vec![("team".into(), "blue".into()), ("empty".into(), "".into())],
            },
        ),
        (
            "untag-queue",
            Command::UntagQueue {
                queue,
                keys: vec!["team".into()],
            },
        ),
        (
            "start-move-task",
            Command::StartMoveTask {
                source: queue,
                task: MessageId::from_random([3; 16]),
                destination: Some(key(0)),
                rate: Some(500),
            },
        ),
        (
            "cancel-move-task",
            Command::CancelMoveTask {
                source: queue,
                task: MessageId::from_random([3; 16]),
            },
        ),
        (
            "delete",
            Command::Delete {
                queue,
                handles: vec![handle(0), handle(1)],
            },
        ),
        (
            "change-visibility",
            Command::ChangeVisibility {
                queue,
                entries: vec![(handle(0), 0), (handle(1), 43_200)],
            },
        ),
        (
            "give-back",
            Command::GiveBack {
                queue,
                handles: vec![handle(0)],
            },
        ),
        ("tick", Command::Tick),
        (
            "set-limits",
            Command::SetLimits {
                in_flight_max: 120_001,
            },
        ),
        ("raise-level", Command::RaiseLevel { level: 1 }),
        ("compare", Command::Compare),
        (
            "add-seal-key",
            Command::AddSealKey {
                key: std::array::from_fn(|n| n as u8),
            },
        ),
    ]
}

/// Every attribute with a value.
fn attributes() -> Vec<AttributeChange> {
    vec![
        AttributeChange::VisibilityTimeout(31),
        AttributeChange::DelaySeconds(5),
        AttributeChange::MessageRetentionPeriod(1_209_600),
        AttributeChange::MaximumMessageSize(1_048_576),
        AttributeChange::ReceiveMessageWaitTimeSeconds(20),
        AttributeChange::Policy(Some("{\"Version\":\"2012-10-17\"}".into())),
        AttributeChange::RedrivePolicy(Some(RedrivePolicy {
            dead_letter_queue: key(2),
            max_receive_count: 1_000,
        })),
        AttributeChange::RedriveAllowPolicy(Some("{\"redrivePermission\":\"allowAll\"}".into())),
        AttributeChange::KmsMasterKeyId(Some("alias/aws/sqs".into())),
        AttributeChange::KmsDataKeyReusePeriodSeconds(86_400),
        AttributeChange::SqsManagedSseEnabled(true),
        AttributeChange::ContentBasedDeduplication(true),
        AttributeChange::DeduplicationScope(DeduplicationScope::MessageGroup),
        AttributeChange::FifoThroughputLimit(FifoThroughputLimit::PerMessageGroupId),
    ]
}

/// Those that can be removed, and the other value of the rest.
fn cleared() -> Vec<AttributeChange> {
    vec![
        AttributeChange::Policy(None),
        AttributeChange::RedrivePolicy(None),
        AttributeChange::RedriveAllowPolicy(None),
        AttributeChange::KmsMasterKeyId(None),
        AttributeChange::SqsManagedSseEnabled(false),
        AttributeChange::ContentBasedDeduplication(false),
        AttributeChange::DeduplicationScope(DeduplicationScope::Queue),
        AttributeChange::FifoThroughputLimit(FifoThroughputLimit::PerQueue),
    ]
}

fn standard(n: u8) -> EnqueueEntry {
    EnqueueEntry {
        message_id: MessageId::from_random([n; 16]),
        content: Arc::from(*b"a standard message"),
        size_bytes: 18,
        delay_seconds: (n > 1).then_some(900),
        group: (n > 1).then(|| "fair".into()),
        deduplication: None,
    }
}

fn fifo(n: u8, has_id: bool) -> EnqueueEntry {
    EnqueueEntry {
        message_id: MessageId::from_random([n; 16]),
        content: Arc::from(*b"a fifo message"),
        size_bytes: 14,
        delay_seconds: None,
        group: Some(format!("group-{}", n % 2).into()),
        deduplication: Some(if has_id {
            Deduplication::Id(format!("id-{n}").into())
        } else {
            Deduplication::BodyHash([n; 32])
        }),
    }
}

/// A partition with something in every part of its state.
fn small_partition() -> Partition {
    let mut partition = Partition::default();
    let mut at = 1_000;
    let mut index = 0;
    let mut apply = |millis: u64, command: Command| {
        at += millis;
        index += 1;
        let context = Context {
            at: Timestamp::from_millis(at),
            wall: WallTime::from_millis(1_764_000_000_000 + at),
            index: LogIndex(index),
            ordinal: 0,
        };
        partition.apply(context, &command).outcome.unwrap()
    };
    let create = |queue: usize, attributes: Vec<AttributeChange>| Command::CreateQueue {
        key: key(queue),
        attributes,
        tags: vec![("team".into(), "blue".into())],
        deleted_name_wait_seconds: 60,
    };
    let receive = |queue, max, seconds| Command::Receive {
        queue,
        max,
        visibility_timeout_seconds: Some(seconds),
        is_long_poll: false,
        attempt: None,
    };
    let dlq = |queue| {
        AttributeChange::RedrivePolicy(Some(RedrivePolicy {
            dead_letter_queue: key(queue),
            max_receive_count: 1,
        }))
    };
    let (plain, work, fifo_queue) = (QueueId(1), QueueId(2), QueueId(3));
    apply(0, create(0, Vec::new()));
    apply(0, create(1, vec![dlq(0)]));
    let mut all = attributes();
    all[6] = dlq(2);
    all[1] = AttributeChange::DelaySeconds(0);
    apply(0, create(3, all));
    apply(0, create(4, Vec::new()));
    // One message moves to the dead-letter queue, one is in flight, one is delayed, one can be received.
    apply(
        1,
        Command::Enqueue {
            queue: work,
            entries: vec![standard(1)],
        },
    );
    apply(1, receive(work, 1, 0));
    apply(1, receive(work, 1, 0));
    apply(
        1,
        Command::Enqueue {
            queue: work,
            entries: vec![standard(0), standard(2), standard(1)],
        },
    );
    apply(1, receive(work, 1, 600));
    apply(
        1,
        Command::Enqueue {
            queue: fifo_queue,
            entries: (5..11).map(|n| fifo(n, n % 3 > 0)).collect(),
        },
    );
    if let Outcome::Received(deliveries) = apply(1, receive(fifo_queue, 2, 600)) {
        let handle = deliveries[0].handle;
        apply(
            1,
            Command::Delete {
                queue: fifo_queue,
                handles: vec![handle],
            },
        );
    }
    // A receive that can be repeated; a standard queue with groups, of which a task has moved one message.
    apply(
        1,
        Command::Receive {
            queue: fifo_queue,
            max: 1,
            visibility_timeout_seconds: Some(600),
            is_long_poll: false,
            attempt: Some([0xa7; 16]),
        },
    );
    apply(
        1,
        Command::Enqueue {
            queue: plain,
            entries: vec![standard(2), standard(3), standard(1)],
        },
    );
    apply(
        1,
        Command::StartMoveTask {
            source: plain,
            task: MessageId::from_random([4; 16]),
            destination: Some(key(1)),
            rate: Some(1),
        },
    );
    apply(0, Command::Tick);
    // A queue that is gone leaves its name; a purge leaves slots that are not reclaimed yet.
    apply(1, Command::DeleteQueue { queue: QueueId(4) });
    apply(1, Command::AddSealKey { key: [0x5e; 32] });
    apply(0, Command::RaiseLevel { level: 1 });
    apply(1, create(5, Vec::new()));
    apply(
        1,
        Command::Enqueue {
            queue: QueueId(5),
            entries: vec![fifo(1, true), fifo(2, true)],
        },
    );
    apply(
        1,
        Command::PurgeQueue {
            queue: QueueId(5),
            purge_wait_seconds: 60,
        },
    );
    assert!(partition.has_garbage());
    assert_eq!(partition.queue(plain).unwrap().counters().total(), 3);
    assert_eq!(partition.level(), 1);
    let task = partition.move_tasks(plain).next().unwrap();
    assert_eq!((task.status, task.moved), (TaskStatus::Running, 1));
    partition
}

/// Returns the bytes of a fixture; writes it if it is missing and that was asked for.
#[expect(
    clippy::disallowed_methods,
    reason = "new fixtures are written on request only"
)]
fn fixture(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    if !path.exists() && std::env::var("UPDATE_FIXTURES").is_ok() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, hex(bytes)).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("fixture {name}: {error}"));
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// Returns the bytes as lines of 32, so that a difference shows where it is.
fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| {
        line.iter()
            .map(|byte| format!("{byte:02x}"))
            .chain(["\n".to_owned()])
            .collect::<String>()
    };
    bytes.chunks(32).map(line).collect()
}
