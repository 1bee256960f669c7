//! `holdfast send | receive | ack | nack | extend`: single messages of a queue.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Parser};
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Kind};
use crate::queue::{pair, said};
use crate::session::{Common, Session};
use crate::sqs::Action;
use crate::time::seconds;

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 an argument makes no sense, 4 there is no such queue, 5 it is not possible now, 6 the key is
not accepted, 7 the server does not answer.";

#[derive(Debug, Parser)]
struct Send {
    /// The queue.
    queue: String,
    /// The body; `-` reads it from the standard input.
    #[arg(long, required_unless_present = "body_file", conflicts_with = "body_file")]
    body: Option<String>,
    /// A file that is the body.
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// How long it is hidden first, up to 15m.
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    delay: Option<u64>,
    /// A text attribute of the message.
    #[arg(long = "attr", value_parser = pair, value_name = "NAME=VALUE")]
    attributes: Vec<(String, String)>,
    /// The message group; a message of a FIFO queue needs one.
    #[arg(long)]
    group: Option<String>,
    /// What a FIFO queue recognises a repeated message by.
    #[arg(long)]
    dedup: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Parser)]
struct Receive {
    /// The queue.
    queue: String,
    /// The most messages, 1 to 10.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=10))]
    max: u8,
    /// How long to wait for one, up to 20s; the queue's own time if left out.
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    wait: Option<u64>,
    /// How long they are hidden from others; the queue's own time if left out.
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    visibility: Option<u64>,
    /// Deletes them as soon as they are printed.
    #[arg(long)]
    delete: bool,
    #[command(flatten)]
    common: Common,
}

/// A message that was received, by its receipt handle.
#[derive(Debug, Parser)]
struct Received {
    /// The queue.
    queue: String,
    /// The receipt handle, as `receive` printed it.
    handle: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Parser)]
struct Extend {
    /// The queue.
    queue: String,
    /// The receipt handle, as `receive` printed it.
    handle: String,
    /// How long from now it stays hidden, up to 12h.
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    by: u64,
    #[command(flatten)]
    common: Common,
}

/// Returns the commands.
pub fn commands() -> [Command; 5] {
    let with =
        |command: Command, about: &'static str| command.about(about).long_about(None).after_help(AFTER_HELP);
    [
        with(Send::augment_args(Command::new("send")), "Sends a message"),
        with(
            Receive::augment_args(Command::new("receive")),
            "Receives messages: they are hidden from others until their time is over or they are deleted",
        ),
        with(
            Received::augment_args(Command::new("ack")),
            "Deletes a message that was received",
        ),
        with(
            Received::augment_args(Command::new("nack")),
            "Gives a message back that was received: others may have it at once",
        ),
        with(
            Extend::augment_args(Command::new("extend")),
            "Keeps a message that was received hidden for longer",
        ),
    ]
}

/// Does what the arguments of one of them say, and returns the exit code.
pub fn run(name: &str, matches: &ArgMatches) -> ExitCode {
    let parsed = "the matches are those of this command";
    let (as_json, done) = match name {
        "send" => {
            let send = Send::from_arg_matches(matches).expect(parsed);
            (send.common.json, perform_send(&send))
        }
        "receive" => {
            let receive = Receive::from_arg_matches(matches).expect(parsed);
            (receive.common.json, perform_receive(&receive))
        }
        "extend" => {
            let extend = Extend::from_arg_matches(matches).expect(parsed);
            let Extend {
                queue,
                handle,
                by,
                common,
            } = &extend;
            (
                common.json,
                change_visibility("extend", queue, handle, *by, common),
            )
        }
        _ => {
            let received = Received::from_arg_matches(matches).expect(parsed);
            let Received {
                queue,
                handle,
                common,
            } = &received;
            let done = if name == "ack" {
                ack(queue, handle, common)
            } else {
                change_visibility("nack", queue, handle, 0, common)
            };
            (common.json, done)
        }
    };
    match done {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(as_json),
    }
}

fn body_of(send: &Send) -> Result<String, Failure> {
    let unread = |what: String, error: io::Error| {
        Failure::new(
            Kind::Usage,
            what,
            error.to_string(),
            "the body is a text (UTF-8) that can be read",
        )
    };
    match (&send.body, &send.body_file) {
        (Some(body), _) if body != "-" => Ok(body.clone()),
        (None, Some(path)) => {
            fs::read_to_string(path).map_err(|error| unread(format!("cannot read {}", path.display()), error))
        }
        (Some(_), _) | (None, None) => {
            let mut body = String::new();
            let read = io::stdin().lock().read_to_string(&mut body);
            read.map_err(|error| unread("cannot read the standard input".to_owned(), error))?;
            Ok(body)
        }
    }
}

