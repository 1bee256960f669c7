//! One run: machines, clients and faults under one seed, from the formation of the cluster to its last message.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use history::{History, Recorder, Report, Verdict, check};
use simulator::Random;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep_until, timeout};

use crate::bug::Bug;
use crate::chaos::{Chaos, are_all_voters, leader};
use crate::clients::{Client, Directory, LEASE_SECONDS_MAX, QUEUES};
use crate::durability;
use crate::ledger::Ledger;
use crate::network::{SimNetwork, address};
use crate::node::{Machine, Site, runtime, step};
use crate::plan::{Fault, Plan};
use crate::trace::Trace;

/// How far time goes at once, in microseconds.
const TICK: u64 = 1_000;
/// How often the inside is looked at.
const LOOK_EVERY: u64 = 20_000;
const STATES_EVERY: u64 = 100_000;
const MEND_EVERY: u64 = 1_000_000;
const DURABLE_EVERY: u64 = 4_000_000;
const LEASE_MICROS_MAX: u64 = LEASE_SECONDS_MAX as u64 * 1_000_000;
const IMAGE_EVERY: u64 = 1_500_000;
/// Longest that a phase may take that has to come to its end.
const FORMING_MAX: u64 = 60_000_000;
const HEALING_MAX: u64 = 90_000_000;
const DRAINING_MAX: u64 = 150_000_000;
/// How long clients work on when everything is healed.
const CALM_FOR: u64 = 4_000_000;
/// How long a call that nobody answered may still take effect: to the end.
const STRAGGLE: u64 = 1_000_000_000;
/// The resolution of the server's clock.
const CLOCK_ERROR: u64 = 5_000;
/// While times of day are wrong a new leader may be ahead of the one before by as much as that was behind: nodes tell what
/// they missed from what is new by the time of day.
const CLOCK_ERROR_WRONG: u64 = 4_000_000;
/// What a run must have met to prove anything.
const REQUIRED: [(&str, u64); 5] = [
    (history::coverage::SENT, 20),
    (history::coverage::RECEIVED, 20),
    (history::coverage::DELETED, 5),
    (history::coverage::REDELIVERED, 1),
    (history::coverage::ORDERED, 3),
];

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) findings: Vec<String>,
    pub(crate) report: Report,
    /// The operations that prove a violation, each with what it was.
    pub(crate) proof: Vec<String>,
    pub(crate) hash: u64,
    pub(crate) lines: u64,
    pub(crate) counts: Vec<(&'static str, u64)>,
    pub(crate) seconds: u64,
}

impl Outcome {
    /// Returns pass, fail or unknown.
    pub(crate) fn verdict(&self) -> &'static str {
        match &self.report.verdict {
            Verdict::Fail(_) => "fail",
            _ if !self.findings.is_empty() => "fail",
            Verdict::Pass => "pass",
            Verdict::Unknown(_) => "unknown",
        }
    }
}

struct Run {
    site: Site,
    machines: Vec<Machine>,
    chaos: Chaos,
    random: Random,
    clients: Runtime,
    directory: Directory,
    recorder: Arc<Recorder>,
    is_healed: bool,
}

/// Plays a seed.
pub(crate) fn run(seed: u64, bug: Option<Bug>, prints: bool) -> Outcome {
    let trace = Arc::new(Trace::default());
    if prints {
        trace.print();
    }
    let mut random = Random::new(seed);
    let plan = Plan::draw(seed, &mut random);
    trace.note(format_args!("seed {seed} {plan:?}"));
    let network = SimNetwork::new(random.next_u64(), plan.weather, Arc::clone(&trace));
    let site = Site {
        seed,
        network,
        ledger: Ledger::new(Arc::clone(&trace)),
        trace,
        bug,
        plan,
    };
    let recorder = Arc::<Recorder>::default();
    let mut run = Run {
        machines: (0..site.plan.nodes)
            .map(|number| Machine::new(number, &site))
            .collect(),
        chaos: Chaos::new(random.next_u64(), Arc::clone(&recorder)),
        clients: runtime(random.next_u64()),
        directory: Arc::new(Mutex::new(vec![None; site.plan.nodes])),
        recorder,
        is_healed: false,
        random,
        site,
    };
    let drained_from = run.play();
    run.judge(drained_from)
}

