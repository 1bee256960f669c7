//! A running `holdfast serve`: started, asked, killed, stopped and started again on the same data.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;

use crate::http::{Connection, Reply};
use crate::process::{signal, wait_for, wait_for_end};
use crate::scratch::{Scratch, profile_dir};
use crate::small_disk::SmallDisk;
use crate::sqs::Sqs;

/// The account of the key in the config file of [`Launch::with_keys`].
pub const ACCOUNT: &str = "123456789012";
/// The access key id in that file.
pub const ACCESS_KEY_ID: &str = "AKIAHOLDFASTCOMPAT01";
/// The secret in that file.
pub const SECRET_ACCESS_KEY: &str = "compat/secret+of/the/tests+0123456789abcd";

/// Generous, because several servers may start at once on a small machine.
const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Launch {
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    with_keys: bool,
    program: &'static str,
    disk_mebibytes: Option<u32>,
}

impl Launch {
    /// Returns a start with `--dev`: no keys, and a clock that tests can turn.
    pub fn dev() -> Self {
        Self::without_keys().argument("--dev")
    }

    /// Returns a start with neither `--dev` nor keys.
    pub fn without_keys() -> Self {
        Self {
            with_keys: false,
            ..Self::with_keys()
        }
    }

    /// Returns a start with one key in a config file, so that every request must be signed.
    pub fn with_keys() -> Self {
        Self {
            arguments: Vec::new(),
            variables: Vec::new(),
            with_keys: true,
            program: "holdfast",
            disk_mebibytes: None,
        }
    }

    /// Adds a command-line argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts another binary of this build than `holdfast`.
    #[must_use]
    pub fn program(mut self, program: &'static str) -> Self {
        self.program = program;
        self
    }

    /// Gives the data directory a file system of its own, of this size.
    #[must_use]
    pub fn small_disk(mut self, mebibytes: u32) -> Self {
        self.disk_mebibytes = Some(mebibytes);
        self
    }

    /// Returns the command that starts the binary of this build with free ports and its data in `home`.
    pub fn command(&self, home: &Path) -> Result<Command> {
        let mut command = program(self.program)?;
        command
            .args(["serve", "--port", "0", "--control-port", "0", "--data-dir"])
            .arg(data_dir(home));
        if self.with_keys {
            let path = home.join("holdfast.toml");
            fs::write(&path, config_file())?;
            command.arg("--config").arg(path);
        }
        command.args(&self.arguments).current_dir(home);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

/// A process that serves; it is killed when this value is dropped.
#[derive(Debug)]
pub struct Server {
    launch: Launch,
    // Before the directory that it is mounted in.
    _disk: Option<SmallDisk>,
    home: Scratch,
    child: Child,
    sqs: SocketAddr,
    control: SocketAddr,
}

impl Server {
    /// Starts a server on an empty data directory and waits until it can serve.
    pub fn start(launch: Launch) -> Result<Self> {
        let mut server = Self::start_unready(launch)?;
        server.wait_until_ready().with_context(|| server.log_tail())?;
        Ok(server)
    }

    /// Starts a server on an empty data directory.
    pub fn start_unready(launch: Launch) -> Result<Self> {
        Self::start_prepared(launch, |_| Ok(()))
    }

    /// Starts a server on a data directory that is prepared first; it is not made before.
    pub fn start_prepared(launch: Launch, prepare: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let home = Scratch::new("server")?;
        prepare(&data_dir(home.path()))?;
        let mount = |mebibytes| SmallDisk::mount(&data_dir(home.path()), mebibytes);
        let disk = launch.disk_mebibytes.map(mount).transpose()?;
        let child = spawn(&launch, home.path())?;
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        Ok(Self {
            launch,
            _disk: disk,
            home,
            child,
            sqs: unknown,
            control: unknown,
        })
    }

    /// Starts a server with `--dev`.
    pub fn dev() -> Result<Self> {
        Self::start(Launch::dev())
    }

    /// Returns the address that speaks SQS.
    pub fn sqs_address(&self) -> SocketAddr {
        self.sqs
    }

    /// Returns the address of health, metrics and the clock.
    pub fn control_address(&self) -> SocketAddr {
        self.control
    }

    /// Returns the endpoint URL that an SDK is given.
    pub fn sqs_url(&self) -> String {
        format!("http://{}", self.sqs)
    }

    /// Returns the URL of the control port.
    pub fn control_url(&self) -> String {
        format!("http://{}", self.control)
    }

    /// Returns the data directory.
    pub fn data_dir(&self) -> PathBuf {
        data_dir(self.home.path())
    }

    /// Returns a new client.
    pub fn sqs(&self) -> Sqs {
        Sqs::new(self.sqs)
    }

    /// Opens a connection to the SQS port.
    pub fn connect(&self) -> Result<Connection> {
        Connection::open(self.sqs)
    }

    /// Asks the control port.
    pub fn get(&self, path: &str) -> Result<Reply> {
        Connection::open(self.control)?.request("GET", path, &[], b"")
    }

    /// Turns the server's clock forward, so that a test of time does not wait.
    pub fn advance(&self, by: Duration) -> Result<()> {
        let path = format!("/_holdfast/clock/advance?by={}s", by.as_secs());
        let reply = Connection::open(self.control)?.request("POST", &path, &[], b"")?;
        ensure!(
            (200..300).contains(&reply.status),
            "{path} answered {}: {}",
            reply.status,
            reply.text()
        );
        Ok(())
    }

    /// Returns true while the process has not ended.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Ends the process at once, as `kill -9` does.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("cannot kill the server")?;
        self.child.wait().context("cannot wait for the killed server")?;
        Ok(())
    }

    /// Returns the id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes the process stand still, as a machine that is suspended does.
    pub fn suspend(&self) -> Result<()> {
        signal(&self.child, Signal::STOP)
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result<()> {
        signal(&self.child, Signal::CONT)
    }

    /// Returns everything that the process wrote.
    pub fn log(&self) -> Vec<u8> {
        fs::read(log_file(self.home.path())).unwrap_or_default()
    }

    /// Asks the process to stop, as an init system does, and does not wait.
    pub fn ask_to_stop(&self) -> Result<()> {
        signal(&self.child, Signal::TERM)
    }

    /// Waits until the process has ended by itself.
    pub fn wait_for_exit(&mut self) -> Result<ExitStatus> {
        wait_for_end(&mut self.child, STOP_LIMIT).with_context(|| self.log_tail())
    }

    /// Asks the process to stop and waits for it.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.ask_to_stop()?;
        self.wait_for_exit()
    }

    /// Starts the process again on the same data; it must have ended before.
    pub fn restart(&mut self) -> Result<()> {
        self.restart_unready()?;
        self.wait_until_ready().with_context(|| self.log_tail())
    }

    /// Starts the process again and does not wait until it can serve.
    pub fn restart_unready(&mut self) -> Result<()> {
        ensure!(self.child.try_wait()?.is_some(), "the server still runs");
        self.child = spawn(&self.launch, self.home.path())?;
        Ok(())
    }

    /// Uses another binary of this build from the next start on.
    pub fn use_program(&mut self, program: &'static str) {
        self.launch.program = program;
    }

    /// Sets a variable of the environment from the next start on.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.launch.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Returns whether the process wrote this to its log.
    pub fn logged(&self, text: &str) -> bool {
        let log = fs::read(log_file(self.home.path())).unwrap_or_default();
        String::from_utf8_lossy(&log).contains(text)
    }

    /// Returns the last lines of what the process wrote, for the text of a failure.
    pub fn log_tail(&self) -> String {
        let log = fs::read(log_file(self.home.path())).unwrap_or_default();
        let text = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(40)..).unwrap_or_default();
        format!("the server's last lines:\n{}", tail.join("\n"))
    }

