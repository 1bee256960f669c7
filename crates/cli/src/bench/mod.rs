//! `holdfast bench`: load from one client, with a check of every message.
//!
//! The way of a run: `arguments` are checked together into a `Scenario`; `run` makes the queue, sends the backlog,
//! opens the window that is measured, and lets `sender`s and `receiver`s share one `Load`; then the rest is received
//! and the `Ledger` knows what is missing. A `Report` is what was found, as text or JSON; `compare` reads two of them.
//! It is no judge of speed: a slow run succeeds, one that lost a message does not.

mod answer;
mod arguments;
mod compare;
mod ledger;
mod load;
mod pace;
mod quantity;
mod queue;
mod receiver;
mod report;
mod request;
mod run;
mod scenario;
mod schedule;
mod sender;
mod stamp;
mod tally;
mod target;
mod text;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use self::arguments::Arguments;
use self::report::Report;
use self::scenario::Scenario;
use self::target::Target;
use crate::failure::Failure;

const AFTER_HELP: &str = "\
Exit codes: 0 all is well (a standard queue may hand out a message twice: that is reported, and no failure), 1 errors,
2 an argument makes no sense, 4 no such queue, 5 the queue is not empty or the files to compare are of different
scenarios, 6 the credentials are not accepted, 7 the server does not answer, 8 a message was lost, had a wrong body,
came out of order or (FIFO) twice, 130 ended by Ctrl-C.

Examples:
  holdfast bench send --connections 64 --duration 30
  holdfast bench roundtrip --rate 5000 --duration 30 --size 1KiB --json > run.json
  holdfast bench receive --fifo --groups 100 --batch 10 --messages 100000
  holdfast bench --compare base.json run.json";

/// Returns the command with its arguments.
pub fn command() -> Command {
    // Said after the arguments were added: they would put their own description in its place.
    Arguments::augment_args(Command::new("bench"))
        .about("Measures a server and checks every message: none lost, changed, doubled or out of order")
        .long_about(None)
        .after_help(AFTER_HELP)
}

/// Measures, or compares, as the arguments say, and returns the exit code.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let arguments = arguments(matches);
    match perform(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(arguments.json),
    }
}

fn arguments(matches: &ArgMatches) -> Arguments {
    Arguments::from_arg_matches(matches).expect("the matches are those of this command")
}

fn perform(arguments: &Arguments) -> Result<(), Failure> {
    let Some(verb) = arguments.verb else {
        let files = arguments.compare.as_deref().unwrap_or_default();
        return compare::print(files, arguments.json);
    };
    let scenario = Scenario::new(verb, arguments)?;
    let target = Target::new(arguments)?;
    let (report, ended) = run::run(scenario, &target, !arguments.json)?;
    print(&report, arguments.json);
    report.verdict(&ended)
}

fn print(report: &Report, as_json: bool) {
    if as_json {
        println!("{}", report.json());
    } else {
        print!("{}", text::report(report));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFERENCE: &str = include_str!("../../../../docs/reference/bench.md");

    #[test]
    fn the_reference_names_every_option() {
        let command = command();
        for argument in command.get_arguments() {
            let name = match argument.get_long() {
                Some(long) => format!("`--{long}"),
                None => continue,
            };
            assert!(
                REFERENCE.contains(&name),
                "{name} is not in docs/reference/bench.md"
            );
        }
    }

    #[test]
    fn the_command_and_every_option_have_a_help_text() {
        let help = command().render_long_help().to_string();
        assert!(help.starts_with("Measures a server"), "{help}");
        for argument in command().get_arguments() {
            assert!(argument.get_help().is_some(), "{}", argument.get_id());
        }
    }
}
