//! Three nodes on this machine against one: three times the work on the same cores.

use std::net::TcpListener;
use std::thread;

use anyhow::{Context, Result};

use super::Bench;
use super::bar::Bar;
use super::load::{Figures, Scenario};
use super::metrics::get;
use super::report::{Report, median};
use super::server::{Server, Settings};

const RATIO: Bar = Bar::at_least(0.25, 0.35, "");
const FORWARDING: Bar = Bar::bound(40.0, "%");
const CONNECTIONS: u32 = 64;

/// Nodes of one cluster.
struct Trio([Server; 3]);

impl Trio {
    fn form(bench: &Bench) -> Result<Self> {
        let listeners = [1, 2, 3].map(|_| TcpListener::bind("127.0.0.1:0"));
        let mut addresses = Vec::new();
        for listener in listeners {
            addresses.push(listener?.local_addr()?.to_string());
        }
        let seeds = addresses.join(",");
        let settings = addresses.iter().map(|address| {
            Settings::signed()
                .with("HOLDFAST_CLUSTER_LISTEN", address)
                .with("HOLDFAST_CLUSTER_SEEDS", &seeds)
                .with(
                    "HOLDFAST_CLUSTER_SECRET",
                    "a secret of the bench that is long enough",
                )
        });
        // Each is ready only when all have formed the cluster.
        let nodes = thread::scope(|scope| {
            let starts: Vec<_> = settings
                .map(|settings| scope.spawn(|| bench.server(settings)))
                .collect();
            let nodes = starts
                .into_iter()
                .map(|start| start.join().expect("a start does not panic"));
            nodes.collect::<Result<Vec<_>>>()
        })?;
        let nodes = nodes.try_into().ok().context("three were started")?;
        Ok(Self(nodes))
    }

    /// Returns the number of the node that leads.
    fn leader(&self) -> Result<usize> {
        for (number, node) in self.0.iter().enumerate() {
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
                .0
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
        let cpu = || self.0.iter().map(Server::cpu).collect::<Result<Vec<_>>>();
        let before = cpu()?;
        let connections = CONNECTIONS;
        let figures = bench
            .load
            .run(&self.0[number], Scenario::SendKibibyte { connections, seconds })?;
        let requests = figures.requests_per_second * f64::from(seconds);
        let after = cpu()?;
        let spent = after.iter().zip(&before);
        Ok(spent
            .map(|(after, before)| after.micros_since(before))
            .sum::<f64>()
            / requests)
    }
}

/// Compares a cluster with a single node.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let single = bench.server(Settings::signed())?;
    let trio = Trio::form(bench)?;
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
            for node in &trio.0 {
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
