//! SendMessageBatch: puts up to ten messages into a queue, each with its own outcome.

use queue_core::QueueError;
use serde::Deserialize;
use types::{QueueKey, limits};

use super::{Action, Doc, QUEUE_URL, required};
use crate::batch::{self, BatchResponse, Failed};
use crate::message::{AttributeInput, Draft, Sent};
use crate::wire::{Pairs, Text};
use crate::{Access, ApiError, Code, Context, Reply};

const ENTRY_NAME: &str = "SendMessageBatchRequestEntry";

pub(crate) struct SendMessageBatch;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    entries: Option<Vec<RequestEntry<'a>>>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RequestEntry<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
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

impl Action for SendMessageBatch {
    const NAME: &'static str = "SendMessageBatch";
    const ACCESS: Access = Access::Policy("SendMessage");
    const DOC: Doc = Doc {
        summary: "Puts up to ten messages into a queue, each with its own outcome. They are stored together.",
        parameters: &[
            QUEUE_URL,
            required(
                "Entries",
                "One to ten, each with an `Id` of its own (1 to 80 letters, digits, hyphens and underscores) and the \
                 parameters of SendMessage. Together they have at most 1,048,576 bytes.",
            ),
        ],
        errors: &[
            Code::BatchEntryIdsNotDistinct,
            Code::BatchRequestTooLong,
            Code::EmptyBatchRequest,
            Code::InvalidBatchEntryId,
            Code::QueueDoesNotExist,
            Code::TooManyEntriesInBatchRequest,
        ],
        notes: &[
            "What is wrong with one message fails that entry alone. Only a FIFO queue's entry that lacks its group id, \
             or the deduplication id that it needs, refuses the whole batch.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let entries = request.entries.unwrap_or_default();
        batch::check_ids(entries.iter().map(|entry| entry.id.as_ref()), ENTRY_NAME)?;
        let (ids, drafts): (Vec<_>, Vec<_>) = entries.into_iter().map(RequestEntry::into_draft).unzip();
        check_whole(&drafts, &key)?;

        let mut to_store = Vec::with_capacity(drafts.len());
        let mut checked = Vec::with_capacity(drafts.len());
        for draft in drafts {
            checked.push(draft.check(&key.name).map(|outgoing| {
                let (entry, sent) = outgoing.into_entry(context);
                to_store.push(entry);
                sent
            }));
        }
        let is_fifo = key.name.is_fifo();
        // With nothing to store, a missing queue is still a missing queue.
        let results = if to_store.is_empty() {
            context.broker.find_queue(key).await?;
            Vec::new()
        } else {
            context.broker.enqueue(key, to_store).await?
        };
        Ok(context.reply(&response(&ids, checked, results, is_fifo)))
    }
}

impl<'a> RequestEntry<'a> {
    fn into_draft(self) -> (Text<'a>, Draft<'a>) {
        let draft = Draft {
            body: self.message_body,
            delay_seconds: self.delay_seconds,
            attributes: self.message_attributes.unwrap_or_default(),
            system_attributes: self.message_system_attributes.unwrap_or_default(),
            group: self.message_group_id,
            deduplication_id: self.message_deduplication_id,
        };
        (self.id.expect("checked with the batch as a whole"), draft)
    }
}

/// Checks what refuses a whole batch.
fn check_whole(drafts: &[Draft<'_>], key: &QueueKey) -> Result<(), ApiError> {
    let size = drafts.iter().map(Draft::size).sum();
    if size > limits::BATCH_BYTES_MAX {
        return Err(ApiError::BatchRequestTooLong(size));
    }
    if key.name.is_fifo() && drafts.iter().any(|draft| draft.group.is_none()) {
        // Recorded: the text of a missing parameter under another code.
        return Err(ApiError::InvalidParameterValue(
            ApiError::missing("MessageGroupId").to_string(),
        ));
    }
    Ok(())
}

fn response<'a>(
    ids: &'a [Text<'a>],
    checked: Vec<Result<Sent<'static>, ApiError>>,
    results: Vec<Result<queue_core::Enqueued, QueueError>>,
    is_fifo: bool,
) -> BatchResponse<'a, Sent<'a>> {
    let mut results = results.into_iter();
    let mut response = BatchResponse {
        successful: Vec::with_capacity(ids.len()),
        failed: Vec::new(),
    };
    for (id, checked) in ids.iter().zip(checked) {
        let stored = checked.and_then(|sent| {
            let result = results.next().expect("the broker gives a result for every entry");
            let enqueued = result.map_err(entry_error)?;
            Ok(sent.stored(&enqueued, is_fifo))
        });
        match stored {
            Ok(sent) => response.successful.push(sent.with_id(id)),
            Err(error) => response.failed.push(Failed::new(id, &error)),
        }
    }
    response
}

/// Returns the error of an entry, one of whose texts is not that of the single call.
fn entry_error(error: QueueError) -> ApiError {
    if let QueueError::MessageTooLong { max_bytes } = error {
        return ApiError::InvalidParameterValue(format!(
            "One or more parameters cannot be validated. Reason: Message must be shorter than {max_bytes} bytes."
        ));
    }
    error.into()
}
