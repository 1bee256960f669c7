//! Any command that can be decoded is applied without a panic, and means the same on two partitions.
//!
//! No model here: the commands make no sense. What counts is that nothing stops, that the state keeps its invariants
//! and that a partition read back from its snapshot does not differ from one that never stopped.

use std::sync::Arc;

use queue_core::attributes::DeduplicationScope;
use queue_core::{
    AttributeChange, Command, Context, Deduplication, EnqueueEntry, Handle, Outcome, Partition,
    RedrivePolicy, TaskId,
};
use types::{LeaseToken, LogIndex, MessageId, QueueId, Sequence, Slot, Timestamp, WallTime};

use crate::rng::Rng;
use crate::runner::{restored, through_bytes};
use crate::steps::{QUEUES, key};

const SEQUENCES: u64 = 3_000;

#[test]
fn any_command_is_applied_and_means_the_same_everywhere() {
    let (mut deliveries, mut moves) = (0, 0);
    for seed in 0..SEQUENCES {
        let seen = sequence(seed);
        (deliveries, moves) = (deliveries + seen.0, moves + seen.1);
    }
    assert!(deliveries > SEQUENCES, "unknown: only {deliveries} deliveries");
    assert!(
        moves > SEQUENCES / 20,
        "unknown: only {moves} messages moved by tasks"
    );
}

/// Returns how many messages were delivered, and how many moved by tasks.
fn sequence(seed: u64) -> (u64, u64) {
    let mut rng = Rng::new(seed);
    let mut known = Vec::new();
    let (mut first, mut second) = (Partition::default(), Partition::default());
    let (mut at, mut moves, mut moved_before) = (0, 0, 0);
    for index in 0..rng.below(150) {
        at = time(&mut rng, at);
        let context = Context {
            at: Timestamp::from_millis(at),
            wall: WallTime::from_millis(rng.below(3)),
            index: LogIndex(index),
            ordinal: 0,
        };
        let command = command(&mut rng, &known);
        let command = through_bytes(context, &command).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let applied = first.apply(context, &command);
        assert_eq!(
            applied,
            second.apply(context, &command),
            "seed {seed}, {command:?}"
        );
        let moved = moved_by_tasks(&first);
        moves += moved.saturating_sub(moved_before);
        moved_before = moved;
        if let Ok(Outcome::Received(deliveries)) = applied.outcome {
            known.extend(deliveries.iter().map(|delivery| delivery.handle));
        }
        first.check_invariants();
        if rng.percent(10) {
            first = restored(&first);
            assert_eq!(
                first.state_hash(),
                second.state_hash(),
                "seed {seed}, {command:?}"
            );
        }
    }
    assert_eq!(first.state_hash(), second.state_hash(), "seed {seed}");
    (known.len() as u64, moves)
}

/// Returns how many messages were moved by the tasks that are still listed.
fn moved_by_tasks(partition: &Partition) -> u64 {
    let tasks = partition
        .queues()
        .flat_map(|queue| partition.move_tasks(queue.id()));
    tasks.map(|task| task.moved).sum()
}

fn time(rng: &mut Rng, at: u64) -> u64 {
    match rng.below(1_000) {
        // Half a billion years: no sum of seconds reaches the end of the clock from there.
        0 => at.max(rng.next() >> 2),
        1..20 => rng.next() >> 30,
        20..500 => at,
        _ => at.saturating_add(rng.below(10_000)),
    }
}

