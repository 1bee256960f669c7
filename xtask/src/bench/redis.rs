//! Redis that syncs before it answers: what a user might take instead for a durable list.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::home::Home;
use super::process::Process;
use crate::install::apt_install;
use crate::tools::{capture, works};

const START_LIMIT: Duration = Duration::from_secs(30);
/// Requests per connection that show how many fill a run.
const PROBE_REQUESTS: u32 = 100;

/// A Redis with `appendfsync always`.
#[derive(Debug)]
pub(super) struct Redis {
    // Before the folder, so that the process has ended when its files go.
    process: Process,
    _home: Home,
    port: u16,
}

impl Redis {
    /// Installs Redis if need be and starts one on a free port.
    pub(super) fn start() -> Result<Self> {
        let is_there = |program: &str| works(Command::new(program).arg("--version"));
        if !is_there("redis-server") || !is_there("redis-benchmark") {
            apt_install(&["redis-server", "redis-tools"])?;
        }
        let home = Home::new()?;
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""])
            .args(["--auto-aof-rewrite-percentage", "0", "--dir"])
            .arg(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut redis = Self {
            process: Process::spawn(&mut command)?,
            _home: home,
            port,
        };
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            redis.process.check_alive()?;
            ensure!(started.elapsed() < START_LIMIT, "redis does not answer");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(redis)
    }

    /// Pushes 100 bytes at a time for about `seconds` and returns how many a second.
    pub(super) fn pushes_per_second(&self, connections: u32, seconds: u32) -> Result<f64> {
        let probe = self.push(connections, PROBE_REQUESTS * connections)?;
        let requests = (probe * f64::from(seconds)).max(1.0) as u32;
        self.push(connections, requests)
    }

    fn push(&self, connections: u32, requests: u32) -> Result<f64> {
        let mut command = Command::new("redis-benchmark");
        command
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "--csv"])
            .args(["-c", &connections.to_string(), "-n", &requests.to_string()])
            .args(["-d", "100", "-t", "lpush"]);
        let printed = capture(&mut command)?;
        rate(&printed).with_context(|| format!("redis-benchmark printed {printed:?}"))
    }
}

/// Finds the rate in what `redis-benchmark --csv` prints.
fn rate(printed: &str) -> Option<f64> {
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix("\"LPUSH\",\""))?;
    line.split('"').next()?.parse().ok()
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn the_rate_is_found_in_the_table() {
        let printed = "\"test\",\"rps\",\"avg_latency_ms\"\n\"LPUSH\",\"31897.93\",\"0.4\"\n";
        assert_eq!(rate(printed), Some(31_897.93));
        assert_eq!(rate("Could not connect"), None);
    }
}
