//! ListMessageMoveTasks: the move tasks of a dead-letter queue, and how far they are.

use queue_core::{MoveTask, TaskFailure, TaskStatus};
use serde::{Deserialize, Serialize};
use types::QueueKey;

use super::{Action, Doc, optional, required};
use crate::move_tasks::{self, TaskHandle};
use crate::wire::Text;
use crate::{ApiError, Code, Context, Reply, queue_url};

/// Most tasks of an answer.
const RESULTS_MAX: usize = 10;

pub(crate) struct ListMessageMoveTasks;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    source_arn: Option<Text<'a>>,
    max_results: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Response {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    results: Vec<Listed>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    #[serde(skip_serializing_if = "Option::is_none")]
    task_handle: Option<String>,
    status: &'static str,
    source_arn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_arn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_number_of_messages_per_second: Option<u32>,
    approximate_number_of_messages_moved: u64,
    approximate_number_of_messages_to_move: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_reason: Option<&'static str>,
    started_timestamp: u64,
}

impl Action for ListMessageMoveTasks {
    const NAME: &'static str = "ListMessageMoveTasks";
    const DOC: Doc = Doc {
        summary: "Lists the latest move tasks of a dead-letter queue, the newest first.",
        parameters: &[
            required("SourceArn", "The ARN of the dead-letter queue."),
            optional("MaxResults", "1 to 10 tasks; 1 if it is not given."),
        ],
        errors: &[Code::ResourceNotFound],
        notes: &[
            "`TaskHandle` is there while a task is `RUNNING`, `FailureReason` when it has `FAILED`. The counts are exact.",
            "The last ten tasks of a queue are kept.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let source = context.source_queue(request.source_arn.as_ref())?;
        let max = max_results(request.max_results)?;
        let tasks = context.broker.move_tasks(source.clone(), max).await;
        let tasks = tasks.map_err(move_tasks::refusal)?;
        Ok(context.reply(&Response {
            results: tasks.iter().map(|task| listed(context, &source, task)).collect(),
        }))
    }
}

fn max_results(max: Option<i64>) -> Result<usize, ApiError> {
    let max = max.unwrap_or(1);
    let in_bounds = usize::try_from(max)
        .ok()
        .filter(|max| (1..=RESULTS_MAX).contains(max));
    in_bounds.ok_or_else(|| {
        let reason = format!("Must be between 1 and {RESULTS_MAX}, if provided.");
        ApiError::invalid_value(max, "MaxResults", &reason)
    })
}

fn listed(context: &Context<'_>, source: &QueueKey, task: &MoveTask) -> Listed {
    let arn = |key: &QueueKey| queue_url::arn(&context.options.region, key);
    let (status, failure_reason) = match task.status {
        TaskStatus::Running => ("RUNNING", None),
        TaskStatus::Completed => ("COMPLETED", None),
        TaskStatus::Cancelled => ("CANCELLED", None),
        TaskStatus::Failed(TaskFailure::NoDestination) => {
            ("FAILED", Some("AWS.SimpleQueueService.NonExistentQueue"))
        }
        TaskStatus::Failed(TaskFailure::NoOrigin) => ("FAILED", Some("CouldNotDetermineMessageSource")),
    };
    let is_running = task.status == TaskStatus::Running;
    Listed {
        task_handle: is_running.then(|| TaskHandle::new(task.id, arn(source)).to_text()),
        status,
        source_arn: arn(source),
        destination_arn: task.destination.as_ref().map(arn),
        max_number_of_messages_per_second: task.rate,
        approximate_number_of_messages_moved: task.moved,
        approximate_number_of_messages_to_move: task.to_move,
        failure_reason,
        started_timestamp: task.started.as_millis(),
    }
}
