//! Nodes that reach each other by function calls, each with an owner that only remembers what it was handed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use broker::OsProcess;
use bytes::Bytes;
use cluster::{CallError, Calling, ClusterJournal, ElectionSilence, Kind, Node, NodeOptions, Peers, Role};
use journal::{
    Epoch, Event, Journal, LocalOptions, ReplayError, ReplicatedLog, RestoreSnapshot, Source, Ticket,
};
use simulator::SimDisk;
use tokio::runtime::Runtime;

/// The nodes that can be reached, and the pairs that cannot reach each other.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    pub(crate) nodes: Mutex<BTreeMap<u64, Node>>,
    cut: Mutex<BTreeSet<(u64, u64)>>,
}

#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) from: u64,
    pub(crate) switch: Arc<Switch>,
}

impl Peers for Port {
    fn call<'a>(&'a self, node: u64, _: &'a str, kind: Kind, body: Bytes, within: Duration) -> Calling<'a> {
        Box::pin(async move {
            let away = || CallError::NotSent {
                node,
                reason: "cut".to_owned(),
            };
            if self.switch.cut.lock().unwrap().contains(&(self.from, node)) {
                return Err(away());
            }
            let target = self
                .switch
                .nodes
                .lock()
                .unwrap()
                .get(&node)
                .cloned()
                .ok_or_else(away)?;
            let lost = |reason: String| CallError::Unknown { node, reason };
            match tokio::time::timeout(within, target.answer(kind, body)).await {
                Ok(answer) => answer.map_err(|error| lost(error.to_string())),
                Err(_) => Err(lost("no answer in time".to_owned())),
            }
        })
    }
}

/// Nothing is ever restored: no snapshot is made here.
struct Nothing;

impl RestoreSnapshot for Nothing {
    fn snapshot(&mut self, _: &journal::RaftSnapshot, _: &mut dyn std::io::Read) -> Result<(), ReplayError> {
        Err("there is no snapshot".into())
    }
}

/// What an owner was handed.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) entries: Vec<(u64, Vec<u8>)>,
    pub(crate) outcomes: BTreeMap<u64, &'static str>,
    pub(crate) epoch: Option<Epoch>,
}

/// One node with its owner.
pub(crate) struct Member {
    pub(crate) node: Node,
    pub(crate) journal: ClusterJournal,
    pub(crate) seen: Seen,
    own: BTreeMap<u64, Vec<u8>>,
    woken: Arc<(Mutex<bool>, Condvar)>,
}

impl Member {
    /// Takes what is known.
    pub(crate) fn poll(&mut self) {
        let mut events = Vec::new();
        self.journal.poll(&mut events).unwrap();
        for event in events {
            match event {
                Event::Committed { index, source, .. } => {
                    let bytes = match source {
                        Source::Own(Ticket(ticket)) => {
                            self.seen.outcomes.insert(ticket, "committed");
                            self.own.remove(&ticket).unwrap()
                        }
                        Source::Foreign(bytes) => bytes,
                    };
                    assert!(self.seen.entries.last().is_none_or(|(last, _)| *last < index.0));
                    self.seen.entries.push((index.0, bytes));
                }
                Event::Rejected { ticket } => drop(self.seen.outcomes.insert(ticket.0, "rejected")),
                Event::Unknown { ticket } => drop(self.seen.outcomes.insert(ticket.0, "unknown")),
                Event::EpochChanged { epoch } => self.seen.epoch = epoch,
                Event::Copied { .. } => panic!("nothing is copied here"),
                Event::Replaced => panic!("no state is sent here"),
            }
        }
    }

    pub(crate) fn propose(&mut self, bytes: &[u8]) -> Option<u64> {
        let epoch = self.seen.epoch?;
        let ticket = self.journal.propose(bytes, epoch).ok()?;
        self.own.insert(ticket.0, bytes.to_vec());
        Some(ticket.0)
    }

