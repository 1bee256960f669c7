//! A folder for one server's files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

use crate::tools::target_dir;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A new folder, on the disk that holds the build unless it is in memory. Removed when dropped.
#[derive(Debug)]
pub(super) struct Home(PathBuf);

impl Home {
    pub(super) fn new() -> Result<Self> {
        Self::below(&target_dir())
    }

    /// Makes one in memory.
    pub(super) fn in_memory() -> Result<Self> {
        Self::below(Path::new("/dev/shm"))
    }

    fn below(folder: &Path) -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let home = folder
            .join("tmp")
            .join(format!("bench-{}-{number}", std::process::id()));
        fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
        Ok(Self(home.canonicalize()?))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What is left of it harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
