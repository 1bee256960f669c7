//! SetQueueAttributes: changes the attributes that are named, and no others.

use serde::Deserialize;

use super::create_queue::check_redrive;
use super::{Action, Doc, QUEUE_URL, required};
use crate::attribute_values::{self, FIFO_QUEUE, Passed};
use crate::wire::{Pairs, Text};
use crate::{ApiError, Code, Context, Reply};

pub(crate) struct SetQueueAttributes;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    attributes: Option<Pairs<'a, Text<'a>>>,
}

impl Action for SetQueueAttributes {
    const NAME: &'static str = "SetQueueAttributes";
    const DOC: Doc = Doc {
        summary: "Changes the attributes that are named, and no others.",
        parameters: &[
            QUEUE_URL,
            required(
                "Attributes",
                "`VisibilityTimeout` (0 to 43,200 s), `DelaySeconds` (0 to 900), `MessageRetentionPeriod` (60 to \
                 1,209,600 s), `MaximumMessageSize` (1,024 to 1,048,576 bytes), `ReceiveMessageWaitTimeSeconds` (0 to \
                 20), `Policy`, `RedrivePolicy`, `RedriveAllowPolicy`, `KmsMasterKeyId`, \
                 `KmsDataKeyReusePeriodSeconds` (60 to 86,400), `SqsManagedSseEnabled`; for FIFO queues also \
                 `ContentBasedDeduplication`, `DeduplicationScope`, `FifoThroughputLimit`.",
            ),
        ],
        errors: &[
            Code::InvalidAttributeName,
            Code::InvalidAttributeValue,
            Code::QueueDoesNotExist,
        ],
        notes: &[
            "An empty text removes `Policy`, `RedrivePolicy`, `RedriveAllowPolicy` and `KmsMasterKeyId`.",
            "`Policy` is shown as it was written, and evaluated: see Access below.",
            "A new `DelaySeconds` of a FIFO queue holds for messages whose delay still runs, counted from when they \
             were sent; on a standard queue it holds for later messages.",
            "The attributes of encryption are stored and shown; they encrypt nothing.",
            "`RedriveAllowPolicy` is enforced when a queue names this one as its dead-letter queue.",
            "A later change of `DeduplicationScope` is shown, and deduplication stays as it was at creation, as \
             recorded on AWS. There is no throughput quota for `FifoThroughputLimit` to limit.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let attributes = request.attributes.unwrap_or_default();
        if attributes.0.is_empty() {
            return Err(ApiError::missing("Attributes"));
        }
        let Passed { changes, fifo_queue } = attribute_values::parse(&attributes, &key, context.options)?;
        match fifo_queue {
            Some(_) if !key.name.is_fifo() => return Err(attribute_values::unknown(FIFO_QUEUE)),
            Some(false) => {
                return Err(ApiError::InvalidAttributeValue(format!(
                    "Invalid value for the parameter {FIFO_QUEUE}. Reason: Modifying queue type is not supported."
                )));
            }
            Some(true) | None => {}
        }
        check_redrive(context, &key, &changes).await?;
        context.broker.set_queue_attributes(key, changes).await?;
        Ok(context.reply(&()))
    }
}
