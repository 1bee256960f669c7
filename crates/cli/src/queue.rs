//! `holdfast queue`: makes, shows, changes, empties and deletes queues.

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::session::{Common, Session, confirm, name_of};
use crate::sqs::Action;
use crate::table::table;
use crate::time::seconds;

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 an argument makes no sense, 4 there is no such queue, 5 it is not possible now or was not
confirmed, 6 the key is not accepted, 7 the server does not answer.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists queues with their messages.
    List {
        /// Only those whose names begin so.
        prefix: Option<String>,
    },
    /// Makes a queue. One that is there with the same settings is no mistake.
    Create {
        /// Its name; that of a FIFO queue ends with .fifo.
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Shows the settings and counters of a queue.
    Show {
        /// The queue.
        name: String,
    },
    /// Changes settings of a queue.
    Set {
        /// The queue.
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Adds tags to a queue.
    Tag {
        /// The queue.
        name: String,
        /// Tags, each as KEY=VALUE.
        #[arg(required = true, value_parser = pair)]
        tags: Vec<(String, String)>,
    },
    /// Deletes all messages of a queue.
    Purge {
        /// The queue.
        name: String,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
        /// Says what would be done, and does nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Deletes a queue with its messages.
    Delete {
        /// The queue.
        name: String,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
        /// Says what would be done, and does nothing.
        #[arg(long)]
        dry_run: bool,
    },
}

/// Settings of a queue. What is left out stays as it is, or as SQS has it.
#[derive(Debug, Args)]
struct Settings {
    /// How long a received message is hidden, up to 12h.
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    visibility: Option<u64>,
    /// How long a message is hidden after it was sent, up to 15m.
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    delay: Option<u64>,
    /// How long a receive waits that does not say it, up to 20s.
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    wait: Option<u64>,
    /// How long a message is kept, 60s to 14d.
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    retention: Option<u64>,
    /// The queue that messages go to which were received too often.
    #[arg(long, requires = "max_receives", value_name = "QUEUE")]
    dlq: Option<String>,
    /// How often a message is received at most before it goes there.
    #[arg(long, requires = "dlq", value_name = "N")]
    max_receives: Option<u32>,
    /// Any attribute of SQS by its name.
    #[arg(long = "attribute", value_parser = pair, value_name = "NAME=VALUE")]
    attributes: Vec<(String, String)>,
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
    Arguments::augment_args(Command::new("queue"))
        .about("Looks after queues")
        .long_about(None)
        .after_help(AFTER_HELP)
}

/// Does what the arguments say, and returns the exit code.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let arguments = Arguments::from_arg_matches(matches).expect("the matches are those of this command");
    let as_json = arguments.common.json;
    match Session::open(&arguments.common).and_then(|session| perform(session, arguments.verb, as_json)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(as_json),
    }
}

/// Reads `key=value`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    if key.is_empty() {
        return Err("the key is empty".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

fn perform(mut session: Session, verb: Verb, as_json: bool) -> Result<String, Failure> {
    match verb {
        Verb::List { prefix } => list(&mut session, prefix.as_deref().unwrap_or_default(), as_json),
        Verb::Create { name, settings } => {
            let mut attributes = settings.attributes(&mut session)?;
            if name.ends_with(".fifo") {
                attributes.insert("FifoQueue".to_owned(), "true".into());
            }
            let input = json!({ "QueueName": name, "Attributes": attributes });
            let output = session.call(
                &format!("cannot create queue {name}"),
                Action::CreateQueue,
                &input,
            )?;
            let url = &output["QueueUrl"];
            let document = json!({ "schema": "holdfast.queue.create/1", "name": name, "url": url });
            Ok(said(
                as_json,
                &document,
                format!("{}\n", url.as_str().unwrap_or_default()),
            ))
        }
        Verb::Show { name } => show(&mut session, &name, as_json),
        Verb::Set { name, settings } => {
            let attributes = settings.attributes(&mut session)?;
            let input = json!({ "QueueUrl": session.queue_url(&name)?, "Attributes": attributes });
            session.call(
                &format!("cannot change queue {name}"),
                Action::SetQueueAttributes,
                &input,
            )?;
            let document =
                json!({ "schema": "holdfast.queue.set/1", "name": name, "attributes": attributes });
            Ok(said(
                as_json,
                &document,
                format!("{name} has {} new settings\n", attributes.len()),
            ))
        }
        Verb::Tag { name, tags } => {
            let tags: Map<String, Value> = tags.into_iter().map(|(key, value)| (key, value.into())).collect();
            let input = json!({ "QueueUrl": session.queue_url(&name)?, "Tags": tags });
            session.call(&format!("cannot tag queue {name}"), Action::TagQueue, &input)?;
            let document = json!({ "schema": "holdfast.queue.tag/1", "name": name, "tags": tags });
            Ok(said(
                as_json,
                &document,
                format!("{name} has {} tags more\n", tags.len()),
            ))
        }
        Verb::Purge { name, yes, dry_run } => {
            let end = End {
                action: Action::PurgeQueue,
                verb: "purge",
                done: "is empty",
            };
            end.take(&mut session, &name, yes, dry_run, as_json)
        }
        Verb::Delete { name, yes, dry_run } => {
            let end = End {
                action: Action::DeleteQueue,
                verb: "delete",
                done: "is deleted",
            };
            end.take(&mut session, &name, yes, dry_run, as_json)
        }
    }
}

/// Returns the document, or what is said to people.
pub(crate) fn said(as_json: bool, document: &Value, text: String) -> String {
    if as_json { format!("{document}\n") } else { text }
}

impl Settings {
    fn attributes(&self, session: &mut Session) -> Result<Map<String, Value>, Failure> {
        let times = [
            ("VisibilityTimeout", self.visibility),
            ("DelaySeconds", self.delay),
            ("ReceiveMessageWaitTimeSeconds", self.wait),
            ("MessageRetentionPeriod", self.retention),
        ];
        let given = times
            .into_iter()
            .filter_map(|(name, time)| Some((name.to_owned(), time?.to_string().into())));
        let mut attributes: Map<String, Value> = given.collect();
        if let (Some(queue), Some(most)) = (&self.dlq, self.max_receives) {
            let (_, shown) = attributes_of(session, queue)?;
            let policy = json!({ "deadLetterTargetArn": shown["QueueArn"], "maxReceiveCount": most });
            attributes.insert("RedrivePolicy".to_owned(), policy.to_string().into());
        }
        for (name, value) in &self.attributes {
            attributes.insert(name.clone(), value.as_str().into());
        }
        Ok(attributes)
    }
}

fn attributes_of(session: &mut Session, name: &str) -> Result<(String, Value), Failure> {
    let url = session.queue_url(name)?;
    let input = json!({ "QueueUrl": url, "AttributeNames": ["All"] });
    let output = session.call(
        &format!("cannot look into queue {name}"),
        Action::GetQueueAttributes,
        &input,
    )?;
    Ok((url, output["Attributes"].clone()))
}

fn number(attributes: &Value, name: &str) -> u64 {
    let text = attributes[name].as_str().unwrap_or_default();
    text.parse().unwrap_or(0)
}

/// What a list says of a queue.
fn item(url: &str, attributes: &Value) -> Value {
    let name = name_of(url);
    let policy: Value = attributes["RedrivePolicy"]
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let dlq = policy["deadLetterTargetArn"]
        .as_str()
        .and_then(|arn| arn.rsplit(':').next());
    json!({
        "name": name,
        "url": url,
        "type": if name.ends_with(".fifo") { "fifo" } else { "standard" },
        "visible": number(attributes, "ApproximateNumberOfMessages"),
        "in_flight": number(attributes, "ApproximateNumberOfMessagesNotVisible"),
        "delayed": number(attributes, "ApproximateNumberOfMessagesDelayed"),
        "dlq": dlq,
    })
}

fn list(session: &mut Session, prefix: &str, as_json: bool) -> Result<String, Failure> {
    let mut items = Vec::new();
    for url in session.queue_urls(prefix)? {
        let input = json!({ "QueueUrl": url, "AttributeNames": ["All"] });
        let what = format!("cannot look into queue {}", name_of(&url));
        let output = session.call(&what, Action::GetQueueAttributes, &input);
        match output {
            Ok(output) => items.push(item(&url, &output["Attributes"])),
            // It went while the list was made.
            Err(failure) if failure.kind == crate::failure::Kind::NotFound => {}
            Err(failure) => return Err(failure),
        }
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let rows: Vec<[String; 6]> = items
        .iter()
        .map(|item| {
            let dlq = item["dlq"].as_str().unwrap_or("-").to_owned();
            [
                text(&item["name"]),
                text(&item["type"]),
                text(&item["visible"]),
                text(&item["in_flight"]),
                text(&item["delayed"]),
                dlq,
            ]
        })
        .collect();
    let header = ["NAME", "TYPE", "VISIBLE", "IN-FLIGHT", "DELAYED", "DLQ"];
    let document = json!({ "schema": "holdfast.queue.list/1", "items": items });
    Ok(said(as_json, &document, table(header, &rows)))
}

fn show(session: &mut Session, name: &str, as_json: bool) -> Result<String, Failure> {
    let (url, attributes) = attributes_of(session, name)?;
    let document =
        json!({ "schema": "holdfast.queue.show/1", "name": name, "url": url, "attributes": attributes });
    let rows: Vec<[String; 2]> = attributes
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| [name.clone(), value.as_str().unwrap_or_default().to_owned()])
        .collect();
    Ok(said(
        as_json,
        &document,
        format!("{url}\n{}", table(["ATTRIBUTE", "VALUE"], &rows)),
    ))
}

/// Something after which messages are gone.
struct End {
    action: Action,
    verb: &'static str,
    done: &'static str,
}

impl End {
    fn take(
        self,
        session: &mut Session,
        name: &str,
        yes: bool,
        dry_run: bool,
        as_json: bool,
    ) -> Result<String, Failure> {
        let Self { action, verb, done } = self;
        let (url, attributes) = attributes_of(session, name)?;
        let item = item(&url, &attributes);
        let messages: u64 = ["visible", "in_flight", "delayed"]
            .iter()
            .filter_map(|name| item[name].as_u64())
            .sum();
        let question = format!("This will {verb} {name}, with {messages} messages");
        let mut document = json!({ "schema": format!("holdfast.queue.{verb}/1"), "name": name, "messages": messages, "done": !dry_run });
        if dry_run {
            return Ok(said(
                as_json,
                &document,
                format!("{question}; nothing was done\n"),
            ));
        }
        confirm(&question, yes)?;
        session.call(
            &format!("cannot {verb} queue {name}"),
            action,
            &json!({ "QueueUrl": url }),
        )?;
        document["url"] = url.into();
        Ok(said(
            as_json,
            &document,
            format!("{name} {done}: {messages} messages are gone\n"),
        ))
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
    fn an_item_of_a_list_says_what_waits_and_where_the_dead_go() {
        let attributes = json!({
            "ApproximateNumberOfMessages": "12", "ApproximateNumberOfMessagesNotVisible": "3",
            "RedrivePolicy": r#"{"deadLetterTargetArn":"arn:aws:sqs:r:000000000000:dead.fifo","maxReceiveCount":5}"#,
        });
        let item = item("http://h/000000000000/a.fifo", &attributes);
        assert_eq!(
            (&item["visible"], &item["in_flight"], &item["delayed"]),
            (&json!(12), &json!(3), &json!(0))
        );
        assert_eq!(
            (&item["type"], &item["dlq"]),
            (&json!("fifo"), &json!("dead.fifo"))
        );
    }

    #[test]
    fn pairs_have_a_key() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(pair("=b").is_err() && pair("a").is_err());
    }
}
