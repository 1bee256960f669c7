//! Single sends, alternating with a server that does nothing, with Redis, and with the disk alone.

use anyhow::Result;

use super::Bench;
use super::bar::Bar;
use super::group_commit;
use super::hello::Hello;
use super::home::Home;
use super::load::{Figures, Scenario};
use super::redis::Redis;
use super::report::{Report, median};
use super::server::{Server, Settings};

/// What the sends of so many connections are held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bars {
    connections: u32,
    /// Server CPU per request, against the empty server.
    cpu: Option<Bar>,
    /// Requests a second, against the empty server.
    empty: Option<Bar>,
    /// Sends a second, against Redis.
    redis: Bar,
    /// 99th percentile, against the disk alone with as many writers.
    disk: Option<Bar>,
}

pub(super) const ONE: Bars = Bars {
    connections: 1,
    cpu: None,
    empty: None,
    redis: Bar::at_least(0.75, 1.0, ""),
    disk: None,
};
pub(super) const SIXTEEN: Bars = Bars {
    connections: 16,
    cpu: Some(Bar::at_most(2.2, 1.6, "x")),
    empty: None,
    redis: Bar::at_least(0.7, 0.9, ""),
    disk: Some(Bar::at_most(3.0, 2.0, "x")),
};
pub(super) const SIXTY_FOUR: Bars = Bars {
    connections: 64,
    cpu: Some(Bar::at_most(1.7, 1.35, "x")),
    empty: Some(Bar::at_least(0.6, 0.8, "")),
    redis: Bar::at_least(0.65, 0.8, ""),
    disk: None,
};

impl Bars {
    fn name(self) -> String {
        let plural = if self.connections == 1 { "" } else { "s" };
        format!("sends, {} connection{plural}", self.connections)
    }
}

/// What the runs measured, one value a run.
#[derive(Debug, Default)]
struct Series {
    ours: Vec<Figures>,
    empty: Vec<Figures>,
    redis: Vec<f64>,
    disk_p99_us: Vec<f64>,
    messages_per_sync: Vec<f64>,
    sync_millis: Vec<f64>,
}

/// Measures sends of 100 bytes.
pub(super) fn run(bench: &Bench, bars: Bars, report: &mut Report) -> Result<()> {
    let hello = Hello::start(&bench.binaries.hello)?;
    let redis = Redis::start();
    let server = bench.server(Settings::signed())?;
    let mut series = Series::default();
    for _ in 0..bench.effort.runs {
        series.add(bench, bars, &hello, redis.as_ref().ok(), &server)?;
    }
    series.report(bars, report)?;
    let name = format!("{}: ours / Redis appendfsync always", bars.name());
    match redis {
        Ok(_) => {
            let (ours, peer) = (
                median_of(&series.ours, |run| run.requests_per_second),
                median(series.redis),
            );
            let figure = format!("{ours:.0} / {peer:.0} per s = {:.2}", ours / peer);
            report.bar(&name, figure, ours / peer, &bars.redis);
        }
        Err(error) => report.missing(&name, &format!("{error:#}"), &bars.redis),
    }
    Ok(())
}

impl Series {
    fn add(
        &mut self,
        bench: &Bench,
        bars: Bars,
        hello: &Hello,
        redis: Option<&Redis>,
        server: &Server,
    ) -> Result<()> {
        let scenario = Scenario::Send {
            connections: bars.connections,
            seconds: bench.effort.seconds,
        };
        self.empty
            .push(bench.load.run_at(&hello.url, hello.pid(), scenario)?);
        if let Some(redis) = redis {
            self.redis
                .push(redis.pushes_per_second(bars.connections, bench.effort.seconds)?);
        }
        let before = server.syncs()?;
        self.ours.push(bench.load.run(server, scenario)?);
        let syncs = server.syncs()?.since(before);
        self.messages_per_sync.push(syncs.messages_per_sync());
        self.sync_millis.push(syncs.mean_millis());
        if bars.disk.is_some() {
            let home = Home::new()?;
            let p99 = group_commit::p99_us(&home.path().join("records"), bench.effort.seconds)?;
            self.disk_p99_us.push(p99);
        }
        Ok(())
    }

    fn report(&self, bars: Bars, report: &mut Report) -> Result<()> {
        let name = bars.name();
        let (p50, p99) = (self.latency_ms("p50_us")?, self.latency_ms("p99_us")?);
        report.line(
            &format!("{name}: latency p50 / p99"),
            format!("{p50:.2} / {p99:.2} ms"),
        );
        report.line(
            &format!("{name}: messages per sync; mean time of a sync"),
            format!(
                "{:.1}; {:.2} ms",
                median(self.messages_per_sync.clone()),
                median(self.sync_millis.clone())
            ),
        );
        let cpu = |runs: &[Figures]| median_of(runs, |run| run.server_cpu_us);
        let (ours, empty) = (cpu(&self.ours), cpu(&self.empty));
        compare(
            report,
            &format!("{name}: server CPU per request, ours / empty hyper server"),
            format!("{ours:.1} / {empty:.1} us = {:.2}", ours / empty),
            ours / empty,
            bars.cpu,
        );
        let rate = |runs: &[Figures]| median_of(runs, |run| run.requests_per_second);
        let (ours, empty) = (rate(&self.ours), rate(&self.empty));
        compare(
            report,
            &format!("{name}: throughput, ours / empty hyper server"),
            format!("{ours:.0} / {empty:.0} per s = {:.2}", ours / empty),
            ours / empty,
            bars.empty,
        );
        if let Some(bar) = bars.disk {
            let disk = median(self.disk_p99_us.clone()) / 1e3;
            report.bar(
                &format!("{name}: p99, ours / group commit of 16 writers on the same disk"),
                format!("{p99:.2} / {disk:.2} ms = {:.2}", p99 / disk),
                p99 / disk,
                &bar,
            );
        }
        Ok(())
    }

    fn latency_ms(&self, quantile: &str) -> Result<f64> {
        let micros = self.ours.iter().map(|run| run.send_latency_us(quantile));
        Ok(median(micros.collect::<Result<_>>()?) / 1e3)
    }
}

fn compare(report: &mut Report, name: &str, figure: String, value: f64, bar: Option<Bar>) {
    match bar {
        Some(bar) => report.bar(name, figure, value, &bar),
        None => report.line(name, figure),
    }
}

fn median_of(runs: &[Figures], figure: impl Fn(&Figures) -> f64) -> f64 {
    median(runs.iter().map(figure).collect())
}
