//! ListQueues: the queues of the account, by name.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use types::{QueueKey, QueueName, limits};

use super::{Action, Doc, optional};
use crate::wire::Text;
use crate::{ApiError, Context, Reply};

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
        let max = max_results(request.max_results)?;
        let token = request.next_token.filter(|token| !token.is_empty());
        let after = token.map(|token| open_token(&token, &prefix)).transpose()?;
        let tenant = context.principal.tenant;
        let page_max = max.unwrap_or(limits::LIST_QUEUES_PAGE_MAX);
        let page = context
            .broker
            .list_queues(tenant, prefix.clone(), after, page_max)
            .await?;
        let last = page.names.last().filter(|_| page.has_more && max.is_some());
        let next_token = last.map(|last| token_after(last, &prefix));
        let url = |name| context.queue_url(&QueueKey { tenant, name });
        Ok(context.reply(&Response {
            queue_urls: page.names.into_iter().map(url).collect(),
            next_token,
        }))
    }
}

fn max_results(max: Option<i64>) -> Result<Option<usize>, ApiError> {
    let Some(max) = max else {
        return Ok(None);
    };
    let in_bounds = usize::try_from(max)
        .ok()
        .filter(|max| (1..=limits::LIST_QUEUES_PAGE_MAX).contains(max));
    let reason = format!(
        "Must be between 1 and {}, if provided.",
        limits::LIST_QUEUES_PAGE_MAX
    );
    in_bounds
        .map(Some)
        .ok_or_else(|| ApiError::invalid_value(max, "MaxResults", &reason))
}

/// Returns the token of the page after `last`. It carries the prefix, to notice when that changes between pages.
fn token_after(last: &QueueName, prefix: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{last}/{prefix}"))
}

fn open_token(token: &str, prefix: &str) -> Result<QueueName, ApiError> {
    let opened = URL_SAFE_NO_PAD
        .decode(token)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| {
            let (last, token_prefix) = text.split_once('/')?;
            (token_prefix == prefix).then(|| last.parse().ok())?
        });
    opened.ok_or_else(|| {
        ApiError::invalid_value(
            token,
            "NextToken",
            "It is not the token of a page of this listing.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_prefix_only() {
        let last: QueueName = "a-1.fifo".parse().unwrap();
        let token = token_after(&last, "a-");
        assert_eq!(open_token(&token, "a-"), Ok(last));
        for (token, prefix) in [
            (token.as_str(), "a"),
            (token.as_str(), ""),
            ("", "a-"),
            ("%", "a-"),
            ("YQ", ""),
        ] {
            assert!(open_token(token, prefix).is_err(), "{token} {prefix}");
        }
    }

    #[test]
    fn pages_have_one_to_a_thousand_queues() {
        assert_eq!(max_results(None), Ok(None));
        assert_eq!(max_results(Some(1000)), Ok(Some(1000)));
        for wrong in [0, -1, 1001] {
            assert!(max_results(Some(wrong)).is_err());
        }
    }
}
