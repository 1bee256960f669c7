//! Three nodes on this machine against one: three times the work on the same cores.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Bench;
use super::backlog::fill;
use super::bar::Bar;
use super::load::{Figures, Scenario};
use super::metrics::get;
use super::report::{Report, median};
use super::server::{Server, Settings};

/// How much longer the slowest sends may take while a node gets the state.
const JOINING: Bar = Bar::bound(3.0, "x");
const RATIO: Bar = Bar::at_least(0.25, 0.35, "");
const FORWARDING: Bar = Bar::bound(40.0, "%");
const CONNECTIONS: u32 = 64;
/// A node that is so many entries behind has caught up: entries go on coming.
const NEAR: f64 = 500.0;
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Nodes of one cluster, and what a further one needs to join it.
struct Trio {
    nodes: [Server; 3],
    seeds: String,
}

impl Trio {
    fn form(bench: &Bench, settings: &Settings) -> Result<Self> {
        let listeners = [1, 2, 3].map(|_| TcpListener::bind("127.0.0.1:0"));
        let mut addresses = Vec::new();
        for listener in listeners {
            addresses.push(listener?.local_addr()?.to_string());
        }
        let seeds = addresses.join(",");
        let nodes = addresses.iter().map(|address| member(settings, address, &seeds));
        // Each is ready only when all have formed the cluster.
        let nodes = thread::scope(|scope| {
            let starts: Vec<_> = nodes.map(|node| scope.spawn(|| bench.server(node))).collect();
            let nodes = starts
                .into_iter()
                .map(|start| start.join().expect("a start does not panic"));
            nodes.collect::<Result<Vec<_>>>()
        })?;
        let nodes = nodes.try_into().ok().context("three were started")?;
        Ok(Self { nodes, seeds })
    }

    /// Returns the number of the node that leads.
    fn leader(&self) -> Result<usize> {
        for (number, node) in self.nodes.iter().enumerate() {
            if get(&node.control, "/api/cluster/status")?.contains(r#""role":"leader""#) {
                return Ok(number);
            }
        }
        anyhow::bail!("nobody leads")
    }

    /// Loads all nodes at the same time, and returns the requests of a second.
    fn send_through_all(&self, bench: &Bench, seconds: u32) -> Result<f64> {
        let figures = thread::scope(|scope| {
            let shares = [22, 21, 21];
            let loads: Vec<_> = self
                .nodes
                .iter()
                .zip(shares)
                .map(|(node, connections)| {
                    let scenario = Scenario::SendKibibyte { connections, seconds };
                    scope.spawn(move || bench.load.run(node, scenario))
                })
                .collect();
            let figures = loads
                .into_iter()
                .map(|load| load.join().expect("a load does not panic"));
            figures.collect::<Result<Vec<Figures>>>()
        })?;
        Ok(figures.iter().map(|figures| figures.requests_per_second).sum())
    }

    /// Loads one node, and returns the CPU time in microseconds that all of them together spent on a request.
    fn cpu_through(&self, bench: &Bench, number: usize, seconds: u32) -> Result<f64> {
        let cpu = || self.nodes.iter().map(Server::cpu).collect::<Result<Vec<_>>>();
        let before = cpu()?;
        let connections = CONNECTIONS;
        let figures = bench.load.run(
            &self.nodes[number],
            Scenario::SendKibibyte { connections, seconds },
        )?;
        let requests = figures.requests_per_second * f64::from(seconds);
        let after = cpu()?;
        let spent = after.iter().zip(&before);
        Ok(spent
            .map(|(after, before)| after.micros_since(before))
            .sum::<f64>()
            / requests)
    }
}

fn member(settings: &Settings, address: &str, seeds: &str) -> Settings {
    settings
        .clone()
        .with("HOLDFAST_CLUSTER_LISTEN", address)
        .with("HOLDFAST_CLUSTER_SEEDS", seeds)
        .with(
            "HOLDFAST_CLUSTER_SECRET",
            "a secret of the bench that is long enough",
        )
}

