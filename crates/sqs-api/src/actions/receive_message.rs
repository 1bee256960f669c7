//! ReceiveMessage: takes messages that are due, and waits for them if it is asked to.

use broker::ReceiveOptions;
use queue_core::Content;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use types::{QueueKey, limits};

use super::change_message_visibility::check_visibility;
use super::{Action, Doc, QUEUE_URL, optional};
use crate::message::{Message, Wanted, check_id};
use crate::wire::Text;
use crate::{Access, ApiError, Code, Context, Reply, Subject};

pub(crate) struct ReceiveMessage;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    max_number_of_messages: Option<i64>,
    visibility_timeout: Option<i64>,
    wait_time_seconds: Option<i64>,
    #[serde(borrow)]
    attribute_names: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    message_system_attribute_names: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    message_attribute_names: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    receive_request_attempt_id: Option<Text<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Response<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Message<'a>>,
}

impl Action for ReceiveMessage {
    const NAME: &'static str = "ReceiveMessage";
    const ACCESS: Access = Access::Policy("ReceiveMessage");
    const DOC: Doc = Doc {
        summary: "Takes up to ten messages that are due, and waits for them if it is asked to.",
        parameters: &[
            QUEUE_URL,
            optional("MaxNumberOfMessages", "1 to 10; 1 if it is not given."),
            optional(
                "VisibilityTimeout",
                "0 to 43,200 seconds; the queue's own if it is not given.",
            ),
            optional(
                "WaitTimeSeconds",
                "0 to 20 seconds to wait for a message; the queue's own if it is not given.",
            ),
            optional(
                "MessageSystemAttributeNames",
                "Names of system attributes to return, or `All`.",
            ),
            optional(
                "AttributeNames",
                "The older name of the same; the names of both count.",
            ),
            optional(
                "MessageAttributeNames",
                "Names of attributes to return, prefixes as in `foo.*`, or `All`.",
            ),
            optional(
                "ReceiveRequestAttemptId",
                "1 to 128 letters, digits and punctuation. Names the receive, so that a FIFO queue can repeat its answer.",
            ),
        ],
        errors: &[Code::OverLimit, Code::QueueDoesNotExist],
        notes: &[
            "On a FIFO queue a second receive with the same `ReceiveRequestAttemptId` gives the same messages with the \
             same handles, and their visibility timeouts begin anew: for five minutes, and while these timeouts run. \
             Once one of the messages was deleted or its visibility changed, it is an InvalidParameterValue.",
            "On a standard queue `ReceiveRequestAttemptId` is ignored and not checked.",
            "A wait ends with the first message; it never waits for more.",
            "If the answer cannot be delivered because the client has gone, the messages go back at once, as if they \
             had not been received.",
            "`SenderId` is the id of the access key that signed the send.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let mut options = receive_options(&request)?;
        let attempt_id = request.receive_request_attempt_id.filter(|_| key.name.is_fifo());
        if let Some(id) = &attempt_id {
            check_id(id, "ReceiveRequestAttemptId")?;
            options.attempt = Sha256::digest(id.as_bytes()).first_chunk().copied();
        }
        let mut system = request.message_system_attribute_names.unwrap_or_default();
        system.extend(request.attribute_names.unwrap_or_default());
        let wanted = Wanted {
            system,
            user: request.message_attribute_names.unwrap_or_default(),
            is_fifo: key.name.is_fifo(),
        };
        let received = context.broker.receive(key.clone(), options).await;
        let received = received.map_err(|error| {
            let subject = Subject {
                attempt_id: attempt_id.as_deref().unwrap_or_default(),
                ..Subject::default()
            };
            ApiError::of_broker(error, subject)
        })?;
        let messages = received
            .messages
            .iter()
            .filter_map(|received| message(context, &key, received, &wanted))
            .collect();
        Ok(context.reply(&Response { messages }).with_take(received.take))
    }
}

/// Returns the message as the client sees it. One whose stored form cannot be read is left out and named in the log:
/// the others of the answer are good.
fn message<'a>(
    context: &Context<'_>,
    key: &QueueKey,
    received: &'a broker::ReceivedMessage,
    wanted: &Wanted<'_>,
) -> Option<Message<'a>> {
    let delivery = &received.delivery;
    match Content::decode(&received.content) {
        Ok(content) => {
            let receipt_handle = context.broker.seal(key.tenant, &delivery.handle);
            Some(Message::new(
                content,
                delivery,
                receipt_handle,
                wanted,
                &context.options.region,
            ))
        }
        Err(error) => {
            tracing::error!(queue = %key, sequence = delivery.handle.sequence.0, %error, "unreadable message");
            None
        }
    }
}

fn receive_options(request: &Request<'_>) -> Result<ReceiveOptions, ApiError> {
    let max = request.max_number_of_messages.unwrap_or(1);
    let max = in_range(max, 1..=limits::RECEIVE_MESSAGES_MAX).ok_or_else(|| {
        let reason = format!(
            "Must be between 1 and {}, if provided.",
            limits::RECEIVE_MESSAGES_MAX
        );
        ApiError::invalid_value(max, "MaxNumberOfMessages", &reason)
    })?;
    let wait_seconds = request.wait_time_seconds.map(|seconds| {
        in_range(seconds, limits::WAIT_SECONDS).ok_or_else(|| {
            let reason = format!("Must be >= 0 and <= {}, if provided.", limits::WAIT_SECONDS.end());
            ApiError::invalid_value(seconds, "WaitTimeSeconds", &reason)
        })
    });
    Ok(ReceiveOptions {
        max,
        visibility_timeout_seconds: request.visibility_timeout.map(check_visibility).transpose()?,
        wait_seconds: wait_seconds.transpose()?,
        attempt: None,
    })
}

fn in_range(number: i64, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
    u32::try_from(number).ok().filter(|number| range.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Result<(u32, Option<u32>, Option<u32>), &str>) {
        let options = receive_options(&serde_json::from_str(json).unwrap());
        let parts = options.map(|options| {
            (
                options.max,
                options.visibility_timeout_seconds,
                options.wait_seconds,
            )
        });
        assert_eq!(
            parts.map_err(|error| error.to_string()),
            expected.map_err(str::to_owned),
            "{json}"
        );
    }

    #[test]
    fn numbers_have_their_recorded_bounds_and_texts() {
        check("{}", Ok((1, None, None)));
        check(
            r#"{"MaxNumberOfMessages":10,"VisibilityTimeout":0,"WaitTimeSeconds":20}"#,
            Ok((10, Some(0), Some(20))),
        );
        for max in ["11", "0", "-1"] {
            let text = format!(
                "Value {max} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided."
            );
            check(&format!(r#"{{"MaxNumberOfMessages":{max}}}"#), Err(&text));
        }
        for wait in ["21", "-1"] {
            let text = format!(
                "Value {wait} for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided."
            );
            check(&format!(r#"{{"WaitTimeSeconds":{wait}}}"#), Err(&text));
        }
        check(
            r#"{"VisibilityTimeout":43201}"#,
            Err(
                "Value 43201 for parameter VisibilityTimeout is invalid. Reason: Must be >= 0 and <= 43200, if \
                 provided.",
            ),
        );
    }
}
