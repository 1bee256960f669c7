//! ChangeMessageVisibilityBatch: says how long up to ten received messages stay invisible, from now on.

use serde::Deserialize;

use super::change_message_visibility::visibility_seconds;
use super::{Action, Doc, QUEUE_URL, required};
use crate::batch::{self, BatchResponse};
use crate::wire::Text;
use crate::{Access, ApiError, Code, Context, Reply, Subject};

const ENTRY_NAME: &str = "ChangeMessageVisibilityBatchRequestEntry";

pub(crate) struct ChangeMessageVisibilityBatch;

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
    receipt_handle: Option<Text<'a>>,
    visibility_timeout: Option<i64>,
}

impl Action for ChangeMessageVisibilityBatch {
    const NAME: &'static str = "ChangeMessageVisibilityBatch";
    const ACCESS: Access = Access::Policy("ChangeMessageVisibility");
    const DOC: Doc = Doc {
        summary: "Says how long up to ten received messages stay invisible, each with its own outcome.",
        parameters: &[
            QUEUE_URL,
            required(
                "Entries",
                "One to ten, each with an `Id` of its own, a `ReceiptHandle` and a `VisibilityTimeout`.",
            ),
        ],
        errors: &[
            Code::BatchEntryIdsNotDistinct,
            Code::EmptyBatchRequest,
            Code::InvalidBatchEntryId,
            Code::QueueDoesNotExist,
            Code::TooManyEntriesInBatchRequest,
        ],
        notes: &[],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let entries = request.entries.unwrap_or_default();
        batch::check_ids(entries.iter().map(|entry| entry.id.as_ref()), ENTRY_NAME)?;
        let mut changes = Vec::with_capacity(entries.len());
        let mut checked = Vec::with_capacity(entries.len());
        for entry in &entries {
            let seconds = visibility_seconds(entry.visibility_timeout);
            let subject = Subject {
                receipt_handle: entry.receipt_handle.as_deref().unwrap_or_default(),
                visibility_seconds: seconds.clone().unwrap_or_default(),
                ..Subject::default()
            };
            let change = seconds.and_then(|seconds| {
                let handle = context.open_handle(&key, entry.receipt_handle.as_ref())?;
                Ok((handle, seconds))
            });
            let refused = change.map(|change| changes.push(change)).err();
            checked.push((entry.id.as_deref().unwrap_or_default(), subject, refused));
        }
        // With nothing to change, a missing queue is still a missing queue.
        let results = if changes.is_empty() {
            context.broker.find_queue(key).await?;
            Vec::new()
        } else {
            context.broker.change_visibility(key, changes).await?
        };
        Ok(context.reply(&BatchResponse::of_entries(checked, results)))
    }
}
