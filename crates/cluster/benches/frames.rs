//! How many bytes a second a link moves over loopback TCP, both ends in one process, by security.
//!
//! `cargo bench -p cluster`. Sealing and opening are both in it, as are the copies and the kernel.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use broker::{OsClock, OsRandom};
use bytes::Bytes;
use cluster::link::{
    ClusterId, Handler, HandlerError, Identity, Links, NoObserver, NodeId, Options, Outside, Peer, Request,
    Secret, Security, Target, Tcp,
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tokio::time::Instant;

const KIND: u16 = 300;

struct Length;

impl Handler for Length {
    async fn call(&self, _peer: Peer, _kind: u16, body: Bytes) -> Result<Bytes, HandlerError> {
        Ok(Bytes::copy_from_slice(&body.len().to_le_bytes()))
    }
}

async fn start(id: u64, security: Security) -> Links {
    let identity = Identity {
        node: NodeId::new(id).expect("not 0"),
        cluster: ClusterId::new([1; 16]),
        advertise: format!("node-{id}:7901"),
        level: 1,
    };
    let outside = Outside {
        network: Arc::new(Tcp),
        random: Arc::new(OsRandom),
        clock: Arc::new(OsClock),
        observer: Arc::new(NoObserver),
    };
    let mut options = Options::new("127.0.0.1:0", security);
    // A machine that stops the whole process for a while says nothing about links.
    options.timing.dead_after = Duration::from_secs(60);
    Links::start(identity, options, outside, Length)
        .await
        .expect("loopback is there")
}

fn bodies(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let current = Secret::new([7; 32]).expect("not empty");
    let secret = Security::Secret {
        current,
        previous: None,
    };
    let mut group = criterion.benchmark_group("request");
    group.measurement_time(Duration::from_secs(3));
    for (name, security) in [("secret", secret), ("insecure", Security::Insecure)] {
        let (one, two) =
            runtime.block_on(async { (start(1, security.clone()).await, start(2, security).await) });
        let target = Target::anyone(two.listen_address());
        for bytes in [100, 64 << 10, 4 << 20] {
            let body = Bytes::from(vec![3; bytes]);
            group.throughput(Throughput::Bytes(bytes as u64));
            group.bench_with_input(BenchmarkId::new(name, bytes), &body, |bencher, body| {
                bencher.iter(|| {
                    let deadline = Instant::now() + Duration::from_secs(10);
                    let request = Request::new(KIND, body.clone());
                    black_box(
                        runtime
                            .block_on(one.call(&target, request, deadline))
                            .expect("it is answered"),
                    )
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bodies);
criterion_main!(benches);
