//! GetQueueUrl: finds a queue by its name.

use serde::{Deserialize, Serialize};
use types::QueueKey;

use super::{Action, Doc, optional, required};
use crate::wire::Text;
use crate::{Access, ApiError, Code, Context, Reply};

pub(crate) struct GetQueueUrl;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_name: Option<Text<'a>>,
    #[serde(borrow, rename = "QueueOwnerAWSAccountId")]
    queue_owner_account: Option<Text<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Response {
    queue_url: String,
}

impl Action for GetQueueUrl {
    const NAME: &'static str = "GetQueueUrl";
    const ACCESS: Access = Access::Policy("GetQueueUrl");
    const DOC: Doc = Doc {
        summary: "Finds a queue by its name.",
        parameters: &[
            required("QueueName", "The queue's name."),
            optional("QueueOwnerAWSAccountId", "The account that owns the queue."),
        ],
        errors: &[Code::QueueDoesNotExist],
        notes: &[
            "The URL begins with the address that the client used, or with the server's public URL if it has one.",
            "A queue of another account gets the answer of a missing queue, unless its policy allows `sqs:GetQueueUrl`.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let name = request.queue_name.ok_or_else(|| ApiError::missing("QueueName"))?;
        let owner = request.queue_owner_account.filter(|owner| !owner.is_empty());
        let owner = owner.map(|owner| owner.parse()).transpose();
        let owner = owner.map_err(|_| ApiError::QueueDoesNotExist)?;
        let key = context.authorise(QueueKey {
            tenant: owner.unwrap_or(context.principal.tenant),
            name: name.parse().map_err(|_| ApiError::QueueDoesNotExist)?,
        })?;
        context.broker.find_queue(key.clone()).await?;
        Ok(context.reply(&Response {
            queue_url: context.queue_url(&key),
        }))
    }
}
