//! Runs the load generator and reads the line that it prints.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::server::{ACCESS_KEY_ID, SECRET_ACCESS_KEY, Server};
use crate::tools::capture;

/// What is asked of a server. Bodies have 100 bytes unless a scenario says otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scenario {
    /// Single sends.
    Send { connections: u32, seconds: u32 },
    /// Single sends of 1 KiB.
    SendKibibyte { connections: u32, seconds: u32 },
    /// Batches of ten from 16 connections.
    Batch { seconds: u32 },
    /// 16 connections empty a queue that holds `depth`, by receives of ten and batches of deletes.
    Drain { depth: u32 },
    /// Eight producers and eight consumers of ten at a time, over 100 message groups; the order is checked.
    Fifo { seconds: u32 },
    /// 16 connections pass `messages` of 1 KiB through a queue, ten at a time.
    Pass { messages: u32 },
}

impl Scenario {
    /// Returns the arguments of the load generator.
    pub(super) fn arguments(self) -> Vec<String> {
        let text = match self {
            Self::Send { connections, seconds } => {
                format!("send --conns {connections} --secs {seconds} --size 100 --verify 0")
            }
            Self::SendKibibyte { connections, seconds } => {
                format!("send --conns {connections} --secs {seconds} --size 1024 --verify 0")
            }
            Self::Batch { seconds } => {
                format!("batch --conns 16 --secs {seconds} --batch 10 --size 100 --verify 0")
            }
            Self::Drain { depth } => format!("drain --conns 16 --depth {depth} --size 100"),
            Self::Fifo { seconds } => {
                format!("fifo --conns 16 --groups 100 --batch 10 --secs {seconds} --size 100")
            }
            Self::Pass { messages } => {
                format!("cycle --conns 16 --batch 10 --count {messages} --size 1024")
            }
        };
        text.split(' ').map(str::to_owned).collect()
    }
}

/// The load generator.
#[derive(Debug)]
pub(super) struct Load {
    program: PathBuf,
}

/// What one run measured.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) requests_per_second: f64,
    pub(super) messages_per_second: f64,
    /// Microseconds per request.
    pub(super) server_cpu_us: f64,
    latency: Value,
}

impl Load {
    pub(super) fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// Loads our server.
    pub(super) fn run(&self, server: &Server, scenario: Scenario) -> Result<Figures> {
        self.run_at(&server.url, server.pid(), scenario)
    }

    /// Loads the process that serves `url` and returns what was measured; an error of the server is an error here.
    pub(super) fn run_at(&self, url: &str, pid: u32, scenario: Scenario) -> Result<Figures> {
        let mut command = Command::new(&self.program);
        command
            .args(scenario.arguments())
            .args(["--url", url, "--pid", &pid.to_string(), "--threads", "1"]);
        command.args(["--sign", "real", "--access", ACCESS_KEY_ID]);
        command.args(["--secret", SECRET_ACCESS_KEY]);
        let line = capture(&mut command)?;
        eprintln!("    {}", line.trim_end());
        let value: Value = serde_json::from_str(&line).context("the load generator did not print JSON")?;
        ensure!(
            value["errors"] == 0,
            "the load generator met errors: {}",
            value["first_error"]
        );
        let number = |name: &str| {
            value[name]
                .as_f64()
                .with_context(|| format!("no {name} in {line}"))
        };
        Ok(Figures {
            requests_per_second: number("ops_per_s")?,
            messages_per_second: number("messages_per_s")?,
            server_cpu_us: number("server_cpu_us_per_op")?,
            latency: value["latency"].clone(),
        })
    }
}

impl Figures {
    /// Returns a quantile of the latency of single sends: `p50_us` or `p99_us`.
    pub(super) fn send_latency_us(&self, quantile: &str) -> Result<f64> {
        let latency = self.latency["send"][quantile].as_f64();
        latency.with_context(|| format!("no {quantile} of sends in {}", self.latency))
    }
}