/// Compares a cluster with a single node.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let single = bench.server(Settings::signed())?;
    let trio = Trio::form(bench, &Settings::signed())?;
    let seconds = bench.effort.seconds;
    let (mut alone, mut together, mut per_entry) = (Vec::new(), Vec::new(), Vec::new());
    let (mut direct, mut forwarded) = (Vec::new(), Vec::new());
    for _ in 0..bench.effort.runs {
        let connections = CONNECTIONS;
        let scenario = Scenario::SendKibibyte { connections, seconds };
        alone.push(bench.load.run(&single, scenario)?.requests_per_second);
        let commits = || -> Result<(f64, f64)> {
            // Who leads counts, and it may be another one by now.
            let (mut sent, mut entries) = (0.0, 0.0);
            for node in &trio.nodes {
                let page = node.metrics()?;
                sent += page.sum("holdfast_messages_sent_total")?;
                entries += page.sum("holdfast_commit_batch_commands_count")?;
            }
            Ok((sent, entries))
        };
        let before = commits()?;
        together.push(trio.send_through_all(bench, seconds)?);
        let after = commits()?;
        per_entry.push((after.0 - before.0) / (after.1 - before.1));
        let leader = trio.leader()?;
        direct.push(trio.cpu_through(bench, leader, seconds)?);
        forwarded.push(trio.cpu_through(bench, (leader + 1) % 3, seconds)?);
    }
    let (alone, together) = (median(alone), median(together));
    report.bar(
        "sends of 1 KiB, 64 connections over three nodes / single node, durable",
        format!(
            "{together:.0} / {alone:.0} per s = {:.2}, {:.1} messages per Raft entry",
            together / alone,
            median(per_entry)
        ),
        together / alone,
        &RATIO,
    );
    let (direct, forwarded) = (median(direct), median(forwarded));
    let added = (forwarded / direct - 1.0) * 100.0;
    report.bar(
        "CPU of all nodes for a send through a follower, beside one through the leader",
        format!("{forwarded:.1} / {direct:.1} us: {added:.0} % more"),
        added,
        &FORWARDING,
    );
    Ok(())
}

/// Lets a node join a cluster with a deep backlog, while clients send.
pub(super) fn join(bench: &Bench, report: &mut Report) -> Result<()> {
    // The backlog is sent without signatures.
    let settings = Settings::dev();
    let trio = Trio::form(bench, &settings)?;
    let leader = &trio.nodes[trio.leader()?];
    let messages = bench.effort.deep;
    fill(&leader.url, "standing", messages, 1_024)?;
    let seconds = bench.effort.seconds;
    let scenario = Scenario::Send {
        connections: 16,
        seconds,
    };
    let p99 = || bench.load.run(leader, scenario)?.send_latency_us("p99_us");
    let before = (0..bench.effort.runs)
        .map(|_| p99())
        .collect::<Result<Vec<_>>>()?;
    let before = median(before);
    let join = |disk: &str, settings: &Settings, bar: &Bar, report: &mut Report| -> Result<()> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let seeds = format!("{},{address}", trio.seeds);
        let began = Instant::now();
        let (during, joined) = thread::scope(|scope| {
            let joining = scope.spawn(|| -> Result<_> {
                let node = bench.server(member(settings, &address, &seeds))?;
                while applied(&node)? + NEAR < applied(leader)? {
                    thread::sleep(LOOK);
                }
                Ok((node, began.elapsed()))
            });
            let mut during = Vec::new();
            while !joining.is_finished() {
                during.push(p99()?);
            }
            let joined = joining.join().expect("a start does not panic")?;
            Ok::<_, anyhow::Error>((during, joined))
        })?;
        let (node, took) = joined;
        let during = median(during);
        report.bar(
            &format!("p99 of sends at 16 connections while a fourth node, {disk}, gets the state / before"),
            format!(
                "{during:.0} / {before:.0} us = {:.2}; {messages} messages of 1 KiB in {:.1} s, {} MiB resident there",
                during / before,
                took.as_secs_f64(),
                node.resident_bytes()? >> 20
            ),
            during / before,
            bar,
        );
        Ok(())
    };
    join(
        "on a disk of its own (memory)",
        &settings.clone().in_memory(),
        &JOINING,
        report,
    )?;
    join("on the disk of the others", &settings, &JOINING, report)
}

fn applied(node: &Server) -> Result<f64> {
    node.metrics()?.sum("holdfast_cluster_applied_index")
}
