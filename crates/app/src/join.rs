//! `holdfast cluster join`: prepares the data directory of a new node of a cluster that runs.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use broker::OsRandom;
use clap::{Arg, ArgMatches, Command, value_parser};
use cluster::{JoinAnswer, JoinToken};
use config::{NODE_FILE, NodeFile};
use journal::{Layout, OsDisk};
use serde_json::Value;

use crate::node_file::{check_address, listen_for, write};
use crate::stopped::Failure;

/// Describes the verb.
pub(crate) fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("join")
        .about("Prepares the data directory of a new node of a cluster that runs")
        .after_help(
            "The token is that of `holdfast cluster token`. The directory gets the addresses of the other nodes and the \
             secret that they share; start the node with it then. It joins without a vote, gets the state, and shows as \
             `learner` in `holdfast cluster status`; give it a vote with `holdfast cluster add`.\n\n\
             Exit codes: 0 done; 2 an argument makes no sense; 5 the directory is in use, or belongs to a node \
             already, or the nodes share no secret; 6 the token is not accepted; 7 the node does not answer; 1 anything else.",
        )
        .arg(
            Arg::new("url")
                .value_name("URL")
                .required(true)
                .help("The control port of a node, such as http://10.0.1.11:4101"),
        )
        .arg(text("token", "TOKEN", "What `holdfast cluster token` printed").env("HOLDFAST_JOIN_TOKEN").hide_env_values(true).required(true))
        .arg(
            text("data-dir", "DIR", "The data directory of the new node; it is made if it is not there")
                .required(true)
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(text("advertise", "HOST:PORT", "Where the other nodes will reach this one").required(true))
        .arg(text(
            "listen",
            "HOST:PORT",
            "Where it listens for them; the advertised port at every address of the machine if left out",
        ))
}

/// Why it was not done.
enum Refusal {
    Here(Failure),
    There(cli::JoinFailure),
}

/// Runs the verb.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    match joined(matches) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(Refusal::Here(failure)) => failure.report(false),
        Err(Refusal::There(failure)) => failure.report(),
    }
}

fn joined(matches: &ArgMatches) -> Result<String, Refusal> {
    let of = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let required = |name: &str| of(name).expect("clap requires it");
    let directory = matches.get_one::<PathBuf>("data-dir").expect("clap requires it");
    let advertise = required("advertise");
    check_address("--advertise", advertise, directory).map_err(Refusal::Here)?;
    let listen = of("listen").map_or_else(|| listen_for(advertise), str::to_owned);
    check_address("--listen", &listen, directory).map_err(Refusal::Here)?;
    let refuse = |cause: String, hint: &str| {
        Refusal::Here(Failure {
            code: Failure::USAGE,
            what: "the token cannot be used".to_owned(),
            cause,
            place: directory.display().to_string(),
            hint: hint.to_owned(),
        })
    };
    let again = "make a new one: holdfast cluster token URL";
    let token = JoinToken::parse(required("token")).map_err(|error| refuse(error.to_string(), again))?;
    prepare(directory).map_err(Refusal::Here)?;
    let question = token.ask(&OsRandom);
    let document = cli::ask_to_join(required("url"), &question.text).map_err(Refusal::There)?;
    let answer = answer_of(&document).ok_or_else(|| {
        let cause = "the answer is not that of a node of this version".to_owned();
        refuse(cause, "name the control port of a node of the cluster")
    })?;
    let opened = token.open(&question, &answer);
    let secret = opened.map_err(|error| {
        refuse(
            error.to_string(),
            "name the control port of a node of the cluster",
        )
    })?;
    let JoinAnswer { name, mut seeds, .. } = answer;
    if !seeds.iter().any(|seed| seed == advertise) {
        seeds.push(advertise.to_owned());
    }
    let file = NodeFile {
        name: &name,
        listen: &listen,
        advertise,
        seeds: &seeds,
        secret: &secret,
    };
    write(directory, &file).map_err(Refusal::Here)?;
    let path = directory.display();
    Ok(format!(
        "{path} is ready to join: it names {} nodes and holds their secret ({NODE_FILE})\n  next: holdfast serve --data-dir {path}, \
         then holdfast cluster add {} --node {advertise}",
        seeds.len() - 1,
        required("url"),
    ))
}

fn answer_of(document: &Value) -> Option<JoinAnswer> {
    let text = |name: &str| document[name].as_str().map(str::to_owned);
    let seeds = document["seeds"].as_array()?.iter();
    Some(JoinAnswer {
        name: text("name")?,
        seeds: seeds
            .map(|seed| seed.as_str().map(str::to_owned))
            .collect::<Option<_>>()?,
        sealed: text("sealed")?,
    })
}

/// Makes the directory, or sees that it holds nothing of a node.
fn prepare(directory: &Path) -> Result<(), Failure> {
    let refuse = |code: u8, what: &str, cause: String, hint: &str| Failure {
        code,
        what: format!("{} {what}", directory.display()),
        cause,
        place: directory.display().to_string(),
        hint: hint.to_owned(),
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| {
        let hint = "name a directory that can be made";
        refuse(Failure::FAILED, "cannot be made", error.to_string(), hint)
    })?;
    if directory.join(NODE_FILE).exists() {
        let cause = format!("there is a {NODE_FILE} in it");
        let hint = "start it with `holdfast serve --data-dir`, or name an empty directory";
        return Err(refuse(
            Failure::CONFLICT,
            "belongs to a node of a cluster",
            cause,
            hint,
        ));
    }
    let disk = OsDisk::open(directory).map_err(|error| {
        let hint = "run as the user that the server runs as";
        refuse(Failure::FAILED, "cannot be opened", error.to_string(), hint)
    })?;
    match Layout::of(&disk).map_err(|error| Failure::of_journal(&directory.display().to_string(), error))? {
        None => Ok(()),
        Some(Layout::Local | Layout::Replicated) => Err(refuse(
            Failure::CONFLICT,
            "holds the messages of a server",
            "a new node gets everything from the others, and would have to forget them".to_owned(),
            "name an empty directory",
        )),
    }
}
