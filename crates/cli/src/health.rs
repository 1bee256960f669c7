//! `holdfast health`: whether a server lives and can serve, for people and for container health checks.

use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, Args, Command, FromArgMatches, Parser};
use serde_json::{Value, json};

use crate::control::{Method, call_within};
use crate::failure::Failure;
use crate::sqs::Endpoint;

/// How long one answer is waited for: a health check that hangs is a failed one.
const PATIENCE: Duration = Duration::from_secs(3);

const AFTER_HELP: &str = "\
Exit codes: 0 it does, 7 it does not, or does not answer within 3 s, 2 an argument makes no sense.";

#[derive(Debug, Parser)]
struct Arguments {
    /// Either port of a server.
    #[arg(default_value = Endpoint::DEFAULT, env = "HOLDFAST_ENDPOINT", hide_env_values = true)]
    url: Endpoint,
    /// Asks whether it can serve, and not only whether it lives: `GET /ready`.
    #[arg(long)]
    ready: bool,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

/// Returns the command.
pub fn command() -> Command {
    Arguments::augment_args(Command::new("health"))
        .about("Says whether a server lives, or whether it can serve")
        .long_about(None)
        .after_help(AFTER_HELP)
}

/// Does what the arguments say, and returns the exit code.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let arguments = Arguments::from_arg_matches(matches).expect("the matches are those of this command");
    match perform(&arguments) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(arguments.json),
    }
}

fn perform(arguments: &Arguments) -> Result<String, Failure> {
    let Arguments { url, ready, json } = arguments;
    let path = if *ready { "/ready" } else { "/health" };
    let document =
        call_within(PATIENCE, url, Method::Get, path, None).map_err(|failure| explained(failure, url))?;
    if *json {
        return Ok(
            json!({ "schema": "holdfast.health/1", "url": url.to_string(), "server": document }).to_string(),
        );
    }
    let status = document["status"].as_str().unwrap_or("ok");
    let details = document
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "status");
    let details: Vec<String> = details
        .map(|(name, value)| format!("{name}={}", plain(value)))
        .collect();
    Ok(format!("{url}  {status}  {}", details.join("  "))
        .trim_end()
        .to_owned())
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Says why a server that answers does not serve: it tells in other words than the control API.
fn explained(failure: Failure, url: &Endpoint) -> Failure {
    match failure
        .document
        .as_ref()
        .and_then(|document| document["status"].as_str())
    {
        Some(status) => Failure {
            what: format!("{url} cannot serve now"),
            cause: format!("it says that it is: {status}"),
            hint: "wait, or look at its log and at `holdfast cluster status`".to_owned(),
            ..failure
        },
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_a_help_text() {
        command().debug_assert();
        for argument in command().get_arguments() {
            assert!(argument.get_help().is_some(), "{}", argument.get_id());
        }
    }
}
