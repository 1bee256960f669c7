//! A cluster of one node keeps the contract that every journal keeps.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use broker::OsProcess;
use cluster::{ElectionSilence, Node, NodeOptions};
use journal::conformance::{self, Driver};
use journal::{
    Journal, JournalError, LocalOptions, RaftSnapshot, Replay, ReplayError, ReplicatedLog, RestoreSnapshot,
};
use simulator::SimDisk;
use tokio::runtime::Runtime;

use crate::group::{Port, Switch};

struct One {
    disk: SimDisk,
    node: Option<Node>,
    runtime: Arc<Runtime>,
}

struct Restore<'a>(&'a mut dyn Replay);

impl RestoreSnapshot for Restore<'_> {
    fn snapshot(&mut self, snapshot: &RaftSnapshot, content: &mut dyn Read) -> Result<(), ReplayError> {
        self.0.snapshot(snapshot.id.index, content)
    }
}

impl Driver for One {
    fn open(&mut self, replay: &mut dyn Replay) -> Result<Box<dyn Journal>, JournalError> {
        if let Some(node) = self.node.take() {
            self.runtime.block_on(node.shutdown()).expect("the node ends");
        }
        self.disk = self.disk.kill();
        let local = LocalOptions {
            segment_bytes: 64 * 1024,
            first_segment_bytes: 16 * 1024,
            ..LocalOptions::default()
        };
        let (log, recovery) = ReplicatedLog::open(Arc::new(self.disk.clone()), local, &mut Restore(replay))?;
        let options = NodeOptions {
            fresh_id: 7,
            election_silence: ElectionSilence {
                low: Duration::from_millis(90),
                high: Duration::from_millis(120),
            },
            replicate_timeout: Duration::from_secs(60),
            entries_kept: cluster::ENTRIES_KEPT,
        };
        let port = Arc::new(Port {
            from: 7,
            switch: Arc::new(Switch::default()),
        });
        let handle = self.runtime.handle();
        let (node, journal) = Node::start(&options, log, recovery.copies, port, Arc::new(OsProcess), handle)
            .expect("the node starts");
        self.runtime.block_on(async {
            if !node.is_member().await.expect("it answers") {
                let members = [(7, "here:7901".to_owned())].into();
                node.form(members).await.expect("it forms a cluster");
            }
        });
        self.node = Some(node);
        Ok(Box::new(journal))
    }
}

#[test]
fn a_cluster_of_one_is_a_journal() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = Arc::new(runtime.expect("a runtime"));
    conformance::all(|| One {
        disk: SimDisk::new(1),
        node: None,
        runtime: Arc::clone(&runtime),
    });
}
