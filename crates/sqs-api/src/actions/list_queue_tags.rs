//! ListQueueTags: the tags of a queue.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Action, Doc, QUEUE_URL};
use crate::wire::Text;
use crate::{ApiError, Code, Context, Reply};

pub(crate) struct ListQueueTags;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Response {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<Box<str>, Box<str>>,
}

impl Action for ListQueueTags {
    const NAME: &'static str = "ListQueueTags";
    const DOC: Doc = Doc {
        summary: "Returns the tags of a queue.",
        parameters: &[QUEUE_URL],
        errors: &[Code::QueueDoesNotExist],
        notes: &["A queue without tags has no `Tags` in its answer."],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let queue = context.broker.describe_queue(key).await?;
        Ok(context.reply(&Response {
            tags: queue.tags.into_iter().collect(),
        }))
    }
}
