//! The project's entry points: `cargo xtask test`, `cargo xtask tidy`, `cargo xtask bench` and others.
//!
//! They set up what they need, and CI calls nothing else, so that green here is green there. This program knows the
//! repository and its tools, not the product.

mod bench;
mod chaos;
mod clients;
mod fuzz;
mod install;
mod signatures;
mod sim;
mod step;
mod test;
mod tidy;
mod tools;

use std::env;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask VERB

  test            format, lints, tidy, build, all tests, real clients: what CI runs
  tidy            the rules of STYLE.md that a program can check
  bench [--quick|--full] [--only WORD]
                  figures of a release build beside their floors and aims, as Markdown; SQSLOAD names the load
                  generator's binary
  chaos [--minutes 5] [--seed 1]
                  three real nodes are killed, suspended, cut off, filled up and damaged while clients work
  fuzz [TARGET] [--seconds 30]    every fuzz target, or one; needs a nightly compiler, and ends with 2 without
  sim [--seeds 200] [--from S] [--minutes M] | --seed S [--trace] | --find-bugs
                  whole nodes on a simulated network, disk and clock, one run a seed; a planted bug needs its seed
  signatures [--count 1000000]    changed bits of signed requests, of which none may be accepted
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["test"] => test::run(),
        ["tidy"] => tidy::run(),
        ["bench", options @ ..] => bench::run(options),
        ["chaos", options @ ..] => chaos::run(options),
        ["fuzz", options @ ..] => match fuzz::run(options) {
            Ok(fuzz::Ended::CannotRun) => return ExitCode::from(2),
            Ok(fuzz::Ended::Ran) => Ok(()),
            Err(error) => Err(error),
        },
        ["signatures", options @ ..] => signatures::run(options),
        ["sim", options @ ..] => sim::run(options),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [] | [..] => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
