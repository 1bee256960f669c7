//! RemovePermission: takes a statement out of a queue's policy.

use serde::Deserialize;

use super::{Action, Doc, QUEUE_URL, required};
use crate::wire::Text;
use crate::{ApiError, Code, Context, Reply, permissions};

pub(crate) struct RemovePermission;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    label: Option<Text<'a>>,
}

impl Action for RemovePermission {
    const NAME: &'static str = "RemovePermission";
    const DOC: Doc = Doc {
        summary: "Takes a statement out of a queue's policy, by its label.",
        parameters: &[
            QUEUE_URL,
            required(
                "Label",
                "The label from AddPermission, or the `Sid` of a statement.",
            ),
        ],
        errors: &[Code::QueueDoesNotExist],
        notes: &["With its last statement the policy goes too."],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let label = request.label.ok_or_else(|| ApiError::missing("Label"))?;
        context
            .change_policy(&key, |policy, _arn| permissions::without(policy, &label))
            .await?;
        Ok(context.reply(&()))
    }
}
