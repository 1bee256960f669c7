//! Seeded sequences of commands on a server that crashes: killed, stopped in the middle of a write, out of power, out
//! of room, with syncs that fail.
//!
//! `HOLDFAST_SEED=n` runs the sequence of one seed; `HOLDFAST_SEQUENCES=n` runs that many instead of the usual number.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::shrink::{name, number, report, shrink};
use crate::steps::{Step, sequence};
use crate::world::{Bug, Seen, World};

/// Sequences in all, spread over the tests of this file so that they run beside each other.
const SEQUENCES: u64 = 4_000;
const PARTS: u64 = 2;

#[test]
fn sequences_with_crashes_1() {
    sequences(0);
}

#[test]
fn sequences_with_crashes_2() {
    sequences(1);
}

fn sequences(part: u64) {
    if let Some(seed) = number("HOLDFAST_SEED") {
        check(seed);
        return;
    }
    let count = number("HOLDFAST_SEQUENCES").unwrap_or(SEQUENCES) / PARTS;
    let mut seen = Seen::default();
    for n in 0..count {
        seen.add(check(n * PARTS + part));
    }
    seen.assert_enough(count);
}

/// Runs the sequence of a seed, and panics with what is left of it if something was lost.
fn check(seed: u64) -> Seen {
    let steps = sequence(seed);
    let (verdict, seen) = attempt(seed, &steps);
    if verdict.is_err() {
        let short = shrink(&steps, |steps| attempt(seed, steps).0.is_err());
        let error = attempt(seed, &short)
            .0
            .expect_err("what shrinking leaves still fails");
        panic!("{}", report(&name(seed), &short, &error));
    }
    seen
}

fn attempt(seed: u64, steps: &[Step]) -> (Result<(), String>, Seen) {
    catch_unwind(AssertUnwindSafe(|| run(seed, Bug::None, steps)))
        .unwrap_or_else(|_| (Err("panicked".to_owned()), Seen::default()))
}

/// Runs the steps and says what went wrong, and what was seen.
pub(crate) fn run(seed: u64, bug: Bug, steps: &[Step]) -> (Result<(), String>, Seen) {
    let mut world = World::new(seed, bug);
    for (at, step) in steps.iter().enumerate() {
        if let Err(error) = world.step(step) {
            return (Err(format!("step {at}, {step:?}:\n{error}")), world.seen);
        }
    }
    (world.finish(), world.seen)
}

impl Seen {
    fn fields(&mut self) -> [(&'static str, &mut u64); 20] {
        [
            ("entries", &mut self.entries),
            ("power cuts", &mut self.power_cuts),
            ("kills", &mut self.kills),
            ("stops in recovery", &mut self.stops_in_recovery),
            ("torn tails", &mut self.torn_tails),
            (
                "unanswered entries that survived",
                &mut self.unanswered_that_survived,
            ),
            (
                "unanswered entries that were lost",
                &mut self.unanswered_that_were_lost,
            ),
            ("snapshots taken", &mut self.snapshots_taken),
            ("snapshots read", &mut self.snapshots_read),
            ("entries that found no room", &mut self.found_no_room),
            ("failed syncs", &mut self.failed_syncs),
            ("seals", &mut self.seals),
            ("redeliveries", &mut self.redeliveries),
            ("duplicates", &mut self.duplicates),
            ("dead-letter moves", &mut self.moves),
            ("deletes", &mut self.deletes),
            ("takes of a group whose turn it was", &mut self.fair_takes),
            ("repeated attempts", &mut self.attempts_repeated),
            ("messages moved by tasks", &mut self.task_moves),
            ("move tasks across a stop", &mut self.tasks_across_stops),
        ]
    }

    fn add(&mut self, mut other: Self) {
        for ((_, mine), (_, theirs)) in self.fields().into_iter().zip(other.fields()) {
            *mine += *theirs;
        }
    }

    /// Panics if so many sequences saw too little of anything: then their success says nothing.
    fn assert_enough(mut self, sequences: u64) {
        let text = format!("{self:#?}");
        for (name, count) in self.fields() {
            assert!(
                *count >= sequences / 10,
                "unknown: too few {name} in {sequences} sequences\n{text}"
            );
        }
    }
}
