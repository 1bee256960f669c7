//! The figures as Markdown, with everything that one has to know to compare them.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::bar::Bar;
use super::effort::Options;
use crate::tools::{capture, root};

/// Figures in the order in which they were measured.
#[derive(Debug)]
pub(super) struct Report {
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    name: String,
    /// Taken before anything of it ran, because the bench is a load itself.
    load_average: String,
    rows: Vec<[String; 5]>,
}

impl Report {
    pub(super) fn new() -> Self {
        Self { sections: Vec::new() }
    }

    /// Begins a section, to which all figures belong until the next one.
    pub(super) fn begin(&mut self, name: &str) {
        self.sections.push(Section {
            name: name.to_owned(),
            load_average: load_average(),
            rows: Vec::new(),
        });
    }

    /// Adds a figure that is compared with nothing.
    pub(super) fn line(&mut self, name: &str, figure: String) {
        self.push([
            name.to_owned(),
            figure,
            String::new(),
            String::new(),
            String::new(),
        ]);
    }

    /// Adds a figure and how it compares; `value` is what the text `figure` says, in the unit of the bar.
    pub(super) fn bar(&mut self, name: &str, figure: String, value: f64, bar: &Bar) {
        let reached = bar.reached(value).to_string();
        self.push([name.to_owned(), figure, bar.floor(), bar.aim(), reached]);
    }

    /// Adds a figure that could not be measured.
    pub(super) fn missing(&mut self, name: &str, why: &str, bar: &Bar) {
        // A row is one line, and a cell ends at a bar.
        let why = why.replace(['\n', '|'], " ");
        let figure = format!("not measured: {}", why.trim());
        self.push([name.to_owned(), figure, bar.floor(), bar.aim(), "?".to_owned()]);
    }

    fn push(&mut self, row: [String; 5]) {
        eprintln!("    {}", row.join(" | "));
        if let Some(section) = self.sections.last_mut() {
            section.rows.push(row);
        }
    }

    /// Returns the whole as Markdown.
    pub(super) fn markdown(&self, options: &Options) -> Result<String> {
        let mut text = String::from("| | |\n|-|-|\n");
        for (name, fact) in facts(options)? {
            text += &format!("| {name} | {} |\n", fact.trim());
        }
        for section in &self.sections {
            text += &format!(
                "\n### {} (load average before: {})\n\n",
                section.name, section.load_average
            );
            text += "| measure | figure | floor | aim | reached |\n|-|-|-|-|-|\n";
            for row in &section.rows {
                text += &format!("| {} |\n", row.join(" | "));
            }
        }
        Ok(text)
    }
}

fn facts(options: &Options) -> Result<[(&'static str, String); 8]> {
    let effort = options.effort;
    let only = options.only.map(|word| format!(" --only {word}"));
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']);
    let cores = std::thread::available_parallelism().context("cannot count the cores")?;
    let mut git = Command::new("git");
    git.current_dir(root()).args(["describe", "--always", "--dirty"]);
    Ok([
        (
            "command",
            format!(
                "`SQSLOAD=... cargo xtask bench{}{}`",
                effort.flag,
                only.unwrap_or_default()
            ),
        ),
        ("commit", capture(&mut git)?),
        (
            "machine",
            format!("{cores} x {model}, shared by server and client"),
        ),
        ("kernel", capture(Command::new("uname").arg("-sr"))?),
        ("file system of the data", file_system()?),
        (
            "mode",
            "release build, one node, durable (fdatasync before the answer) unless a line says off"
                .to_owned(),
        ),
        (
            "requests",
            "100 B bodies, JSON protocol, SigV4 signed and verified, unless a line says --dev or a size"
                .to_owned(),
        ),
        (
            "load",
            format!(
                "`sqsload --threads 1 --sign real`; medians of {} alternating runs of {} s, or of {} requests of a kind \
                 on one connection",
                effort.runs, effort.seconds, effort.operations
            ),
        ),
    ])
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

/// Returns a number with its thousands apart.
pub(super) fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the load of the last 1, 5 and 15 minutes.
fn load_average() -> String {
    let text = read("/proc/loadavg");
    let minutes: Vec<&str> = text.split(' ').take(3).collect();
    minutes.join(" ")
}

fn file_system() -> Result<String> {
    let folder = crate::tools::target_dir();
    let mut stat = Command::new("stat");
    capture(stat.args(["--file-system", "--format", "%T"]).arg(folder))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{grouped, median};

    #[test]
    fn the_median_is_the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(5), "5");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(5_000_000), "5,000,000");
    }
}