fn perform_send(send: &Send) -> Result<String, Failure> {
    let body = body_of(send)?;
    let mut session = Session::open(&send.common)?;
    let queue = &send.queue;
    let mut input = json!({ "QueueUrl": session.queue_url(queue)?, "MessageBody": body });
    if let Some(delay) = send.delay {
        input["DelaySeconds"] = delay.into();
    }
    for (name, value) in [
        ("MessageGroupId", &send.group),
        ("MessageDeduplicationId", &send.dedup),
    ] {
        if let Some(value) = value {
            input[name] = value.as_str().into();
        }
    }
    let attribute = |(name, value): &(String, String)| {
        (
            name.clone(),
            json!({ "DataType": "String", "StringValue": value }),
        )
    };
    let attributes: Map<String, Value> = send.attributes.iter().map(attribute).collect();
    if !attributes.is_empty() {
        input["MessageAttributes"] = attributes.into();
    }
    let output = session.call(
        &format!("cannot send to queue {queue}"),
        Action::SendMessage,
        &input,
    )?;
    let id = &output["MessageId"];
    let mut document = json!({ "schema": "holdfast.send/1", "queue": queue, "message_id": id });
    if let Some(number) = output["SequenceNumber"].as_str() {
        document["sequence_number"] = number.into();
    }
    Ok(said(
        send.common.json,
        &document,
        format!(
            "sent  message-id={}  queue={queue}\n",
            id.as_str().unwrap_or_default()
        ),
    ))
}

fn perform_receive(receive: &Receive) -> Result<String, Failure> {
    let mut session = Session::open(&receive.common)?;
    let queue = &receive.queue;
    let url = session.queue_url(queue)?;
    let mut input = json!({
        "QueueUrl": url, "MaxNumberOfMessages": receive.max, "MessageSystemAttributeNames": ["All"],
        "MessageAttributeNames": ["All"],
    });
    for (name, time) in [
        ("WaitTimeSeconds", receive.wait),
        ("VisibilityTimeout", receive.visibility),
    ] {
        if let Some(time) = time {
            input[name] = time.into();
        }
    }
    let what = format!("cannot receive from queue {queue}");
    let output = session.call(&what, Action::ReceiveMessage, &input)?;
    let messages = output["Messages"].as_array().cloned().unwrap_or_default();
    let document = json!({ "schema": "holdfast.receive/1", "queue": queue, "messages": messages, "deleted": receive.delete });
    let text = messages.iter().map(|message| described(message, receive.delete));
    let text = match messages.is_empty() {
        true => "no message came\n".to_owned(),
        false => text.collect(),
    };
    if receive.delete {
        for message in &messages {
            let input = json!({ "QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"] });
            session.call(
                &format!("cannot delete from queue {queue}"),
                Action::DeleteMessage,
                &input,
            )?;
        }
    }
    Ok(said(receive.common.json, &document, text))
}

/// Says what a message is, its body last.
fn described(message: &Value, is_deleted: bool) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = format!(
        "message-id {}  receives {}\n",
        text(&message["MessageId"]),
        text(&message["Attributes"]["ApproximateReceiveCount"])
    );
    for (name, value) in message["MessageAttributes"].as_object().into_iter().flatten() {
        lines += &format!("attr {name}={}\n", text(&value["StringValue"]));
    }
    if !is_deleted {
        lines += &format!("handle {}\n", text(&message["ReceiptHandle"]));
    }
    format!("{lines}{}\n", text(&message["Body"]))
}

fn ack(queue: &str, handle: &str, common: &Common) -> Result<String, Failure> {
    let mut session = Session::open(common)?;
    let input = json!({ "QueueUrl": session.queue_url(queue)?, "ReceiptHandle": handle });
    session.call(
        &format!("cannot delete from queue {queue}"),
        Action::DeleteMessage,
        &input,
    )?;
    let document = json!({ "schema": "holdfast.ack/1", "queue": queue });
    Ok(said(common.json, &document, "deleted\n".to_owned()))
}

fn change_visibility(
    verb: &str,
    queue: &str,
    handle: &str,
    time: u64,
    common: &Common,
) -> Result<String, Failure> {
    let mut session = Session::open(common)?;
    let input =
        json!({ "QueueUrl": session.queue_url(queue)?, "ReceiptHandle": handle, "VisibilityTimeout": time });
    let what = format!("cannot change the time of a message of queue {queue}");
    session.call(&what, Action::ChangeMessageVisibility, &input)?;
    let document = json!({ "schema": format!("holdfast.{verb}/1"), "queue": queue, "hidden_seconds": time });
    let text = if time == 0 {
        "given back\n".to_owned()
    } else {
        format!("hidden for {time} s from now\n")
    };
    Ok(said(common.json, &document, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_a_help_text() {
        for command in commands() {
            command.clone().debug_assert();
            assert!(command.get_about().is_some());
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} {}",
                    command.get_name(),
                    argument.get_id()
                );
            }
        }
    }
}
