//! Seeded sequences of steps. A step is symbolic ("the newest handle of the third queue", "one millisecond before the
//! next deadline") and becomes a command only when it runs, so any part of a sequence is a sequence: that is what makes
//! shrinking simple.

use queue_core::attributes::{DeduplicationScope, FifoThroughputLimit};
use queue_core::{AttributeChange, RedrivePolicy};
use types::QueueKey;

use crate::rng::Rng;

/// The queues of a sequence. The first four are created at once; the last two have the name of another queue in the
/// other tenant, or another name in the same one, and appear only now and then.
pub(crate) const QUEUES: usize = 6;
const STANDARD_WITH_DLQ: usize = 1;
const FIFO_WITH_DLQ: usize = 3;

pub(crate) fn key(queue: usize) -> QueueKey {
    let (tenant, name) = [
        ("000000000001", "plain"),
        ("000000000001", "work"),
        ("000000000002", "plain.fifo"),
        ("000000000002", "work.fifo"),
        ("000000000002", "plain"),
        ("000000000001", "plain.fifo"),
    ][queue];
    QueueKey {
        tenant: tenant.parse().unwrap(),
        name: name.parse().unwrap(),
    }
}

/// What happens, and how far the clock goes before it.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) clock: Clock,
    pub(crate) op: Op,
}

/// How far the clock goes. Offsets are milliseconds from the deadline: -1, 0 or 1.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    Stay,
    Millis(u64),
    /// The proposer's clock is behind: the state clock must not follow.
    Back(u64),
    /// By the visibility timeout of a queue.
    Visibility {
        queue: usize,
        offset: i64,
    },
    /// By the retention of a queue.
    Retention {
        queue: usize,
        offset: i64,
    },
    /// By the five minutes of deduplication.
    Deduplication {
        offset: i64,
    },
    /// To one of the next ends of a lease or delay.
    Lapse {
        pick: u32,
        offset: i64,
    },
    /// To one of the deadlines that the model knows of: also expiry, and a forgotten deduplication id.
    Deadline {
        pick: u32,
        offset: i64,
    },
}

/// Which handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of the newest receive of a message that is still there.
    Current,
    /// Of an older receive of a message that is still there.
    Stale,
    /// Of another queue.
    Foreign,
    /// Of a message that is gone.
    Gone,
    Any,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick {
    pub(crate) kind: Kind,
    pub(crate) n: u32,
}

/// One message to send. Small numbers stand for groups, ids and bodies, so that they meet often.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Send {
    pub(crate) group: Option<u8>,
    pub(crate) deduplication: SendId,
    pub(crate) delay_seconds: Option<u32>,
    pub(crate) size_bytes: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum SendId {
    None,
    /// A new one each time.
    Fresh,
    Given(u8),
    /// The hash of this body.
    Body(u8),
    /// The hash of this body, given as an explicit id in hex.
    BodyHex(u8),
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create {
        queue: usize,
        attributes: Vec<AttributeChange>,
        wait: u32,
    },
    DeleteQueue {
        queue: usize,
    },
    SetAttributes {
        queue: usize,
        attributes: Vec<AttributeChange>,
    },
    Purge {
        queue: usize,
        wait: u32,
    },
    Send {
        queue: usize,
        entries: Vec<Send>,
    },
    Receive {
        queue: usize,
        max: u32,
        visibility: Option<u32>,
        long: bool,
        /// One of a few attempt ids.
        attempt: Option<u8>,
    },
    Delete {
        queue: usize,
        picks: Vec<Pick>,
    },
    ChangeVisibility {
        queue: usize,
        picks: Vec<(Pick, u32)>,
    },
    GiveBack {
        queue: usize,
        picks: Vec<Pick>,
    },
    Withhold {
        queue: usize,
        picks: Vec<Pick>,
    },
    Discard {
        queue: usize,
        picks: Vec<Pick>,
    },
    Tag {
        queue: usize,
        tags: Vec<(u8, u8)>,
    },
    Untag {
        queue: usize,
        keys: Vec<u8>,
    },
    StartTask {
        queue: usize,
        destination: Option<usize>,
        rate: Option<u32>,
    },
    CancelTask {
        /// Which of the newest tasks.
        n: u32,
        /// Named with another queue than its source.
        queue: Option<usize>,
    },
    SealKey,
    Tick,
    /// The partition is written as a snapshot and read back.
    Restart,
}