fn command(rng: &mut Rng, known: &[Handle]) -> Command {
    let queue = QueueId(rng.weighted(&[(20, 1), (20, 2), (20, 3), (20, 4), (5, 5), (1, 0), (1, u64::MAX)]));
    match rng.below(26) {
        0..3 => Command::CreateQueue {
            key: key(rng.index(QUEUES)),
            attributes: attributes(rng),
            tags: (0..rng.below(3))
                .map(|n| (format!("{n}").into(), "".into()))
                .collect(),
            deleted_name_wait_seconds: rng.pick(&[0, 0, 60, u32::MAX]),
        },
        3 => Command::SetQueueAttributes {
            queue,
            attributes: attributes(rng),
        },
        4 if rng.percent(30) => Command::DeleteQueue { queue },
        4 => Command::PurgeQueue {
            queue,
            purge_wait_seconds: rng.pick(&[0, 60, u32::MAX]),
        },
        5..10 => Command::Enqueue {
            queue,
            entries: (0..rng.below(4)).map(|_| entry(rng, queue)).collect(),
        },
        10..15 => Command::Receive {
            queue,
            max: rng.pick(&[0, 1, 3, 10, u32::MAX]),
            visibility_timeout_seconds: rng.pick(&[None, Some(0), Some(0), Some(1), Some(u32::MAX)]),
            is_long_poll: rng.percent(50),
            attempt: rng.percent(40).then(|| [rng.pick(&[0, 1]); 16]),
        },
        15 | 16 => Command::Delete {
            queue,
            handles: handles(rng, known),
        },
        17 => Command::ChangeVisibility {
            queue,
            entries: handles(rng, known)
                .into_iter()
                .map(|h| (h, rng.pick(&[0, 1, 30, u32::MAX])))
                .collect(),
        },
        18 if rng.percent(50) => Command::Withhold {
            queue,
            handles: handles(rng, known),
        },
        18 if rng.percent(50) => Command::Discard {
            queue,
            handles: handles(rng, known),
        },
        18 => Command::GiveBack {
            queue,
            handles: handles(rng, known),
        },
        19..24 => Command::StartMoveTask {
            source: queue,
            task: TaskId::from_random([rng.pick(&[0, 1, 2]); 16]),
            destination: rng.percent(70).then(|| key(rng.index(QUEUES))),
            rate: rng.pick(&[None, None, Some(0), Some(1), Some(u32::MAX)]),
        },
        24 if rng.percent(30) => Command::CancelMoveTask {
            source: queue,
            task: TaskId::from_random([rng.pick(&[0, 1, 2]); 16]),
        },
        24 if rng.percent(50) => Command::TagQueue {
            queue,
            tags: vec![(rng.pick(&["", "a"]).into(), "".into()), ("".into(), "b".into())],
        },
        24 => Command::UntagQueue {
            queue,
            keys: vec![rng.pick(&["", "a", "b"]).into()],
        },
        _ if rng.percent(30) => Command::AddSealKey { key: rng.bytes() },
        _ if rng.percent(30) => Command::SetLimits {
            in_flight_max: rng.next(),
        },
        _ if rng.percent(30) => Command::RaiseLevel {
            level: rng.pick(&[0, 1]),
        },
        _ if rng.percent(30) => Command::Compare,
        _ => Command::Tick,
    }
}

fn entry(rng: &mut Rng, queue: QueueId) -> EnqueueEntry {
    // Mostly what fits one of the two types, so that there are messages at all.
    let fits_fifo = if rng.percent(90) {
        queue.0 > 2
    } else {
        rng.percent(50)
    };
    EnqueueEntry {
        message_id: MessageId::from_random(rng.bytes()),
        content: Arc::from(rng.bytes::<3>()),
        size_bytes: rng.pick(&[0, 1, 1_024, u32::MAX]),
        delay_seconds: rng.pick(&[None, None, Some(0), Some(1), Some(u32::MAX)]),
        group: (fits_fifo || rng.percent(20)).then(|| rng.pick(&["", "a", "b"]).into()),
        deduplication: fits_fifo.then(|| match rng.below(3) {
            0 => Deduplication::BodyHash([rng.next().to_le_bytes()[0]; 32]),
            1 => Deduplication::Id("".into()),
            _ => Deduplication::Id(format!("{}", rng.below(50)).into()),
        }),
    }
}

fn handles(rng: &mut Rng, known: &[Handle]) -> Vec<Handle> {
    let mut handles = Vec::new();
    for _ in 0..rng.below(4) {
        let wild = Handle {
            queue: QueueId(rng.below(6)),
            slot: Slot(rng.weighted(&[(9, 0), (9, 1), (9, 2), (1, u32::MAX)])),
            sequence: Sequence(rng.below(6)),
            token: LeaseToken(rng.below(6)),
        };
        let handle = if known.is_empty() || rng.percent(20) {
            wild
        } else {
            known[rng.index(known.len())]
        };
        handles.push(handle);
        if rng.percent(10) {
            handles.push(handle);
        }
    }
    handles
}

fn attributes(rng: &mut Rng) -> Vec<AttributeChange> {
    let mut attributes = Vec::new();
    for _ in 0..rng.below(3) {
        let seconds = rng.pick(&[0, 1, 30, 60, u32::MAX]);
        attributes.push(match rng.below(10) {
            0 => AttributeChange::VisibilityTimeout(seconds),
            1 => AttributeChange::DelaySeconds(seconds),
            2 => AttributeChange::MessageRetentionPeriod(seconds),
            3 => AttributeChange::MaximumMessageSize(rng.pick(&[0, 1_024, u32::MAX])),
            // Also the queue itself, and counts that the API would refuse.
            4..7 => AttributeChange::RedrivePolicy(Some(RedrivePolicy {
                dead_letter_queue: key(rng.index(QUEUES)),
                max_receive_count: rng.pick(&[0, 1, 1, 2, u32::MAX]),
            })),
            9 => AttributeChange::PolicyFrom {
                from: rng.percent(20).then(|| "{}".into()),
                to: rng.percent(20).then(|| "{}".into()),
            },
            7 => AttributeChange::ContentBasedDeduplication(rng.percent(80)),
            _ => AttributeChange::DeduplicationScope(DeduplicationScope::MessageGroup),
        });
    }
    attributes
}
