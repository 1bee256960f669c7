//! The actions that are called.

use http::HeaderValue;

/// An operation of the SQS API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    CreateQueue,
    DeleteMessage,
    DeleteMessageBatch,
    DeleteQueue,
    GetQueueAttributes,
    GetQueueUrl,
    ReceiveMessage,
    SendMessage,
    SendMessageBatch,
}

impl Action {
    /// The value of the header that names it.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::CreateQueue => "AmazonSQS.CreateQueue",
            Self::DeleteMessage => "AmazonSQS.DeleteMessage",
            Self::DeleteMessageBatch => "AmazonSQS.DeleteMessageBatch",
            Self::DeleteQueue => "AmazonSQS.DeleteQueue",
            Self::GetQueueAttributes => "AmazonSQS.GetQueueAttributes",
            Self::GetQueueUrl => "AmazonSQS.GetQueueUrl",
            Self::ReceiveMessage => "AmazonSQS.ReceiveMessage",
            Self::SendMessage => "AmazonSQS.SendMessage",
            Self::SendMessageBatch => "AmazonSQS.SendMessageBatch",
        }
    }

    pub(crate) const fn header(self) -> HeaderValue {
        HeaderValue::from_static(self.target())
    }
}
