//! `cargo xtask test`: everything that must hold before a change is merged.
//!
//! All steps run even when one fails, so that one run tells everything; only what cannot work is left out.

use std::io::IsTerminal;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail, ensure};

use crate::clients;
use crate::step::{Took, step};
use crate::tidy;
use crate::tools::{self, cargo, run_and_keep, works};

/// Runs the verb and says how it ended.
pub(crate) fn run() -> Result<()> {
    let started = Instant::now();
    let done = run_all();
    let took = Took(started.elapsed());
    match done {
        Ok(()) => {
            eprintln!("xtask test: passed in {took}");
            Ok(())
        }
        Err(error) => bail!("xtask test: {error:#} (after {took})"),
    }
}

/// Runs every check and every test.
fn run_all() -> Result<()> {
    let mut failed = Vec::new();
    let mut note = |name: &'static str, done: Result<()>| {
        if done.is_err() {
            failed.push(name);
        }
    };
    note(
        "format",
        step("format", || tools::run(cargo().args(["fmt", "--all", "--check"]))),
    );
    note("tidy", step("tidy", tidy::check));
    // The package registries and the compiler do not wait for each other.
    let (clients, built) = thread::scope(|scope| {
        let clients = scope.spawn(|| step("clients", clients::install));
        note("lints", step("lints", lint));
        let built = step("build", build);
        (clients.join().expect("installing clients does not panic"), built)
    });
    let mut counts = Vec::new();
    match (clients, built) {
        (Ok(installed), Ok(())) => note("tests", step("tests", || test(&installed, &mut counts))),
        (clients, built) => {
            note("clients", clients.map(|_| ()));
            note("build", built);
        }
    }
    for line in counts {
        eprintln!("{line}");
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn lint() -> Result<()> {
    tools::run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Builds what the tests need: the tests, the binary that they drive, and that of the next version to upgrade to.
fn build() -> Result<()> {
    let next = [
        "build",
        "--workspace",
        "--features",
        "app/next-level",
        "--bin",
        "holdfast",
    ];
    tools::run(cargo().args(next))?;
    let home = tools::target_dir().join("debug");
    std::fs::copy(home.join("holdfast"), home.join("holdfast-next"))?;
    tools::run(cargo().args(["build", "--workspace", "--bins", "--tests"]))
}

fn test(clients: &clients::Installed, counts: &mut Vec<String>) -> Result<()> {
    let mut command = test_runner();
    command.envs(clients.environment());
    if std::env::var_os("RUST_LIB_BACKTRACE").is_none() {
        // A failed test says what it found; where its error value was made is of no use.
        command.env("RUST_LIB_BACKTRACE", "0");
    }
    let (passed, kept) = run_and_keep(&mut command, is_count)?;
    counts.extend(kept);
    ensure!(passed, "a test failed or could not be built");
    ensure!(
        !counts.is_empty(),
        "the test runner did not say how many tests it ran"
    );
    Ok(())
}

/// Returns nextest where it is installed, which limits each test's time, and cargo's own runner elsewhere.
fn test_runner() -> Command {
    let mut command = cargo();
    if works(cargo().args(["nextest", "--version"])) {
        let color = if std::io::stderr().is_terminal() {
            "always"
        } else {
            "never"
        };
        command.args(["nextest", "run", "--workspace", "--color", color]);
    } else {
        command.args([
            "test",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--no-fail-fast",
        ]);
    }
    command
}

/// Recognises the closing counts of both runners.
fn is_count(line: &str) -> bool {
    line.starts_with("test result:") || (line.contains("Summary") && line.contains("tests run"))
}

#[cfg(test)]
mod tests {
    use super::is_count;

    #[test]
    fn the_counts_of_both_runners_are_recognised() {
        assert!(is_count(
            "     Summary [   1.2s] 38 tests run: 38 passed, 0 skipped"
        ));
        assert!(is_count(
            "\u{1b}[32;1m     Summary\u{1b}[0m [ 1.2s] 2 tests run: 2 passed, 0 skipped"
        ));
        assert!(is_count(
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"
        ));
        assert!(!is_count(
            "        PASS [   0.004s] compat::it long_poll::summary"
        ));
    }
}
