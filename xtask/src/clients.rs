//! Installs the SDKs of other languages under `target/clients`, once per list of versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::install::{apt_install, once, remove};
use crate::tools::{capture, root, target_dir, works};

const NODE_MAJOR_MIN: u32 = 20;

/// Where the clients are.
#[derive(Debug)]
pub(crate) struct Installed {
    python: PathBuf,
    python_query: PathBuf,
    python_workers: PathBuf,
    node_modules: PathBuf,
}

impl Installed {
    /// Returns the variables by which the tests find the clients.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 6] {
        [
            ("HOLDFAST_TEST_PYTHON", self.python.join("bin/python")),
            ("HOLDFAST_TEST_PYTHON_QUERY", self.python_query.join("bin/python")),
            (
                "HOLDFAST_TEST_PYTHON_WORKERS",
                self.python_workers.join("bin/python"),
            ),
            ("HOLDFAST_TEST_AWS", self.python.join("bin/aws")),
            ("HOLDFAST_TEST_NODE", node()),
            ("HOLDFAST_TEST_NODE_MODULES", self.node_modules.clone()),
        ]
    }
}

/// Installs every client that is not there yet.
pub(crate) fn install() -> Result<Installed> {
    let home = target_dir().join("clients");
    fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
    let home = home.canonicalize()?;
    let installed = Installed {
        python: home.join("python"),
        python_query: home.join("python-query"),
        python_workers: home.join("python-workers"),
        node_modules: home.join("node/node_modules"),
    };
    python(&installed.python, "requirements.txt")?;
    python(&installed.python_query, "requirements-query.txt")?;
    python(&installed.python_workers, "requirements-workers.txt")?;
    javascript(&home.join("node"))?;
    Ok(installed)
}

/// Makes a virtual environment and installs a list of packages in it.
fn python(folder: &Path, requirements: &str) -> Result<()> {
    let list = clients().join(requirements);
    once(folder, &fs::read_to_string(&list)?, || {
        eprintln!("    installing tests/compat/clients/{requirements}");
        if !works(python_module("venv").arg(folder)) {
            apt_install(&["python3", "python3-venv"])?;
            // What a failed attempt left behind would stand in the way.
            remove(folder)?;
            capture(python_module("venv").arg(folder))?;
        }
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
        ]);
        capture(pip.arg(&list)).map(|_| ())
    })
}

fn javascript(folder: &Path) -> Result<()> {
    let lock = fs::read_to_string(clients().join("package-lock.json"))?;
    once(folder, &lock, || {
        eprintln!("    installing tests/compat/clients/package.json");
        if !works(Command::new("npm").arg("--version")) {
            apt_install(&["nodejs", "npm"])?;
        }
        check_node()?;
        fs::create_dir_all(folder)?;
        for file in ["package.json", "package-lock.json"] {
            fs::copy(clients().join(file), folder.join(file))
                .with_context(|| format!("cannot copy {file}"))?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--loglevel", "error"]);
        capture(npm.current_dir(folder)).map(|_| ())
    })
}

/// Checks that node is young enough for the SDK, which would fail in the midst of a test otherwise.
fn check_node() -> Result<()> {
    let version = capture(Command::new(node()).arg("--version"))?;
    let major = version
        .trim()
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    let major: u32 = major.with_context(|| format!("node says that its version is {version:?}"))?;
    ensure!(
        major >= NODE_MAJOR_MIN,
        "@aws-sdk/client-sqs needs node {NODE_MAJOR_MIN}; this is {version}"
    );
    Ok(())
}

fn python_module(module: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-m", module]);
    command
}

/// Returns the path of node; a name alone stays one when it is nowhere in `PATH`.
fn node() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("node"))
        .find(|node| node.is_file());
    found.unwrap_or_else(|| PathBuf::from("node"))
}

fn clients() -> PathBuf {
    root().join("tests/compat/clients")
}
