//! The JSON protocol of SQS in a few lines, unsigned, for a server started with `--dev`.
//!
//! The real SDKs have their own tests; this one exists because it never retries and never hides an answer.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::http::{Connection, Reply};

/// Calls actions over one connection, opened when first needed and again after an error.
#[derive(Debug)]
pub struct Sqs {
    address: SocketAddr,
    answer_limit: Option<Duration>,
    connection: Option<Connection>,
}

/// An error answer of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The part of `__type` after the `#`.
    pub code: String,
    /// The text for the caller.
    pub message: String,
}

impl Sqs {
    /// Returns a client of the server at `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            answer_limit: None,
            connection: None,
        }
    }

    /// Waits no longer than this for an answer.
    #[must_use]
    pub fn answer_limit(mut self, limit: Duration) -> Self {
        self.answer_limit = Some(limit);
        self
    }

    /// Calls an action; `Err` means that no answer came, so the outcome is unknown.
    pub fn try_call(&mut self, action: &str, input: &Value) -> Result<std::result::Result<Value, Refusal>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.address)?,
        };
        if let Some(limit) = self.answer_limit {
            connection.set_answer_limit(limit)?;
        }
        let reply = post_json(&mut connection, action, &serde_json::to_vec(input)?)?;
        if reply.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        decode(&reply)
    }

    /// Calls an action that must succeed.
    pub fn call(&mut self, action: &str, input: Value) -> Result<Value> {
        match self.try_call(action, &input)? {
            Ok(output) => Ok(output),
            Err(refusal) => bail!("{action} {input} was refused: {refusal:?}"),
        }
    }

    /// Calls an action that must be refused.
    pub fn refused(&mut self, action: &str, input: Value) -> Result<Refusal> {
        match self.try_call(action, &input)? {
            Ok(output) => bail!("{action} {input} was accepted: {output}"),
            Err(refusal) => Ok(refusal),
        }
    }

    /// Creates a queue and returns its URL.
    pub fn create_queue(&mut self, name: &str, attributes: Value) -> Result<String> {
        let output = self.call(
            "CreateQueue",
            json!({ "QueueName": name, "Attributes": attributes }),
        )?;
        Ok(output["QueueUrl"].as_str().context("no QueueUrl")?.to_owned())
    }

    /// Returns the three counters of a queue: visible, in flight, delayed.
    pub fn counters(&mut self, queue_url: &str) -> Result<[u64; 3]> {
        const NAMES: [&str; 3] = [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ];
        let input = json!({ "QueueUrl": queue_url, "AttributeNames": NAMES });
        let output = self.call("GetQueueAttributes", input)?;
        let mut counters = [0; 3];
        for (counter, name) in counters.iter_mut().zip(NAMES) {
            let text = output["Attributes"][name]
                .as_str()
                .with_context(|| format!("no {name}"))?;
            *counter = text.parse().with_context(|| format!("{name} is {text:?}"))?;
        }
        Ok(counters)
    }

    /// Receives up to ten messages; an empty answer is an empty list.
    pub fn receive(&mut self, queue_url: &str, visibility_timeout: u32) -> Result<Vec<Value>> {
        let input = json!({
            "QueueUrl": queue_url, "MaxNumberOfMessages": 10, "VisibilityTimeout": visibility_timeout,
        });
        let mut output = self.call("ReceiveMessage", input)?;
        Ok(messages(&mut output))
    }
}

/// Takes the messages out of the output of a receive.
fn messages(output: &mut Value) -> Vec<Value> {
    if let Value::Array(messages) = output["Messages"].take() {
        messages
    } else {
        Vec::new()
    }
}

/// Sends any bytes as the JSON request of an action.
pub fn post_json(connection: &mut Connection, action: &str, body: &[u8]) -> Result<Reply> {
    let target = format!("AmazonSQS.{action}");
    let headers = [
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", target.as_str()),
    ];
    connection.request("POST", "/", &headers, body)
}

/// Reads an answer of the JSON protocol.
pub fn decode(reply: &Reply) -> Result<std::result::Result<Value, Refusal>> {
    let body: Value = match reply.body.as_slice() {
        [] => json!({}),
        bytes => serde_json::from_slice(bytes)
            .with_context(|| format!("{} with a body that is not JSON: {}", reply.status, reply.text()))?,
    };
    if reply.status == 200 {
        return Ok(Ok(body));
    }
    let kind = body["__type"].as_str().unwrap_or_default();
    let code = kind.rsplit('#').next().unwrap_or_default().to_owned();
    let message = body["message"].as_str().unwrap_or_default().to_owned();
    Ok(Err(Refusal {
        status: reply.status,
        code,
        message,
    }))
}
