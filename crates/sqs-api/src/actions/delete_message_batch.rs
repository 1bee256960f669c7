//! DeleteMessageBatch: takes up to ten received messages out of their queue.

use serde::Deserialize;

use super::{Action, Doc, QUEUE_URL, required};
use crate::batch::{self, BatchResponse};
use crate::wire::Text;
use crate::{Access, ApiError, Code, Context, Reply, Subject};

const ENTRY_NAME: &str = "DeleteMessageBatchRequestEntry";

pub(crate) struct DeleteMessageBatch;

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
}

impl Action for DeleteMessageBatch {
    const NAME: &'static str = "DeleteMessageBatch";
    const ACCESS: Access = Access::Policy("DeleteMessage");
    const DOC: Doc = Doc {
        summary: "Takes up to ten received messages out of their queue, each with its own outcome.",
        parameters: &[
            QUEUE_URL,
            required(
                "Entries",
                "One to ten, each with an `Id` of its own and a `ReceiptHandle`.",
            ),
        ],
        errors: &[
            Code::BatchEntryIdsNotDistinct,
            Code::EmptyBatchRequest,
            Code::InvalidBatchEntryId,
            Code::QueueDoesNotExist,
            Code::TooManyEntriesInBatchRequest,
        ],
        notes: &["The same handle in two entries succeeds in both."],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let entries = request.entries.unwrap_or_default();
        batch::check_ids(entries.iter().map(|entry| entry.id.as_ref()), ENTRY_NAME)?;
        let mut handles = Vec::with_capacity(entries.len());
        let mut checked = Vec::with_capacity(entries.len());
        for entry in &entries {
            let opened = context.open_handle(&key, entry.receipt_handle.as_ref());
            let refused = opened.map(|handle| handles.push(handle)).err();
            let subject = Subject {
                receipt_handle: entry.receipt_handle.as_deref().unwrap_or_default(),
                ..Subject::default()
            };
            checked.push((entry.id.as_deref().unwrap_or_default(), subject, refused));
        }
        // With nothing to delete, a missing queue is still a missing queue.
        let results = if handles.is_empty() {
            context.broker.find_queue(key).await?;
            Vec::new()
        } else {
            context.broker.delete(key, handles).await?
        };
        Ok(context.reply(&BatchResponse::of_entries(checked, results)))
    }
}
