//! Directories for one test, on the disk that holds the build (a memory file system would make every sync free).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Owns a directory under `target/tmp` and removes it when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a new, empty directory whose name carries `label`.
    pub fn new(label: &str) -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = profile_dir()?
            .join("../tmp")
            .join(format!("compat-{label}-{}-{number}", process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let path = path
            .canonicalize()
            .with_context(|| format!("cannot resolve {}", path.display()))?;
        Ok(Self { path })
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover directory harms nobody, and a panic here would hide the test's own.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns the folder of the build profile that this test executable belongs to (`target/debug`).
pub(crate) fn profile_dir() -> Result<PathBuf> {
    let executable = env::current_exe().context("cannot find the test executable")?;
    // Tests lie in a folder below it, programs of the harness in it.
    let mut folders = executable.ancestors().skip(1);
    let profile = folders.find(|folder| !folder.ends_with("deps"));
    let profile = profile.context("the executable is not under target")?;
    Ok(profile.to_path_buf())
}
