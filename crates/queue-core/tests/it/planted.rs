//! Planted bugs: a partition that breaks one rule on purpose must be told from a right one, or the model is blind there.
//!
//! What each bug does is in `mutant.rs`.

use crate::mutant::Mutant;
use crate::runner::run;
use crate::steps::sequence;

/// Seeds within which every planted bug must be found.
const SEEDS: u64 = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// None: the wrapper itself must not be noticed.
    None,
    LoseAck,
    Resurrect,
    LeaseLost,
    VisibilityChangeLost,
    AttributesLost,
    DedupLost,
    DedupAfterDelete,
    DedupSurvivesPurge,
    DedupByGroup,
    FifoSkip,
    FifoSwapped,
    FifoBlockIgnored,
    ReceiveCountReset,
    FirstReceiveDrifts,
    DlqEarly,
    DlqLate,
    DlqLose,
    DlqDuplicate,
    DlqSourceLost,
    EarlyExpire,
    LateExpire,
    EarlyTimers,
    LateTimers,
    PurgeKeeps,
    PurgeWaitIgnored,
    NameWaitIgnored,
    CrossQueue,
    StaleHandleDeletes,
    StaleHandleChangesFifo,
    ForeignHandleAccepted,
    DelayIgnored,
    QueueDelayIgnored,
    VisibilityAdds,
    GiveBackCounts,
    GiveBackByAnyone,
    WithholdCounts,
    WithholdShows,
    CounterDrift,
    SequenceReuse,
    WakeLost,
    TimerForgotten,
    SlotLeaks,
    SlotFreedTwice,
    FreedBytesWrong,
    PayloadMixed,
    StaleSnapshot,
    SnapshotForgetsDedup,
    SnapshotForgetsLeases,
    TagsLost,
    UntagLost,
    PolicyRace,
    GroupsIgnored,
    UngroupedAlone,
    AttemptIgnored,
    AttemptChangeIgnored,
    AttemptOutlivesLeases,
    AttemptCounts,
    AttemptOnStandard,
    SnapshotForgetsAttempts,
    TaskLost,
    TaskCancelLost,
    TaskRateIgnored,
    TaskDestinationIgnored,
    TaskUnchecked,
    TaskRunsTwice,
    TaskTakesLater,
    TaskMovesTwice,
    TaskLoses,
    TaskTimerForgotten,
    RenameLost,
    RenameReused,
    MovedKeepsCounts,
    MovedKeepsSentTime,
    SnapshotForgetsTasks,
}

const ALL: &[Bug] = &[
    Bug::LoseAck,
    Bug::Resurrect,
    Bug::LeaseLost,
    Bug::VisibilityChangeLost,
    Bug::AttributesLost,
    Bug::DedupLost,
    Bug::DedupAfterDelete,
    Bug::DedupSurvivesPurge,
    Bug::DedupByGroup,
    Bug::FifoSkip,
    Bug::FifoSwapped,
    Bug::FifoBlockIgnored,
    Bug::ReceiveCountReset,
    Bug::FirstReceiveDrifts,
    Bug::DlqEarly,
    Bug::DlqLate,
    Bug::DlqLose,
    Bug::DlqDuplicate,
    Bug::DlqSourceLost,
    Bug::EarlyExpire,
    Bug::LateExpire,
    Bug::EarlyTimers,
    Bug::LateTimers,
    Bug::PurgeKeeps,
    Bug::PurgeWaitIgnored,
    Bug::NameWaitIgnored,
    Bug::CrossQueue,
    Bug::StaleHandleDeletes,
    Bug::StaleHandleChangesFifo,
    Bug::ForeignHandleAccepted,
    Bug::DelayIgnored,
    Bug::QueueDelayIgnored,
    Bug::VisibilityAdds,
    Bug::GiveBackCounts,
    Bug::GiveBackByAnyone,
    Bug::WithholdCounts,
    Bug::WithholdShows,
    Bug::CounterDrift,
    Bug::SequenceReuse,
    Bug::WakeLost,
    Bug::TimerForgotten,
    Bug::SlotLeaks,
    Bug::SlotFreedTwice,
    Bug::FreedBytesWrong,
    Bug::PayloadMixed,
    Bug::StaleSnapshot,
    Bug::SnapshotForgetsDedup,
    Bug::SnapshotForgetsLeases,
    Bug::TagsLost,
    Bug::UntagLost,
    Bug::PolicyRace,
    Bug::GroupsIgnored,
    Bug::UngroupedAlone,
    Bug::AttemptIgnored,
    Bug::AttemptChangeIgnored,
    Bug::AttemptOutlivesLeases,
    Bug::AttemptCounts,
    Bug::AttemptOnStandard,
    Bug::SnapshotForgetsAttempts,
    Bug::TaskLost,
    Bug::TaskCancelLost,
    Bug::TaskRateIgnored,
    Bug::TaskDestinationIgnored,
    Bug::TaskUnchecked,
    Bug::TaskRunsTwice,
    Bug::TaskTakesLater,
    Bug::TaskMovesTwice,
    Bug::TaskLoses,
    Bug::TaskTimerForgotten,
    Bug::RenameLost,
    Bug::RenameReused,
    Bug::MovedKeepsCounts,
    Bug::MovedKeepsSentTime,
    Bug::SnapshotForgetsTasks,
];

/// So many sequences must show each bug: one lucky find would be gone with the next change of the steps.
const FINDS: usize = 4;

#[test]
fn every_planted_bug_is_found() {
    let mut missed: Vec<Bug> = Vec::new();
    for bug in ALL {
        let verdicts = (0..SEEDS).map(|seed| (seed, run(Mutant::new(*bug), None, &sequence(seed)).0));
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

#[test]
fn the_wrapper_of_the_planted_bugs_is_not_noticed() {
    for seed in 0..SEEDS {
        let (verdict, _) = run(Mutant::new(Bug::None), None, &sequence(seed));
        assert_eq!(verdict, Ok(()), "seed {seed}");
    }
}
