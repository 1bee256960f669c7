//! Planted bugs: an owner or a disk that breaks one promise on purpose must be noticed.

use crate::crashes::run;
use crate::lying_disk::Lie;
use crate::steps::sequence;
use crate::world::Bug;

/// Seeds within which every planted bug must be found so many times.
const SEEDS: u64 = 200;
const FINDS: usize = 3;

const ALL: &[Bug] = &[
    Bug::FsyncOff,
    Bug::Disk(Lie::Sync),
    Bug::Disk(Lie::SyncDir),
    Bug::Disk(Lie::SyncFailure),
    Bug::Disk(Lie::LongWrite),
    Bug::AnswersBeforeWait,
    Bug::SnapshotForgets,
    Bug::SnapshotTooOld,
    Bug::SnapshotTooNew,
    Bug::SnapshotWithoutContents,
    Bug::ReplayTwice,
    Bug::ReplayNothing,
    Bug::ReplayOwnClock,
    Bug::AppliesRejected,
];

#[test]
fn every_planted_bug_is_found() {
    let mut missed: Vec<Bug> = Vec::new();
    for bug in ALL {
        let verdicts = (0..SEEDS).map(|seed| (seed, run(seed, *bug, &sequence(seed)).0));
        let found = verdicts.filter_map(|(seed, verdict)| Some(format!("seed {seed}: {}", verdict.err()?)));
        let finds: Vec<String> = found.take(FINDS).collect();
        println!("{bug:?}: first {}", finds.first().map_or("never", String::as_str));
        missed.extend(Some(*bug).filter(|_| finds.len() < FINDS));
    }
    assert!(
        missed.is_empty(),
        "{SEEDS} sequences did not show {missed:?} {FINDS} times"
    );
}