/// What one sequence leans to; drawn once, so that sequences differ from each other and not only within.
#[derive(Debug)]
struct Taste {
    visibility: [u32; QUEUES],
    retention: [u32; QUEUES],
    delay: [u32; QUEUES],
    max_receive_count: u32,
    groups: u8,
    /// Whether messages of standard queues have groups.
    is_fair: bool,
    ids: u8,
    /// How many receives of a hundred have an attempt id.
    attempts: u64,
    abandons: bool,
    /// Whether queues are purged, deleted and made anew all the time.
    is_restless: bool,
    /// The queues that most commands go to.
    focus: &'static [usize],
}

/// Returns the sequence of a seed.
pub(crate) fn sequence(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let taste = Taste {
        visibility: std::array::from_fn(|_| rng.pick(&[1, 2, 5, 30, 30, 0])),
        retention: std::array::from_fn(|_| rng.pick(&[60, 120, 400, 345_600, 345_600])),
        delay: std::array::from_fn(|_| rng.weighted(&[(6, 0), (1, 1), (1, 3)])),
        max_receive_count: rng.pick(&[1, 1, 2, 3]),
        groups: rng.pick(&[1, 2, 3, 3, 4]),
        is_fair: rng.percent(40),
        ids: rng.pick(&[2, 4, 8]),
        attempts: rng.pick(&[0, 20, 70]),
        abandons: rng.percent(50),
        is_restless: rng.percent(10),
        focus: rng.weighted(&[
            (2, &[0_usize, 1, 2, 3] as &[usize]),
            (2, &[1, 1, 0]),
            (2, &[3, 3, 2]),
            (1, &[0]),
            (2, &[2]),
        ]),
    };
    let mut steps: Vec<Step> = (0..4).map(|queue| creation(&mut rng, &taste, queue)).collect();
    let length = rng.pick(&[10, 60, 60, 100, 196]);
    for _ in 0..1 + rng.index(length) {
        let op = op(&mut rng, &taste);
        let next = follow(&mut rng, &op);
        steps.push(Step {
            clock: clock(&mut rng),
            op,
        });
        steps.extend(next);
    }
    steps
}

/// What a client does next now and then: it asks again as if there had been no answer, or stops its task, or starts it again.
fn follow(rng: &mut Rng, op: &Op) -> Vec<Step> {
    let clock = if rng.percent(70) { Clock::Stay } else { clock(rng) };
    match op {
        Op::Receive {
            queue,
            attempt: Some(_),
            ..
        } if rng.percent(40) => {
            let (queue, again) = (*queue, op.clone());
            let pick = Pick {
                kind: Kind::Current,
                n: rng.below_u32(8),
            };
            let picks = vec![pick];
            let between = match rng.below(6) {
                0 => Op::GiveBack { queue, picks },
                1 => Op::Withhold { queue, picks },
                2 => Op::Delete { queue, picks },
                3 => Op::ChangeVisibility {
                    queue,
                    picks: vec![(pick, rng.pick(&[0, 1, 30]))],
                },
                4 => Op::Restart,
                _ => Op::Tick,
            };
            let stay = Clock::Stay;
            let between = Step {
                clock: stay,
                op: between,
            };
            vec![between, Step { clock, op: again }]
        }
        Op::StartTask { .. } if rng.percent(40) => {
            let cancel = Op::CancelTask { n: 0, queue: None };
            let op = rng.weighted(&[(2, &cancel), (3, op)]).clone();
            vec![Step { clock, op }]
        }
        Op::Create { .. }
        | Op::DeleteQueue { .. }
        | Op::SetAttributes { .. }
        | Op::Purge { .. }
        | Op::Send { .. }
        | Op::Receive { .. }
        | Op::Delete { .. }
        | Op::ChangeVisibility { .. }
        | Op::GiveBack { .. }
        | Op::Withhold { .. }
        | Op::Discard { .. }
        | Op::Tag { .. }
        | Op::Untag { .. }
        | Op::StartTask { .. }
        | Op::CancelTask { .. }
        | Op::SealKey
        | Op::Tick
        | Op::Restart => Vec::new(),
    }
}

