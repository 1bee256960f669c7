//! The server that is measured, with a new data directory, killed when dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::home::Home;
use super::metrics::{Page, Syncs, get};
use super::process::{Cpu, Process};

pub(super) const ACCESS_KEY_ID: &str = "AKIAHOLDFASTBENCH001";
pub(super) const SECRET_ACCESS_KEY: &str = "bench/secret+of/the/load+generator+12345";

/// Long enough to recover the largest backlog on a slow disk.
const START_LIMIT: Duration = Duration::from_secs(300);

/// What a server logs when it finds the disk too slow for its reactor to wait for, or quick again.
const DRIVER_CHANGED: &str = "the driver of commits has changed";

/// How a server is started. Every answer is on the disk unless an option says otherwise.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    is_dev: bool,
    is_in_memory: bool,
    variables: Vec<(&'static str, String)>,
}

impl Settings {
    /// Every request has to be signed.
    pub(super) fn signed() -> Self {
        Self::new(false)
    }

    /// No signature is asked for or verified.
    pub(super) fn dev() -> Self {
        Self::new(true)
    }

    fn new(is_dev: bool) -> Self {
        let variables = vec![("HOLDFAST_FSYNC", "always".to_owned())];
        Self {
            is_dev,
            is_in_memory: false,
            variables,
        }
    }

    /// The data lie in memory: as on a disk that nothing else uses.
    pub(super) fn in_memory(mut self) -> Self {
        self.is_in_memory = true;
        self
    }

    /// Sets an option by its variable.
    pub(super) fn with(mut self, variable: &'static str, value: impl ToString) -> Self {
        self.variables.push((variable, value.to_string()));
        self
    }
}

/// A holdfast process.
#[derive(Debug)]
pub(super) struct Server {
    // Before the folder, so that the process has ended when its files go.
    process: Process,
    program: PathBuf,
    settings: Settings,
    home: Home,
    pub(super) url: String,
    pub(super) control: String,
    started_in: Duration,
}

impl Server {
    pub(super) fn start(program: &Path, settings: Settings) -> Result<Self> {
        let home = if settings.is_in_memory {
            Home::in_memory()?
        } else {
            Home::new()?
        };
        if !settings.is_dev {
            write_keys(&home.path().join("holdfast.toml"))?;
        }
        let started = Instant::now();
        let mut server = Self {
            process: spawn(program, &settings, home.path())?,
            program: program.to_owned(),
            settings,
            home,
            url: String::new(),
            control: String::new(),
            started_in: Duration::ZERO,
        };
        server.wait_until_ready(started)?;
        Ok(server)
    }

    /// Ends the process as a crash would, and starts it again with the same data.
    pub(super) fn crash_and_restart(&mut self) -> Result<()> {
        self.process.kill()?;
        // It names the ports of the process that has ended.
        fs::remove_file(self.endpoints())?;
        let started = Instant::now();
        self.process = spawn(&self.program, &self.settings, self.home.path())?;
        self.wait_until_ready(started)
    }

    fn wait_until_ready(&mut self, started: Instant) -> Result<()> {
        loop {
            self.process
                .check_alive()
                .with_context(|| fs::read_to_string(self.log()).unwrap_or_default())?;
            if let Ok(text) = fs::read(self.endpoints()) {
                let value: Value = serde_json::from_slice(&text).context("endpoints.json is not JSON")?;
                let url = |name: &str| value[name].as_str().map(str::to_owned);
                self.url = url("sqs").context("endpoints.json has no sqs")?;
                self.control = url("control").context("endpoints.json has no control")?;
                if get(&self.control, "/ready").is_ok() {
                    self.started_in = started.elapsed();
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
        self.process.pid()
    }

    /// Returns how long it took from the last start of the process to its being ready.
    pub(super) fn started_in(&self) -> Duration {
        self.started_in
    }

    pub(super) fn resident_bytes(&self) -> Result<u64> {
        self.process.resident_bytes()
    }

    pub(super) fn cpu(&self) -> Result<Cpu> {
        self.process.cpu()
    }

    pub(super) fn metrics(&self) -> Result<Page> {
        Page::read(&self.control)
    }

    /// Reads the journal's counters.
    pub(super) fn syncs(&self) -> Result<Syncs> {
        self.metrics()?.syncs()
    }

    /// Returns the bytes of all files in the data directory.
    pub(super) fn data_bytes(&self) -> Result<u64> {
        bytes_below(&data_dir(self.home.path()))
    }

    /// Returns how often commits went from the reactor to the commit thread, which costs several times as much a
    /// request, or back.
    pub(super) fn driver_changes(&self) -> Result<usize> {
        let log = fs::read_to_string(self.log())?;
        Ok(log.lines().filter(|line| line.contains(DRIVER_CHANGED)).count())
    }

    fn log(&self) -> PathBuf {
        log_file(self.home.path())
    }

    fn endpoints(&self) -> PathBuf {
        data_dir(self.home.path()).join("endpoints.json")
    }
}

fn log_file(home: &Path) -> PathBuf {
    home.join("holdfast.log")
}

fn data_dir(home: &Path) -> PathBuf {
    home.join("data")
}

fn write_keys(config: &Path) -> Result<()> {
    let text = format!(
        "[[key]]\naccount = \"123456789012\"\naccess_key_id = \"{ACCESS_KEY_ID}\"\n\
         secret_access_key = \"{SECRET_ACCESS_KEY}\"\n"
    );
    fs::write(config, text).with_context(|| format!("cannot write {}", config.display()))
}

fn spawn(program: &Path, settings: &Settings, home: &Path) -> Result<Process> {
    let log = fs::File::create(log_file(home))?;
    let mut command = Command::new(program);
    command.arg("serve");
    if settings.is_dev {
        command.arg("--dev");
    }
    command
        .args(["--port", "0", "--control-port", "0", "--data-dir"])
        .arg(data_dir(home))
        .envs(settings.variables.iter().map(|(name, value)| (name, value)))
        // Where its configuration is, if it has one, and no other.
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    Process::spawn(&mut command)
}

fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        bytes += match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => bytes_below(&path)?,
            Ok(metadata) => metadata.len(),
            // The server removes files while they are counted.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error.into()),
        };
    }
    Ok(bytes)
}
