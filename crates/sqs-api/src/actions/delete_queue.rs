//! DeleteQueue: deletes a queue with all that is in it.

use serde::Deserialize;

use super::{Action, Doc, QUEUE_URL};
use crate::wire::Text;
use crate::{ApiError, Code, Context, Reply};

pub(crate) struct DeleteQueue;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
}

impl Action for DeleteQueue {
    const NAME: &'static str = "DeleteQueue";
    const DOC: Doc = Doc {
        summary: "Deletes a queue with all that is in it. Long polls on it end.",
        parameters: &[QUEUE_URL],
        errors: &[Code::QueueDoesNotExist],
        notes: &["The queue is gone at once; AWS may take up to 60 seconds."],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        context.broker.delete_queue(key).await?;
        Ok(context.reply(&()))
    }
}
