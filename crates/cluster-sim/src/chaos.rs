//! What goes wrong in a run, when, and for how long.

use std::collections::BTreeSet;

use cluster::{Role, View};
use history::{Fault as Recorded, Recorder};
use simulator::{Fault as DiskFault, Random};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

use crate::network::{Weather, address};
use crate::node::{Machine, Site};
use crate::plan::{CALM, Fault};

/// Longest that a disk works on that is about to lose power, in microseconds.
const POWER_WITHIN: u64 = 1_500_000;
/// The longest step of a time of day, in milliseconds.
const CLOCK_MILLIS: u64 = 2 * 3_600 * 1_000;
/// A segment that has fewer bytes is hardly begun.
const FLIP_FROM: usize = 8_192;
const MEMBER_TIMEOUT: Duration = Duration::from_secs(4);

/// What ends by itself.
#[derive(Debug)]
enum End {
    Cuts(Vec<(usize, usize)>),
    Weather,
    Start(usize),
    /// There is room on the disk again.
    Room(usize),
    /// The power goes, if it has not yet.
    Cut(Vec<usize>),
}

/// Breaks things.
#[derive(Debug)]
pub(crate) struct Chaos {
    random: Random,
    next: u64,
    ends: Vec<(u64, End)>,
    /// Those that lose power with the first of them.
    doomed: BTreeSet<usize>,
    /// Whether a change of members is under way.
    is_changing: Arc<AtomicBool>,
    /// A node that was wiped and has not found its place yet.
    pub(crate) lost: Option<usize>,
    recorder: Arc<Recorder>,
}

impl Chaos {
    pub(crate) fn new(seed: u64, recorder: Arc<Recorder>) -> Self {
        Self {
            random: Random::new(seed),
            next: 0,
            ends: Vec::new(),
            doomed: BTreeSet::new(),
            is_changing: Arc::default(),
            lost: None,
            recorder,
        }
    }

    /// Does what is due; `goes_on` says whether anything new may begin.
    pub(crate) fn step(&mut self, site: &Site, machines: &mut [Machine], goes_on: bool) {
        let now = site.trace.now();
        let mut due: Vec<End> = Vec::new();
        let mut ends = Vec::new();
        for (at, end) in self.ends.drain(..) {
            if at <= now {
                due.push(end);
            } else {
                ends.push((at, end));
            }
        }
        self.ends = ends;
        for end in due {
            self.end(site, machines, end);
        }
        self.bury(site, machines);
        if goes_on && now >= self.next {
            let pause = u64::try_from(site.plan.fault_pause.as_micros()).unwrap_or(0);
            self.next = now + self.random.below(pause + 1);
            if self.random.percent(10) {
                // A while in which nothing new happens.
                self.next += 2_000_000;
            }
            let faults = &site.plan.faults;
            let fault = faults[self.below(faults.len())];
            self.begin(site, machines, fault);
        }
    }

    /// Ends everything that goes wrong, and starts what is down.
    pub(crate) fn heal(&mut self, site: &Site, machines: &mut [Machine]) {
        for (_, end) in std::mem::take(&mut self.ends) {
            self.end(site, machines, end);
        }
        site.network.heal();
        site.network.set_weather(CALM);
        for machine in machines.iter_mut() {
            machine.disk.disarm();
            machine.disk.set_capacity(None);
            machine.paused_until = 0;
            machine.clock.set_offset(0);
            if machine.running.is_none() {
                self.start(site, machine);
            }
        }
        self.doomed.clear();
    }

    /// Buries processes that have aborted: only those may whose disk has stopped.
    pub(crate) fn bury(&mut self, site: &Site, machines: &mut [Machine]) {
        let has_died = |machine: &Machine| {
            let running = machine.running.as_ref();
            running.is_some_and(|running| running.process.has_died())
        };
        let died: Vec<usize> = machines
            .iter()
            .filter(|m| has_died(m))
            .map(|m| m.number)
            .collect();
        for node in died {
            if !has_died(&machines[node]) {
                // It went with another.
                continue;
            }
            if self.doomed.contains(&node) {
                let doomed = std::mem::take(&mut self.doomed);
                self.cut_power(site, machines, doomed);
            } else {
                site.trace.find(format!("process: node {node} has aborted"));
                self.cut_power(site, machines, BTreeSet::from([node]));
            }
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).unwrap_or(0)
    }

    fn draw_micros(&mut self, from: u64, to: u64) -> u64 {
        from + self.random.below(to - from)
    }

