//! `cargo xtask bench`: what a release build costs and how fast it is, as Markdown for `docs/benchmarks.md`.
//!
//! Nothing here passes or fails: figures are for people. Whatever is compared alternates within one run, so that a
//! busy machine disturbs both sides alike, and medians are shown.

mod load;
mod memory;
mod process;
mod report;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use self::load::{Load, Scenario};
use self::process::{Durability, Hello, Server};
use self::report::{Report, median};
use crate::step::step;
use crate::tools::{cargo, root, run as run_command, target_dir};

const CONNECTIONS: [u32; 2] = [16, 64];
const SHALLOW: u32 = 1_000;
const DEEP: u32 = 100_000;

/// How long and how often things are measured.
#[derive(Clone, Copy, Debug)]
struct Effort {
    runs: usize,
    seconds: u32,
    depth_operations: u32,
    memory_messages: u32,
}

const FULL: Effort = Effort {
    runs: 5,
    seconds: 3,
    depth_operations: 2_000,
    memory_messages: 200_000,
};
/// For a look, not for the record.
const QUICK: Effort = Effort {
    runs: 2,
    seconds: 1,
    depth_operations: 200,
    memory_messages: 50_000,
};

/// Runs the verb.
pub(crate) fn run(options: &[&str]) -> Result<()> {
    let effort = match options {
        [] => FULL,
        ["--quick"] => QUICK,
        [..] => bail!("bench knows --quick and nothing else"),
    };
    let load = Load::new(load_generator()?);
    let binaries = step("build", build)?;
    step("micro-benchmarks", micro_benchmarks)?;

    let mut report = Report::new();
    step("start and idle", || {
        start_and_idle(&binaries, effort, &mut report)
    })?;
    for connections in CONNECTIONS {
        let name = format!("send, {connections} connections, against an empty server");
        step(&name, || send(&binaries, &load, effort, connections, &mut report))?;
    }
    step("durable against not durable", || {
        durability(&binaries, &load, effort, &mut report)
    })?;
    step("receive and delete by depth", || {
        depth(&binaries, &load, effort, &mut report)
    })?;
    step("memory per waiting message", || {
        memory(&binaries, effort, &mut report)
    })?;
    println!("{}", report.markdown(effort)?);
    Ok(())
}

#[derive(Debug)]
struct Binaries {
    holdfast: PathBuf,
    hello: PathBuf,
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
    let folder = target_dir().join("release");
    Ok(Binaries {
        holdfast: folder.join("holdfast"),
        hello: folder.join("hello"),
    })
}

/// Runs the benchmarks of every crate that has some.
fn micro_benchmarks() -> Result<()> {
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

fn start_and_idle(binaries: &Binaries, effort: Effort, report: &mut Report) -> Result<()> {
    let (mut starts, mut resident) = (Vec::new(), Vec::new());
    for _ in 0..effort.runs {
        let server = Server::start(&binaries.holdfast, Durability::Always)?;
        starts.push(server.started_in().as_secs_f64() * 1e3);
        // What a process needs only while it starts is given back within moments.
        std::thread::sleep(Duration::from_millis(500));
        resident.push(server.resident_bytes()? as f64 / 1e6);
    }
    report.line(
        "start with an empty directory (spawn to /ready 200)",
        format!("{:.0} ms", median(starts)),
    );
    report.line(
        "resident memory of an idle server",
        format!("{:.1} MB", median(resident)),
    );
    Ok(())
}

/// Measures single sends, alternating with a server that does nothing.
fn send(
    binaries: &Binaries,
    load: &Load,
    effort: Effort,
    connections: u32,
    report: &mut Report,
) -> Result<()> {
    let hello = Hello::start(&binaries.hello)?;
    let server = Server::start(&binaries.holdfast, Durability::Always)?;
    let scenario = Scenario::Send {
        connections,
        seconds: effort.seconds,
    };
    let (mut empty_cpu, mut empty_rate) = (Vec::new(), Vec::new());
    let (mut cpu, mut rate, mut p50, mut p99) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut per_sync, mut sync_millis) = (Vec::new(), Vec::new());
    for _ in 0..effort.runs {
        let empty = load.run(&hello.url, hello.pid(), scenario)?;
        empty_cpu.push(empty.server_cpu_us);
        empty_rate.push(empty.per_second);
        let before = server.syncs()?;
        let real = load.run(&server.url, server.pid(), scenario)?;
        let syncs = server.syncs()?.since(before);
        cpu.push(real.server_cpu_us);
        rate.push(real.per_second);
        p50.push(real.p50_us("send")?);
        p99.push(real.p99_us("send")?);
        per_sync.push(syncs.messages_per_sync());
        sync_millis.push(syncs.mean_millis());
    }
    let (empty_cpu, empty_rate, cpu, rate) =
        (median(empty_cpu), median(empty_rate), median(cpu), median(rate));
    let name = format!("send 100 B, {connections} connections");
    report.line(&format!("{name}: durable"), format!("{rate:.0} per s"));
    report.line(
        &format!("{name}: latency p50 / p99"),
        format!("{:.2} / {:.2} ms", median(p50) / 1e3, median(p99) / 1e3),
    );
    report.line(
        &format!("{name}: empty hyper server"),
        format!("{empty_rate:.0} per s"),
    );
    report.line(
        &format!("{name}: server CPU per request, ours / empty"),
        format!("{cpu:.1} / {empty_cpu:.1} us = {:.2}", cpu / empty_cpu),
    );
    report.line(
        &format!("{name}: throughput, ours / empty"),
        format!("{:.2}", rate / empty_rate),
    );
    report.line(
        &format!("{name}: messages per sync"),
        format!("{:.1}", median(per_sync)),
    );
    report.line(
        &format!("{name}: mean time of a sync"),
        format!("{:.2} ms", median(sync_millis)),
    );
    Ok(())
}

