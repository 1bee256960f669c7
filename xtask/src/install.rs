//! Installs what a verb needs from others: packages of the system, and lists of packages in a folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tools::{capture, works};

/// Does `work` in a new `folder` unless it was done there for the same `list` before.
pub(crate) fn once(folder: &Path, list: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = folder.join("installed.txt");
    if fs::read_to_string(&done).is_ok_and(|installed| installed == list) {
        return Ok(());
    }
    remove(folder)?;
    work()?;
    fs::write(&done, list).with_context(|| format!("cannot write {}", done.display()))
}

/// Removes a folder if it is there.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// Installs packages of the system; a machine without apt has to bring them itself.
pub(crate) fn apt_install(packages: &[&str]) -> Result<()> {
    let wanted = packages.join(" ");
    ensure!(
        works(Command::new("apt-get").arg("--version")),
        "please install {wanted}"
    );
    eprintln!("    apt-get install {wanted}");
    let as_root = capture(Command::new("id").arg("-u"))?.trim() == "0";
    let apt = || {
        let mut command = Command::new(if as_root { "apt-get" } else { "sudo" });
        if !as_root {
            command.args(["--non-interactive", "apt-get"]);
        }
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    capture(apt().args(["update", "--quiet"]))?;
    let mut install = apt();
    install
        .args(["install", "--yes", "--quiet", "--no-install-recommends"])
        .args(packages);
    capture(&mut install)
        .with_context(|| format!("please install {wanted}"))
        .map(|_| ())
}
