//! Whole nodes with their brokers: an answer with messages that comes when its client has gone.

use std::io::Read;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use broker::{
    Broker, BrokerOptions, BudgetLimits, InboxLimits, Limits, NoObserver, OsClock, OsProcess, ReceiveOptions,
    Received, Recovered, SeededRandom,
};
use cluster::Cluster;
use journal::{Disk, Journal, LocalOptions, RaftSnapshot, Replay, ReplayError, RestoreSnapshot};
use queue_core::EnqueueEntry;
use simulator::SimDisk;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::time::timeout_at;
use types::{MessageId, QueueKey, TenantId};

use crate::agreement::one_of_three;
use crate::memory::{From, Memory, Then};
use crate::node::soon;

const CONTENT_BYTES: usize = 32 << 10;

struct Restore<'a>(&'a mut Recovered);

impl RestoreSnapshot for Restore<'_> {
    fn snapshot(&mut self, snapshot: &RaftSnapshot, content: &mut dyn Read) -> Result<(), ReplayError> {
        self.0.snapshot(snapshot.id.index, content)
    }
}

struct Member {
    cluster: Cluster,
    broker: Broker,
    thread: JoinHandle<()>,
}

impl Member {
    fn start(number: u64, network: &Arc<Memory>, runtime: &Handle) -> Self {
        let cluster = one_of_three(number, network, runtime);
        let options = BrokerOptions {
            limits: Limits::RELAXED,
            inbox: InboxLimits::default(),
            budget: BudgetLimits {
                bytes_max: 64 << 20,
                tenant_bytes_max: 64 << 20,
            },
            in_flight_max: 1_000,
            deduplication_ids_max: 1_000,
            kick_on_push: true,
            inline: false,
            snapshot_log_bytes: 64 << 20,
            cache_bytes: 1 << 20,
            reserve_bytes: Some(0),
            clock: Arc::new(OsClock),
            random: Arc::new(SeededRandom::new(10 + number)),
            process: Arc::new(OsProcess),
            observer: Arc::new(NoObserver),
            leader: Some(Arc::new(cluster.clone())),
        };
        let opening = cluster.clone();
        let opener = move |recovered: &mut Recovered| {
            let disk = Arc::new(SimDisk::new(number));
            let lock = disk.lock().unwrap();
            let opened = opening.open(disk, lock, LocalOptions::default(), &mut Restore(recovered));
            Ok(Box::new(opened.unwrap().0) as Box<dyn Journal>)
        };
        let (broker, thread) = Broker::start(options, Box::new(opener), |opened| opened.unwrap()).unwrap();
        cluster.serve(broker.clone());
        Self {
            cluster,
            broker,
            thread,
        }
    }

    async fn receive(&self, wait_seconds: u32) -> Received {
        self.broker.receive(key(), options(wait_seconds)).await.unwrap()
    }
}

fn key() -> QueueKey {
    QueueKey {
        tenant: TenantId::DEV,
        name: "q".parse().unwrap(),
    }
}

fn options(wait_seconds: u32) -> ReceiveOptions {
    ReceiveOptions {
        max: 1,
        // Nobody waits for the end of the lease.
        visibility_timeout_seconds: Some(3_600),
        wait_seconds: Some(wait_seconds),
        attempt: None,
    }
}

/// Drops a receive of a follower as soon as the leader's answer is on its way; the message must be there again.
async fn lose_interest(front: &Member, leader: &Member, mut passed: watch::Receiver<bool>) {
    front
        .broker
        .create_queue(key(), Vec::new(), Vec::new())
        .await
        .unwrap();
    // From here on the follower is connected, and can open handles.
    assert!(front.receive(0).await.messages.is_empty());
    let entry = EnqueueEntry {
        message_id: MessageId::from_random([7; 16]),
        content: vec![b'x'; CONTENT_BYTES].into(),
        size_bytes: CONTENT_BYTES as u32,
        delay_seconds: None,
        group: None,
        deduplication: None,
    };
    front.broker.enqueue(key(), vec![entry]).await.unwrap();
    let mut receive = Box::pin(front.broker.receive(key(), options(0)));
    let polled = receive.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    passed.wait_for(|passed| *passed).await.unwrap();
    drop(receive);
    let again = leader.receive(20).await;
    let [message] = &*again.messages else {
        panic!("the message is not there again: {again:?}");
    };
    assert_eq!(message.delivery.receive_count, 1);
    again.take.unwrap().delivered();
    assert!(leader.receive(0).await.messages.is_empty(), "it is there twice");
}

#[test]
fn messages_in_an_answer_that_its_client_did_not_wait_for_are_given_back_at_once() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let network = Memory::new();
    let (sender, passed) = watch::channel(false);
    network.set_middle(move |passing| {
        if passing.from == From::Acceptor && passing.bytes.len() > CONTENT_BYTES {
            sender.send_replace(true);
        }
        Then::Pass(passing.bytes)
    });
    let members: Vec<_> = (1..=3)
        .map(|number| Member::start(number, &network, runtime.handle()))
        .collect();
    runtime.block_on(async {
        let elected = async {
            loop {
                let leader = members.iter().position(|member| member.broker.leads());
                let all_know = members.iter().all(|member| {
                    let node = member.cluster.started();
                    node.is_some_and(|node| node.view().has_quorum)
                });
                match leader {
                    Some(leader) if all_know => return leader,
                    Some(_) | None => tokio::task::yield_now().await,
                }
            }
        };
        let leader = timeout_at(soon(), elected).await.expect("one leads");
        let front = &members[(leader + 1) % 3];
        lose_interest(front, &members[leader], passed).await;
        for member in &members {
            member.broker.stop();
            member.cluster.shutdown(Duration::from_secs(1)).await;
        }
    });
    for member in members {
        member.thread.join().unwrap();
    }
}
