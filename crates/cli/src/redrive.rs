//! `holdfast redrive`: moves the messages of a dead-letter queue back, or elsewhere.

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};
use serde_json::{Value, json};

use crate::failure::{Failure, Kind};
use crate::queue::said;
use crate::session::{Common, Session};
use crate::sqs::Action;
use crate::table::table;

const AFTER_HELP: &str = "\
The server moves the messages; a task goes on when this command has ended.

Exit codes: 0 done, 1 failed, 2 an argument makes no sense, 4 there is no such queue or task, 5 it is not possible now, 6 the
key is not accepted, 7 the server does not answer.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Begins to move all messages of a dead-letter queue.
    Start {
        /// The dead-letter queue.
        queue: String,
        /// Where they go; each back to the queue it came from if left out.
        #[arg(long, value_name = "QUEUE")]
        to: Option<String>,
        /// The most messages a second, 1 to 500; as many as the server can if left out.
        #[arg(long, value_name = "N")]
        rate: Option<u32>,
    },
    /// Lists the last tasks of a dead-letter queue.
    List {
        /// The dead-letter queue.
        queue: String,
    },
    /// Ends the task that runs on a dead-letter queue. What was moved stays moved.
    Cancel {
        /// The dead-letter queue.
        queue: String,
    },
}

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    common: Common,
}

/// Returns the command with its verbs.
pub fn command() -> Command {
    Arguments::augment_args(Command::new("redrive"))
        .about("Moves the messages of a dead-letter queue")
        .long_about(None)
        .after_help(AFTER_HELP)
}

/// Does what the arguments say, and returns the exit code.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let arguments = Arguments::from_arg_matches(matches).expect("the matches are those of this command");
    let as_json = arguments.common.json;
    match Session::open(&arguments.common).and_then(|session| perform(session, &arguments.verb, as_json)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(as_json),
    }
}

fn perform(mut session: Session, verb: &Verb, as_json: bool) -> Result<String, Failure> {
    match verb {
        Verb::Start { queue, to, rate } => {
            let mut input = json!({ "SourceArn": arn(&mut session, queue)? });
            if let Some(to) = to {
                input["DestinationArn"] = arn(&mut session, to)?;
            }
            if let Some(rate) = rate {
                input["MaxNumberOfMessagesPerSecond"] = (*rate).into();
            }
            let what = format!("cannot move the messages of {queue}");
            let output = session.call(&what, Action::StartMessageMoveTask, &input)?;
            let document =
                json!({ "schema": "holdfast.redrive.start/1", "queue": queue, "task": output["TaskHandle"] });
            let text = format!("the messages of {queue} are being moved: holdfast redrive list {queue}\n");
            Ok(said(as_json, &document, text))
        }
        Verb::List { queue } => {
            let tasks = tasks(&mut session, queue)?;
            let text = |task: &Value, name: &str| match &task[name] {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => "-".to_owned(),
            };
            let rows: Vec<[String; 5]> = tasks
                .iter()
                .map(|task| {
                    let to = task["DestinationArn"]
                        .as_str()
                        .and_then(|arn| arn.rsplit(':').next());
                    [
                        text(task, "Status"),
                        text(task, "ApproximateNumberOfMessagesMoved"),
                        text(task, "ApproximateNumberOfMessagesToMove"),
                        to.unwrap_or("where they came from").to_owned(),
                        text(task, "FailureReason"),
                    ]
                })
                .collect();
            let document = json!({ "schema": "holdfast.redrive.list/1", "queue": queue, "tasks": tasks });
            Ok(said(
                as_json,
                &document,
                table(["STATUS", "MOVED", "OF", "TO", "FAILURE"], &rows),
            ))
        }
        Verb::Cancel { queue } => {
            let tasks = tasks(&mut session, queue)?;
            let Some(running) = tasks.iter().find(|task| task["TaskHandle"].is_string()) else {
                return Err(Failure::new(
                    Kind::NotFound,
                    format!("no task runs on {queue}"),
                    "its messages are not being moved",
                    format!("see the last ones: holdfast redrive list {queue}"),
                ));
            };
            let input = json!({ "TaskHandle": running["TaskHandle"] });
            let what = format!("cannot end the task of {queue}");
            let output = session.call(&what, Action::CancelMessageMoveTask, &input)?;
            let moved = &output["ApproximateNumberOfMessagesMoved"];
            let document = json!({ "schema": "holdfast.redrive.cancel/1", "queue": queue, "moved": moved });
            Ok(said(
                as_json,
                &document,
                format!("ended; {moved} messages were moved\n"),
            ))
        }
    }
}

fn arn(session: &mut Session, queue: &str) -> Result<Value, Failure> {
    let url = session.queue_url(queue)?;
    let input = json!({ "QueueUrl": url, "AttributeNames": ["QueueArn"] });
    let output = session.call(
        &format!("cannot look into queue {queue}"),
        Action::GetQueueAttributes,
        &input,
    )?;
    Ok(output["Attributes"]["QueueArn"].clone())
}

fn tasks(session: &mut Session, queue: &str) -> Result<Vec<Value>, Failure> {
    let input = json!({ "SourceArn": arn(session, queue)?, "MaxResults": 10 });
    let what = format!("cannot list the tasks of {queue}");
    let output = session.call(&what, Action::ListMessageMoveTasks, &input)?;
    Ok(output["Results"].as_array().cloned().unwrap_or_default())
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
}
