//! `holdfast config`: the settings that a server would have, and whether they are good.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use config::{ConfigError, Flags, Origin, Setting};
use serde_json::json;

const AFTER_HELP: &str = "\
They are read as `holdfast serve` with the same flags and the same environment would read them. Secrets are not shown.

Exit codes: 0 they are good, 2 they are not: the error says where.";

/// Describes the verbs.
pub(crate) fn command() -> Command {
    let json = Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .help("Prints one JSON document");
    let show = Command::new("show")
        .about("Shows the settings that a server would have")
        .after_help(AFTER_HELP)
        .arg(
            Arg::new("origin")
                .long("origin")
                .action(ArgAction::SetTrue)
                .help("Says of each where it comes from, also of those that nobody set"),
        )
        .arg(json)
        .args(config::arguments());
    let validate = Command::new("validate")
        .about("Says whether a server would start with these settings")
        .after_help(AFTER_HELP)
        .args(config::arguments());
    Command::new("config")
        .about("Looks at settings")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(show)
        .subcommand(validate)
}

/// Runs the verb.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let Some((verb, arguments)) = matches.subcommand() else {
        return ExitCode::from(ConfigError::EXIT_CODE);
    };
    let options = match config::load_from_process(&Flags::from_matches(arguments)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(ConfigError::EXIT_CODE);
        }
    };
    options
        .warnings
        .iter()
        .for_each(|warning| eprintln!("warning: {warning}"));
    if verb == "validate" {
        println!("a server would start with these settings");
    } else if arguments.get_flag("json") {
        println!("{}", document(options.origins()));
    } else {
        print!("{}", text(options.origins(), arguments.get_flag("origin")));
    }
    ExitCode::SUCCESS
}

fn document<'a>(settings: impl Iterator<Item = &'a Setting>) -> String {
    let items: Vec<_> = settings
        .map(|setting| {
            json!({ "name": setting.option.name, "value": setting.text, "origin": setting.origin.to_string() })
        })
        .collect();
    json!({ "schema": "holdfast.config.show/1", "settings": items }).to_string()
}

/// Returns lines of the settings; those that nobody set only if their origin is asked for.
fn text<'a>(settings: impl Iterator<Item = &'a Setting>, with_origin: bool) -> String {
    let line = |setting: &Setting| {
        let Setting { option, text, origin } = setting;
        if with_origin {
            format!("{:<38} = {text:<32} # {origin}\n", option.name)
        } else {
            format!("{} = {text}\n", option.name)
        }
    };
    settings
        .filter(|setting| with_origin || setting.origin != Origin::Default)
        .map(line)
        .collect()
}
