//! Whole nodes that compare what they came to.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Checkpoint, Leader, OsClock, SeededRandom};
use cluster::link::Security;
use cluster::{Cluster, ClusterJournal, ElectionSilence, Settings, World};
use journal::{Disk, LocalOptions, RaftSnapshot, ReplayError, RestoreSnapshot};
use simulator::SimDisk;
use tokio::runtime::{Builder, Handle, Runtime};
use types::LogIndex;

use crate::memory::Memory;

struct Nothing;

impl RestoreSnapshot for Nothing {
    fn snapshot(&mut self, _: &RaftSnapshot, _: &mut dyn Read) -> Result<(), ReplayError> {
        Err("there is no snapshot".into())
    }
}

pub(crate) fn address(number: u64) -> String {
    format!("node-{number}:7901")
}

/// Prepares a node, 1 to 3, of a cluster of three.
pub(crate) fn one_of_three(number: u64, network: &Arc<Memory>, runtime: &Handle) -> Cluster {
    let settings = Settings {
        listen: address(number),
        advertise: address(number),
        seeds: (1..=3).map(address).collect(),
        security: Security::Insecure,
        election_silence: ElectionSilence::default(),
        replicate_timeout: Duration::from_secs(5),
        entries_kept: cluster::ENTRIES_KEPT,
        name: String::new(),
        may_move_clock: false,
        prefers_to_lead: false,
    };
    let world = World {
        network: network.clone(),
        random: Arc::new(SeededRandom::new(number)),
        clock: Arc::new(OsClock),
        process: Arc::new(broker::OsProcess),
        runtime: runtime.clone(),
    };
    Cluster::new(settings, world)
}

/// Three nodes that have formed a cluster. Their owners apply nothing.
struct Three {
    runtime: Runtime,
    nodes: Vec<(Cluster, ClusterJournal)>,
}

impl Three {
    fn form() -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let network = Memory::new();
        let open = |number| {
            let cluster = one_of_three(number, &network, runtime.handle());
            let disk = Arc::new(SimDisk::new(number));
            let lock = disk.lock().unwrap();
            let (journal, _) = cluster
                .open(disk, lock, LocalOptions::default(), &mut Nothing)
                .unwrap();
            (cluster, journal)
        };
        let nodes = (1..=3).map(open).collect();
        let three = Self { runtime, nodes };
        three.wait("all hear a leader, and of each other", |three| {
            let has_leader = |(cluster, _): &(Cluster, _)| cluster.started().unwrap().view().has_quorum;
            three.nodes.iter().all(has_leader) && three.nodes.iter().all(|(cluster, _)| cluster.level() > 0)
        });
        three
    }

    fn wait(&self, what: &str, until: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !until(self) {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "waited in vain: {what}"
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    fn compare(&self, node: usize, index: u64, hash: u64) {
        self.nodes[node].0.compare(Checkpoint {
            index: LogIndex(index),
            since: Some(LogIndex(1)),
            hash,
        });
    }

    fn halted(&self) -> Vec<bool> {
        let halted = |(cluster, _): &(Cluster, _)| cluster.halted().is_some();
        self.nodes.iter().map(halted).collect()
    }

    fn has_quorum(&self, node: usize) -> bool {
        self.nodes[node].0.started().unwrap().view().has_quorum
    }

    fn end(self) {
        for (cluster, _) in &self.nodes {
            self.runtime.block_on(cluster.shutdown(Duration::from_secs(1)));
        }
    }
}

#[test]
fn the_one_that_differs_halts_and_the_others_go_on() {
    let three = Three::form();
    for node in 0..3 {
        three.compare(node, 1_000, 7);
    }
    // The leader differs, so that the others have to elect one of them.
    let leads = |node: &usize| {
        let view = three.nodes[*node].0.started().unwrap().view();
        view.leader == Some(view.id)
    };
    let differing = (0..3).find(leads).unwrap();
    for node in 0..3 {
        three.compare(node, 2_000, if node == differing { 9 } else { 8 });
    }
    three.wait("one halts", |three| three.halted().contains(&true));
    assert!(three.halted()[differing]);
    three.wait("the others have a leader", |three| {
        (0..3).all(|node| three.has_quorum(node) == (node != differing))
    });
    assert_eq!(three.halted().iter().filter(|halted| **halted).count(), 1);
    let reason = three.nodes[differing].0.halted().unwrap();
    assert!(reason.contains("2000") && reason.contains("majority"), "{reason}");
    three.end();
}

#[test]
fn without_a_majority_nobody_goes_on() {
    let three = Three::form();
    for node in 0..3 {
        three.compare(node, 1_000, node as u64);
    }
    three.wait("all halt", |three| three.halted().iter().all(|halted| *halted));
    three.wait("nobody serves", |three| {
        (0..3).all(|node| !three.has_quorum(node))
    });
    three.end();
}
