//! What is done to the nodes, one thing after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use compat::{Random, wait_for};
use history::coverage;

use crate::nodes::{LIMIT, Nodes};
use crate::{NODES, Plan, Shared};

/// What has to have happened for a run to mean anything.
pub(crate) const REQUIRED: [(&str, u64); 18] = [
    (coverage::SENT, 300),
    (coverage::RECEIVED, 300),
    (coverage::DELETED, 200),
    (coverage::REDELIVERED, 10),
    (coverage::DEAD_LETTERED, 5),
    (coverage::DEDUPLICATED, 5),
    (coverage::CHANGED, 5),
    (coverage::ORDERED, 20),
    (KILLED, 4),
    (SUSPENDED, 2),
    (MINORITY, 1),
    (ONE_WAY, 1),
    (POWER_CUT, 1),
    (DISK_FULL, 1),
    (SYNC_FAILED, 2),
    (CLOCK_JUMP, 4),
    (WIPED, 1),
    (HANDED_OVER, 1),
];

pub(crate) const KILLED: &str = "leader killed";
pub(crate) const HANDED_OVER: &str = "leader stopped in order";
const SUSPENDED: &str = "leader suspended";
const MINORITY: &str = "leader in a minority";
const ONE_WAY: &str = "one direction held";
const FLAPPING: &str = "links cut again and again";
const SLOW: &str = "slow links";
const POWER_CUT: &str = "all killed at once";
const DISK_FULL: &str = "disk full";
const SYNC_FAILED: &str = "sync failed";
const CLOCK_JUMP: &str = "clock jumped";
const DAMAGED: &str = "log damaged";
const WIPED: &str = "node wiped";

/// A run of everything that is done.
struct Run {
    nodes: Nodes,
    shared: Arc<Shared>,
    random: Random,
}

type Phase = fn(&mut Run) -> Result<()>;

const PHASES: [(&str, Phase); 12] = [
    ("calm", Run::calm),
    ("kills of the leader", Run::kills),
    ("suspended leaders", Run::suspensions),
    ("partitions", Run::partitions),
    ("cut and slow links", Run::links),
    ("all killed at once", Run::power_cut),
    ("damage", Run::damage),
    ("full disk", Run::full_disk),
    ("failing syncs", Run::syncs),
    ("jumping clocks", Run::clocks),
    ("a wiped node", Run::wipe),
    ("a leader that stops", Run::hand_over),
];

/// Goes through the phases until the time is over, each at least once. Returns the nodes as they are then.
pub(crate) fn run(nodes: Nodes, shared: &Arc<Shared>, plan: Plan) -> (Nodes, Result<()>) {
    let mut run = Run {
        nodes,
        shared: Arc::clone(shared),
        random: Random::new(plan.seed),
    };
    let done = run.all(plan.time);
    (run.nodes, done)
}

impl Run {
    fn all(&mut self, time: Duration) -> Result<()> {
        let began = Instant::now();
        for round in 0.. {
            for (name, phase) in PHASES {
                if round > 0 && began.elapsed() >= time {
                    return Ok(());
                }
                let started = Instant::now();
                phase(self)?;
                self.shared.network.heal();
                self.nodes.wait_for_all()?;
                eprintln!("    {name}: {:.1} s", started.elapsed().as_secs_f64());
            }
        }
        Ok(())
    }

    /// Waits a time drawn between these, in milliseconds.
    fn wait(&mut self, from: u64, to: u64) {
        let millis = from + self.random.below(to - from);
        self.nodes.wait(Duration::from_millis(millis));
    }

    fn calm(&mut self) -> Result<()> {
        self.wait(3_000, 4_000);
        Ok(())
    }

    fn kills(&mut self) -> Result<()> {
        for _ in 0..4 {
            let leader = self.nodes.leader()?;
            self.shared
                .fault(KILLED, Some(leader), || self.nodes.kill(leader))?;
            self.wait(1_000, 3_000);
            self.nodes.restart(leader)?;
            self.wait(200, 1_500);
        }
        Ok(())
    }

    fn suspensions(&mut self) -> Result<()> {
        for _ in 0..2 {
            let leader = self.nodes.leader()?;
            let millis = 500 + self.random.below(4_000);
            self.shared.fault(SUSPENDED, Some(leader), || {
                self.nodes.suspend(leader)?;
                self.nodes.wait(Duration::from_millis(millis));
                self.nodes.resume(leader)
            })?;
            self.wait(500, 1_500);
        }
        Ok(())
    }

