//! ListDeadLetterSourceQueues: the queues that have a queue as their dead-letter queue, by name.

use serde::{Deserialize, Serialize};
use types::{QueueKey, limits};

use super::{Action, Doc, QUEUE_URL, optional};
use crate::wire::Text;
use crate::{ApiError, Code, Context, Reply, pages};

pub(crate) struct ListDeadLetterSourceQueues;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    next_token: Option<Text<'a>>,
    max_results: Option<i64>,
}

#[derive(Debug, Serialize)]
struct Response {
    // The one list of queue URLs whose name begins with a small letter.
    #[serde(rename = "queueUrls", skip_serializing_if = "Vec::is_empty")]
    queue_urls: Vec<String>,
    #[serde(rename = "NextToken", skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

impl Action for ListDeadLetterSourceQueues {
    const NAME: &'static str = "ListDeadLetterSourceQueues";
    const DOC: Doc = Doc {
        summary: "Lists the queues that have this one as their dead-letter queue, in the order of their names.",
        parameters: &[
            QUEUE_URL,
            optional("MaxResults", "1 to 1,000 queues on a page."),
            optional(
                "NextToken",
                "The token of the page before. It is good for the same queue only.",
            ),
        ],
        errors: &[Code::QueueDoesNotExist],
        notes: &["Without MaxResults there are up to 1,000 queues and never a token, as on AWS."],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let (tenant, name) = (key.tenant, key.name.clone());
        let max = pages::max_results(request.max_results)?;
        let token = request.next_token.filter(|token| !token.is_empty());
        let after = token.map(|token| pages::open_token(&token, name.as_str()));
        let page_max = max.unwrap_or(limits::LIST_QUEUES_PAGE_MAX);
        let page = context
            .broker
            .dead_letter_sources(key, after.transpose()?, page_max)
            .await?;
        let last = page.names.last().filter(|_| page.has_more && max.is_some());
        let next_token = last.map(|last| pages::token_after(last, name.as_str()));
        let url = |name| context.queue_url(&QueueKey { tenant, name });
        Ok(context.reply(&Response {
            queue_urls: page.names.into_iter().map(url).collect(),
            next_token,
        }))
    }
}
