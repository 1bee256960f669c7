//! What a run found, for people, and what is kept of one that failed.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Error, Result};
use history::{History, Report, Verdict};

use crate::Plan;
use crate::phases::{HANDED_OVER, KILLED};

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// How it went.
    pub plan: Plan,
    /// What clients saw.
    pub history: History,
    /// What the judge says of it.
    pub report: Report,
    /// Why it ended before its time.
    pub error: Option<Error>,
    /// What each node wrote to its log.
    pub logs: Vec<Vec<u8>>,
}

impl Outcome {
    /// Whether everything was done, and every promise was kept.
    pub fn has_passed(&self) -> bool {
        self.error.is_none() && self.report.verdict == Verdict::Pass
    }

    /// Returns how long it took after each fault of this name until a call was carried out that began after it.
    fn gaps(&self, name: &str) -> Vec<Duration> {
        let faults = self.history.faults.iter().filter(|fault| fault.name == name);
        let mut gaps: Vec<_> = faults
            .filter_map(|fault| {
                let later = self.history.operations.iter();
                let later = later.filter(|operation| {
                    operation.is_done() && operation.invoked_micros >= fault.began_micros
                });
                let first = later.filter_map(|operation| operation.returned_micros).min()?;
                Some(Duration::from_micros(first.saturating_sub(fault.began_micros)))
            })
            .collect();
        gaps.sort_unstable();
        gaps
    }

    /// Writes history and logs to a folder, to be looked at.
    pub fn keep(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("history.json"), serde_json::to_vec(&self.history)?)?;
        fs::write(folder.join("report.txt"), self.to_string())?;
        for (node, log) in self.logs.iter().enumerate() {
            fs::write(folder.join(format!("node-{node}.log")), log)?;
        }
        Ok(())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}, {} operations",
            self.plan.seed,
            self.history.operations.len()
        )?;
        for name in [KILLED, HANDED_OVER] {
            let seconds: Vec<_> = self
                .gaps(name)
                .iter()
                .map(|gap| format!("{:.2}", gap.as_secs_f64()))
                .collect();
            writeln!(f, "{name}: served again after {} s", seconds.join(" "))?;
        }
        if let Some(error) = &self.error {
            writeln!(f, "ended before its time: {error:#}")?;
        }
        write!(f, "{}", self.report)
    }
}