fn creation(rng: &mut Rng, taste: &Taste, queue: usize) -> Step {
    Step {
        clock: Clock::Stay,
        op: Op::Create {
            queue,
            attributes: initial(rng, taste, queue),
            wait: 60,
        },
    }
}

fn initial(rng: &mut Rng, taste: &Taste, queue: usize) -> Vec<AttributeChange> {
    let mut attributes = vec![
        AttributeChange::VisibilityTimeout(taste.visibility[queue]),
        AttributeChange::MessageRetentionPeriod(taste.retention[queue]),
        AttributeChange::DelaySeconds(taste.delay[queue]),
        AttributeChange::MaximumMessageSize(1_024),
    ];
    if queue == STANDARD_WITH_DLQ || queue == FIFO_WITH_DLQ {
        attributes.push(AttributeChange::RedrivePolicy(Some(RedrivePolicy {
            dead_letter_queue: key(queue - 1),
            max_receive_count: taste.max_receive_count,
        })));
    }
    if key(queue).name.is_fifo() {
        attributes.push(AttributeChange::ContentBasedDeduplication(rng.percent(80)));
    }
    if queue == FIFO_WITH_DLQ {
        attributes.push(AttributeChange::DeduplicationScope(
            DeduplicationScope::MessageGroup,
        ));
        attributes.push(AttributeChange::FifoThroughputLimit(
            FifoThroughputLimit::PerMessageGroupId,
        ));
    }
    attributes
}

fn clock(rng: &mut Rng) -> Clock {
    let offset = rng.pick(&[-1, 0, 0, 1]);
    let queue = rng.index(4);
    match rng.below(100) {
        0..50 => Clock::Stay,
        50..56 => Clock::Millis(1),
        56..66 => Clock::Millis(rng.below(3_000)),
        66..86 => Clock::Lapse {
            pick: rng.below_u32(1_000),
            offset,
        },
        86..90 => Clock::Deadline {
            pick: rng.below_u32(1_000),
            offset,
        },
        90..96 => Clock::Visibility { queue, offset },
        96 => Clock::Deduplication { offset },
        97 => Clock::Retention { queue, offset },
        _ => Clock::Back(rng.below(5_000)),
    }
}

#[derive(Clone, Copy)]
enum Choice {
    Send,
    Receive,
    Delete,
    ChangeVisibility,
    GiveBack,
    Withhold,
    Discard,
    Purge,
    Attributes,
    CreateAgain,
    DeleteQueue,
    Tick,
    SealKey,
    Restart,
    Tags,
    StartTask,
    CancelTask,
}

