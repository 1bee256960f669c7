//! The actions that are called.

use http::HeaderValue;

/// An operation of the SQS API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    CancelMessageMoveTask,
    ChangeMessageVisibility,
    CreateQueue,
    DeleteMessage,
    DeleteMessageBatch,
    DeleteQueue,
    GetQueueAttributes,
    GetQueueUrl,
    ListMessageMoveTasks,
    ListQueues,
    PurgeQueue,
    ReceiveMessage,
    SendMessage,
    SendMessageBatch,
    SetQueueAttributes,
    StartMessageMoveTask,
    TagQueue,
}

impl Action {
    /// The value of the header that names it.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::CancelMessageMoveTask => "AmazonSQS.CancelMessageMoveTask",
            Self::ChangeMessageVisibility => "AmazonSQS.ChangeMessageVisibility",
            Self::CreateQueue => "AmazonSQS.CreateQueue",
            Self::DeleteMessage => "AmazonSQS.DeleteMessage",
            Self::DeleteMessageBatch => "AmazonSQS.DeleteMessageBatch",
            Self::DeleteQueue => "AmazonSQS.DeleteQueue",
            Self::GetQueueAttributes => "AmazonSQS.GetQueueAttributes",
            Self::GetQueueUrl => "AmazonSQS.GetQueueUrl",
            Self::ListMessageMoveTasks => "AmazonSQS.ListMessageMoveTasks",
            Self::ListQueues => "AmazonSQS.ListQueues",
            Self::PurgeQueue => "AmazonSQS.PurgeQueue",
            Self::ReceiveMessage => "AmazonSQS.ReceiveMessage",
            Self::SendMessage => "AmazonSQS.SendMessage",
            Self::SendMessageBatch => "AmazonSQS.SendMessageBatch",
            Self::SetQueueAttributes => "AmazonSQS.SetQueueAttributes",
            Self::StartMessageMoveTask => "AmazonSQS.StartMessageMoveTask",
            Self::TagQueue => "AmazonSQS.TagQueue",
        }
    }

    pub(crate) const fn header(self) -> HeaderValue {
        HeaderValue::from_static(self.target())
    }
}
