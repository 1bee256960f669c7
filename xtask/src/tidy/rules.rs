//! What `xtask/tidy.toml` holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rules {
    pub(super) limits: Limits,
    /// Which crates of the workspace a crate may use.
    pub(super) arrows: BTreeMap<String, BTreeSet<String>>,
    /// Which crates of the workspace a crate may use in its tests besides.
    pub(super) test_arrows: BTreeMap<String, BTreeSet<String>>,
    /// Crates that must not be reachable from a crate, however indirectly.
    pub(super) unreachable: BTreeMap<String, BTreeSet<String>>,
    /// Crates of the workspace that may touch files.
    pub(super) file_users: BTreeSet<String>,
    pub(super) licences: Licences,
    /// Crates that nothing may depend on, with the reason.
    pub(super) bans: BTreeMap<String, String>,
    /// Every crate from outside that is named in a manifest, with the reason.
    pub(super) dependencies: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) exception: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) file_lines_max: usize,
    pub(super) function_lines_max: usize,
    pub(super) file_bytes_max: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Licences {
    pub(super) allowed: BTreeSet<String>,
}

/// One excuse.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exception {
    pub(super) rule: String,
    pub(super) subject: String,
    reason: String,
}

impl Rules {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let rules: Self = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        for exception in &rules.exception {
            let Exception {
                rule,
                subject,
                reason,
            } = exception;
            ensure!(
                !reason.trim().is_empty(),
                "the exception {rule} for {subject} has no reason"
            );
        }
        for (name, reason) in rules.bans.iter().chain(&rules.dependencies) {
            ensure!(
                !reason.trim().is_empty(),
                "{name} has no reason in {}",
                path.display()
            );
        }
        Ok(rules)
    }
}