fn durability(binaries: &Binaries, load: &Load, effort: Effort, report: &mut Report) -> Result<()> {
    let durable = Server::start(&binaries.holdfast, Durability::Always)?;
    let lax = Server::start(&binaries.holdfast, Durability::Off)?;
    let scenario = Scenario::Send {
        connections: 64,
        seconds: effort.seconds,
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..effort.runs {
        with.push(load.run(&durable.url, durable.pid(), scenario)?.per_second);
        without.push(load.run(&lax.url, lax.pid(), scenario)?.per_second);
    }
    let (with, without) = (median(with), median(without));
    report.line(
        "send 100 B, 64 connections: HOLDFAST_FSYNC=off",
        format!("{without:.0} per s"),
    );
    report.line(
        "send 100 B, 64 connections: durable / off",
        format!("{:.2}", with / without),
    );
    Ok(())
}

fn depth(binaries: &Binaries, load: &Load, effort: Effort, report: &mut Report) -> Result<()> {
    let mut cost = [Vec::new(), Vec::new()];
    let mut visibility = [Vec::new(), Vec::new()];
    for _ in 0..effort.runs.min(3) {
        for (at, depth) in [SHALLOW, DEEP].into_iter().enumerate() {
            // A server of its own each time: the deep one must not leave its log to the shallow one.
            let server = Server::start(&binaries.holdfast, Durability::Always)?;
            let scenario = Scenario::Depth {
                depth,
                operations: effort.depth_operations,
            };
            let figures = load.run(&server.url, server.pid(), scenario)?;
            cost[at].push(figures.p50_us("receive")? + figures.p50_us("delete")?);
            visibility[at].push(figures.p50_us("visibility")?);
        }
    }
    let ([shallow, deep], [shallow_change, deep_change]) = (cost.map(median), visibility.map(median));
    report.line(
        "receive + delete, 1 connection, p50: 100,000 / 1,000 waiting",
        format!("{deep:.0} / {shallow:.0} us = {:.2}", deep / shallow),
    );
    report.line(
        "change visibility, 1 connection, p50: 100,000 / 1,000 waiting",
        format!(
            "{deep_change:.0} / {shallow_change:.0} us = {:.2}",
            deep_change / shallow_change
        ),
    );
    Ok(())
}

fn memory(binaries: &Binaries, effort: Effort, report: &mut Report) -> Result<()> {
    let server = Server::start_dev(&binaries.holdfast)?;
    let before = server.resident_bytes()?;
    memory::fill(&server.url, effort.memory_messages)?;
    let after = server.resident_bytes()?;
    let each = after.saturating_sub(before) as f64 / f64::from(effort.memory_messages);
    let name = format!(
        "resident memory per waiting message of 100 B ({} of them, --dev)",
        effort.memory_messages
    );
    report.line(&name, format!("{each:.0} B"));
    Ok(())
}
