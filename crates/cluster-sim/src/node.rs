//! One simulated machine: its disk and clocks, and the node that runs on it, in a runtime of its own that goes with it.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, BrokerOptions, BudgetLimits, InboxLimits, Limits, NoObserver, Recovered, SeededRandom};
use cluster::link::{Secret, Security};
use cluster::{Cluster, ElectionSilence, Settings, World};
use journal::{
    Disk, Fsync, Journal, JournalError, LocalOptions, LockError, RaftSnapshot, Replay, ReplayError,
    RestoreSnapshot,
};
use simulator::{Random, SimDisk};
use tokio::runtime::{Builder, RngSeed, Runtime};
use tokio::time::{Instant, sleep_until};

use crate::bug::Bug;
use crate::clock::SimClock;
use crate::disk::Careless;
use crate::journal::{Memory, Watched};
use crate::ledger::Ledger;
use crate::network::{Port, SimNetwork, address};
use crate::plan::Plan;
use crate::process::SimProcess;
use crate::trace::Trace;

/// Most messages in flight: no run comes near.
const IN_FLIGHT_MAX: u64 = 10_000;
const BYTES_MAX: u64 = 64 << 20;

/// What all machines of a run share.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
    pub(crate) bug: Option<Bug>,
    pub(crate) network: Arc<SimNetwork>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) trace: Arc<Trace>,
}

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) number: usize,
    pub(crate) disk: SimDisk,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) running: Option<Running>,
    /// What the disk had some time ago, for the bug that forgets.
    pub(crate) old_image: Option<SimDisk>,
    /// In microseconds; it stands still until then.
    pub(crate) paused_until: u64,
    paused_micros: u64,
    starts: u64,
    /// How much time passes here in a thousand seconds, and what is left of a microsecond.
    rate: u64,
    owed: u64,
}

/// A node that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) runtime: Runtime,
    pub(crate) broker: Broker,
    pub(crate) cluster: Cluster,
    pub(crate) process: Arc<SimProcess>,
}

/// Gives the owner its snapshot.
struct Restore<'a>(&'a mut Recovered);

impl RestoreSnapshot for Restore<'_> {
    fn snapshot(&mut self, snapshot: &RaftSnapshot, content: &mut dyn Read) -> Result<(), ReplayError> {
        self.0.snapshot(snapshot.id.index, content)
    }

    fn progress(&mut self, bytes_done: u64, bytes_total: u64) {
        self.0.progress(bytes_done, bytes_total);
    }
}

/// Makes a runtime whose time stands still but for what is asked of it.
pub(crate) fn runtime(seed: u64) -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .rng_seed(RngSeed::from_bytes(&seed.to_le_bytes()))
        .build()
        .expect("a runtime without sockets has nothing to fail with")
}

/// Lets everything in a runtime go on for so long.
pub(crate) fn step(runtime: &Runtime, time: Duration) {
    runtime.block_on(async move { sleep_until(Instant::now() + time).await });
}

impl Machine {
    pub(crate) fn new(number: usize, site: &Site) -> Self {
        Self {
            number,
            disk: SimDisk::new(site.seed.wrapping_add(number as u64)),
            clock: Arc::new(SimClock::new(site.bug == Some(Bug::LeasesByWallClock))),
            running: None,
            old_image: None,
            paused_until: 0,
            paused_micros: 0,
            starts: 0,
            rate: 1_000,
            owed: 0,
        }
    }

