//! TagQueue: sets tags of a queue.

use serde::Deserialize;

use super::{Action, Doc, QUEUE_URL, required};
use crate::wire::{Pairs, Text};
use crate::{ApiError, Code, Context, Reply, tags};

pub(crate) struct TagQueue;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow, rename = "Tags", alias = "tags")]
    tags: Option<Pairs<'a, Text<'a>>>,
}

impl Action for TagQueue {
    const NAME: &'static str = "TagQueue";
    const DOC: Doc = Doc {
        summary: "Sets tags of a queue. A key that the queue has gets the new value.",
        parameters: &[
            QUEUE_URL,
            required(
                "Tags",
                "Keys of 1 to 128 characters with values of up to 256; a queue has up to 50. Upper and lower case of a \
                 key differ, and a value can be empty.",
            ),
        ],
        errors: &[Code::QueueDoesNotExist],
        notes: &["In Query both `Tag.N.Key` and `Tags.N.Key` are read."],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let added = tags::parse(&request.tags.unwrap_or_default())?;
        if added.is_empty() {
            return Err(ApiError::missing("Tags"));
        }
        // Calls at the same moment can pass the limit together. It protects nothing but the size of the queue's
        // record, which a few tags more do not harm.
        let present = context.broker.describe_queue(key.clone()).await?.tags;
        tags::check_together(&present, &added)?;
        context.broker.tag_queue(key, added).await?;
        Ok(context.reply(&()))
    }
}
