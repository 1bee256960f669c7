//! The short form of the chaos: everything that is done to the nodes, once.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use chaos::{Plan, run};

#[test]
fn nothing_that_is_done_to_three_nodes_breaks_a_promise() -> Result<()> {
    let plan = Plan {
        seed: 7,
        // Each phase once, which takes about two minutes.
        time: Duration::ZERO,
        clients: 4,
    };
    let outcome = run(plan)?;
    println!("{outcome}");
    if !outcome.has_passed() {
        outcome.keep(&PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("chaos"))?;
    }
    ensure!(outcome.has_passed(), "{outcome}");
    Ok(())
}
