//! Rules about files of any kind: their size, and lock files that name no registry.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::{Report, read};

pub(super) fn check(root: &Path, files: &[String], report: &mut Report) -> Result<()> {
    for path in files {
        let bytes = fs::metadata(root.join(path))?.len();
        let most = report.rules.limits.file_bytes_max;
        if bytes > most {
            report.find("file-size", path, &format!("{bytes} bytes, more than {most}"));
        }
        if path.ends_with("package-lock.json") {
            check_npm_lock(path, &read(root, path)?, report);
        }
    }
    Ok(())
}

/// A lock file must work with any mirror of the registry, so it must not name one.
fn check_npm_lock(path: &str, text: &str, report: &mut Report) {
    if text.contains("\"resolved\"") {
        let how = "made without `npm install --omit-lockfile-registry-resolved`: it names a registry";
        report.find("npm-lock", path, how);
    }
    if !text.contains("\"integrity\"") {
        report.find("npm-lock", path, "has no checksums");
    }
}
