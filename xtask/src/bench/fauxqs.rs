//! fauxqs, the quickest of the emulators of SQS: it keeps everything in memory and forgets it at its end.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::load::{Figures, Load, Scenario};
use super::process::Process;
use crate::install::{apt_install, once};
use crate::tools::{capture, target_dir, works};

const PACKAGE: &str = "fauxqs@1.9.2";
/// Its own program listens on every address of the machine.
const PROGRAM: &str = "import { buildApp } from 'fauxqs';\n\
    const app = buildApp({ logger: false });\n\
    console.log(await app.listen({ port: 0, host: '127.0.0.1' }));\n";
/// Long enough for the compiler of node to have seen every path that is measured.
const WARM_UP: [Scenario; 3] = [
    Scenario::Batch { seconds: 2 },
    Scenario::Drain { depth: 10_000 },
    Scenario::Fifo { seconds: 2 },
];

/// A running fauxqs.
#[derive(Debug)]
pub(super) struct Fauxqs {
    process: Process,
    url: String,
}

impl Fauxqs {
    /// Installs fauxqs if need be, starts one on a free port and warms it up.
    pub(super) fn start(load: &Load) -> Result<Self> {
        let folder = install()?;
        let mut command = Command::new("node");
        command
            .arg("fauxqs.mjs")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut fauxqs = Self {
            process: Process::spawn(&mut command)?,
            url: String::new(),
        };
        let stdout = fauxqs.process.child().stdout.take().context("no stdout")?;
        BufReader::new(stdout).read_line(&mut fauxqs.url)?;
        fauxqs.url.truncate(fauxqs.url.trim_end().len());
        ensure!(
            fauxqs.url.starts_with("http://"),
            "fauxqs printed {:?}",
            fauxqs.url
        );
        for scenario in WARM_UP {
            fauxqs.run(load, scenario)?;
        }
        Ok(fauxqs)
    }

    pub(super) fn run(&self, load: &Load, scenario: Scenario) -> Result<Figures> {
        load.run_at(&self.url, self.process.pid(), scenario)
    }
}

fn install() -> Result<PathBuf> {
    let folder = target_dir().join("peers/fauxqs");
    once(&folder, &format!("{PACKAGE}\n{PROGRAM}"), || {
        eprintln!("    npm install {PACKAGE}");
        if !works(Command::new("npm").arg("--version")) {
            apt_install(&["nodejs", "npm"])?;
        }
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("package.json"), "{ \"private\": true }\n")?;
        fs::write(folder.join("fauxqs.mjs"), PROGRAM)?;
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--no-audit",
            "--no-fund",
            "--loglevel",
            "error",
            PACKAGE,
        ]);
        capture(npm.current_dir(&folder)).map(|_| ())
    })?;
    Ok(folder.canonicalize()?)
}
