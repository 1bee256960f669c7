//! What a seed decides about a run before it begins. Each seed has faults of its own choice, so that some are seen alone.

use std::time::Duration;

use simulator::Random;

use crate::network::Weather;
use crate::process::Speed;

/// Something that is done to a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Some nodes cannot reach the others.
    Split,
    /// The leader cannot reach the others, nor they it.
    LeaderAlone,
    /// One direction between one node and the others is cut.
    OneWay,
    /// Connections are reset.
    Reset,
    /// The network is slow and loses much.
    Storm,
    /// A process ends and another begins.
    Kill,
    /// A machine loses its power in the middle of a write.
    Power,
    /// All machines do.
    PowerAll,
    /// A node that is down has a bit that changed.
    Flip,
    /// A node loses its disk.
    Wipe,
    /// The time of day of a machine jumps.
    Clock,
    /// The leader hands over.
    Transfer,
    /// A process stands still.
    Pause,
    /// A node leaves the cluster and comes back.
    Member,
    /// A disk is full for a while.
    Full,
    /// A sync fails, which ends the process.
    SyncError,
}

impl Fault {
    /// Those that any seed may have.
    pub(crate) const ALL: [Self; 14] = [
        Self::Split,
        Self::LeaderAlone,
        Self::OneWay,
        Self::Reset,
        Self::Storm,
        Self::Kill,
        Self::Power,
        Self::PowerAll,
        Self::Flip,
        Self::Wipe,
        Self::Clock,
        Self::Transfer,
        Self::Pause,
        Self::Member,
    ];

    /// Whether a node has to begin anew with a state behind it.
    fn takes_state(self) -> bool {
        matches!(
            self,
            Self::Kill | Self::Power | Self::PowerAll | Self::Flip | Self::Wipe | Self::SyncError
        )
    }

    /// Returns its name among what was counted.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::LeaderAlone => "leader alone",
            Self::OneWay => "one way",
            Self::Reset => "reset",
            Self::Storm => "storm",
            Self::Kill => "kill",
            Self::Power => "power",
            Self::PowerAll => "power of all",
            Self::Flip => "flip",
            Self::Wipe => "wipe",
            Self::Clock => "clock",
            Self::Transfer => "transfer",
            Self::Pause => "pause",
            Self::Member => "member",
            Self::Full => "full",
            Self::SyncError => "sync error",
        }
    }
}

/// Every so many seeds have clocks that run apart, full disks and syncs that fail beside the other faults. Not all do, so that
/// those that found something before there were such faults are still the same runs.
const WITH_MORE: u64 = 5;
/// How far the clocks of two machines may run apart, in thousandths.
pub(crate) const DRIFT_PERMILLE_MAX: u64 = 20;

/// More entries than a run has.
const ALL_ENTRIES: u64 = 1_000_000;

/// A run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) has_secret: bool,
    pub(crate) weather: Weather,
    pub(crate) speed: Speed,
    pub(crate) segment_bytes: u64,
    pub(crate) snapshot_log_bytes: u64,
    pub(crate) entries_kept: u64,
    pub(crate) cache_bytes: usize,
    /// How long things go wrong.
    pub(crate) faults_for: Duration,
    /// The longest usual time between two faults.
    pub(crate) fault_pause: Duration,
    pub(crate) faults: Vec<Fault>,
    /// How far clocks run apart, in thousandths.
    pub(crate) drift_permille: u64,
    pub(crate) reserve_bytes: u64,
    pub(crate) producers: u32,
    pub(crate) consumers: u32,
    /// The longest time between two calls of a client.
    pub(crate) think: Duration,
}

impl Plan {
    pub(crate) fn draw(seed: u64, random: &mut Random) -> Self {
        let mut plan = Self::draw_usual(random);
        if seed.is_multiple_of(WITH_MORE) {
            plan.add_more(random);
        }
        plan
    }

    fn add_more(&mut self, random: &mut Random) {
        if random.percent(60) {
            self.drift_permille = 1 + random.below(DRIFT_PERMILLE_MAX);
        }
        if random.percent(70) {
            self.faults.push(Fault::Full);
            self.reserve_bytes = random.below(60_000);
        }
        if random.percent(60) && !self.faults.contains(&Fault::Clock) {
            self.faults.push(Fault::SyncError);
        }
    }

    fn draw_usual(random: &mut Random) -> Self {
        let percent = random.below(100);
        let mut faults: Vec<Fault> = Fault::ALL
            .into_iter()
            .filter(|_| random.percent(20 + percent / 2))
            .collect();
        // A node that starts, or is sent a state, goes by the time of day for once, so that must be right then.
        let has_clock = faults.contains(&Fault::Clock) && random.percent(60);
        faults.retain(|fault| {
            if has_clock {
                !fault.takes_state()
            } else {
                *fault != Fault::Clock
            }
        });
        if faults.is_empty() {
            faults.push(Fault::Kill);
        }
        Self {
            nodes: if random.percent(80) { 3 } else { 5 },
            has_secret: random.percent(20),
            weather: Weather {
                delay_max: [500, 2_000, 10_000, 30_000][random.below(4) as usize],
                late_permille: [0, 0, 2, 20][random.below(4) as usize],
                lost_permille: [0, 0, 5, 50][random.below(4) as usize],
            },
            speed: Speed {
                work_max: [500, 2_000, 10_000][random.below(3) as usize],
                stall_permille: [0, 0, 5][random.below(3) as usize],
            },
            segment_bytes: [32 << 10, 64 << 10, 256 << 10][random.below(3) as usize],
            // An entry has some 300 bytes.
            snapshot_log_bytes: 6_000 + random.below(54_000),
            entries_kept: if has_clock {
                ALL_ENTRIES
            } else {
                [0, 10, 100][random.below(3) as usize]
            },
            cache_bytes: [0, 4 << 10, 1 << 20][random.below(3) as usize],
            faults_for: Duration::from_millis(12_000 + random.below(10_000)),
            fault_pause: Duration::from_millis(200 + random.below(2_500)),
            faults,
            drift_permille: 0,
            reserve_bytes: 0,
            producers: 2 + u32::try_from(random.below(3)).unwrap_or(0),
            consumers: 2 + u32::try_from(random.below(4)).unwrap_or(0),
            think: Duration::from_millis(20 + random.below(150)),
        }
    }
}

/// The network and the disks while a run ends.
pub(crate) const CALM: Weather = Weather {
    delay_max: 1_000,
    late_permille: 0,
    lost_permille: 0,
};
