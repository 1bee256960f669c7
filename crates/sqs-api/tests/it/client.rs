//! A client of a world that speaks one of the protocols, so that a test can be run in each.

use std::time::Duration;

use serde_json::{Value, json};

use crate::answer::{self, Outcome};
use crate::flat;
use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Json,
    Query,
}

pub(crate) struct Client {
    pub(crate) world: World,
    protocol: Protocol,
}

/// Runs a test in each protocol, in a world of its own.
pub(crate) fn in_both_protocols(test: impl Fn(&mut Client)) {
    for protocol in [Protocol::Json, Protocol::Query] {
        let world = World::new();
        test(&mut Client { world, protocol });
    }
}

impl Client {
    pub(crate) fn ask(&self, action: &str, request: &Value) -> Outcome {
        match self.protocol {
            Protocol::Json => answer::of_json(&self.world.json(action, request.to_string())),
            Protocol::Query => answer::of_xml(action, &self.world.form("/", flat::form(action, request))),
        }
    }

    /// Calls an action that has to succeed.
    pub(crate) fn ok(&self, action: &str, request: Value) -> Value {
        match self.ask(action, &request) {
            Outcome::Answer(value) => value,
            Outcome::Error { code, message, .. } => panic!("{action} {request}: {code} {message}"),
        }
    }

    /// Calls an action that has to be refused, and returns code and text.
    pub(crate) fn refused(&self, action: &str, request: Value) -> (String, String) {
        match self.ask(action, &request) {
            Outcome::Answer(value) => panic!("{action} {request}: answered {value}"),
            Outcome::Error { code, message, .. } => (code, message),
        }
    }

    /// Receives up to ten messages, with what else the request says.
    pub(crate) fn receive(&self, queue: &str, mut others: Value) -> Vec<Value> {
        others["QueueUrl"] = json!(queue);
        if others.get("MaxNumberOfMessages").is_none() {
            others["MaxNumberOfMessages"] = json!(10);
        }
        let answer = self.ok("ReceiveMessage", others);
        let messages = answer.get("Messages").and_then(Value::as_array);
        messages.cloned().unwrap_or_default()
    }

    /// Receives up to ten messages and returns their bodies.
    pub(crate) fn bodies(&self, queue: &str, others: Value) -> Vec<String> {
        let messages = self.receive(queue, others);
        messages.iter().map(|message| text(&message["Body"])).collect()
    }

    pub(crate) fn delete(&self, queue: &str, message: &Value) {
        let handle = &message["ReceiptHandle"];
        self.ok(
            "DeleteMessage",
            json!({"QueueUrl": queue, "ReceiptHandle": handle}),
        );
    }

    /// Returns how many messages are visible, delayed and in flight.
    pub(crate) fn counters(&self, queue: &str) -> [u64; 3] {
        const NAMES: [&str; 3] = [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesDelayed",
            "ApproximateNumberOfMessagesNotVisible",
        ];
        let answer = self.ok(
            "GetQueueAttributes",
            json!({"QueueUrl": queue, "AttributeNames": NAMES}),
        );
        NAMES.map(|name| text(&answer["Attributes"][name]).parse().unwrap())
    }

    pub(crate) fn attributes(&self, queue: &str) -> Value {
        self.ok(
            "GetQueueAttributes",
            json!({"QueueUrl": queue, "AttributeNames": ["All"]}),
        )["Attributes"]
            .clone()
    }

    pub(crate) fn turn_to(&mut self, seconds: f64) {
        self.world.turn_to(Duration::from_secs_f64(seconds));
    }
}

pub(crate) fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
        .to_owned()
}
