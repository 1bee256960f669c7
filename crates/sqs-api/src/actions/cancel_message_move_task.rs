//! CancelMessageMoveTask: stops a move task that runs.

use serde::{Deserialize, Serialize};

use super::{Action, Doc, required};
use crate::move_tasks::{self, SOURCE_ARN, TaskHandle};
use crate::wire::Text;
use crate::{ApiError, Code, Context, Reply};

pub(crate) struct CancelMessageMoveTask;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    task_handle: Option<Text<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Response {
    approximate_number_of_messages_moved: u64,
}

impl Action for CancelMessageMoveTask {
    const NAME: &'static str = "CancelMessageMoveTask";
    const DOC: Doc = Doc {
        summary: "Stops a move task that runs. What it moved stays moved, and the rest stays in the dead-letter queue.",
        parameters: &[required("TaskHandle", "The handle from StartMessageMoveTask.")],
        errors: &[Code::ResourceNotFound],
        notes: &["A task that has ended is a missing task."],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let text = request.task_handle.filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| ApiError::missing("TaskHandle"))?;
        let handle = TaskHandle::parse(&text)?;
        let source = context.arn_queue(handle.source_arn(), SOURCE_ARN)?;
        context
            .broker
            .find_queue(source.clone())
            .await
            .map_err(move_tasks::refusal)?;
        let moved = context.broker.cancel_move_task(source, handle.task()?).await;
        Ok(context.reply(&Response {
            approximate_number_of_messages_moved: moved.map_err(move_tasks::refusal)?,
        }))
    }
}
