//! `cargo xtask chaos [--minutes N] [--seed S]`: three real nodes under everything that can be done to them, for longer than
//! the tests have time for.

use std::process::Command;

use anyhow::Result;

use crate::tools::{cargo, root, run as run_command, target_dir};

/// Builds the program and the binary that it drives, and runs it.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    run_command(cargo().args(["build", "--workspace", "--bins", "--tests"]))?;
    let program = target_dir().join("debug/chaos");
    run_command(Command::new(program).args(arguments).current_dir(root()))
}
