//! PurgeQueue: removes every message of a queue.

use serde::Deserialize;

use super::{Action, Doc, QUEUE_URL};
use crate::wire::Text;
use crate::{Access, ApiError, Code, Context, Reply, Subject};

pub(crate) struct PurgeQueue;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
}

impl Action for PurgeQueue {
    const NAME: &'static str = "PurgeQueue";
    const ACCESS: Access = Access::Policy("PurgeQueue");
    const DOC: Doc = Doc {
        summary: "Removes every message of a queue: waiting, delayed and in flight. Deduplication ids are forgotten.",
        parameters: &[QUEUE_URL],
        errors: &[Code::PurgeQueueInProgress, Code::QueueDoesNotExist],
        notes: &[
            "The messages are gone when the answer comes; AWS may take up to 60 seconds.",
            "The wait of 60 seconds between two purges does not apply with relaxed limits, as in `--dev`.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let result = context.broker.purge_queue(key.clone()).await;
        result.map_err(|error| {
            let subject = Subject {
                queue: key.name.as_str(),
                ..Subject::default()
            };
            ApiError::of_broker(error, subject)
        })?;
        Ok(context.reply(&()))
    }
}