    fn partitions(&mut self) -> Result<()> {
        let leader = self.nodes.leader()?;
        let network = Arc::clone(&self.shared.network);
        self.shared.fault(MINORITY, Some(leader), || {
            network.isolate(leader, true);
            self.nodes.wait(Duration::from_millis(3_500));
            network.isolate(leader, false);
            Ok(())
        })?;
        self.wait(500, 1_500);
        // First nobody hears the leader, then it hears nobody.
        for outwards in [true, false] {
            let leader = self.nodes.leader()?;
            let hold = |held| {
                for other in (0..NODES).filter(|other| *other != leader) {
                    let (from, to) = if outwards {
                        (leader, other)
                    } else {
                        (other, leader)
                    };
                    network.hold(from, to, held);
                }
            };
            self.shared.fault(ONE_WAY, Some(leader), || {
                hold(true);
                self.nodes.wait(Duration::from_millis(2_500));
                hold(false);
                Ok(())
            })?;
            self.wait(300, 1_000);
        }
        Ok(())
    }

    fn links(&mut self) -> Result<()> {
        let network = Arc::clone(&self.shared.network);
        self.shared.fault(FLAPPING, None, || {
            for _ in 0..6 {
                network.cut_all();
                self.nodes.wait(Duration::from_millis(300));
            }
            Ok(())
        })?;
        self.shared.fault(SLOW, None, || {
            network.delay(Duration::from_millis(30));
            self.nodes.wait(Duration::from_millis(2_000));
            network.delay(Duration::ZERO);
            Ok(())
        })
    }

    fn power_cut(&mut self) -> Result<()> {
        self.shared.fault(POWER_CUT, None, || {
            (0..NODES).try_for_each(|node| self.nodes.kill(node))
        })?;
        (0..NODES).try_for_each(|node| self.nodes.restart_unready(node))?;
        self.nodes.wait_for_all()
    }

    /// A bit of a log is another when its node starts: it must not serve with it.
    fn damage(&mut self) -> Result<()> {
        let node = self.nodes.follower()?;
        self.nodes.kill(node)?;
        self.shared
            .fault(DAMAGED, Some(node), || self.nodes.flip_bit(node))?;
        let logged = self.nodes.log(node).len();
        self.nodes.restart_unready(node)?;
        // It refuses to start; or the bit lies in a part of the file that is not needed any more, and it serves.
        let is_refused = wait_for("a damaged node to start or to refuse", LIMIT, || {
            let has_ended = !self.nodes.is_running(node)?;
            let log = self.nodes.log(node);
            let text = String::from_utf8_lossy(&log[logged..]);
            let serves = text.contains("state recovered");
            Ok((has_ended || serves).then_some(has_ended))
        })?;
        if !is_refused {
            self.nodes.is_back(node)?;
            self.wait(200, 500);
            self.nodes.kill(node)?;
        }
        // What is damaged and was not needed yet would add up with that of other nodes to more than a minority.
        self.nodes.wipe(node)?;
        self.nodes.restart(node)
    }

    fn full_disk(&mut self) -> Result<()> {
        let leader = self.nodes.leader()?;
        self.shared.fault(DISK_FULL, Some(leader), || {
            self.nodes.fail(leader, "free_bytes = 0")?;
            self.nodes.wait(Duration::from_millis(3_000));
            self.nodes.fail(leader, "")
        })?;
        self.wait(500, 1_000);
        Ok(())
    }

    fn syncs(&mut self) -> Result<()> {
        for role in ["follower", "leader"] {
            let node = match role {
                "leader" => self.nodes.leader()?,
                _ => self.nodes.follower()?,
            };
            self.shared.fault(SYNC_FAILED, Some(node), || {
                self.nodes.fail(node, "fail_sync = 3")?;
                self.nodes.wait_for_exit(node)?;
                self.nodes.fail(node, "")
            })?;
            self.nodes.restart(node)?;
        }
        Ok(())
    }

    fn clocks(&mut self) -> Result<()> {
        const TWO_HOURS_MILLIS: i64 = 7_200_000;
        for millis in [TWO_HOURS_MILLIS, -TWO_HOURS_MILLIS] {
            for node in [self.nodes.leader()?, self.nodes.follower()?] {
                self.shared.fault(CLOCK_JUMP, Some(node), || {
                    self.nodes.fail(node, &format!("wall_clock_millis = {millis}"))?;
                    self.nodes.wait(Duration::from_millis(1_000));
                    self.nodes.fail(node, "")
                })?;
            }
        }
        Ok(())
    }

    fn wipe(&mut self) -> Result<()> {
        let node = self.nodes.follower()?;
        self.shared.fault(WIPED, Some(node), || {
            self.nodes.kill(node)?;
            self.nodes.wipe(node)?;
            self.nodes.restart(node)
        })?;
        self.wait(500, 1_000);
        Ok(())
    }

    fn hand_over(&mut self) -> Result<()> {
        let leader = self.nodes.leader()?;
        self.shared
            .fault(HANDED_OVER, Some(leader), || self.nodes.stop(leader))?;
        if self.nodes.leader()? == leader {
            bail!("a node that has stopped leads");
        }
        self.nodes.restart(leader)
    }
}
