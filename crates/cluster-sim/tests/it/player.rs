//! Plays a seed in a process of its own.

use std::process::{Command, Stdio};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Fail,
    /// Too little happened.
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) verdict: Verdict,
    pub(crate) output: String,
}

pub(crate) fn play(arguments: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_cluster-sim"))
        .args(arguments)
        // Bugs end in panics of many lines.
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .expect("the simulation starts");
    let verdict = match output.status.code() {
        Some(0) => Verdict::Pass,
        Some(3) => Verdict::Unknown,
        Some(_) | None => Verdict::Fail,
    };
    let mut text = String::from_utf8(output.stdout).expect("it prints text");
    if verdict == Verdict::Fail {
        text.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    Run {
        verdict,
        output: text,
    }
}
