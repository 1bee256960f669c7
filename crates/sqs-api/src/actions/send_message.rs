//! SendMessage: puts one message into a queue.

use serde::Deserialize;

use super::{Action, Doc, Parameter, QUEUE_URL, optional, required};
use crate::message::{AttributeInput, Draft};
use crate::wire::{Pairs, Text};
use crate::{Access, ApiError, Code, Context, Reply};

pub(crate) struct SendMessage;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    message_body: Option<Text<'a>>,
    delay_seconds: Option<i64>,
    #[serde(borrow)]
    message_attributes: Option<Pairs<'a, AttributeInput<'a>>>,
    #[serde(borrow)]
    message_system_attributes: Option<Pairs<'a, AttributeInput<'a>>>,
    #[serde(borrow)]
    message_group_id: Option<Text<'a>>,
    #[serde(borrow)]
    message_deduplication_id: Option<Text<'a>>,
}

/// The parameters of a message, here and in an entry of SendMessageBatch.
pub(super) const MESSAGE_BODY: Parameter = required(
    "MessageBody",
    "The body: at least one character, of those that XML allows. Body and attributes have at most 1,048,576 bytes.",
);
pub(super) const DELAY_SECONDS: Parameter = optional(
    "DelaySeconds",
    "0 to 900 seconds before the message can be received. Standard queues only.",
);
pub(super) const MESSAGE_ATTRIBUTES: Parameter = optional(
    "MessageAttributes",
    "Up to ten attributes of type String, Number or Binary, each with a label of the client's own if it likes.",
);
pub(super) const MESSAGE_SYSTEM_ATTRIBUTES: Parameter = optional(
    "MessageSystemAttributes",
    "`AWSTraceHeader`; the header `X-Amzn-Trace-Id` sets the same.",
);
pub(super) const MESSAGE_GROUP_ID: Parameter = optional(
    "MessageGroupId",
    "1 to 128 letters, digits and punctuation. A FIFO queue needs it; a standard queue keeps and shows it.",
);
pub(super) const MESSAGE_DEDUPLICATION_ID: Parameter = optional(
    "MessageDeduplicationId",
    "1 to 128 letters, digits and punctuation, for FIFO queues that do not deduplicate by content.",
);

impl Action for SendMessage {
    const NAME: &'static str = "SendMessage";
    const ACCESS: Access = Access::Policy("SendMessage");
    const DOC: Doc = Doc {
        summary: "Puts a message into a queue. The answer comes when the message is durable.",
        parameters: &[
            QUEUE_URL,
            MESSAGE_BODY,
            DELAY_SECONDS,
            MESSAGE_ATTRIBUTES,
            MESSAGE_SYSTEM_ATTRIBUTES,
            MESSAGE_GROUP_ID,
            MESSAGE_DEDUPLICATION_ID,
        ],
        errors: &[Code::InvalidMessageContents, Code::QueueDoesNotExist],
        notes: &[
            "A sequence number has twenty digits and grows by one with each message of its queue.",
            "A Number is a decimal number whose magnitude is 0 or from 1e-128 to 1e+126; it is kept as it was written.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let draft = Draft {
            body: request.message_body,
            delay_seconds: request.delay_seconds,
            attributes: request.message_attributes.unwrap_or_default(),
            system_attributes: request.message_system_attributes.unwrap_or_default(),
            group: request.message_group_id,
            deduplication_id: request.message_deduplication_id,
        };
        let (entry, sent) = draft.check(&key.name)?.into_entry(context);
        let is_fifo = key.name.is_fifo();
        let mut results = context.broker.enqueue(key, vec![entry]).await?;
        let enqueued = results
            .pop()
            .expect("the broker gives a result for every entry")?;
        Ok(context.reply(&sent.stored(&enqueued, is_fifo)))
    }
}
