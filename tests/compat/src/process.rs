//! Child processes that are waited for with a limit.

use std::fs::{self, File};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::scratch::Scratch;

/// How often a condition outside this process is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Looks at `condition` until it yields a value, and fails with `what` when `limit` has passed.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = condition()? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            bail!("waited {limit:?} for {what}");
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Waits until `child` has ended, and kills it when `limit` has passed.
pub fn wait_for_end(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let ended = wait_for("the end of a process", limit, || Ok(child.try_wait()?));
    if ended.is_err() {
        child.kill().context("cannot kill a process that did not end")?;
        child.wait().context("cannot wait for a killed process")?;
    }
    ended
}

/// Sends the signal of Ctrl-C.
pub fn interrupt(child: &Child) -> Result<()> {
    signal(child, Signal::INT)
}

/// Sends a signal to a process that was started here.
pub(crate) fn signal(child: &Child, signal: Signal) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.context("no process id")?, signal).context("cannot signal a process")
}

/// Runs `command` until it ends by itself and returns what it wrote; it is killed when `limit` has passed.
pub fn run_to_end(command: &mut Command, limit: Duration) -> Result<Output> {
    // Files instead of pipes: nobody has to read while the process runs.
    let scratch = Scratch::new("run")?;
    let (out, err) = (scratch.path().join("stdout"), scratch.path().join("stderr"));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?)
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let status = wait_for_end(&mut child, limit);
    let (stdout, stderr) = (fs::read(&out)?, fs::read(&err)?);
    let status = status.with_context(|| {
        let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        format!("{command:?} did not end; it wrote:\n{out}\n{err}")
    })?;
    Ok(Output {
        status,
        stdout,
        stderr,
    })
}
