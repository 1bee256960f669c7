//! The repository and the programs that the verbs call.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Returns the root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns where the build puts its results.
pub(crate) fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the cargo that runs this program, at the root of the repository.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // Set by `cargo run` for this program; cargo started from here must not see them.
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR")
        {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command that must succeed; its output is the user's.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("    {shown}");
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(status.success(), "`{shown}` ended with {status}");
    Ok(())
}

/// Runs a command that must succeed and returns what it printed.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(
        output.status.success(),
        "`{shown}` ended with {}:\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed bytes that are no text"))
}

/// Runs a command, passes its output on line by line, and returns the lines that are `wanted`.
pub(crate) fn run_and_keep(
    command: &mut Command,
    wanted: impl Fn(&str) -> bool + Sync,
) -> Result<(bool, Vec<String>)> {
    let shown = show(command);
    eprintln!("    {shown}");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let stdout = child.stdout.take().context("no stdout")?;
    let stderr = child.stderr.take().context("no stderr")?;
    let (wanted, mut kept) = (&wanted, Vec::new());
    std::thread::scope(|scope| -> Result<()> {
        let other = scope.spawn(move || pass_on(stderr, wanted));
        kept = pass_on(stdout, wanted)?;
        kept.extend(other.join().expect("passing lines on does not panic")?);
        Ok(())
    })?;
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{shown}`"))?;
    Ok((status.success(), kept))
}

fn pass_on(from: impl Read, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut kept = Vec::new();
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        eprint!("{text}");
        if wanted(&text) {
            kept.push(text.trim_end().to_owned());
        }
        line.clear();
    }
    Ok(kept)
}

/// Returns true when a program can be started and ends with success.
pub(crate) fn works(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
