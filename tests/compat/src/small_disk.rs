//! A file system of a few megabytes, so that a disk can really be full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A file system in memory, taken away when dropped.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts it at a path; that needs to be root.
    pub(crate) fn mount(path: &Path, mebibytes: u32) -> Result<Self> {
        fs::create_dir_all(path)?;
        let size = format!("size={mebibytes}m");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(path)
            .status()
            .context("cannot run mount")?;
        ensure!(
            status.success(),
            "mount ended with {status}: the tests of a full disk run as root"
        );
        Ok(Self {
            path: path.to_owned(),
        })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Nobody is here to be told; a mount that is left goes with the machine.
        let _ = Command::new("umount").arg(&self.path).status();
    }
}
