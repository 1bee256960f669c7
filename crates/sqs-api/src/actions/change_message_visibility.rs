//! ChangeMessageVisibility: says how long a received message stays invisible, from now on.

use serde::Deserialize;
use types::limits;

use super::{Action, Doc, QUEUE_URL, required};
use crate::wire::Text;
use crate::{Access, ApiError, Code, Context, Reply, Subject};

pub(crate) struct ChangeMessageVisibility;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    receipt_handle: Option<Text<'a>>,
    visibility_timeout: Option<i64>,
}

impl Action for ChangeMessageVisibility {
    const NAME: &'static str = "ChangeMessageVisibility";
    const ACCESS: Access = Access::Policy("ChangeMessageVisibility");
    const DOC: Doc = Doc {
        summary: "Says how long a received message stays invisible, from now on.",
        parameters: &[
            QUEUE_URL,
            required("ReceiptHandle", "The handle from receiving the message."),
            required(
                "VisibilityTimeout",
                "0 to 43,200 seconds from now; 0 makes the message visible. It is not added to what was left.",
            ),
        ],
        errors: &[Code::QueueDoesNotExist, Code::ReceiptHandleIsInvalid],
        notes: &[
            "A message can stay invisible for at most 43,200 seconds since it was received, whatever was added.",
            "A handle whose timeout has passed, or a message that is gone, is an InvalidParameterValue where AWS \
             answers so, not MessageNotInflight.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let seconds = visibility_seconds(request.visibility_timeout)?;
        let handle = context.open_handle(&key, request.receipt_handle.as_ref())?;
        let mut results = context
            .broker
            .change_visibility(key, vec![(handle, seconds)])
            .await?;
        let result = results.pop().expect("the broker gives a result for every handle");
        result.map_err(|error| {
            let subject = Subject {
                receipt_handle: request.receipt_handle.as_deref().unwrap_or_default(),
                visibility_seconds: seconds,
                ..Subject::default()
            };
            ApiError::of_queue(error, subject)
        })?;
        Ok(context.reply(&()))
    }
}

/// Reads the VisibilityTimeout of a change, which has to be there.
pub(super) fn visibility_seconds(timeout: Option<i64>) -> Result<u32, ApiError> {
    timeout.map_or_else(|| Err(ApiError::missing("VisibilityTimeout")), check_visibility)
}

/// Checks a VisibilityTimeout.
pub(super) fn check_visibility(timeout: i64) -> Result<u32, ApiError> {
    let seconds = u32::try_from(timeout).ok();
    seconds
        .filter(|seconds| limits::VISIBILITY_SECONDS.contains(seconds))
        .ok_or_else(|| {
            let reason = format!(
                "Must be >= 0 and <= {}, if provided.",
                limits::VISIBILITY_SECONDS_MAX
            );
            ApiError::invalid_value(timeout, "VisibilityTimeout", &reason)
        })
}
