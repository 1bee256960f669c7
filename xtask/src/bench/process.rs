//! A process that the bench started, and what the kernel says of it.

use std::collections::HashMap;
use std::fs;
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};

/// A child process, killed when dropped.
#[derive(Debug)]
pub(super) struct Process(Child);

/// The processor time that each thread of a process has used, in nanoseconds.
#[derive(Debug)]
pub(super) struct Cpu(HashMap<String, u64>);

impl Process {
    pub(super) fn spawn(command: &mut Command) -> Result<Self> {
        let child = command.spawn();
        child
            .map(Self)
            .with_context(|| format!("cannot start {command:?}"))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Fails if the process has ended.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            Some(status) => bail!("the process ended with {status}"),
            None => Ok(()),
        }
    }

    /// Ends the process without a warning, as `kill -9` does.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
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

    /// Reads the processor time of the threads that are alive: to the nanosecond, where `stat` has ticks of 10 ms.
    pub(super) fn cpu(&self) -> Result<Cpu> {
        let mut threads = HashMap::new();
        for entry in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let folder = entry?;
            let Ok(text) = fs::read_to_string(folder.path().join("schedstat")) else {
                // It ended since the folder was read.
                continue;
            };
            let nanos = text.split(' ').next().unwrap_or_default();
            let nanos = nanos.parse().with_context(|| format!("schedstat is {text:?}"))?;
            threads.insert(folder.file_name().to_string_lossy().into_owned(), nanos);
        }
        Ok(Cpu(threads))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Cpu {
    /// Returns the microseconds used since `before`; what a thread used that ended in between is not among them.
    pub(super) fn micros_since(&self, before: &Self) -> f64 {
        let used = self.0.iter().map(|(thread, nanos)| {
            let earlier = before.0.get(thread).copied().unwrap_or_default();
            nanos.saturating_sub(earlier)
        });
        used.sum::<u64>() as f64 / 1e3
    }
}
