//! The queue of a run: made for it and deleted after it, or one that the user named, which must be empty.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use types::QueueName;

use super::answer;
use super::target::Target;
use crate::failure::{Failure, Kind};
use crate::sqs::{Action, CallError, Client};

/// Long enough for any receive to be followed by its delete, short enough to wait for what an answer lost.
pub(crate) const VISIBILITY_SECONDS: u32 = 60;

const COUNTERS: [&str; 3] = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
];

/// The queue that is measured.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) url: String,
    /// Whether it was made for this run.
    pub(crate) is_own: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueueUrl {
    queue_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attributes {
    #[serde(default)]
    attributes: serde_json::Map<String, Value>,
}

impl Queue {
    /// Makes the queue of the run, or finds the one that was named and checks that it is empty.
    pub(crate) async fn open(
        client: &mut Client,
        target: &Target,
        run: u32,
        is_fifo: bool,
    ) -> Result<Self, Failure> {
        match &target.queue {
            Some(name) => Self::find(client, target, name).await,
            None => Self::create(client, target, run, is_fifo).await,
        }
    }

    async fn create(client: &mut Client, target: &Target, run: u32, is_fifo: bool) -> Result<Self, Failure> {
        let name = format!("holdfast-bench-{run:08x}{}", if is_fifo { ".fifo" } else { "" });
        let mut attributes = json!({ "VisibilityTimeout": VISIBILITY_SECONDS.to_string() });
        if is_fifo {
            attributes["FifoQueue"] = Value::from("true");
        }
        let input = json!({ "QueueName": name, "Attributes": attributes });
        let url = call::<QueueUrl>(client, Action::CreateQueue, &input).await;
        let url = url.map_err(|error| refused("cannot create a queue", target, &error))?;
        Ok(Self {
            name,
            url: url.queue_url,
            is_own: true,
        })
    }

    async fn find(client: &mut Client, target: &Target, name: &QueueName) -> Result<Self, Failure> {
        let input = json!({ "QueueName": name.as_str() });
        let url = call::<QueueUrl>(client, Action::GetQueueUrl, &input).await;
        let url = url.map_err(|error| refused(&format!("cannot find queue {name}"), target, &error))?;
        let queue = Self {
            name: name.to_string(),
            url: url.queue_url,
            is_own: false,
        };
        let messages = queue.messages(client).await;
        let messages =
            messages.map_err(|error| refused(&format!("cannot look into queue {name}"), target, &error))?;
        if messages > 0 {
            return Err(Failure::new(
                Kind::Precondition,
                format!("queue {name} is not empty"),
                format!("it has {messages} messages, and bench would receive them among its own"),
                "name an empty queue, or leave out --queue",
            ));
        }
        Ok(queue)
    }

    /// Returns how many messages the server says there are: visible, in flight and delayed.
    pub(crate) async fn messages(&self, client: &mut Client) -> Result<u64, CallError> {
        let input = json!({ "QueueUrl": self.url, "AttributeNames": COUNTERS });
        let attributes = call::<Attributes>(client, Action::GetQueueAttributes, &input)
            .await?
            .attributes;
        let counters = COUNTERS.iter().map(|name| {
            let text = attributes.get(*name).and_then(Value::as_str).unwrap_or_default();
            let counter = text.parse::<u64>();
            counter.map_err(|error| CallError::Unreadable(format!("{name} is {text:?}: {error}")))
        });
        counters.sum()
    }

    /// Deletes the queue if it was made for this run.
    pub(crate) async fn close(&self, client: &mut Client) -> Result<(), CallError> {
        if self.is_own {
            let input = json!({ "QueueUrl": self.url });
            client
                .call(Action::DeleteQueue, Bytes::from(input.to_string()))
                .await?;
        }
        Ok(())
    }
}

async fn call<T: for<'a> Deserialize<'a>>(
    client: &mut Client,
    action: Action,
    input: &Value,
) -> Result<T, CallError> {
    let output = client.call(action, Bytes::from(input.to_string())).await?;
    answer::read(&output)
}

/// Says why a run could not begin.
fn refused(what: &str, target: &Target, error: &CallError) -> Failure {
    let (kind, hint) = match error {
        CallError::Refused {
            status: 401 | 403, ..
        } => (
            Kind::Auth,
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION to a key that the server has",
        ),
        CallError::Refused { code, .. } if is_missing_queue(code) => {
            (Kind::NotFound, "create it, or leave out --queue")
        }
        CallError::NoAnswer { .. } => (
            Kind::Unavailable,
            "start a server (holdfast serve --dev), or say with --endpoint where it is",
        ),
        CallError::Refused { .. } | CallError::Unreadable(_) => {
            (Kind::Failed, "look whether --endpoint is that of an SQS API")
        }
    };
    let what = format!("{what} on {}", target.endpoint);
    Failure::new(kind, what, error.to_string(), hint)
}

fn is_missing_queue(code: &str) -> bool {
    code == "QueueDoesNotExist" || code.ends_with("NonExistentQueue")
}

/// Asks what a "200" of the server means, as `/ready` of Holdfast says.
pub(crate) async fn durability(client: &mut Client) -> String {
    #[derive(Deserialize)]
    struct Ready {
        durability: String,
    }
    let Ok((_, body)) = client.get("ready").await else {
        return UNKNOWN.to_owned();
    };
    serde_json::from_slice(&body).map_or_else(|_| UNKNOWN.to_owned(), |ready: Ready| ready.durability)
}

const UNKNOWN: &str = "unknown";