    fn cut_power(&mut self, site: &Site, machines: &mut [Machine], nodes: BTreeSet<usize>) {
        for node in nodes {
            if machines[node].running.is_some() {
                site.trace.note(format_args!("power of node {node} is lost"));
                let seed = self.random.next_u64();
                machines[node].lose_power(site, seed);
                let rest = self.draw_micros(50_000, 4_000_000);
                self.ends.push((site.trace.now() + rest, End::Start(node)));
            }
        }
    }

    fn end(&mut self, site: &Site, machines: &mut [Machine], end: End) {
        match end {
            End::Cuts(cuts) => {
                site.trace.note(format_args!("healed {cuts:?}"));
                for (from, to) in cuts {
                    site.network.set_cut(from, to, false);
                }
            }
            End::Room(node) => machines[node].disk.set_capacity(None),
            End::Weather => site.network.set_weather(site.plan.weather),
            End::Start(node) => {
                if machines[node].running.is_none() {
                    self.start(site, &mut machines[node]);
                }
            }
            End::Cut(nodes) => {
                let doomed: BTreeSet<usize> = nodes
                    .into_iter()
                    .filter(|node| self.doomed.remove(node))
                    .collect();
                for node in &doomed {
                    machines[*node].disk.disarm();
                }
                self.cut_power(site, machines, doomed);
            }
        }
    }

    fn start(&mut self, site: &Site, machine: &mut Machine) {
        // What passed while a node was down is told by its time of day, so that has to be right when it starts.
        machine.clock.set_offset(0);
        // A node does not start on a full disk.
        machine.disk.set_capacity(None);
        let node = machine.number;
        if site.bug == Some(crate::bug::Bug::ForgetsLog)
            && let Some(image) = machine.old_image.take()
        {
            machine.disk = image;
        }
        match machine.start(site) {
            Ok(()) => site.trace.note(format_args!("node {node} has started")),
            Err(error) if self.lost == Some(node) => {
                site.trace
                    .note(format_args!("node {node} refuses to start: {error}"));
                site.trace.count("damage refused");
                machine.disk = simulator::SimDisk::new(self.random.next_u64());
                if let Err(error) = machine.start(site) {
                    site.trace
                        .find(format!("start: node {node} on an empty disk: {error}"));
                }
            }
            Err(error) => {
                site.trace
                    .find(format!("start: node {node} on an undamaged disk: {error}"));
                machine.disk = simulator::SimDisk::new(self.random.next_u64());
                // It was found; the run only has to come to its end.
                drop(machine.start(site));
            }
        }
    }

    fn begin(&mut self, site: &Site, machines: &mut [Machine], fault: Fault) {
        let now = site.trace.now();
        let lasts = self.draw_micros(100_000, 6_000_000);
        let node = self.below(machines.len());
        let done = match fault {
            Fault::Split | Fault::LeaderAlone | Fault::OneWay => {
                let cuts = self.draw_cuts(machines, node, fault);
                self.cut(site, cuts, lasts)
            }
            Fault::Reset => {
                for other in 0..machines.len() {
                    site.network.reset(node, other);
                }
                true
            }
            Fault::Storm => {
                site.network.set_weather(Weather {
                    delay_max: 100_000,
                    late_permille: 50,
                    lost_permille: 200,
                });
                self.ends.push((now + lasts, End::Weather));
                true
            }
            Fault::Pause => {
                machines[node].paused_until = now + lasts.min(4_000_000);
                machines[node].running.is_some()
            }
            Fault::Clock => {
                let millis = self.draw_micros(0, 2 * CLOCK_MILLIS);
                let offset = i64::try_from(millis).unwrap_or(0) - CLOCK_MILLIS.cast_signed();
                machines[node].clock.set_offset(offset);
                true
            }
            Fault::Full => self.fill(site, machines, node, lasts),
            Fault::Transfer => transfer(machines),
            Fault::Member => self.change_members(site, machines, node),
            Fault::Kill | Fault::Power | Fault::PowerAll | Fault::Flip | Fault::Wipe | Fault::SyncError => {
                self.stop(site, machines, node, fault, lasts)
            }
        };
        if done {
            let name = fault.name();
            site.trace.note(format_args!("fault {name} node {node}"));
            site.trace.count(name);
            self.recorder.fault(Recorded {
                name: name.to_owned(),
                node: Some(u32::try_from(node).unwrap_or(0)),
                began_micros: now,
                ended_micros: now + lasts,
            });
        }
    }