impl Run {
    fn play(&mut self) -> Option<u64> {
        for machine in &mut self.machines {
            if let Err(error) = machine.start(&self.site) {
                self.site.trace.find(format!("start: {error}"));
            }
        }
        let mut first = self.client(0);
        let made = self.clients.spawn(async move { first.create_queues().await });
        if !self.until(FORMING_MAX, false, |run| {
            made.is_finished() && are_all_voters(&run.machines)
        }) {
            self.site
                .trace
                .find("liveness: the cluster is not formed".to_owned());
            return None;
        }
        let lasts = u64::try_from(self.site.plan.faults_for.as_micros()).unwrap_or(0);
        let until = self.site.trace.now() + lasts + CALM_FOR;
        let (producers, consumers, think) = (
            self.site.plan.producers,
            self.site.plan.consumers,
            self.site.plan.think,
        );
        for process in 1..=producers {
            let client = self.client(process);
            self.clients.spawn(client.produce(until, think));
        }
        for process in 1..=consumers {
            let client = self.client(producers + process);
            self.clients.spawn(client.consume(until, think));
        }
        self.until(lasts, true, |_| false);
        self.heal()?;
        self.until(until.saturating_sub(self.site.trace.now()), false, |_| false);
        self.drain()
    }

    fn client(&mut self, process: u32) -> Client {
        Client::new(
            process,
            self.random.next_u64(),
            Arc::clone(&self.directory),
            Arc::clone(&self.recorder),
            Arc::clone(&self.site.trace),
        )
    }

    /// Heals everything, and waits until all nodes are one again.
    fn heal(&mut self) -> Option<()> {
        self.site.trace.note(format_args!("healing"));
        self.chaos.heal(&self.site, &mut self.machines);
        self.is_healed = true;
        let is_whole = |run: &mut Self| are_all_voters(&run.machines) && run.are_equal();
        if self.until(HEALING_MAX, false, is_whole) {
            return Some(());
        }
        let text = self.machines.iter().map(|machine| {
            let running = machine.running.as_ref();
            let _in_time = running.map(|running| running.runtime.enter());
            let view = running
                .and_then(|running| running.cluster.started())
                .map(cluster::Node::view);
            format!(
                "{:?} {:?}",
                view,
                running.map(|running| running.broker.state_hash())
            )
        });
        let text: Vec<String> = text.collect();
        self.site.trace.note(format_args!("{text:#?}"));
        let finding = "liveness: the nodes are not one again";
        self.site.trace.find(finding.to_owned());
        None
    }

    /// Gives a vote to a node that a fault has left without.
    fn mend_members(&mut self) {
        let Some(leader) = leader(&self.machines) else {
            return;
        };
        let id = |machine: &Machine| Some(machine.running.as_ref()?.cluster.started()?.id());
        let ids: Vec<(usize, u64)> = self
            .machines
            .iter()
            .filter_map(|machine| Some((machine.number, id(machine)?)))
            .collect();
        let Some(running) = &self.machines[leader].running else {
            return;
        };
        let Some(node) = running.cluster.started().cloned() else {
            return;
        };
        running.runtime.spawn(async move {
            let view = node.view();
            let is_known = |id: &u64| view.members.contains_key(id);
            // One that was wiped joins by itself.
            let voters: BTreeSet<u64> = ids.iter().map(|(_, id)| *id).collect();
            let has_vote = |id: &u64| view.members.get(id).is_some_and(|(_, has_vote)| *has_vote);
            if voters.iter().all(has_vote) {
                return;
            }
            for (number, id) in ids.iter().filter(|(_, id)| !is_known(id)) {
                // It is tried again if it does not work.
                drop(timeout(Duration::from_secs(5), node.add_learner(*id, address(*number))).await);
            }
            drop(timeout(Duration::from_secs(5), node.set_voters(voters)).await);
        });
    }

    /// Whether all nodes have the same state of the same entry.
    fn are_equal(&self) -> bool {
        let states: BTreeSet<Option<(u64, u64)>> = self
            .machines
            .iter()
            .map(|machine| {
                let (index, hash) = machine.running.as_ref()?.broker.state_hash()?;
                Some((index.0, hash))
            })
            .collect();
        states.len() == 1 && !states.contains(&None)
    }

    /// Takes every message out, through each node in turn, until none has come for longer than any lease.
    fn drain(&mut self) -> Option<u64> {
        let from = self.site.trace.now();
        self.site.trace.note(format_args!("draining"));
        let mut client = self.client(1_000);
        client.stay();
        let (trace, nodes) = (Arc::clone(&self.site.trace), self.machines.len());
        let drained = self.clients.spawn(async move {
            let longest = u64::from(LEASE_SECONDS_MAX + 3) * 1_000_000;
            let mut last = trace.now();
            for node in (0..nodes).cycle() {
                for queue in 0..QUEUES.len() {
                    loop {
                        let received = client.receive(node, queue, LEASE_SECONDS_MAX, 0, 10).await;
                        let Some(handles) = received else {
                            last = trace.now();
                            break;
                        };
                        if handles.is_empty() {
                            break;
                        }
                        last = trace.now();
                        for (handle, sealed) in handles {
                            client.delete(queue, handle, sealed).await;
                        }
                    }
                }
                if trace.now() > last + longest && node + 1 == nodes {
                    return;
                }
                sleep_until(Instant::now() + Duration::from_millis(200)).await;
            }
        });
        let is_done = self.until(DRAINING_MAX, false, |run| {
            drained.is_finished() && run.are_equal()
        });
        if !is_done {
            self.site
                .trace
                .find("liveness: the queues are not empty".to_owned());
        }
        is_done.then_some(from)
    }

