//! `chaos [--minutes N] [--seed S]`: what `cargo xtask chaos` runs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use chaos::{Plan, run};

const MINUTES: u64 = 5;
const MINUTES_MAX: u64 = 10;

fn main() -> Result<ExitCode> {
    let mut plan = Plan {
        seed: 1,
        time: Duration::from_secs(MINUTES * 60),
        clients: 8,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .with_context(|| format!("{name} needs a number"))?;
        let number: u64 = value
            .parse()
            .with_context(|| format!("{name} {value}: not a number"))?;
        match name.as_str() {
            "--minutes" if (1..=MINUTES_MAX).contains(&number) => {
                plan.time = Duration::from_secs(number * 60)
            }
            "--minutes" => bail!("--minutes is 1 to {MINUTES_MAX}"),
            "--seed" => plan.seed = number,
            _ => bail!("usage: chaos [--minutes N] [--seed S]"),
        }
    }
    let outcome = run(plan)?;
    println!("{outcome}");
    if outcome.has_passed() {
        return Ok(ExitCode::SUCCESS);
    }
    let folder = PathBuf::from("target/chaos").join(plan.seed.to_string());
    outcome.keep(&folder)?;
    println!("history and logs are in {}", folder.display());
    Ok(ExitCode::FAILURE)
}
