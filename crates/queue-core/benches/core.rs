//! What a command costs to apply, and how that depends on how much waits.
//!
//! `cargo bench -p queue-core`. State is built outside the measured time and kept at its size while it is measured.
//! The journal, the contents and the network are not part of it.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use criterion::{
    BatchSize, BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use queue_core::{
    Command, Context, Deduplication, EnqueueEntry, Entry, EntryEncoder, Handle, Outcome, Partition,
};
use types::{LogIndex, MessageId, QueueId, QueueKey, TenantId, Timestamp};

const DEPTHS: [u64; 3] = [1_000, 100_000, 1_000_000];
const IN_FLIGHT: usize = 100_000;
const GROUPS: u64 = 10_000;
const BODY_BYTES: usize = 100;
/// Longest run between two untimed refills, so that what is measured stays at its size.
const RUN: u64 = 500;

/// A partition with one queue.
struct Node {
    partition: Partition,
    queue: QueueId,
    index: u64,
    at: Timestamp,
    /// Time that passes with each command, so that deduplication ids are forgotten. None of the leases ends.
    step: Duration,
    random: u64,
    content: std::sync::Arc<[u8]>,
}

impl Node {
    fn new(name: &str) -> Self {
        let mut node = Self {
            partition: Partition::default(),
            queue: QueueId(0),
            index: 0,
            at: Timestamp::from_millis(1_000),
            step: Duration::ZERO,
            random: 1,
            content: vec![b'x'; BODY_BYTES].into(),
        };
        let created = node.apply(&Command::CreateQueue {
            key: QueueKey {
                tenant: TenantId::DEV,
                name: name.parse().expect("a queue name"),
            },
            attributes: Vec::new(),
            tags: Vec::new(),
            deleted_name_wait_seconds: 0,
        });
        let Outcome::Queue(queue) = created else {
            panic!("a queue, not {created:?}");
        };
        node.queue = queue;
        node
    }

    /// Makes a node with so many messages waiting.
    fn with_waiting(messages: u64) -> Self {
        let mut node = Self::new("q");
        let send = node.send_command();
        for _ in 0..messages {
            node.apply(&send);
        }
        node
    }

    fn apply(&mut self, command: &Command) -> Outcome {
        self.index += 1;
        self.at = self.at.plus(self.step);
        let context = Context {
            at: self.at,
            wall: types::WallTime::from_millis(1_700_000_000_000),
            index: LogIndex(self.index),
            ordinal: 0,
        };
        self.partition
            .apply(context, command)
            .outcome
            .expect("no command of the bench is refused")
    }

    fn send_command(&self) -> Command {
        Command::Enqueue {
            queue: self.queue,
            entries: vec![EnqueueEntry {
                message_id: MessageId::from_random([7; 16]),
                content: self.content.clone(),
                size_bytes: 100,
                delay_seconds: None,
                group: None,
                deduplication: None,
            }],
        }
    }

    fn send_to_group(&mut self, group: u64) {
        let mut send = self.send_command();
        if let Command::Enqueue { entries, .. } = &mut send {
            entries[0].group = Some(group.to_string().into());
            entries[0].deduplication = Some(Deduplication::Id(self.index.to_string().into()));
        }
        self.apply(&send);
    }

    fn receive_command(&self, max: u32) -> Command {
        Command::Receive {
            queue: self.queue,
            max,
            visibility_timeout_seconds: Some(600),
            is_long_poll: false,
            attempt: None,
        }
    }

    fn receive(&mut self, receive: &Command, handles: &mut Vec<Handle>) {
        let received = self.apply(receive);
        let Outcome::Received(deliveries) = received else {
            panic!("messages, not {received:?}");
        };
        assert!(!deliveries.is_empty(), "the queue ran dry");
        handles.extend(deliveries.iter().map(|delivery| delivery.handle));
    }

    fn delete(&mut self, handle: Handle) {
        let (queue, handles) = (self.queue, vec![handle]);
        black_box(self.apply(&Command::Delete { queue, handles }));
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.random >> 33).expect("31 bits") % bound
    }
}

/// Measures `iterations` of `work` in runs, with `refill` untimed before each run.
fn in_runs(
    iterations: u64,
    node: &mut Node,
    mut refill: impl FnMut(&mut Node, u64),
    mut work: impl FnMut(&mut Node, u64),
) -> Duration {
    let (mut left, mut total) = (iterations, Duration::ZERO);
    while left > 0 {
        let run = left.min(RUN);
        refill(node, run);
        let start = WallTime.start();
        work(node, run);
        total += WallTime.end(start);
        left -= run;
    }
    total
}