    /// Waits until the process can serve.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let endpoints = self.data_dir().join("endpoints.json");
        let child = &mut self.child;
        let text = wait_for("endpoints.json", START_LIMIT, || {
            if let Some(status) = child.try_wait()? {
                bail!("the server ended with {status} instead of serving");
            }
            Ok(fs::read(&endpoints).ok())
        })?;
        let value: Value = serde_json::from_slice(&text).context("endpoints.json is not JSON")?;
        self.sqs = address(&value, "sqs")?;
        self.control = address(&value, "control")?;
        wait_for("/ready to answer 200", START_LIMIT, || {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status} before it was ready");
            }
            let ready = Connection::open(self.sqs).and_then(|mut c| c.request("GET", "/ready", &[], b""));
            Ok(ready.ok().filter(|reply| reply.status == 200))
        })?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; there is nobody to tell when it cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(launch: &Launch, home: &Path) -> Result<Child> {
    // Removed here as well as by the server: a restart must not read the addresses of the run before.
    match fs::remove_file(data_dir(home).join("endpoints.json")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    let log: File = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log_file(home))?;
    launch
        .command(home)?
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot start holdfast")
}

/// Returns a command of the binary of this build, without settings of whoever runs the tests.
pub fn holdfast() -> Result<Command> {
    program("holdfast")
}

fn program(name: &str) -> Result<Command> {
    let program = profile_dir()?.join(name);
    ensure!(
        program.is_file(),
        "{} is missing: run `cargo xtask test`, or `cargo build --workspace --bins --tests` first",
        program.display()
    );
    let mut command = Command::new(program);
    for (variable, _) in env::vars_os() {
        // They would change what is tested.
        if variable.to_string_lossy().starts_with("HOLDFAST_") {
            command.env_remove(variable);
        }
    }
    Ok(command)
}

fn data_dir(home: &Path) -> PathBuf {
    home.join("data")
}

fn log_file(home: &Path) -> PathBuf {
    home.join("holdfast.log")
}

fn config_file() -> String {
    format!(
        "[[key]]\naccount = \"{ACCOUNT}\"\naccess_key_id = \"{ACCESS_KEY_ID}\"\n\
         secret_access_key = \"{SECRET_ACCESS_KEY}\"\n"
    )
}

fn address(endpoints: &Value, name: &str) -> Result<SocketAddr> {
    let url = endpoints[name]
        .as_str()
        .with_context(|| format!("endpoints.json has no {name}"))?;
    let address = url
        .strip_prefix("http://")
        .with_context(|| format!("{url} is not an http URL"))?;
    address
        .trim_end_matches('/')
        .parse()
        .with_context(|| format!("{url} is not an address"))
}
