//! `cargo xtask signatures`: changed bits of signed requests, as many as the security page promises.
//!
//! The test run tries a sample of them on every change; this is the same test with another number and optimised code.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::step::{Took, step};
use crate::tools::{cargo, run_and_keep};

const COUNT: u64 = 1_000_000;
const TEST: &str = "mutations::a_changed_bit_is_refused_unless_it_changes_nothing_that_is_signed";

/// Runs the verb.
pub(crate) fn run(options: &[&str]) -> Result<()> {
    let count = match options {
        [] => COUNT,
        ["--count", count] => count.parse().context("--count wants a number")?,
        [..] => bail!("usage: cargo xtask signatures [--count N]"),
    };
    step("signatures", || change_bits(count))
}

fn change_bits(count: u64) -> Result<()> {
    // Not nextest, which ends what takes minutes.
    let mut command = cargo();
    command.args(["test", "--release", "-p", "auth", "--test", "it", TEST]);
    command.args(["--", "--exact", "--nocapture"]);
    command.env("HOLDFAST_MUTATIONS", count.to_string());
    let started = Instant::now();
    let (passed, kept) = run_and_keep(&mut command, |line| line.contains("changed bits refused"))?;
    ensure!(
        passed,
        "a changed request was accepted, or the test could not be built"
    );
    let counted = kept
        .first()
        .context("the test did not say how many bits it changed")?;
    println!("{} (build and run: {})", counted.trim(), Took(started.elapsed()));
    Ok(())
}
