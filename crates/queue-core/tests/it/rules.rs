//! Seeded sequences of commands on the state machine, each compared with the model step by step.
//!
//! `HOLDFAST_SEED=n` runs the sequence of one seed; `HOLDFAST_SEQUENCES=n` runs that many instead of the usual number.

use std::panic::{AssertUnwindSafe, catch_unwind};

use queue_core::Partition;

use crate::model::{Coverage, Verdict};
use crate::runner::run;
use crate::shrink::{name, number, report, shrink};
use crate::steps::{Step, sequence};

/// Sequences in all, spread over the tests of this file so that they run beside each other.
const SEQUENCES: u64 = 24_000;
const PARTS: u64 = 4;

#[test]
fn sequences_1() {
    sequences(0);
}

#[test]
fn sequences_2() {
    sequences(1);
}

#[test]
fn sequences_3() {
    sequences(2);
}

#[test]
fn sequences_4() {
    sequences(3);
}

/// One partition through many sequences, so that what is cleaned up only now and then is cleaned up.
#[test]
fn sequences_on_one_partition() {
    for n in 0..12 {
        let seeds = 1_000_000 + n * 20..1_000_000 + (n + 1) * 20;
        let steps: Vec<Step> = seeds.flat_map(sequence).collect();
        check_steps(&format!("long sequence {n}"), &steps);
    }
}

fn sequences(part: u64) {
    if let Some(seed) = number("HOLDFAST_SEED") {
        check(seed);
        return;
    }
    let count = number("HOLDFAST_SEQUENCES").unwrap_or(SEQUENCES) / PARTS;
    let mut seen = Coverage::default();
    for n in 0..count {
        seen.add(&check(n * PARTS + part));
    }
    seen.assert_enough(count);
}

/// Runs the sequence of a seed.
fn check(seed: u64) -> Coverage {
    check_steps(&name(seed), &sequence(seed))
}

/// Runs the steps, and panics with what is left of them if the model does not agree.
fn check_steps(name: &str, steps: &[Step]) -> Coverage {
    let (verdict, seen) = attempt(steps);
    if verdict.is_err() {
        let short = shrink(steps, |steps| attempt(steps).0.is_err());
        let error = attempt(&short).0.expect_err("what shrinking leaves still fails");
        panic!("{}", report(name, &short, &error));
    }
    seen
}

fn attempt(steps: &[Step]) -> (Verdict, Coverage) {
    catch_unwind(AssertUnwindSafe(|| {
        run(Partition::default(), Some(Partition::default()), steps)
    }))
    .unwrap_or_else(|_| (Err("panicked".to_owned()), Coverage::default()))
}