    /// Returns the directions that a fault cuts.
    fn draw_cuts(&mut self, machines: &[Machine], node: usize, fault: Fault) -> Vec<(usize, usize)> {
        let all = 0..machines.len();
        let between = |one: usize, other: usize| [(one, other), (other, one)];
        if fault == Fault::Split {
            let side: BTreeSet<usize> = all.clone().filter(|_| self.random.percent(50)).collect();
            let away: Vec<usize> = all.filter(|node| !side.contains(node)).collect();
            let pairs = side
                .iter()
                .flat_map(|one| away.iter().map(move |other| (*one, *other)));
            return pairs.flat_map(|(one, other)| between(one, other)).collect();
        }
        let leader = leader(machines);
        if fault == Fault::LeaderAlone {
            let Some(leader) = leader else { return Vec::new() };
            let others = all.filter(|other| *other != leader);
            return others.flat_map(|other| between(leader, other)).collect();
        }
        let node = leader.filter(|_| self.random.percent(50)).unwrap_or(node);
        let is_deaf = self.random.percent(50);
        let others = all.filter(|other| *other != node);
        others
            .map(|other| if is_deaf { (other, node) } else { (node, other) })
            .collect()
    }

    fn cut(&mut self, site: &Site, cuts: Vec<(usize, usize)>, lasts: u64) -> bool {
        for (from, to) in &cuts {
            site.network.set_cut(*from, *to, true);
        }
        let is_one = !cuts.is_empty();
        site.trace.note(format_args!("cut {cuts:?}"));
        self.ends.push((site.trace.now() + lasts, End::Cuts(cuts)));
        is_one
    }

    /// Ends processes, and machines.
    fn stop(&mut self, site: &Site, machines: &mut [Machine], node: usize, fault: Fault, lasts: u64) -> bool {
        let now = site.trace.now();
        if machines[node].running.is_none() {
            return false;
        }
        match fault {
            Fault::Kill => {
                self.doomed.remove(&node);
                machines[node].disk.disarm();
                machines[node].kill();
                self.ends.push((now + lasts, End::Start(node)));
            }
            Fault::Power | Fault::PowerAll | Fault::SyncError => {
                let nodes = if fault == Fault::PowerAll {
                    0..machines.len()
                } else {
                    node..node + 1
                };
                let nodes: Vec<usize> = nodes.filter(|node| machines[*node].running.is_some()).collect();
                self.doomed.extend(&nodes);
                for node in nodes.clone() {
                    let (at, bytes) = (1 + self.random.below(40), self.below(2_000));
                    let halt = DiskFault::Halt { at, bytes };
                    let fails = DiskFault::SyncFails { at };
                    let disk_fault = if fault == Fault::SyncError { fails } else { halt };
                    machines[node].disk.arm(disk_fault);
                }
                let within = self.draw_micros(1, POWER_WITHIN);
                self.ends.push((now + within, End::Cut(nodes)));
            }
            Fault::Flip | Fault::Wipe => {
                let is_changing = self.is_changing.load(Ordering::Relaxed);
                if self.lost.is_some() || is_changing || !are_all_voters(machines) {
                    return false;
                }
                self.lost = Some(node);
                self.doomed.remove(&node);
                machines[node].disk.disarm();
                machines[node].kill();
                if fault == Fault::Wipe {
                    machines[node].disk = simulator::SimDisk::new(self.random.next_u64());
                } else {
                    self.flip(site, &machines[node]);
                }
                self.ends.push((now + lasts, End::Start(node)));
            }
            Fault::Split
            | Fault::LeaderAlone
            | Fault::OneWay
            | Fault::Reset
            | Fault::Storm
            | Fault::Clock
            | Fault::Transfer
            | Fault::Pause
            | Fault::Full
            | Fault::Member => return false,
        }
        true
    }

    /// Leaves little room on a disk, unless another one has little already.
    fn fill(&mut self, site: &Site, machines: &[Machine], node: usize, lasts: u64) -> bool {
        let is_other = self.ends.iter().any(|(_, end)| matches!(end, End::Room(_)));
        if is_other || machines[node].running.is_none() {
            return false;
        }
        let room = self.random.below(100_000);
        machines[node]
            .disk
            .set_capacity(Some(machines[node].disk.bytes_used() + room));
        self.ends.push((site.trace.now() + lasts, End::Room(node)));
        true
    }

