//! DeleteMessage: takes a received message out of its queue.

use serde::Deserialize;

use super::{Action, Doc, QUEUE_URL, required};
use crate::wire::Text;
use crate::{Access, ApiError, Code, Context, Reply, Subject};

pub(crate) struct DeleteMessage;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    receipt_handle: Option<Text<'a>>,
}

impl Action for DeleteMessage {
    const NAME: &'static str = "DeleteMessage";
    const ACCESS: Access = Access::Policy("DeleteMessage");
    const DOC: Doc = Doc {
        summary: "Takes a received message out of its queue.",
        parameters: &[
            QUEUE_URL,
            required("ReceiptHandle", "The handle from receiving the message."),
        ],
        errors: &[Code::QueueDoesNotExist, Code::ReceiptHandleIsInvalid],
        notes: &[
            "Deleting again with the same handle succeeds.",
            "On a standard queue a handle stays good after its visibility timeout; on a FIFO queue it does not.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let handle = context.open_handle(&key, request.receipt_handle.as_ref())?;
        let mut results = context.broker.delete(key, vec![handle]).await?;
        let result = results.pop().expect("the broker gives a result for every handle");
        result.map_err(|error| {
            let subject = Subject {
                receipt_handle: request.receipt_handle.as_deref().unwrap_or_default(),
                ..Subject::default()
            };
            ApiError::of_queue(error, subject)
        })?;
        Ok(context.reply(&()))
    }
}
