//! StartMessageMoveTask: begins to move what a dead-letter queue holds.

use serde::{Deserialize, Serialize};

use super::{Action, Doc, optional, required};
use crate::move_tasks::{self, TaskHandle};
use crate::wire::Text;
use crate::{ApiError, Code, Context, Reply, queue_url};

/// Most messages a second that a client can ask for.
const RATE_MAX: i64 = 500;
const DESTINATION_ARN: &str = "DestinationArn";

pub(crate) struct StartMessageMoveTask;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    source_arn: Option<Text<'a>>,
    #[serde(borrow)]
    destination_arn: Option<Text<'a>>,
    max_number_of_messages_per_second: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Response {
    task_handle: String,
}

impl Action for StartMessageMoveTask {
    const NAME: &'static str = "StartMessageMoveTask";
    const DOC: Doc = Doc {
        summary: "Begins to move what a dead-letter queue holds, back to where it came from or to another queue.",
        parameters: &[
            required("SourceArn", "The ARN of the dead-letter queue."),
            optional(
                "DestinationArn",
                "The ARN of a queue of the same type. Without it each message goes back to the queue that it came from.",
            ),
            optional(
                "MaxNumberOfMessagesPerSecond",
                "1 to 500. Without it messages move as fast as they can.",
            ),
        ],
        errors: &[Code::ResourceNotFound],
        notes: &[
            "A task moves what the queue held when it started; messages that are in flight move when they become \
             visible. It goes on after a restart, and moves each message once.",
            "A moved message is new: it has a new id, and its counts and times begin anew.",
            "The task of a queue that is not (or no longer) a dead-letter queue is refused with InvalidParameterValue.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let source = context.source_queue(request.source_arn.as_ref())?;
        let rate = request
            .max_number_of_messages_per_second
            .map(check_rate)
            .transpose()?;
        let destination = request.destination_arn.filter(|arn| !arn.is_empty());
        let destination = destination.map(|arn| context.arn_queue(&arn, DESTINATION_ARN));
        let task = context.broker.new_message_id();
        let handle = TaskHandle::new(task, queue_url::arn(&context.options.region, &source));
        context
            .broker
            .start_move_task(source, task, destination.transpose()?, rate)
            .await
            .map_err(move_tasks::refusal)?;
        Ok(context.reply(&Response {
            task_handle: handle.to_text(),
        }))
    }
}

fn check_rate(rate: i64) -> Result<u32, ApiError> {
    let in_bounds = u32::try_from(rate)
        .ok()
        .filter(|_| (1..=RATE_MAX).contains(&rate));
    in_bounds.ok_or_else(|| {
        let reason = format!("Must be between 1 and {RATE_MAX}, if provided.");
        ApiError::invalid_value(rate, "MaxNumberOfMessagesPerSecond", &reason)
    })
}
