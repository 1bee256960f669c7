//! What the actions on message move tasks share: the handle of a task, and the ARNs that name its queues.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::BrokerError;
use queue_core::{QueueError, TaskId};
use serde::{Deserialize, Serialize};
use types::QueueKey;

use crate::wire::Text;
use crate::{ApiError, Context, Subject, queue_url};

/// The parameter that names the dead-letter queue of a task.
pub(crate) const SOURCE_ARN: &str = "SourceArn";

/// Names a task to clients: base64 of a JSON text, as on AWS, whose clients look into it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskHandle {
    task_id: String,
    source_arn: String,
}

impl TaskHandle {
    pub(crate) fn new(task: TaskId, source_arn: String) -> Self {
        let task_id = String::from_utf8_lossy(&task.to_text()).into_owned();
        Self { task_id, source_arn }
    }

    /// Returns the text that clients get.
    pub(crate) fn to_text(&self) -> String {
        STANDARD.encode(serde_json::to_string(self).expect("two texts"))
    }

    /// Reads what a client gives back.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let bytes = STANDARD.decode(text).ok();
        let handle = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        handle.ok_or_else(|| {
            ApiError::InvalidParameterValue("Value for parameter TaskHandle is invalid.".to_owned())
        })
    }

    /// Returns the ARN of the task's source.
    pub(crate) fn source_arn(&self) -> &str {
        &self.source_arn
    }

    /// Returns the id of the task, if it has the form of one.
    pub(crate) fn task(&self) -> Result<TaskId, ApiError> {
        self.task_id.parse().map_err(|_| ApiError::TaskDoesNotExist)
    }
}

impl Context<'_> {
    /// Returns the queue of the account that an ARN names.
    pub(crate) fn arn_queue(&self, arn: &str, parameter: &'static str) -> Result<QueueKey, ApiError> {
        queue_url::own_queue(arn, self.principal.tenant, self.options)
            .ok_or(ApiError::ResourceNotFound(parameter))
    }

    /// Returns the source that a request names by its ARN, which has to be there.
    pub(crate) fn source_queue(&self, arn: Option<&Text<'_>>) -> Result<QueueKey, ApiError> {
        match arn.filter(|arn| !arn.is_empty()) {
            Some(arn) => self.arn_queue(arn, SOURCE_ARN),
            None => Err(ApiError::missing(SOURCE_ARN)),
        }
    }
}

/// Returns what the client is told: a source that is gone is a missing resource here, not a missing queue.
pub(crate) fn refusal(error: BrokerError) -> ApiError {
    if error == BrokerError::Queue(QueueError::NoSuchQueue) {
        ApiError::ResourceNotFound(SOURCE_ARN)
    } else {
        ApiError::of_broker(error, Subject::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_base64_of_a_compact_json_text() {
        let task: TaskId = "10f6f4a5-1f1c-4bd2-8bb6-8e3f2c3f5a6b".parse().unwrap();
        let arn = "arn:aws:sqs:us-east-1:000000000000:dead";
        let text = TaskHandle::new(task, arn.to_owned()).to_text();
        let json = r#"{"taskId":"10f6f4a5-1f1c-4bd2-8bb6-8e3f2c3f5a6b","sourceArn":"arn:aws:sqs:us-east-1:000000000000:dead"}"#;
        assert_eq!(text, STANDARD.encode(json));
        let handle = TaskHandle::parse(&text).unwrap();
        assert_eq!((handle.task(), handle.source_arn()), (Ok(task), arn));
    }

    #[test]
    fn what_is_no_handle_is_refused() {
        for wrong in ["", "x", "?", "e30=", "W10=", "bnVsbA==", "//8="] {
            assert!(
                matches!(TaskHandle::parse(wrong), Err(ApiError::InvalidParameterValue(_))),
                "{wrong}"
            );
        }
        let named = STANDARD.encode(r#"{"taskId":"first","sourceArn":"x"}"#);
        let handle = TaskHandle::parse(&named).unwrap();
        assert_eq!(handle.task(), Err(ApiError::TaskDoesNotExist));
    }
}
