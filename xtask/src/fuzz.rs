//! `cargo xtask fuzz`: every fuzz target for a while, where the nightly compiler is installed that fuzzing needs.
//!
//! What a run finds interesting stays in the build folder, and a little of what reaches new code is added to
//! `fuzz/corpus`, which the test run replays. A crash leaves its input there, and the folder is printed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::step::step;
use crate::tools::{self, root, target_dir, works};

const SECONDS: u64 = 30;
/// What runs add to the corpus of one target at most. `crates/fuzz-targets` allows more, for inputs of crashes that a
/// person adds.
const CORPUS_BYTES_MAX: u64 = 12_000;
const CORPUS_FILES_MAX: usize = 40;
/// Lines of a failed run that are shown; the rest is in its log.
const SHOWN_LINES: usize = 60;
/// Longest input that is tried, and most memory that one allocation and all together may take.
const LIMITS: [&str; 4] = [
    "-max_len=4096",
    "-malloc_limit_mb=64",
    "-rss_limit_mb=1024",
    "-timeout=10",
];
/// Coverage as libfuzzer counts it, and a sanitizer, which also lets it limit allocations.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address --cfg fuzzing";

/// How a run ended that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Ran,
    /// There is no nightly compiler.
    CannotRun,
}

/// Runs the verb.
pub(crate) fn run(options: &[&str]) -> Result<Ended> {
    let (only, seconds) = read(options)?;
    let known = targets()?;
    let targets: Vec<&String> = known
        .iter()
        .filter(|name| only.is_none_or(|only| only == name.as_str()))
        .collect();
    ensure!(
        !targets.is_empty(),
        "no such target; there are {}",
        known.join(", ")
    );
    let Some(host) = nightly_host() else {
        eprintln!("fuzzing needs a nightly compiler: `rustup toolchain install nightly`");
        return Ok(Ended::CannotRun);
    };
    step("build", || build(&host))?;
    let mut failed = Vec::new();
    for target in targets {
        let done = step(target, || {
            fuzz(target, seconds, &host).and_then(|()| keep(target, &host))
        });
        if done.is_err() {
            failed.push(target.as_str());
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(Ended::Ran)
}

fn read<'a>(options: &[&'a str]) -> Result<(Option<&'a str>, u64)> {
    let (only, rest) = match options {
        [name, rest @ ..] if !name.starts_with('-') => (Some(*name), rest),
        rest => (None, rest),
    };
    let seconds = match rest {
        [] => SECONDS,
        ["--seconds", seconds] => seconds.parse().context("--seconds wants a number")?,
        [..] => bail!("usage: cargo xtask fuzz [TARGET] [--seconds N]"),
    };
    Ok((only, seconds))
}

/// Returns the names of all targets, each of which is a program.
fn targets() -> Result<Vec<String>> {
    let files = fs::read_dir(root().join("fuzz/fuzz_targets")).context("fuzz/fuzz_targets")?;
    let mut names = Vec::new();
    for file in files {
        let file = file?.path();
        if let Some(name) = file.file_stem().and_then(|name| name.to_str()) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the platform that the nightly compiler builds for, if there is one.
fn nightly_host() -> Option<String> {
    if !works(Command::new("rustup").args(["run", "nightly", "rustc", "--version"])) {
        return None;
    }
    let text = tools::capture(Command::new("rustup").args(["run", "nightly", "rustc", "-vV"])).ok()?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
}

fn work_dir() -> PathBuf {
    target_dir().join("fuzz")
}

fn build(host: &str) -> Result<()> {
    let mut command = Command::new("rustup");
    command
        .args([
            "run",
            "nightly",
            "cargo",
            "build",
            "--release",
            "--bins",
            "--target",
            host,
        ])
        .arg("--target-dir")
        .arg(work_dir())
        .env("RUSTFLAGS", FLAGS)
        .current_dir(root().join("fuzz"));
    // Set by the stable cargo that runs this program.
    for name in ["RUSTC", "RUSTDOC", "CARGO", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    tools::run(&mut command)
}

fn program(target: &str, host: &str) -> Command {
    Command::new(work_dir().join(host).join("release").join(target))
}

/// Returns the saved corpus of a target, and the one that grows from run to run.
fn corpora(target: &str) -> Result<(PathBuf, PathBuf)> {
    let saved = root().join("fuzz/corpus").join(target);
    let grown = work_dir().join("corpus").join(target);
    fs::create_dir_all(&saved).with_context(|| saved.display().to_string())?;
    fs::create_dir_all(&grown).with_context(|| grown.display().to_string())?;
    Ok((saved, grown))
}

fn fuzz(target: &str, seconds: u64, host: &str) -> Result<()> {
    let (saved, grown) = corpora(target)?;
    let crashes = work_dir().join("crashes").join(target);
    fs::create_dir_all(&crashes).with_context(|| crashes.display().to_string())?;
    let log = work_dir().join("corpus").join(format!("{target}.log"));
    let mut command = program(target, host);
    command
        .args(LIMITS)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .arg("-print_final_stats=1")
        .arg(&grown)
        .arg(&saved)
        .stderr(fs::File::create(&log).with_context(|| log.display().to_string())?);
    let done = tools::run(&mut command).with_context(|| format!("the input is in {}", crashes.display()));
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    match &done {
        Ok(()) => {
            let executed = lines
                .iter()
                .find(|line| line.contains("number_of_executed_units"));
            eprintln!(
                "    {}",
                executed.context("libfuzzer did not say how much it ran")?
            );
        }
        Err(_) => {
            let last = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
            eprintln!("{}", last.join("\n"));
        }
    }
    done
}

/// Adds to the saved corpus what reaches new code, short and long inputs alike, as long as there is room.
fn keep(target: &str, host: &str) -> Result<()> {
    let (saved, grown) = corpora(target)?;
    let before = files(&saved)?;
    let mut command = program(target, host);
    command
        .args(LIMITS)
        .arg("-merge=1")
        .arg(&saved)
        .arg(&grown)
        .stderr(Stdio::null());
    tools::run(&mut command)?;
    let after = files(&saved)?;
    let new: Vec<_> = after.difference(&before).collect();
    let room = CORPUS_FILES_MAX.saturating_sub(before.len());
    let step = new.len().div_ceil(room.max(1)).max(1);
    let mut bytes: u64 = before.iter().map(|(size, _)| size).sum();
    let mut kept = 0;
    for (at, (size, file)) in new.into_iter().enumerate() {
        if room > 0 && at % step == 0 && bytes + size <= CORPUS_BYTES_MAX {
            bytes += size;
            kept += 1;
        } else {
            fs::remove_file(file).with_context(|| file.display().to_string())?;
        }
    }
    eprintln!(
        "    {} inputs in the corpus, {kept} of them new",
        before.len() + kept
    );
    Ok(())
}

/// Returns the files of a folder by their lengths.
fn files(folder: &Path) -> Result<BTreeSet<(u64, PathBuf)>> {
    let mut files = BTreeSet::new();
    for file in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let file = file?;
        files.insert((file.metadata()?.len(), file.path()));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_a_target_and_a_time() {
        assert_eq!(read(&[]).unwrap(), (None, SECONDS));
        assert_eq!(read(&["policy"]).unwrap(), (Some("policy"), SECONDS));
        assert_eq!(read(&["policy", "--seconds", "5"]).unwrap(), (Some("policy"), 5));
        assert_eq!(read(&["--seconds", "5"]).unwrap(), (None, 5));
        assert!(read(&["--seconds"]).is_err() && read(&["a", "b"]).is_err());
        assert!(targets().unwrap().contains(&"policy".to_owned()));
    }
}