fn op(rng: &mut Rng, taste: &Taste) -> Op {
    let queue = if rng.percent(90) {
        rng.pick(taste.focus)
    } else {
        rng.index(QUEUES)
    };
    let (delete, receive) = if taste.abandons { (120, 400) } else { (270, 300) };
    let often = if taste.is_restless { 15 } else { 1 };
    match rng.weighted(&[
        (260, Choice::Send),
        (receive, Choice::Receive),
        (delete, Choice::Delete),
        (110, Choice::ChangeVisibility),
        (40, Choice::GiveBack),
        (20, Choice::Withhold),
        (10, Choice::Discard),
        (8 * often, Choice::Purge),
        (30, Choice::Attributes),
        (15 * often, Choice::CreateAgain),
        (4 * often, Choice::DeleteQueue),
        (10, Choice::Tick),
        (5, Choice::SealKey),
        (30, Choice::Restart),
        (20, Choice::Tags),
        (38, Choice::StartTask),
        (12, Choice::CancelTask),
    ]) {
        Choice::Send => Op::Send {
            queue,
            entries: sends(rng, taste, key(queue).name.is_fifo()),
        },
        Choice::Receive => Op::Receive {
            queue,
            max: rng.pick(&[1, 1, 2, 3, 5, 10]),
            visibility: rng.weighted(&[
                (5, None),
                (2, Some(0)),
                (2, Some(1)),
                (2, Some(2)),
                (1, Some(43_200)),
            ]),
            long: rng.percent(50),
            attempt: rng.percent(taste.attempts).then(|| rng.below_u32(3) as u8),
        },
        Choice::Delete => Op::Delete {
            queue,
            picks: picks(rng),
        },
        Choice::ChangeVisibility => Op::ChangeVisibility {
            queue,
            picks: picks(rng)
                .into_iter()
                .map(|pick| {
                    (
                        pick,
                        rng.weighted(&[(5, 0), (4, 1), (3, 3), (1, 30), (1, 43_199), (1, 43_200)]),
                    )
                })
                .collect(),
        },
        Choice::GiveBack => Op::GiveBack {
            queue,
            picks: picks(rng),
        },
        Choice::Withhold => Op::Withhold {
            queue,
            picks: picks(rng),
        },
        Choice::Discard => Op::Discard {
            queue,
            picks: picks(rng),
        },
        Choice::Purge => Op::Purge {
            queue,
            wait: rng.pick(&[60, 60, 0]),
        },
        Choice::Attributes => Op::SetAttributes {
            queue,
            attributes: changes(rng, queue),
        },
        Choice::CreateAgain => {
            let attributes = match rng.below(3) {
                0 => Vec::new(),
                1 => initial(rng, taste, queue),
                _ => changes(rng, queue),
            };
            Op::Create {
                queue,
                attributes,
                wait: rng.pick(&[60, 60, 0, 1]),
            }
        }
        Choice::DeleteQueue => Op::DeleteQueue { queue },
        Choice::Tick => Op::Tick,
        Choice::SealKey => Op::SealKey,
        Choice::Restart => Op::Restart,
        Choice::Tags if rng.percent(60) => Op::Tag {
            queue,
            tags: (0..=rng.below(2))
                .map(|_| (rng.below_u32(4) as u8, rng.below_u32(3) as u8))
                .collect(),
        },
        Choice::Tags => Op::Untag {
            queue,
            keys: (0..=rng.below(2)).map(|_| rng.below_u32(5) as u8).collect(),
        },
        Choice::StartTask => start_task(rng, queue),
        Choice::CancelTask => Op::CancelTask {
            n: rng.weighted(&[(8, 0), (2, 1), (1, 2)]),
            queue: Some(queue).filter(|_| rng.percent(5)),
        },
    }
}

/// Mostly of a queue that is a dead-letter queue from the start, mostly to one of its type.
fn start_task(rng: &mut Rng, queue: usize) -> Op {
    let source = if rng.percent(95) {
        [0, 0, 2, 2, 0, 2][queue]
    } else {
        queue
    };
    let fits = if key(source).name.is_fifo() {
        [2, 3, 3, 5]
    } else {
        [0, 1, 1, 4]
    };
    Op::StartTask {
        queue: source,
        destination: match rng.below(20) {
            0..11 => None,
            11..19 => Some(rng.pick(&fits)),
            _ => Some(rng.index(QUEUES)),
        },
        rate: rng.weighted(&[(4, None), (4, Some(1)), (2, Some(3)), (1, Some(500))]),
    }
}

