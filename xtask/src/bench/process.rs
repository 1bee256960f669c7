//! The servers that are measured, each with a new data directory, killed when dropped.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::tools::target_dir;

pub(super) const ACCESS_KEY_ID: &str = "AKIAHOLDFASTBENCH001";
pub(super) const SECRET_ACCESS_KEY: &str = "bench/secret+of/the/load+generator+12345";

const START_LIMIT: Duration = Duration::from_secs(30);
const SYNC_SECONDS: &str = "holdfast_wal_fsync_seconds_sum";
const SYNCS: &str = "holdfast_wal_fsync_seconds_count";
const MESSAGES_SENT: &str = "holdfast_messages_sent_total";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// On the disk.
    Always,
    /// With the operating system.
    Off,
}

/// A holdfast process.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    home: PathBuf,
    pub(super) url: String,
    control: String,
    started_in: Duration,
}

/// Counters of the journal at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syncs {
    messages: f64,
    count: f64,
    seconds: f64,
}

impl Server {
    /// Starts a server that wants every request signed.
    pub(super) fn start(program: &Path, durability: Durability) -> Result<Self> {
        let home = new_home()?;
        let config = home.join("holdfast.toml");
        fs::write(
            &config,
            format!(
                "[[key]]\naccount = \"123456789012\"\naccess_key_id = \"{ACCESS_KEY_ID}\"\n\
                 secret_access_key = \"{SECRET_ACCESS_KEY}\"\n"
            ),
        )?;
        let mut command = Command::new(program);
        command.args(["serve", "--config"]).arg(config);
        let fsync = match durability {
            Durability::Always => "always",
            Durability::Off => "off",
        };
        Self::launch(command.env("HOLDFAST_FSYNC", fsync), home)
    }

    /// Starts a server that takes unsigned requests.
    pub(super) fn start_dev(program: &Path) -> Result<Self> {
        Self::launch(Command::new(program).args(["serve", "--dev"]), new_home()?)
    }

    fn launch(command: &mut Command, home: PathBuf) -> Result<Self> {
        let data = home.join("data");
        let log = fs::File::create(home.join("holdfast.log"))?;
        let started = Instant::now();
        let child = command
            .args(["--port", "0", "--control-port", "0", "--data-dir"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut server = Self {
            child,
            home,
            url: String::new(),
            control: String::new(),
            started_in: Duration::ZERO,
        };
        server.wait_until_ready(&data.join("endpoints.json"), started)?;
        server.started_in = started.elapsed();
        Ok(server)
    }

    fn wait_until_ready(&mut self, endpoints: &Path, started: Instant) -> Result<()> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                let log = fs::read_to_string(self.home.join("holdfast.log")).unwrap_or_default();
                bail!("the server ended with {status}:\n{log}");
            }
            if let Ok(text) = fs::read(endpoints) {
                let value: Value = serde_json::from_slice(&text).context("endpoints.json is not JSON")?;
                let url = |name: &str| value[name].as_str().map(str::to_owned);
                self.url = url("sqs").context("endpoints.json has no sqs")?;
                self.control = url("control").context("endpoints.json has no control")?;
                if get(&self.control, "/ready").is_ok() {
                    return Ok(());
                }
            }
            ensure!(
                started.elapsed() < START_LIMIT,
                "the server was not ready after {START_LIMIT:?}"
            );
            thread::sleep(Duration::from_micros(500));
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns how long it took from the start of the process to its being ready.
    pub(super) fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Returns the memory that the process holds.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .context("no VmRSS")?;
        let kilobytes = line
            .trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .with_context(|| line.to_owned())?;
        Ok(kilobytes * 1_024)
    }

    /// Reads the journal's counters.
    pub(super) fn syncs(&self) -> Result<Syncs> {
        let page = get(&self.control, "/metrics")?;
        Ok(Syncs {
            messages: sum_of(&page, MESSAGES_SENT)?,
            count: sum_of(&page, SYNCS)?,
            seconds: sum_of(&page, SYNC_SECONDS)?,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, and what is left of its folder harms nobody.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.home);
    }
}

impl Syncs {
    /// Returns what was added since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            messages: self.messages - before.messages,
            count: self.count - before.count,
            seconds: self.seconds - before.seconds,
        }
    }

    pub(super) fn messages_per_sync(self) -> f64 {
        self.messages / self.count
    }

    pub(super) fn mean_millis(self) -> f64 {
        self.seconds / self.count * 1e3
    }
}

/// The server that does nothing.
#[derive(Debug)]
pub(super) struct Hello {
    child: Child,
    pub(super) url: String,
}

impl Hello {
    pub(super) fn start(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut hello = Self {
            child,
            url: String::new(),
        };
        BufReader::new(stdout).read_line(&mut hello.url)?;
        hello.url.truncate(hello.url.trim_end().len());
        ensure!(hello.url.starts_with("http://"), "hello printed {:?}", hello.url);
        Ok(hello)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Hello {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a new folder on the disk that holds the build.
fn new_home() -> Result<PathBuf> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let home = target_dir()
        .join("tmp")
        .join(format!("bench-{}-{number}", std::process::id()));
    fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
    Ok(home.canonicalize()?)
}

/// Returns the body of a page that must answer 200.
fn get(base: &str, path: &str) -> Result<String> {
    let authority = base
        .strip_prefix("http://")
        .with_context(|| format!("{base} is not an http URL"))?;
    let mut stream = TcpStream::connect(authority)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(
        answer.starts_with("HTTP/1.1 200"),
        "{path} answered {:?}",
        answer.lines().next()
    );
    Ok(answer)
}

/// Adds up a metric over its labels.
fn sum_of(page: &str, name: &str) -> Result<f64> {
    let mut found = None;
    for line in page.lines() {
        let Some(rest) = line
            .strip_prefix(name)
            .filter(|rest| rest.starts_with([' ', '{']))
        else {
            continue;
        };
        let value = rest.rsplit(' ').next().unwrap_or_default();
        let value: f64 = value
            .trim()
            .parse()
            .with_context(|| format!("not a number: {line}"))?;
        *found.get_or_insert(0.0) += value;
    }
    found.with_context(|| format!("/metrics has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::sum_of;

    #[test]
    fn a_metric_is_summed_over_its_labels() {
        let page = "# TYPE a counter\na{x=\"1\"} 2\na{x=\"2\"} 3.5\nab 7\nb 1\n";
        assert!((sum_of(page, "a").unwrap() - 5.5).abs() < 1e-9);
        assert!((sum_of(page, "b").unwrap() - 1.0).abs() < 1e-9);
        assert!(sum_of(page, "c").is_err());
    }
}
