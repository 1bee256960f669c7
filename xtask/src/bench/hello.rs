//! The server that does nothing.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::process::Process;

/// A running `hello` of `tests/compat`.
#[derive(Debug)]
pub(super) struct Hello {
    process: Process,
    pub(super) url: String,
}

impl Hello {
    pub(super) fn start(program: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        let process = Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let mut hello = Self {
            process,
            url: String::new(),
        };
        let stdout = hello.process.child().stdout.take().context("no stdout")?;
        BufReader::new(stdout).read_line(&mut hello.url)?;
        hello.url.truncate(hello.url.trim_end().len());
        ensure!(hello.url.starts_with("http://"), "hello printed {:?}", hello.url);
        Ok(hello)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }
}
