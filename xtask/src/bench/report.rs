//! The figures as Markdown, with everything that one has to know to compare them.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::load::Scenario;
use super::{Effort, FULL};
use crate::tools::{capture, root};

/// Figures in the order in which they were measured.
#[derive(Debug)]
pub(super) struct Report {
    /// Taken before anything ran, because the bench is a load itself.
    load_average: String,
    lines: Vec<(String, String)>,
}

impl Report {
    pub(super) fn new() -> Self {
        Self {
            load_average: load_average(),
            lines: Vec::new(),
        }
    }

    /// Adds a figure.
    pub(super) fn line(&mut self, name: &str, figure: String) {
        eprintln!("    {name}: {figure}");
        self.lines.push((name.to_owned(), figure));
    }

    /// Returns the whole as Markdown.
    pub(super) fn markdown(&self, effort: Effort) -> Result<String> {
        let cpu = read("/proc/cpuinfo");
        let model = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .unwrap_or_default();
        let model = model.trim_start_matches([' ', '\t', ':']);
        let cores = std::thread::available_parallelism().context("cannot count the cores")?;
        let quick = if effort.runs == FULL.runs { "" } else { " --quick" };
        let send = Scenario::Send {
            connections: 16,
            seconds: effort.seconds,
        }
        .arguments()
        .join(" ");
        let facts = [
            ("command", format!("`SQSLOAD=... cargo xtask bench{quick}`")),
            (
                "commit",
                capture(
                    Command::new("git")
                        .current_dir(root())
                        .args(["describe", "--always", "--dirty"]),
                )?,
            ),
            (
                "machine",
                format!("{cores} x {model}, client and server share it"),
            ),
            ("kernel", capture(Command::new("uname").arg("-sr"))?),
            ("file system of the data", file_system()?),
            ("load average before", self.load_average.clone()),
            (
                "mode",
                "release build, one node, durable (fdatasync before the answer) unless it says off"
                    .to_owned(),
            ),
            (
                "requests",
                "100 B bodies, JSON protocol, SigV4 signed and verified".to_owned(),
            ),
            (
                "load",
                format!(
                    "`sqsload {send} --sign real`, {} alternating runs, medians",
                    effort.runs
                ),
            ),
        ];
        let mut text = String::from("| | |\n|-|-|\n");
        for (name, fact) in facts {
            text += &format!("| {name} | {} |\n", fact.trim());
        }
        text += "\n| figure | value |\n|-|-|\n";
        for (name, figure) in &self.lines {
            text += &format!("| {name} | {figure} |\n");
        }
        Ok(text)
    }
}

/// Returns the middle of the values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

/// Returns the load of the last 1, 5 and 15 minutes.
fn load_average() -> String {
    let text = read("/proc/loadavg");
    let minutes: Vec<&str> = text.split(' ').take(3).collect();
    minutes.join(" ")
}

fn file_system() -> Result<String> {
    let folder = crate::tools::target_dir();
    capture(
        Command::new("stat")
            .args(["--file-system", "--format", "%T"])
            .arg(folder),
    )
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
    }
}
