//! `cargo xtask tidy`: the rules of style and structure that a program can check.
//!
//! What is allowed, and what is excused with which reason, is in `xtask/tidy.toml`. An excuse that nothing needs any
//! more is itself a finding, so that the list only shrinks.

mod actions;
mod dependencies;
mod files;
mod function;
mod licence;
mod rules;
mod source;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use self::rules::Rules;
use crate::step::step;
use crate::tools::{capture, root};

/// Runs the verb.
pub(crate) fn run() -> Result<()> {
    step("tidy", check)
}

/// Checks every rule, prints what was found, and fails if anything was.
pub(crate) fn check() -> Result<()> {
    let root = root();
    let mut report = Report::new(Rules::read(&root.join("xtask/tidy.toml"))?);
    let files = tracked_files(root)?;
    files::check(root, &files, &mut report)?;
    source::check(root, &files, &mut report)?;
    actions::check(root, &mut report)?;
    dependencies::check(&mut report)?;
    let findings = report.finish();
    for finding in &findings {
        eprintln!("    {finding}");
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    Ok(())
}

/// Collects findings, leaving out those that are excused.
#[derive(Debug)]
pub(crate) struct Report {
    rules: Rules,
    used: Vec<bool>,
    findings: Vec<String>,
}

impl Report {
    fn new(rules: Rules) -> Self {
        Self {
            used: vec![false; rules.exception.len()],
            rules,
            findings: Vec::new(),
        }
    }

    /// Notes that `subject` (a path, a crate, or `path::item`) breaks `rule`.
    fn find(&mut self, rule: &str, subject: &str, text: &str) {
        let matching = |exception: &rules::Exception| exception.rule == rule && exception.subject == subject;
        match self.rules.exception.iter().position(matching) {
            Some(index) => self.used[index] = true,
            None => self.findings.push(format!("{subject}: {text} [{rule}]")),
        }
    }

    fn finish(mut self) -> Vec<String> {
        for (exception, used) in self.rules.exception.iter().zip(&self.used) {
            if !used {
                let (rule, subject) = (&exception.rule, &exception.subject);
                self.findings.push(format!(
                    "xtask/tidy.toml: nothing needs the exception {rule} for {subject}"
                ));
            }
        }
        self.findings
    }
}

/// Returns the files of the repository: those that git tracks, and new ones that it does not ignore.
fn tracked_files(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut files: Vec<String> = capture(&mut git)?
        .split('\0')
        // Deleted but still tracked, while a change is being made.
        .filter(|path| !path.is_empty() && root.join(path).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

fn read(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}