    /// Changes a bit of what a start reads and that was stored for a while: the newest records cannot be told from a torn
    /// write, and contents in older segments are read only when they are served.
    fn flip(&mut self, site: &Site, machine: &Machine) {
        let used = |name: &String| {
            let content = machine.disk.content(name);
            content.iter().rposition(|byte| *byte != 0).unwrap_or(0)
        };
        let names = machine.disk.names().into_iter();
        let segments = names.filter(|name| name.ends_with(".seg"));
        let Some((name, used)) = segments
            .map(|name| (name.clone(), used(&name)))
            .rfind(|(_, used)| *used > FLIP_FROM)
        else {
            return;
        };
        let name = name.as_str();
        let offset = self.random.below((used as u64 / 2).max(1));
        let mask = 1 << self.random.below(8);
        site.trace.note(format_args!(
            "bit of {name} at {offset} of {used} on node {}",
            machine.number
        ));
        machine.disk.flip(name, offset, mask);
    }

    /// Takes a node's vote, and gives it back.
    fn change_members(&mut self, site: &Site, machines: &[Machine], node: usize) -> bool {
        let Some(leader) = leader(machines).filter(|leader| *leader != node) else {
            return false;
        };
        if self.lost.is_some() || !are_all_voters(machines) {
            return false;
        }
        let id = |node: usize| Some(machines[node].running.as_ref()?.cluster.started()?.id());
        let (Some(running), Some(id)) = (&machines[leader].running, id(node)) else {
            return false;
        };
        let Some(at) = running.cluster.started().cloned() else {
            return false;
        };
        let away = Duration::from_micros(self.draw_micros(1, 2_000_000));
        let trace = Arc::clone(&site.trace);
        // One whose task ends with its node stays under way: nothing is wiped any more in such a run.
        let is_changing = Arc::clone(&self.is_changing);
        is_changing.store(true, Ordering::Relaxed);
        running.runtime.spawn(async move {
            let all: BTreeSet<u64> = at.view().members.into_keys().collect();
            let fewer: BTreeSet<u64> = all.iter().copied().filter(|other| *other != id).collect();
            let removed = timeout(MEMBER_TIMEOUT, at.set_voters(fewer)).await;
            trace.note(format_args!(
                "node {node} is out: {}",
                matches!(removed, Ok(Ok(())))
            ));
            sleep_until(Instant::now() + away).await;
            let added = timeout(MEMBER_TIMEOUT, at.add_learner(id, address(node))).await;
            let voted = timeout(MEMBER_TIMEOUT, at.set_voters(all)).await;
            let is_back = matches!((added, voted), (Ok(Ok(())), Ok(Ok(()))));
            trace.note(format_args!("node {node} is back: {is_back}"));
            is_changing.store(!is_back, Ordering::Relaxed);
        });
        true
    }
}

fn transfer(machines: &[Machine]) -> bool {
    let leader = leader(machines).and_then(|leader| machines[leader].running.as_ref());
    let Some(running) = leader else { return false };
    let cluster = running.cluster.clone();
    running.runtime.spawn(async move { cluster.step_down().await });
    true
}

/// Returns the node that leads with a quorum behind it, as far as it knows.
pub(crate) fn leader(machines: &[Machine]) -> Option<usize> {
    machines
        .iter()
        .find(|machine| {
            let node = machine
                .running
                .as_ref()
                .and_then(|running| running.cluster.started());
            node.is_some_and(|node| {
                let _in_time = machine.running.as_ref().map(|running| running.runtime.enter());
                let view = node.view();
                view.role == Role::Leader && view.has_quorum
            })
        })
        .map(|machine| machine.number)
}

/// Whether every machine is one of the voters, there are no others, and every machine knows that: what the leader alone knows
/// of is forgotten with it.
pub(crate) fn are_all_voters(machines: &[Machine]) -> bool {
    if leader(machines).is_none() {
        return false;
    }
    let views: Option<Vec<View>> = machines
        .iter()
        .map(|machine| {
            let running = machine.running.as_ref()?;
            let _in_time = running.runtime.enter();
            Some(running.cluster.started()?.view())
        })
        .collect();
    let Some(views) = views else { return false };
    let ids: BTreeSet<u64> = views.iter().map(|view| view.id).collect();
    views.iter().all(|view| {
        let voters = view.members.iter().filter(|(_, (_, has_vote))| *has_vote);
        voters.map(|(id, _)| *id).collect::<BTreeSet<u64>>() == ids
    })
}
