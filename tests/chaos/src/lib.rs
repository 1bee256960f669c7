//! Three real processes under everything that can be done to them, while clients work and write down what they are told;
//! then a judge of that history (crate `history`).
//!
//! Every link between the nodes passes through a proxy of this process ([`proxy`]), clocks and disks fail by
//! `HOLDFAST_FAULTS`, processes are killed and suspended by their ids: nothing needs to be root.

mod clients;
mod drain;
mod nodes;
mod phases;
mod proxy;
mod report;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use history::{Fault, History, Recorder, check};

pub use report::Outcome;

use clients::QUEUES;
use nodes::Nodes;
use proxy::{Directory, Network};

/// The nodes of the cluster.
pub(crate) const NODES: usize = 3;
/// How long after its start a call that nobody answered may take effect: it may wait in a suspended process, and then for
/// a leader.
const STRAGGLE: Duration = Duration::from_secs(30);
/// The server measures leases in milliseconds.
const CLOCK_ERROR: Duration = Duration::from_millis(2);

/// How a run goes.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// What is drawn by chance is drawn from this.
    pub seed: u64,
    /// Phases are gone through until so much time has passed, each at least once.
    pub time: Duration,
    /// Clients that send, and as many that receive.
    pub clients: u32,
}

/// What all threads of a run share.
pub(crate) struct Shared {
    pub(crate) recorder: Recorder,
    pub(crate) directory: Directory,
    pub(crate) network: Arc<Network>,
    pub(crate) began: Instant,
    pub(crate) is_over: AtomicBool,
}

impl Shared {
    /// Returns the time since the beginning in microseconds.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Does something to the servers, and writes down what and when.
    pub(crate) fn fault<T>(
        &self,
        name: &str,
        node: Option<usize>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let began_micros = self.now();
        let done = work().with_context(|| format!("{name} {node:?}"))?;
        self.recorder.fault(Fault {
            name: name.to_owned(),
            node: node.and_then(|node| u32::try_from(node).ok()),
            began_micros,
            ended_micros: self.now(),
        });
        Ok(done)
    }
}

/// Runs it, and judges what clients saw. An error is one of the harness, or a node that did not come back.
pub fn run(plan: Plan) -> Result<Outcome> {
    let shared = Arc::new(Shared {
        recorder: Recorder::default(),
        directory: Mutex::new([None; NODES]),
        network: Arc::default(),
        began: Instant::now(),
        is_over: AtomicBool::new(false),
    });
    let nodes = Nodes::form(&shared)?;
    clients::create_queues(&shared)?;
    let (mut nodes, broken) = thread::scope(|scope| {
        for number in 0..plan.clients {
            let shared = &*shared;
            let seed = plan.seed.wrapping_mul(1_000).wrapping_add(u64::from(number) * 2);
            scope.spawn(move || clients::produce(shared, 2 * number, seed));
            scope.spawn(move || clients::consume(shared, 2 * number + 1, seed + 1));
        }
        let broken = phases::run(nodes, &shared, plan);
        shared.is_over.store(true, Ordering::Release);
        broken
    });
    let drained = broken.and_then(|()| {
        shared.network.heal();
        nodes.wait_for_all()?;
        nodes.leader()?;
        drain::drain(&shared, 2 * plan.clients)
    });
    let (drained_from_micros, error) = match drained {
        Ok(from) => (Some(from), None),
        Err(error) => (None, Some(error)),
    };
    let (operations, faults) = shared.recorder.take();
    let history = History {
        queues: QUEUES.iter().map(|queue| queue.recorded()).collect(),
        operations,
        faults,
        drained_from_micros,
        straggle_micros: u64::try_from(STRAGGLE.as_micros()).unwrap_or(u64::MAX),
        clock_error_micros: u64::try_from(CLOCK_ERROR.as_micros()).unwrap_or(0),
    };
    let report = check(&history, &phases::REQUIRED);
    let logs = (0..NODES).map(|node| nodes.log(node)).collect();
    Ok(Outcome {
        plan,
        history,
        report,
        error,
        logs,
    })
}