    /// Polls until the condition holds.
    pub(crate) fn wait(&mut self, what: &str, mut until: impl FnMut(&Self) -> bool) {
        let began = std::time::Instant::now();
        loop {
            self.poll();
            if until(self) {
                return;
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "waited in vain: {what}"
            );
            let (woken, called) = &*self.woken;
            let guard = woken.lock().unwrap();
            let limit = Duration::from_millis(100);
            *called
                .wait_timeout_while(guard, limit, |woken| !*woken)
                .unwrap()
                .0 = false;
        }
    }
}

/// Some nodes.
pub(crate) struct Group {
    pub(crate) runtime: Runtime,
    pub(crate) switch: Arc<Switch>,
    pub(crate) members: BTreeMap<u64, Member>,
    disks: BTreeMap<u64, SimDisk>,
}

impl Group {
    /// Forms a cluster of nodes with these ids.
    pub(crate) fn form(ids: &[u64]) -> Self {
        let mut group = Self {
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap(),
            switch: Arc::default(),
            members: BTreeMap::new(),
            disks: BTreeMap::new(),
        };
        for id in ids {
            group.disks.insert(*id, SimDisk::new(*id));
            group.start(*id);
        }
        let members = ids.iter().map(|id| (*id, format!("node-{id}"))).collect();
        let first = group.members[&ids[0]].node.clone();
        group.runtime.block_on(first.form(members)).unwrap();
        group
    }

    /// Starts a node on what it has stored.
    pub(crate) fn start(&mut self, id: u64) {
        // What the process before has written is there, and its lock is not.
        let disk = self.disks[&id].kill();
        self.disks.insert(id, disk.clone());
        let disk = Arc::new(disk);
        let (log, recovery) = ReplicatedLog::open(disk, LocalOptions::default(), &mut Nothing).unwrap();
        let options = NodeOptions {
            fresh_id: id,
            election_silence: ElectionSilence::default(),
            replicate_timeout: Duration::from_secs(5),
            entries_kept: cluster::ENTRIES_KEPT,
        };
        let port = Arc::new(Port {
            from: id,
            switch: Arc::clone(&self.switch),
        });
        let (node, mut journal) = Node::start(
            &options,
            log,
            recovery.copies,
            port,
            Arc::new(OsProcess),
            self.runtime.handle(),
        )
        .unwrap();
        let woken: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let waker = Arc::clone(&woken);
        journal.set_waker(Arc::new(move || {
            *waker.0.lock().unwrap() = true;
            waker.1.notify_one();
        }));
        self.switch.nodes.lock().unwrap().insert(id, node.clone());
        let member = Member {
            node,
            journal,
            seen: Seen::default(),
            own: BTreeMap::new(),
            woken,
        };
        self.members.insert(id, member);
    }

    /// Ends a node at once.
    pub(crate) fn stop(&mut self, id: u64) -> Seen {
        self.switch.nodes.lock().unwrap().remove(&id);
        let member = self.members.remove(&id).unwrap();
        self.runtime.block_on(member.node.shutdown()).unwrap();
        member.seen
    }

    /// Cuts a node off from all others, or connects it again.
    pub(crate) fn isolate(&self, id: u64, is_cut: bool) {
        let mut cut = self.switch.cut.lock().unwrap();
        for other in self.members.keys().filter(|other| **other != id) {
            for pair in [(id, *other), (*other, id)] {
                if is_cut {
                    cut.insert(pair);
                } else {
                    cut.remove(&pair);
                }
            }
        }
    }

    /// Waits for a node that leads, but for these.
    pub(crate) fn leader(&mut self, but: &[u64]) -> u64 {
        let began = std::time::Instant::now();
        loop {
            for (id, member) in &mut self.members {
                member.poll();
                if !but.contains(id) && member.seen.epoch.is_some() {
                    assert_eq!(member.node.view().role, Role::Leader);
                    return *id;
                }
            }
            assert!(began.elapsed() < Duration::from_secs(60), "nobody leads");
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    pub(crate) fn member(&mut self, id: u64) -> &mut Member {
        self.members.get_mut(&id).unwrap()
    }
}