fn sends(rng: &mut Rng, taste: &Taste, is_fifo: bool) -> Vec<Send> {
    let wrong_group = rng.percent(1);
    let wrong_id = !wrong_group && rng.percent(1);
    (0..rng.weighted(&[(6, 1), (2, 2), (1, 3), (1, 5)]))
        .map(|_| {
            let id = rng.below_u32(u32::from(taste.ids)) as u8;
            let deduplication = match rng.below(10) {
                0..4 => SendId::Fresh,
                4..7 => SendId::Given(id),
                7..9 => SendId::Body(id),
                _ => SendId::BodyHex(id),
            };
            let group = rng.below_u32(u32::from(taste.groups)) as u8;
            Send {
                group: if is_fifo {
                    Some(group).filter(|_| !wrong_group)
                } else {
                    Some(group).filter(|_| taste.is_fair && !rng.percent(25))
                },
                deduplication: if is_fifo || wrong_id {
                    deduplication
                } else {
                    SendId::None
                },
                delay_seconds: rng.weighted(&[(6, None), (1, Some(0)), (2, Some(1)), (1, Some(3))]),
                size_bytes: rng.weighted(&[(40, 10), (1, 1_024), (1, 1_025), (1, 3_000)]),
            }
        })
        .collect()
}

fn picks(rng: &mut Rng) -> Vec<Pick> {
    (0..rng.weighted(&[(5, 1), (2, 2), (1, 4)]))
        .map(|_| Pick {
            kind: rng.weighted(&[
                (10, Kind::Current),
                (4, Kind::Stale),
                (1, Kind::Foreign),
                (2, Kind::Gone),
                (1, Kind::Any),
            ]),
            n: rng.below_u32(1_000),
        })
        .collect()
}

fn changes(rng: &mut Rng, queue: usize) -> Vec<AttributeChange> {
    let change = match rng.below(13) {
        0 | 1 => AttributeChange::VisibilityTimeout(rng.pick(&[0, 1, 2, 5, 30])),
        2 | 3 => AttributeChange::MessageRetentionPeriod(rng.pick(&[60, 61, 120, 345_600])),
        4 => AttributeChange::DelaySeconds(rng.pick(&[0, 1, 3])),
        5 => AttributeChange::MaximumMessageSize(rng.pick(&[1_024, 2_048, 1_048_576])),
        6 => AttributeChange::RedrivePolicy(None),
        7 | 8 => AttributeChange::RedrivePolicy(Some(RedrivePolicy {
            dead_letter_queue: key(any_target(rng, queue)),
            max_receive_count: rng.pick(&[1, 2, 3]),
        })),
        9 => AttributeChange::ContentBasedDeduplication(rng.percent(50)),
        10 => AttributeChange::DeduplicationScope(
            rng.pick(&[DeduplicationScope::Queue, DeduplicationScope::MessageGroup]),
        ),
        11 => {
            let mut text = || Some("{}".into()).filter(|_| rng.percent(50));
            let (from, to) = (text(), text());
            AttributeChange::PolicyFrom { from, to }
        }
        _ => AttributeChange::KmsMasterKeyId(Some("alias/test".into()).filter(|_| queue != 0)),
    };
    let mut changes = vec![change];
    if rng.percent(20) {
        changes.push(AttributeChange::ReceiveMessageWaitTimeSeconds(rng.below_u32(3)));
    }
    changes
}

/// Any queue may be named, also a missing one, one of the other type, one that names this one, and a standard queue
/// itself. What one receive of a FIFO queue that names itself returns is left open, so it is not drawn here.
fn any_target(rng: &mut Rng, queue: usize) -> usize {
    let target = rng.index(QUEUES);
    if target == queue && key(queue).name.is_fifo() {
        (target + 1) % QUEUES
    } else {
        target
    }
}
