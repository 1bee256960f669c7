//! Runs the load generator and reads the line that it prints.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::process::{ACCESS_KEY_ID, SECRET_ACCESS_KEY};
use crate::tools::capture;

/// What is asked of a server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scenario {
    /// Single sends of 100 bytes from many connections.
    Send { connections: u32, seconds: u32 },
    /// Receives, visibility changes and deletes one by one, with a standing backlog.
    Depth { depth: u32, operations: u32 },
}

impl Scenario {
    /// Returns the arguments of the load generator.
    pub(super) fn arguments(self) -> Vec<String> {
        let text = match self {
            Self::Send { connections, seconds } => {
                format!("send --conns {connections} --secs {seconds} --size 100 --verify 0")
            }
            Self::Depth { depth, operations } => {
                format!("depth --depth {depth} --ops {operations} --conns 4 --secs 60 --size 100 --verify 0")
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
    pub(super) per_second: f64,
    pub(super) server_cpu_us: f64,
    latency: Value,
}

impl Load {
    pub(super) fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// Loads the server at `url` and returns what was measured; an error of the server is an error here.
    pub(super) fn run(&self, url: &str, pid: u32, scenario: Scenario) -> Result<Figures> {
        let mut command = Command::new(&self.program);
        command
            .args(scenario.arguments())
            .args(["--url", url, "--pid", &pid.to_string()]);
        command.args([
            "--sign",
            "real",
            "--access",
            ACCESS_KEY_ID,
            "--secret",
            SECRET_ACCESS_KEY,
        ]);
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
            per_second: number("ops_per_s")?,
            server_cpu_us: number("server_cpu_us_per_op")?,
            latency: value["latency"].clone(),
        })
    }
}

impl Figures {
    /// Returns the median latency of a kind of operation.
    pub(super) fn p50_us(&self, operation: &str) -> Result<f64> {
        self.latency_of(operation, "p50_us")
    }

    /// Returns the latency that one operation in a hundred exceeds.
    pub(super) fn p99_us(&self, operation: &str) -> Result<f64> {
        self.latency_of(operation, "p99_us")
    }

    fn latency_of(&self, operation: &str, quantile: &str) -> Result<f64> {
        let latency = self.latency[operation][quantile].as_f64();
        latency.with_context(|| format!("no {quantile} of {operation} in {}", self.latency))
    }
}
