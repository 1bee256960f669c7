//! `holdfast cluster`: how the nodes of a cluster are, who leads, who belongs to it, and taking a node out of service.

mod status;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};
use serde_json::json;

use crate::control::{Method, call};
use crate::failure::{Failure, Kind};
use crate::sqs::Endpoint;
use crate::time::seconds;

const AFTER_HELP: &str = "\
URL is that of any node's control port, such as http://10.0.1.11:4101; it is never guessed. Nodes are named by their id or
the address that they advertise.

Exit codes: 0 done, 2 an argument makes no sense, 4 the server is not a node of a cluster, 5 it cannot be done as things
are (no quorum would be left, nobody in reach), 6 the token is not accepted, 7 no node leads, or the server does not answer.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Shows all nodes: who leads, how far each is behind, how full its disk is.
    Status {
        /// A node's control port.
        url: Endpoint,
        /// Prints one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Takes a node out of service until it is started again: it hands over, and finishes what it accepted.
    Drain {
        /// Exactly this node's port, control or data.
        url: Endpoint,
    },
    /// Hands leadership over.
    Transfer {
        /// A node's control port.
        url: Endpoint,
        /// Who is to lead; whoever was heard last if it is left out.
        #[arg(long)]
        to: Option<String>,
    },
    /// Gives a vote to a node that has joined.
    Add {
        /// A node's control port.
        url: Endpoint,
        /// The node.
        #[arg(long)]
        node: String,
    },
    /// Makes a token by which a new machine joins: `holdfast cluster join`. Whoever has it can be a node.
    Token {
        /// A node's control port.
        url: Endpoint,
        /// How long it counts, at most 7 days.
        #[arg(long, default_value = "1h", value_parser = seconds)]
        ttl: u64,
        /// Prints one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Takes a node out of the cluster.
    Remove {
        /// A node's control port.
        url: Endpoint,
        /// The node.
        #[arg(long)]
        node: String,
        /// Also if too few of the others are in reach.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    /// The token of operators.
    #[arg(long, global = true, env = "HOLDFAST_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

/// Returns the command with its verbs.
pub fn command() -> Command {
    // Said after the arguments were added: they would put their own description in its place.
    Arguments::augment_args(Command::new("cluster"))
        .about("Looks after the nodes of a cluster")
        .long_about(None)
        .after_help(AFTER_HELP)
}

/// Does what the arguments say, and returns the exit code.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let arguments = Arguments::from_arg_matches(matches).expect("the matches are those of this command");
    let as_json = matches!(
        arguments.verb,
        Verb::Status { json: true, .. } | Verb::Token { json: true, .. }
    );
    match perform(&arguments) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(as_json),
    }
}

/// Asks a node what a new machine has to know: the answer to the question of its token.
pub fn ask_to_join(url: &str, question: &str) -> Result<serde_json::Value, JoinFailure> {
    let usage = |cause: String| {
        let hint = "name the control port of a node, such as http://10.0.1.11:4101";
        Failure::new(Kind::Usage, format!("{url} is no URL"), cause, hint)
    };
    let endpoint = url
        .parse::<Endpoint>()
        .map_err(|error| JoinFailure(usage(error.to_string())))?;
    let body = json!({ "question": question });
    call(&endpoint, Method::Post(body), "/api/cluster/join", None).map_err(JoinFailure)
}

/// Why a node did not say what a new machine has to know.
#[derive(Debug)]
pub struct JoinFailure(Failure);

impl JoinFailure {
    /// Writes it to the standard error stream, and returns the exit code that tells of it.
    pub fn report(&self) -> ExitCode {
        self.0.report(false)
    }
}

fn perform(arguments: &Arguments) -> Result<String, Failure> {
    let token = arguments.token.as_deref();
    let change = |url: &Endpoint, action: &str, body: serde_json::Value, done: String| {
        call(url, Method::Post(body), &format!("/api/cluster/{action}"), token).map(|_| done)
    };
    match &arguments.verb {
        Verb::Status { url, json } => {
            let document = call(url, Method::Get, "/api/cluster/nodes", token)?;
            Ok(if *json {
                format!("{document}\n")
            } else {
                status::table(&document)
            })
        }
        Verb::Drain { url } => {
            let answer = call(url, Method::Post(json!({})), "/api/drain", token)?;
            let left = &answer["in_flight_requests"];
            Ok(format!(
                "{url} drains: {left} requests are still worked on, and it takes no more until it is started again\n"
            ))
        }
        Verb::Transfer { url, to } => {
            let done = to.as_deref().unwrap_or("another node");
            change(url, "transfer", json!({ "node": to }), format!("{done} leads\n"))
        }
        Verb::Token { url, ttl, json } => {
            let wish = json!({ "ttl_seconds": ttl });
            let document = call(url, Method::Post(wish), "/api/cluster/token", token)?;
            Ok(if *json {
                format!("{document}\n")
            } else {
                format!("{}\n", document["token"].as_str().unwrap_or_default())
            })
        }
        Verb::Add { url, node } => change(
            url,
            "add",
            json!({ "node": node }),
            format!("{node} has a vote\n"),
        ),
        Verb::Remove { url, node, force } => {
            let body = json!({ "node": node, "force": force });
            change(
                url,
                "remove",
                body,
                format!("{node} is no longer a node of the cluster\n"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_and_option_has_a_help_text() {
        command().debug_assert();
        for verb in command().get_subcommands() {
            assert!(verb.get_about().is_some(), "{}", verb.get_name());
            for argument in verb.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} {}",
                    verb.get_name(),
                    argument.get_id()
                );
            }
        }
    }

    #[test]
    fn a_url_is_never_guessed() {
        for verb in ["status", "drain", "transfer"] {
            assert!(
                command().try_get_matches_from(["cluster", verb]).is_err(),
                "{verb}"
            );
        }
    }
}
