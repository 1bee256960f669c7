//! ListQueues: the queues of the account, by name.

use serde::{Deserialize, Serialize};
use types::{QueueKey, limits};

use super::{Action, Doc, optional};
use crate::wire::Text;
use crate::{ApiError, Context, Reply, pages};

pub(crate) struct ListQueues;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_name_prefix: Option<Text<'a>>,
    #[serde(borrow)]
    next_token: Option<Text<'a>>,
    max_results: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Response {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue_urls: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

impl Action for ListQueues {
    const NAME: &'static str = "ListQueues";
    const IS_FOR_QUEUE: bool = false;
    const DOC: Doc = Doc {
        summary: "Lists the account's queues in the order of their names.",
        parameters: &[
            optional("QueueNamePrefix", "Only queues whose names begin with it."),
            optional("MaxResults", "1 to 1,000 queues on a page."),
            optional(
                "NextToken",
                "The token of the page before. It is good for the same prefix only.",
            ),
        ],
        errors: &[],
        notes: &["Without MaxResults there are up to 1,000 queues and never a token, as on AWS."],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let prefix = request
            .queue_name_prefix
            .as_deref()
            .unwrap_or_default()
            .to_owned();
        let max = pages::max_results(request.max_results)?;
        let token = request.next_token.filter(|token| !token.is_empty());
        let after = token
            .map(|token| pages::open_token(&token, &prefix))
            .transpose()?;
        let tenant = context.principal.tenant;
        let page_max = max.unwrap_or(limits::LIST_QUEUES_PAGE_MAX);
        let page = context
            .broker
            .list_queues(tenant, prefix.clone(), after, page_max)
            .await?;
        let last = page.names.last().filter(|_| page.has_more && max.is_some());
        let next_token = last.map(|last| pages::token_after(last, &prefix));
        let url = |name| context.queue_url(&QueueKey { tenant, name });
        Ok(context.reply(&Response {
            queue_urls: page.names.into_iter().map(url).collect(),
            next_token,
        }))
    }
}
