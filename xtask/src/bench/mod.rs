//! `cargo xtask bench`: what a release build costs and how fast it is, as Markdown, beside the floor and the aim of
//! each figure.
//!
//! `--quick` is for a look: short runs, a tenth of the messages. `--full` adds the largest backlogs. `--only WORD` runs
//! the sections whose names contain the word. The load comes from the program that `SQSLOAD` names; what it has no
//! scenario for comes from a small client here. Peers are installed when they are needed, under `target/` or as packages
//! of the system; one that cannot be had leaves a line that says why.
//!
//! Nothing here passes or fails: figures are for people. Whatever is compared alternates within one run, so that a
//! busy machine disturbs both sides alike, and medians are shown. Server and client share two cores, also where there
//! are more.

mod backlog;
mod bar;
mod client;
mod cluster;
mod cores;
mod depth;
mod disk;
mod durability;
mod effort;
mod emulator;
mod fauxqs;
mod group_commit;
mod hello;
mod home;
mod idle_queues;
mod load;
mod memory;
mod metrics;
mod operations;
mod polls;
mod process;
mod recovery;
mod redis;
mod report;
mod sends;
mod server;
mod signing;
mod snapshots;
mod start;

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use self::effort::{Effort, Options};
use self::load::Load;
use self::report::Report;
use self::server::{Server, Settings};
use crate::step::step;
use crate::tools::{cargo, root, run as run_command, target_dir};

/// What every section needs.
#[derive(Debug)]
struct Bench {
    binaries: Binaries,
    load: Load,
    effort: Effort,
}

#[derive(Debug)]
struct Binaries {
    holdfast: PathBuf,
    hello: PathBuf,
}

type Section = fn(&Bench, &mut Report) -> Result<()>;

const SECTIONS: [(&str, Section); 18] = [
    ("micro-benchmarks", micro_benchmarks),
    ("start and idle", start::run),
    ("sends, 1 connection", |bench, report| {
        sends::run(bench, sends::ONE, report)
    }),
    ("sends, 16 connections", |bench, report| {
        sends::run(bench, sends::SIXTEEN, report)
    }),
    ("sends, 64 connections", |bench, report| {
        sends::run(bench, sends::SIXTY_FOUR, report)
    }),
    ("emulator", emulator::run),
    ("durability", durability::run),
    ("signing", signing::run),
    ("depth waiting", depth::waiting),
    ("depth in flight", depth::in_flight),
    ("idle queues", idle_queues::run),
    ("memory", memory::run),
    ("polls", polls::run),
    ("recovery", recovery::run),
    ("disk", disk::run),
    ("snapshots", snapshots::run),
    ("cluster", cluster::run),
    ("joining", cluster::join),
];

/// Runs the verb.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let names = SECTIONS.map(|(name, _)| name);
    let is_chosen = |name: &str| options.only.is_none_or(|word| name.contains(word));
    ensure!(
        names.iter().any(|name| is_chosen(name)),
        "no section has that in its name: they are {}",
        names.join(", ")
    );
    let load = Load::new(load_generator()?);
    let bench = Bench {
        binaries: step("build", build)?,
        load,
        effort: options.effort,
    };
    cores::share()?;
    let mut report = Report::new();
    let mut failed = Vec::new();
    for (name, section) in SECTIONS.iter().filter(|(name, _)| is_chosen(name)) {
        report.begin(name);
        // The figures of the others are worth having all the same.
        if let Err(error) = step(name, || section(&bench, &mut report)) {
            report.line("failed", format!("{error:#}").replace(['\n', '|'], " "));
            failed.push(*name);
        }
    }
    println!("{}", report.markdown(&options)?);
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

impl Bench {
    fn server(&self, settings: Settings) -> Result<Server> {
        Server::start(&self.binaries.holdfast, settings)
    }
}

fn load_generator() -> Result<PathBuf> {
    let path = env::var_os("SQSLOAD").map(PathBuf::from);
    let path = path.context("set SQSLOAD=PATH, the path of an `sqsload` binary (a release build of it)")?;
    ensure!(
        path.is_file(),
        "SQSLOAD names {}, which is not a file",
        path.display()
    );
    Ok(path)
}

fn build() -> Result<Binaries> {
    // As a user builds it: alone, so that no other crate adds features to its dependencies.
    run_command(cargo().args(["build", "--release", "--package", "app"]))?;
    run_command(cargo().args(["build", "--release", "--package", "compat", "--bin", "hello"]))?;
    let folder = target_dir().join("release").canonicalize()?;
    Ok(Binaries {
        holdfast: folder.join("holdfast"),
        hello: folder.join("hello"),
    })
}

/// Runs the benchmarks of every crate that has some; they print their own figures.
fn micro_benchmarks(_: &Bench, _: &mut Report) -> Result<()> {
    for entry in fs::read_dir(root().join("crates"))? {
        let folder = entry?.path();
        let name = folder
            .file_name()
            .and_then(|name| name.to_str())
            .context("a crate's folder is no text")?;
        if folder.join("benches").is_dir() {
            run_command(cargo().args(["bench", "--package", name, "--benches"]))?;
        }
    }
    Ok(())
}