    /// Lets time pass until something is so, at most so long. Returns whether it is.
    fn until(&mut self, longest: u64, is_broken: bool, mut is_so: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.site.trace.now() + longest;
        while self.site.trace.now() < end {
            self.tick(is_broken);
            if self.site.trace.now().is_multiple_of(LOOK_EVERY) && is_so(self) {
                return true;
            }
        }
        false
    }

    fn tick(&mut self, is_broken: bool) {
        self.site.trace.pass(TICK);
        let now = self.site.trace.now();
        self.chaos.step(&self.site, &mut self.machines, is_broken);
        self.publish();
        self.site.network.deliver();
        for machine in &mut self.machines {
            machine.step(now, TICK);
        }
        self.chaos.bury(&self.site, &mut self.machines);
        self.publish();
        step(&self.clients, Duration::from_micros(TICK));
        if now.is_multiple_of(LOOK_EVERY) {
            self.look();
        }
        if self.is_healed && now.is_multiple_of(MEND_EVERY) {
            self.mend_members();
        }
        if self.site.bug == Some(Bug::ForgetsLog) && now.is_multiple_of(IMAGE_EVERY) {
            for machine in self
                .machines
                .iter_mut()
                .filter(|machine| machine.running.is_some())
            {
                machine.old_image = Some(machine.disk.fork());
            }
        }
    }

    /// Lets clients find the nodes that run.
    fn publish(&self) {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, machine) in directory.iter_mut().zip(&self.machines) {
            let there = machine.running.as_ref();
            *place = there.map(|running| (running.broker.clone(), running.runtime.handle().clone()));
        }
    }

    /// Looks at the inside of every node.
    fn look(&mut self) {
        let now = self.site.trace.now();
        for machine in &self.machines {
            let Some(running) = machine.running.as_ref().filter(|_| now >= machine.paused_until) else {
                continue;
            };
            let Some(node) = running.cluster.started() else {
                continue;
            };
            let _in_time = running.runtime.enter();
            let view = node.view();
            self.site.ledger.sees(machine.number, view.term, view.applied);
            if now.is_multiple_of(STATES_EVERY)
                && let Some((index, hash)) = running.broker.state_hash()
            {
                self.site.ledger.state_is(machine.number, index.0, hash);
            }
            if let Some(reason) = running.cluster.halted() {
                self.site
                    .trace
                    .find(format!("agreement: node {} has halted: {reason}", machine.number));
            }
            if running.broker.status() != broker::Status::Serving && !running.process.has_died() {
                self.site
                    .trace
                    .find(format!("process: the owner of node {} has ended", machine.number));
            }
        }
        if self.chaos.lost.is_some() && are_all_voters(&self.machines) {
            self.chaos.lost = None;
        }
        if now.is_multiple_of(DURABLE_EVERY) && self.chaos.lost.is_none() && are_all_voters(&self.machines) {
            durability::check(&self.site, &self.machines);
        }
    }

    fn judge(self, drained_from: Option<u64>) -> Outcome {
        let trace = Arc::clone(&self.site.trace);
        let (operations, faults) = self.recorder.take();
        let history = History {
            queues: QUEUES.iter().map(|queue| queue.recorded()).collect(),
            operations,
            faults,
            drained_from_micros: drained_from,
            straggle_micros: STRAGGLE,
            clock_error_micros: match self.site.plan.faults.contains(&Fault::Clock) {
                true => CLOCK_ERROR_WRONG,
                // A lease is as long as it is by the clock of the leader.
                false => CLOCK_ERROR + LEASE_MICROS_MAX * self.site.plan.drift_permille / 1_000,
            },
        };
        let report = check(&history, &REQUIRED);
        let proof = proof(&history, &report);
        let (hash, lines) = trace.hash();
        let mut counts: Vec<_> = trace.counts().into_iter().collect();
        counts.push(("reigns", self.site.ledger.leaders() as u64));
        Outcome {
            findings: trace.findings(),
            report,
            proof,
            hash,
            lines,
            counts,
            seconds: trace.now() / 1_000_000,
        }
    }
}

/// Returns the operations of the first violations.
fn proof(history: &History, report: &Report) -> Vec<String> {
    let Verdict::Fail(violations) = &report.verdict else {
        return Vec::new();
    };
    let named: BTreeSet<usize> = violations
        .iter()
        .take(3)
        .flat_map(|violation| violation.operations.iter().copied())
        .collect();
    let text = |place| format!("{place}: {:?}", history.operations[place]);
    named.into_iter().map(text).collect()
}
