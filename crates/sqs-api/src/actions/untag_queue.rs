//! UntagQueue: takes tags off a queue.

use serde::Deserialize;

use super::{Action, Doc, QUEUE_URL, required};
use crate::wire::Text;
use crate::{ApiError, Code, Context, Reply};

pub(crate) struct UntagQueue;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    tag_keys: Option<Vec<Text<'a>>>,
}

impl Action for UntagQueue {
    const NAME: &'static str = "UntagQueue";
    const DOC: Doc = Doc {
        summary: "Takes tags off a queue. Keys that it does not have do not matter.",
        parameters: &[QUEUE_URL, required("TagKeys", "The keys of the tags.")],
        errors: &[Code::QueueDoesNotExist],
        notes: &[],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let keys = request.tag_keys.unwrap_or_default();
        if keys.is_empty() {
            return Err(ApiError::missing("TagKeys"));
        }
        let keys = keys.iter().map(|key| Box::from(key.as_str())).collect();
        context.broker.untag_queue(key, keys).await?;
        Ok(context.reply(&()))
    }
}