    /// Starts a node on what the disk has.
    pub(crate) fn start(&mut self, site: &Site) -> Result<(), JournalError> {
        self.starts += 1;
        site.ledger.restarts(self.number);
        let mut random = Random::new(site.seed ^ (self.number as u64 + 1) << 32 ^ self.starts << 48);
        let runtime = runtime(random.next_u64());
        let process = SimProcess::new(random.next_u64(), site.plan.speed, runtime.handle().clone());
        let port = Port {
            node: self.number,
            network: Arc::clone(&site.network),
        };
        let world = World {
            network: Arc::new(port),
            random: Arc::new(SeededRandom::new(random.next_u64())),
            clock: self.clock.clone(),
            process: process.clone(),
            runtime: runtime.handle().clone(),
        };
        let drift = site.plan.drift_permille;
        if drift > 0 {
            self.rate = 1_000 - drift / 2 + random.below(drift + 1);
        }
        let cluster = Cluster::new(self.settings(site), world);
        let options = self.broker_options(site, &cluster, &process, random.next_u64());
        let (disk, log, opening) = (self.disk.clone(), log_options(site), cluster.clone());
        let (site, number, seed) = (site.clone(), self.number, random.next_u64());
        let opener = move |recovered: &mut Recovered| {
            let lock = disk.lock().map_err(|error| locked(&error))?;
            let disk: Arc<dyn Disk> = match site.bug {
                Some(Bug::SkipsSync) => Arc::new(Careless(disk)),
                Some(_) | None => Arc::new(disk),
            };
            let opened = opening.open(disk, lock, log, &mut Restore(recovered));
            let (inner, _) = opened.map_err(|error| match error {
                cluster::OpenError::Journal(error) => error,
                other @ (cluster::OpenError::Node(_) | cluster::OpenError::Listen { .. }) => {
                    panic!("node {number} does not start: {other}")
                }
            })?;
            Ok(Box::new(Watched {
                inner,
                cluster: opening,
                node: number,
                ledger: site.ledger,
                trace: site.trace,
                bug: site.bug,
                random: Random::new(seed),
                memory: Memory::default(),
            }) as Box<dyn Journal>)
        };
        let (broker, work) = Broker::open_as_task(options, Box::new(opener))?;
        cluster.serve(broker.clone());
        runtime.spawn(work);
        self.running = Some(Running {
            runtime,
            broker,
            cluster,
            process,
        });
        Ok(())
    }

    fn settings(&self, site: &Site) -> Settings {
        Settings {
            listen: address(self.number),
            advertise: address(self.number),
            seeds: (0..site.plan.nodes).map(address).collect(),
            security: match Secret::new([7; 32]).filter(|_| site.plan.has_secret) {
                Some(current) => Security::Secret {
                    current,
                    previous: None,
                },
                None => Security::Insecure,
            },
            election_silence: ElectionSilence::default(),
            replicate_timeout: Duration::from_secs(5),
            entries_kept: site.plan.entries_kept,
            name: String::new(),
            may_move_clock: false,
            prefers_to_lead: false,
        }
    }

    fn broker_options(
        &self,
        site: &Site,
        cluster: &Cluster,
        process: &Arc<SimProcess>,
        seed: u64,
    ) -> BrokerOptions {
        BrokerOptions {
            limits: Limits::RELAXED,
            inbox: InboxLimits::default(),
            budget: BudgetLimits {
                bytes_max: BYTES_MAX,
                tenant_bytes_max: BYTES_MAX,
            },
            in_flight_max: IN_FLIGHT_MAX,
            deduplication_ids_max: IN_FLIGHT_MAX,
            kick_on_push: true,
            inline: false,
            snapshot_log_bytes: site.plan.snapshot_log_bytes,
            cache_bytes: site.plan.cache_bytes,
            reserve_bytes: Some(site.plan.reserve_bytes),
            clock: self.clock.clone(),
            random: Arc::new(SeededRandom::new(seed)),
            process: process.clone(),
            observer: Arc::new(NoObserver),
            leader: Some(Arc::new(cluster.clone())),
        }
    }

    /// Lets a moment pass here. A node that stood still finds that all its timers are over.
    pub(crate) fn step(&mut self, now: u64, micros: u64) {
        self.owed += micros * self.rate;
        let micros = self.owed / 1_000;
        self.owed %= 1_000;
        self.clock.pass(micros);
        let Some(running) = &self.running else { return };
        if now < self.paused_until {
            self.paused_micros += micros;
            return;
        }
        let paused = std::mem::take(&mut self.paused_micros);
        if paused > 0 {
            let paused = Duration::from_micros(paused);
            running.runtime.block_on(tokio::time::advance(paused));
        }
        step(&running.runtime, Duration::from_micros(micros));
    }

    /// Ends the process at once.
    pub(crate) fn kill(&mut self) {
        self.running = None;
        self.paused_micros = 0;
        self.paused_until = 0;
        self.disk = self.disk.kill();
    }

    /// Ends the machine at once: of what was not synced the seed says what is left.
    pub(crate) fn lose_power(&mut self, site: &Site, seed: u64) {
        site.network.silence(self.number);
        self.kill();
        self.disk = self.disk.crash(seed);
    }
}

pub(crate) fn log_options(site: &Site) -> LocalOptions {
    LocalOptions {
        first_segment_bytes: site.plan.segment_bytes,
        segment_bytes: site.plan.segment_bytes,
        fsync: Fsync::Always,
    }
}

fn locked(error: &LockError) -> JournalError {
    JournalError::Io {
        operation: "lock",
        file: "the directory".to_owned(),
        source: std::io::Error::other(error.to_string()),
    }
}