fn depth(criterion: &mut Criterion) {
    for depth in DEPTHS {
        let mut node = Node::with_waiting(depth);
        let (send, receive) = (node.send_command(), node.receive_command(1));
        let mut handles = Vec::new();
        let mut drain = |node: &mut Node, run: u64| {
            for _ in 0..run {
                node.receive(&receive, &mut handles);
                let handle = handles.pop().expect("one was received");
                node.delete(handle);
            }
        };
        let mut fill = |node: &mut Node, run: u64| {
            for _ in 0..run {
                black_box(node.apply(&send));
            }
        };
        let mut group = criterion.benchmark_group("waiting");
        group.bench_function(BenchmarkId::new("send", depth), |bencher| {
            bencher.iter_custom(|iterations| {
                // Drained first, so that a run of sends begins with free slots as in a queue in balance.
                in_runs(iterations, &mut node, &mut drain, &mut fill)
            });
        });
        group.bench_function(BenchmarkId::new("receive and delete", depth), |bencher| {
            bencher.iter_custom(|iterations| in_runs(iterations, &mut node, &mut fill, &mut drain));
        });
        group.finish();
    }
}

fn in_flight(criterion: &mut Criterion) {
    let mut node = Node::with_waiting(IN_FLIGHT as u64);
    let (send, receive) = (node.send_command(), node.receive_command(10));
    let mut handles = Vec::new();
    while handles.len() < IN_FLIGHT {
        node.receive(&receive, &mut handles);
    }
    let mut group = criterion.benchmark_group("100,000 in flight, random order");
    group.bench_function("change visibility", |bencher| {
        bencher.iter(|| {
            let handle = handles[node.below(IN_FLIGHT)];
            let seconds = 60 + u32::try_from(node.below(600)).expect("below 600");
            let (queue, entries) = (node.queue, vec![(handle, seconds)]);
            black_box(node.apply(&Command::ChangeVisibility { queue, entries }));
        });
    });
    group.bench_function("delete", |bencher| {
        bencher.iter_custom(|iterations| {
            let (mut left, mut total) = (iterations, Duration::ZERO);
            while left > 0 {
                while handles.len() < IN_FLIGHT {
                    node.apply(&send);
                    node.receive(&receive, &mut handles);
                }
                let run = usize::try_from(left.min(RUN)).expect("a run is short");
                let chosen: Vec<Handle> = (0..run)
                    .map(|_| {
                        let at = node.below(handles.len());
                        handles.swap_remove(at)
                    })
                    .collect();
                let start = WallTime.start();
                chosen.into_iter().for_each(|handle| node.delete(handle));
                total += WallTime.end(start);
                left -= run as u64;
            }
            total
        });
    });
    group.finish();
}

fn whole_queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1,000,000 waiting");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    let node = Node::with_waiting(1_000_000);
    group.bench_function("snapshot", |bencher| {
        bencher.iter_with_large_drop(|| node.partition.snapshot());
    });
    drop(node);
    // Each measurement needs a state of its own, which takes far longer to build than to purge.
    group
        .warm_up_time(Duration::from_millis(1))
        .measurement_time(Duration::from_millis(10));
    group.bench_function("purge", |bencher| {
        bencher.iter_batched(
            || Node::with_waiting(1_000_000),
            |mut node| {
                let (queue, purge_wait_seconds) = (node.queue, 0);
                node.apply(&Command::PurgeQueue {
                    queue,
                    purge_wait_seconds,
                });
                // Returned, so that dropping it is not measured.
                node
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn fifo(criterion: &mut Criterion) {
    let mut node = Node::new("q.fifo");
    node.step = Duration::from_millis(1);
    for message in 0..GROUPS * 10 {
        node.send_to_group(message % GROUPS);
    }
    let receive = node.receive_command(1);
    let (mut handles, mut next) = (Vec::new(), 0);
    criterion.bench_function("10,000 groups: receive and delete", |bencher| {
        bencher.iter_custom(|iterations| {
            let refill = |node: &mut Node, run: u64| {
                for _ in 0..run {
                    node.send_to_group(next % GROUPS);
                    next += 1;
                }
            };
            in_runs(iterations, &mut node, refill, |node, run| {
                for _ in 0..run {
                    node.receive(&receive, &mut handles);
                    let handle = handles.pop().expect("one was received");
                    node.delete(handle);
                }
            })
        });
    });
}

fn entry(criterion: &mut Criterion) {
    let node = Node::new("q");
    let send = node.send_command();
    let mut group = criterion.benchmark_group("entry of 100-byte sends");
    for commands in [1_u64, 100] {
        let encode = |out: &mut Vec<u8>| {
            out.clear();
            let wall = types::WallTime::from_millis(1_700_000_000_000);
            let mut encoder = EntryEncoder::begin(out, Timestamp::from_millis(1_000), wall);
            for _ in 0..commands {
                encoder.push(&send);
            }
            encoder.finish();
        };
        group.throughput(Throughput::Elements(commands));
        let mut out = Vec::new();
        group.bench_function(BenchmarkId::new("encode", commands), |bencher| {
            bencher.iter(|| encode(black_box(&mut out)));
        });
        encode(&mut out);
        group.bench_function(BenchmarkId::new("decode", commands), |bencher| {
            bencher.iter(|| Entry::decode(black_box(&out)).expect("it was just encoded"));
        });
    }
    group.finish();
}

criterion_group!(benches, depth, in_flight, whole_queue, fifo, entry);
criterion_main!(benches);
