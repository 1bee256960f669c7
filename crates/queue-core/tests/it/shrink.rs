//! Makes a failing sequence small, and says how to run it again.

use std::fmt::Write as _;

use crate::steps::Step;

/// Returns a short sequence that `fails` as well: steps are left out as long as that is so.
pub(crate) fn shrink(steps: &[Step], fails: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut steps = steps.to_vec();
    let mut length = steps.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut shorter = steps.clone();
            shorter.drain(at..steps.len().min(at + length));
            if fails(&shorter) {
                steps = shorter;
            } else {
                at += length;
            }
        }
        length /= 2;
    }
    steps
}

/// Returns the text of a failure that a person can act on.
pub(crate) fn report(name: &str, steps: &[Step], error: &str) -> String {
    let mut text = format!("{name}: {error}\nthe steps that are left:\n");
    for step in steps {
        writeln!(text, "    {step:?}").expect("a string takes every write");
    }
    text
}

/// Returns the number that a variable of the environment holds.
#[allow(clippy::disallowed_methods, reason = "a test is told which seed to run")]
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("the variable holds a number"))
}

/// Returns how to run the sequence of a seed again.
pub(crate) fn name(seed: u64) -> String {
    format!("seed {seed} (HOLDFAST_SEED={seed} runs it alone)")
}
