//! Runs of the simulated cluster: seeds that keep every promise, seeds that once did not, bugs that are found.

mod cases;
mod player;

use std::collections::BTreeSet;

use player::{Verdict, play};

/// Seeds of one test; a machine may end what takes minutes.
const SEEDS_PER_TEST: u64 = 40;
/// A planted bug is found by its seed, or if the code has changed since by one of those behind it.
const SEEDS_PER_BUG: u64 = 12;
/// Runs in a hundred that must have met enough to prove something.
const PASSES_PERCENT: usize = 80;

fn keep_their_promises(part: u64) {
    let first = part * SEEDS_PER_TEST + 1;
    let mut verdicts = Vec::new();
    for seed in first..first + SEEDS_PER_TEST {
        let run = play(&[&seed.to_string()]);
        assert_ne!(run.verdict, Verdict::Fail, "seed {seed}:\n{}", run.output);
        verdicts.push(run.verdict);
    }
    let passes = verdicts
        .iter()
        .filter(|verdict| **verdict == Verdict::Pass)
        .count();
    assert!(passes * 100 >= verdicts.len() * PASSES_PERCENT, "{verdicts:?}");
}

#[test]
fn seeds_1_to_40_keep_every_promise() {
    keep_their_promises(0);
}

#[test]
fn seeds_41_to_80_keep_every_promise() {
    keep_their_promises(1);
}

#[test]
fn seeds_81_to_120_keep_every_promise() {
    keep_their_promises(2);
}

#[test]
fn seeds_121_to_160_keep_every_promise() {
    keep_their_promises(3);
}

#[test]
fn seeds_that_found_something_find_nothing_any_more() {
    for (seed, found) in cases::FOUND {
        let run = play(&[&seed.to_string()]);
        assert_ne!(
            run.verdict,
            Verdict::Fail,
            "seed {seed} ({found}):\n{}",
            run.output
        );
    }
}

#[test]
fn the_same_seed_twice_is_the_same_run() {
    for seed in ["1", "2", "3", "5", "8"] {
        let (first, second) = (play(&[seed]), play(&[seed]));
        assert_eq!(first.output, second.output, "seed {seed}");
        assert!(first.output.contains(" hash "), "{}", first.output);
    }
}

#[test]
fn what_is_committed_and_not_durable_is_found_without_a_power_cut() {
    let run = play(&["1", "--bug", "SkipsSync"]);
    assert_eq!(run.verdict, Verdict::Fail);
    assert!(run.output.contains("durability: entry"), "{}", run.output);
}

#[test]
fn every_planted_bug_is_found() {
    let known: BTreeSet<String> = play(&["--bugs"]).output.lines().map(str::to_owned).collect();
    let table: BTreeSet<String> = cases::BUGS.iter().map(|(bug, _)| (*bug).to_owned()).collect();
    assert_eq!(known, table);
    for (bug, seed) in cases::BUGS {
        let mut seeds = seed..seed + SEEDS_PER_BUG;
        let is_found = seeds.any(|seed| play(&[&seed.to_string(), "--bug", bug]).verdict == Verdict::Fail);
        assert!(is_found, "{bug} is not found by seed {seed} and those behind it");
    }
}
