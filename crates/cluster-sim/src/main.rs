//! One run of a simulated cluster: whole nodes (state machine, segment log, Raft, links) on a network, disks and clocks that
//! fail as a seed says, with clients that write down what they were told.
//!
//! A process plays one seed, since what libraries draw by chance comes from one source for the whole process. `cargo
//! xtask sim` plays many. What must hold is in `ledger.rs` (inside of the cluster) and in the crate `history` (seen by
//! clients); what is done to the cluster in `plan.rs` and `chaos.rs`; bugs that must be found in `bug.rs`. Start reading at
//! `run.rs`.

mod bug;
mod chaos;
mod clients;
mod clock;
mod disk;
mod durability;
mod entropy;
mod journal;
mod ledger;
mod network;
mod node;
mod plan;
mod process;
mod run;
mod trace;

use std::env;
use std::process::ExitCode;

use bug::Bug;
use history::Verdict;
use tracing_subscriber::EnvFilter;

const USAGE: &str = "\
usage: cluster-sim SEED [--bug NAME] [--trace] [--log FILTER]
       cluster-sim --bugs

Plays a seed. Ends with 0 if every promise was kept, 1 if one was broken, 3 if too little happened to say so.
  --bug NAME     plants a bug, which the run may find
  --trace        prints everything that happens
  --log FILTER   prints the log of the nodes
  --bugs         prints the names of the bugs that can be planted
";

struct Arguments {
    seed: u64,
    bug: Option<Bug>,
    prints: bool,
    log: Option<String>,
}

fn arguments() -> Option<Arguments> {
    let mut words = env::args().skip(1);
    let mut arguments = Arguments {
        seed: words.next()?.parse().ok()?,
        bug: None,
        prints: false,
        log: None,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--bug" => arguments.bug = Some(Bug::named(&words.next()?)?),
            "--trace" => arguments.prints = true,
            "--log" => arguments.log = Some(words.next()?),
            _ => return None,
        }
    }
    Some(arguments)
}

fn main() -> ExitCode {
    if env::args().nth(1).as_deref() == Some("--bugs") {
        Bug::ALL.iter().for_each(|bug| println!("{}", bug.name()));
        return ExitCode::SUCCESS;
    }
    let Some(arguments) = arguments() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    entropy::seed(arguments.seed);
    if let Some(filter) = arguments.log {
        let filter = EnvFilter::new(filter);
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .without_time()
            .with_writer(std::io::stderr)
            .init();
    }
    let outcome = run::run(arguments.seed, arguments.bug, arguments.prints);
    for finding in &outcome.findings {
        println!("  {finding}");
    }
    let verdict = outcome.verdict();
    if outcome.report.verdict != Verdict::Pass {
        print!("{}", outcome.report);
    }
    for line in &outcome.proof {
        println!("  {line}");
    }
    let coverage = outcome
        .report
        .coverage
        .iter()
        .map(|(name, count)| (name.as_str(), *count));
    let counts = outcome.counts.iter().copied().chain(coverage);
    let counts: Vec<String> = counts.map(|(name, count)| format!("{name} {count}")).collect();
    println!(
        "seed {} {verdict} hash {:016x} of {} lines, {} s: {}",
        arguments.seed,
        outcome.hash,
        outcome.lines,
        outcome.seconds,
        counts.join(", ")
    );
    match verdict {
        "pass" => ExitCode::SUCCESS,
        "unknown" => ExitCode::from(3),
        _ => ExitCode::FAILURE,
    }
}
