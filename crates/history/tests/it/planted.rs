//! What the checker must say: nothing of a right server, and something of each wrong one.

use history::{Rule, Verdict, check, coverage};

use crate::clients::play;

/// A bug around the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    LoseAck,
    Resurrect,
    LeaseLost,
    DedupLost,
    DedupAfterDel,
    FifoSkip,
    FifoBlock,
    RcReset,
    Corrupt,
    DlqDup,
    DlqLose,
    EarlyExpire,
    PurgeKeep,
    CrossQ,
    StaleSnap,
    SeqReuse,
    UnfencedDel,
}

/// Each bug with a rule that it breaks.
const BUGS: [(Bug, Rule); 17] = [
    (Bug::LoseAck, Rule::L1),
    (Bug::Resurrect, Rule::D1),
    (Bug::LeaseLost, Rule::V1),
    (Bug::DedupLost, Rule::Q1),
    (Bug::DedupAfterDel, Rule::Q1),
    (Bug::FifoSkip, Rule::O1),
    (Bug::FifoBlock, Rule::O1),
    (Bug::RcReset, Rule::C1),
    (Bug::Corrupt, Rule::P0),
    (Bug::DlqDup, Rule::X1),
    (Bug::DlqLose, Rule::L1),
    (Bug::EarlyExpire, Rule::L1),
    (Bug::PurgeKeep, Rule::P1),
    (Bug::CrossQ, Rule::P0),
    (Bug::StaleSnap, Rule::L1),
    (Bug::SeqReuse, Rule::O2),
    (Bug::UnfencedDel, Rule::F1),
];

/// The least that every history of these tests must have met.
const REQUIRED: [(&str, u64); 12] = [
    (coverage::SENT, 500),
    (coverage::RECEIVED, 500),
    (coverage::DELETED, 100),
    (coverage::UNKNOWN, 20),
    (coverage::REDELIVERED, 100),
    (coverage::DEAD_LETTERED, 10),
    (coverage::DEDUPLICATED, 20),
    (coverage::STALE_DELETE, 3),
    (coverage::PURGED, 3),
    (coverage::CHANGED, 20),
    (coverage::ORDERED, 100),
    ("failover", 5),
];

#[test]
fn a_right_server_is_never_accused() {
    for seed in 0..400 {
        let report = check(&play(seed, None), &REQUIRED);
        assert_eq!(report.verdict, Verdict::Pass, "seed {seed}: {report}");
    }
}

#[test]
fn every_planted_bug_is_found_in_nine_histories_of_ten() {
    const SEEDS: u64 = 30;
    for (bug, rule) in BUGS {
        let (mut found, mut by_rule) = (0, 0);
        for seed in 1_000..1_000 + SEEDS {
            if let Verdict::Fail(violations) = check(&play(seed, Some(bug)), &[]).verdict {
                found += 1;
                by_rule += u64::from(violations.iter().any(|violation| violation.rule == rule));
            }
        }
        println!("{bug:?}: found in {found} of {SEEDS}, by {rule:?} in {by_rule}");
        assert!(found * 10 >= SEEDS * 9, "{bug:?} was found in {found} of {SEEDS}");
        assert!(by_rule > 0, "{rule:?} never found {bug:?}");
    }
}

#[test]
fn a_quiet_history_is_no_pass() {
    let history = play(1, None);
    let report = check(&history, &[("an earthquake", 1)]);
    assert!(matches!(report.verdict, Verdict::Unknown(missing) if missing[0].name == "an earthquake"));
}
