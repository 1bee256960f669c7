//! `cargo xtask sim`: runs of the simulated cluster, one process a seed, as many at a time as there are processors.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::step::{Took, step};
use crate::tools::{self, cargo, target_dir};

const SEEDS: u64 = 200;
/// Seeds that may be needed to find a planted bug.
const SEEDS_PER_BUG: u64 = 50;
const USAGE: &str =
    "usage: cargo xtask sim [--seeds N] [--from S] [--minutes M] | --seed S [--trace] | --find-bugs";

/// What is asked for.
struct Options {
    from: u64,
    seeds: u64,
    longest: Option<Duration>,
}

/// How the runs ended.
#[derive(Default)]
struct Tally {
    verdicts: BTreeMap<&'static str, u64>,
    failed: Vec<(u64, String)>,
}

/// Runs the verb.
pub(crate) fn run(options: &[&str]) -> Result<()> {
    match options {
        ["--seed", seed, rest @ ..] => {
            build()?;
            let mut command = Command::new(program());
            tools::run(command.arg(seed).args(rest))
        }
        ["--find-bugs"] => {
            build()?;
            find_bugs()
        }
        options => {
            let options = read(options)?;
            build()?;
            play_all(&options)
        }
    }
}

fn read(options: &[&str]) -> Result<Options> {
    let mut read = Options {
        from: 1,
        seeds: SEEDS,
        longest: None,
    };
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let number = words.next().context(USAGE)?;
        let number: u64 = number.parse().with_context(|| format!("{word} wants a number"))?;
        match *word {
            "--seeds" => read.seeds = number,
            "--from" => read.from = number,
            "--minutes" => {
                read.longest = Some(Duration::from_secs(60 * number));
                read.seeds = u64::MAX - read.from;
            }
            _ => bail!(USAGE),
        }
    }
    Ok(read)
}

fn build() -> Result<()> {
    // Of the whole workspace, so that dependencies have the features that they have in the tests.
    step("build", || {
        tools::run(cargo().args(["build", "--workspace", "--bins", "--tests"]))
    })
}

fn program() -> PathBuf {
    target_dir().join("debug/cluster-sim")
}

/// Plays a seed; returns its verdict and what it printed.
fn play(seed: u64, more: &[&str]) -> Result<(&'static str, String)> {
    let mut command = Command::new(program());
    command.arg(seed.to_string()).args(more);
    let output = command
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .context("cannot start the simulation")?;
    let verdict = match output.status.code() {
        Some(0) => "pass",
        Some(3) => "unknown",
        Some(_) | None => "fail",
    };
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((verdict, text))
}

fn play_all(options: &Options) -> Result<()> {
    let started = Instant::now();
    let (next, tally) = (AtomicU64::new(options.from), Mutex::new(Tally::default()));
    let end = options.from.saturating_add(options.seeds);
    let work = || -> Result<()> {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end
                || options
                    .longest
                    .is_some_and(|longest| started.elapsed() >= longest)
            {
                return Ok(());
            }
            let (verdict, text) = play(seed, &[])?;
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            *tally.verdicts.entry(verdict).or_default() += 1;
            if verdict == "fail" {
                println!("{}", text.trim_end());
                tally.failed.push((seed, text));
            }
        }
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        let ended = workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker does not panic"));
        ended.collect::<Result<Vec<()>>>()
    })?;
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    let verdicts = tally
        .verdicts
        .iter()
        .map(|(verdict, count)| format!("{count} {verdict}"));
    let verdicts: Vec<String> = verdicts.collect();
    println!("sim: {} in {}", verdicts.join(", "), Took(started.elapsed()));
    let failed: Vec<u64> = tally.failed.iter().map(|(seed, _)| *seed).collect();
    ensure!(
        failed.is_empty(),
        "failed seeds: {failed:?}; `cargo xtask sim --seed S --trace` shows one"
    );
    Ok(())
}

/// Prints the first seed that finds each planted bug, for the table of the tests.
fn find_bugs() -> Result<()> {
    let names = tools::capture(Command::new(program()).arg("--bugs"))?;
    let mut hidden = Vec::new();
    for bug in names.lines() {
        let mut found = None;
        for seed in 1..=SEEDS_PER_BUG {
            if play(seed, &["--bug", bug])?.0 == "fail" {
                found = Some(seed);
                break;
            }
        }
        match found {
            Some(seed) => println!("    (\"{bug}\", {seed}),"),
            None => hidden.push(bug),
        }
    }
    ensure!(
        hidden.is_empty(),
        "not found by {SEEDS_PER_BUG} seeds: {hidden:?}"
    );
    Ok(())
}
