//! Every refusal of the API, and the one table of wire codes of both protocols.
//!
//! The texts are wire data: clients compare them, so they are those of AWS, grammar included.

use auth::AuthError;
use broker::BrokerError;
use queue_core::{AttributeName, QueueError};
use types::limits;

use crate::wire::QueryError;

/// Why a request was refused. `Display` is what the client reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApiError {
    /// A parameter has a value that it cannot have; the whole text.
    #[error("{0}")]
    InvalidParameterValue(String),
    /// A parameter is missing.
    #[error("The request must contain the parameter {0}.")]
    MissingParameter(String),
    /// A queue attribute is unknown or cannot be used here; the whole text.
    #[error("{0}")]
    InvalidAttributeName(String),
    /// A queue attribute has a value that it cannot have; the whole text.
    #[error("{0}")]
    InvalidAttributeValue(String),
    /// The queue is missing or another tenant's: nobody can tell which.
    #[error("The specified queue does not exist.")]
    QueueDoesNotExist,
    /// The queue exists with another value of an attribute.
    #[error("A queue already exists with the same name and a different value for attribute {0}")]
    QueueNameExists(AttributeName),
    /// The name was freed less than a minute ago.
    #[error(
        "You must wait {wait} seconds after deleting a queue before you can create another with the same name.",
        wait = limits::DELETED_NAME_WAIT_SECONDS
    )]
    QueueDeletedRecently,
    /// The queue was purged less than a minute ago.
    #[error(
        "Only one PurgeQueue operation on {0} is allowed every {wait} seconds.",
        wait = limits::PURGE_WAIT_SECONDS
    )]
    PurgeQueueInProgress(String),
    /// A text that is no receipt handle of this queue.
    #[error("The input receipt handle \"{0}\" is not a valid receipt handle.")]
    ReceiptHandleIsInvalid(String),
    /// A body with characters that SQS does not allow.
    #[error(
        "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | \
         #xE000 to #xFFFD | #x10000 to #x10FFFF"
    )]
    InvalidMessageContents,
    /// A batch without entries; names the list.
    #[error("There should be at least one {0} in the request.")]
    EmptyBatchRequest(&'static str),
    /// A batch with too many entries.
    #[error(
        "Maximum number of entries per request are {max}. You have sent {0}.",
        max = limits::BATCH_ENTRIES_MAX
    )]
    TooManyEntriesInBatchRequest(usize),
    /// Two entries of a batch with one id.
    #[error("Id {0} repeated.")]
    BatchEntryIdsNotDistinct(String),
    /// An entry id of a batch that is empty, too long, or has other characters than it may.
    #[error(
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most {max} \
         letters long.",
        max = limits::BATCH_ENTRY_ID_BYTES_MAX
    )]
    InvalidBatchEntryId,
    /// A batch whose messages are too long together.
    #[error(
        "Batch requests cannot be longer than {max} bytes. You have sent {0} bytes.",
        max = limits::BATCH_BYTES_MAX
    )]
    BatchRequestTooLong(u64),
    /// Too many messages are in flight.
    #[error("Too many messages are in flight: delete some, or wait for their visibility timeout.")]
    OverLimit,
    /// A policy with more in it than SQS takes; the whole text.
    #[error("{0}")]
    PolicyOverLimit(String),
    /// The policy of the caller's own queue denies it; names the queue.
    #[error("Access to the resource {0} is denied.")]
    AccessDenied(String),
    /// An ARN that leads nowhere, or to another account's queue; names the parameter.
    #[error("The resource that you specified for the {0} parameter doesn't exist.")]
    ResourceNotFound(&'static str),
    /// A move task that is not there, or has ended.
    #[error("Task does not exist.")]
    TaskDoesNotExist,
    /// An action that does not exist, or not at this address.
    #[error("The action {0} is not valid for this endpoint.")]
    InvalidAction(String),
    /// A request that names no action.
    #[error("The request must contain an action: the parameter Action, or the header X-Amz-Target.")]
    MissingAction,
    /// A queue's address opened without an action.
    #[error("The request names no operation.")]
    UnknownOperation,
    /// A body that is not the JSON of the action.
    #[error("The request cannot be read: {0}.")]
    Serialization(String),
    /// Parameters that cannot be read.
    #[error("The request cannot be read: {0}.")]
    MalformedQueryString(String),
    /// A method other than GET and POST.
    #[error("The method {0} is not allowed; use POST or GET.")]
    MethodNotAllowed(String),
    /// A body longer than the server takes.
    #[error("The body of the request is larger than this server takes.")]
    RequestTooLarge,
    /// The body did not come in time or was cut off.
    #[error("The body of the request did not arrive.")]
    RequestTimeout,
    /// The request is not signed by anybody whom the server knows.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The server has more work than it can take.
    #[error("The server has more work than it can take at the moment. Try again.")]
    Overloaded,
    /// The disk has no room for more messages.
    #[error(
        "The server has no room for more messages at the moment. Receive and delete some, or try again later."
    )]
    NoRoom,
    /// It is not known whether the request was carried out.
    #[error("It is not known whether the request was carried out. Try again.")]
    OutcomeUnknown,
    /// The server is about to stop.
    #[error("The server is stopping. Try again.")]
    Stopping,
    /// The server has just started and is reading its journal.
    #[error("The server is starting. Try again.")]
    Recovering,
    /// No node of the cluster leads.
    #[error("No node of the cluster leads at the moment. Try again.")]
    NoLeader,
    /// A mistake of ours.
    #[error("The server made a mistake; its log names this request.")]
    Internal,
}

/// What a refusal of the state machine is about, as the client named it. The state machine does not know.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Subject<'a> {
    /// The queue's name.
    pub(crate) queue: &'a str,
    /// The text of the receipt handle.
    pub(crate) receipt_handle: &'a str,
    /// The id of the receive attempt.
    pub(crate) attempt_id: &'a str,
    /// The visibility timeout that was asked for.
    pub(crate) visibility_seconds: u32,
}

impl ApiError {
    /// Returns the error for a value that a parameter cannot have.
    pub(crate) fn invalid_value(value: impl std::fmt::Display, parameter: &str, reason: &str) -> Self {
        Self::InvalidParameterValue(format!(
            "Value {value} for parameter {parameter} is invalid. Reason: {reason}"
        ))
    }

    /// Returns the error for a missing parameter.
    pub(crate) fn missing(parameter: &str) -> Self {
        Self::MissingParameter(parameter.to_owned())
    }

    /// Returns what the client is told when the broker refuses.
    pub(crate) fn of_broker(error: BrokerError, subject: Subject<'_>) -> Self {
        match error {
            BrokerError::Queue(error) => Self::of_queue(error, subject),
            BrokerError::Overloaded => Self::Overloaded,
            BrokerError::NoRoom => Self::NoRoom,
            BrokerError::Unknown => Self::OutcomeUnknown,
            BrokerError::Stopping => Self::Stopping,
            BrokerError::Recovering => Self::Recovering,
            BrokerError::NoLeader => Self::NoLeader,
        }
    }

    /// Returns what the client is told when the state machine refuses.
    pub(crate) fn of_queue(error: QueueError, subject: Subject<'_>) -> Self {
        let handle = subject.receipt_handle;
        match error {
            QueueError::NoSuchQueue => Self::QueueDoesNotExist,
            QueueError::QueueDeletedRecently => Self::QueueDeletedRecently,
            QueueError::AttributeDiffers(name) => Self::QueueNameExists(name),
            QueueError::PurgeInProgress => Self::PurgeQueueInProgress(subject.queue.to_owned()),
            QueueError::MessageTooLong { max_bytes } => Self::message_too_long(max_bytes),
            QueueError::MissingDeduplicationId => Self::InvalidParameterValue(
                "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId \
                 provided explicitly"
                    .to_owned(),
            ),
            QueueError::WrongQueueType => Self::InvalidParameterValue(
                "The request includes a parameter that is not valid for this queue type.".to_owned(),
            ),
            QueueError::ForeignReceipt => Self::ReceiptHandleIsInvalid(handle.to_owned()),
            QueueError::ReceiptExpired => {
                Self::invalid_value(handle, "ReceiptHandle", "The receipt handle has expired.")
            }
            QueueError::VisibilityNotChangeable => Self::invalid_value(
                handle,
                "ReceiptHandle",
                "Message does not exist or is not available for visibility timeout change.",
            ),
            QueueError::VisibilityTooLong { max_seconds } => Self::invalid_value(
                subject.visibility_seconds,
                "VisibilityTimeout",
                &format!(
                    "Total VisibilityTimeout for the message is beyond the limit [{max_seconds} seconds]."
                ),
            ),
            QueueError::AttemptChanged => Self::invalid_value(
                subject.attempt_id,
                "ReceiveRequestAttemptId",
                "A message of this attempt was deleted or its visibility changed, so it cannot be repeated.",
            ),
            QueueError::NotADeadLetterQueue => Self::InvalidParameterValue(
                "Source queue must be configured as a Dead Letter Queue.".to_owned(),
            ),
            QueueError::NoSuchDestination => Self::ResourceNotFound("DestinationArn"),
            QueueError::WrongDestinationType => Self::InvalidParameterValue(
                "The destination queue must be of the same type as the source queue.".to_owned(),
            ),
            QueueError::TaskRunning => Self::InvalidParameterValue(
                "There is already a task running. Only one active task is allowed for a source queue arn at a \
                 given time."
                    .to_owned(),
            ),
            QueueError::NoSuchTask => Self::TaskDoesNotExist,
            // The action tries again; this is for one that lost every time.
            QueueError::PolicyChanged => Self::Overloaded,
            QueueError::OverLimit => Self::OverLimit,
        }
    }

    /// Returns the error for a message above the limit, of which exactly the limit is still allowed on AWS.
    pub(crate) fn message_too_long(max_bytes: u32) -> Self {
        Self::InvalidParameterValue(format!(
            "One or more parameters are invalid. Reason: Message must be shorter than {max_bytes} bytes."
        ))
    }

    /// Returns the row of the table.
    pub(crate) const fn code(&self) -> Code {
        match self {
            Self::InvalidParameterValue(_) => Code::InvalidParameterValue,
            Self::MissingParameter(_) => Code::MissingParameter,
            Self::InvalidAttributeName(_) => Code::InvalidAttributeName,
            Self::InvalidAttributeValue(_) => Code::InvalidAttributeValue,
            Self::QueueDoesNotExist => Code::QueueDoesNotExist,
            Self::QueueNameExists(_) => Code::QueueNameExists,
            Self::QueueDeletedRecently => Code::QueueDeletedRecently,
            Self::PurgeQueueInProgress(_) => Code::PurgeQueueInProgress,
            Self::ReceiptHandleIsInvalid(_) => Code::ReceiptHandleIsInvalid,
            Self::InvalidMessageContents => Code::InvalidMessageContents,
            Self::EmptyBatchRequest(_) => Code::EmptyBatchRequest,
            Self::TooManyEntriesInBatchRequest(_) => Code::TooManyEntriesInBatchRequest,
            Self::BatchEntryIdsNotDistinct(_) => Code::BatchEntryIdsNotDistinct,
            Self::InvalidBatchEntryId => Code::InvalidBatchEntryId,
            Self::BatchRequestTooLong(_) => Code::BatchRequestTooLong,
            Self::OverLimit => Code::OverLimit,
            Self::PolicyOverLimit(_) => Code::OverLimit,
            Self::AccessDenied(_) => Code::AccessDenied,
            Self::ResourceNotFound(_) | Self::TaskDoesNotExist => Code::ResourceNotFound,
            Self::InvalidAction(_) => Code::InvalidAction,
            Self::MissingAction => Code::MissingAction,
            Self::UnknownOperation => Code::UnknownOperation,
            Self::Serialization(_) => Code::Serialization,
            Self::MalformedQueryString(_) => Code::MalformedQueryString,
            Self::MethodNotAllowed(_) => Code::MethodNotAllowed,
            Self::RequestTooLarge => Code::RequestTooLarge,
            Self::RequestTimeout => Code::RequestTimeout,
            Self::Auth(error) => match error {
                AuthError::MissingAuthenticationToken => Code::MissingAuthenticationToken,
                AuthError::IncompleteSignature(_) => Code::IncompleteSignature,
                AuthError::InvalidClientTokenId => Code::InvalidClientTokenId,
                AuthError::SignatureDoesNotMatch(_) => Code::SignatureDoesNotMatch,
                AuthError::RequestExpired(_) => Code::RequestExpired,
            },
            Self::Overloaded
            | Self::NoRoom
            | Self::OutcomeUnknown
            | Self::Stopping
            | Self::Recovering
            | Self::NoLeader => Code::ServiceUnavailable,
            Self::Internal => Code::InternalFailure,
        }
    }
}

impl From<QueueError> for ApiError {
    fn from(error: QueueError) -> Self {
        Self::of_queue(error, Subject::default())
    }
}

impl From<BrokerError> for ApiError {
    fn from(error: BrokerError) -> Self {
        Self::of_broker(error, Subject::default())
    }
}

impl From<serde_json::Error> for ApiError {
    fn from(error: serde_json::Error) -> Self {
        Self::Serialization(error.to_string())
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Missing(parameter) => Self::MissingParameter(parameter),
            QueryError::Invalid {
                parameter,
                value,
                expected,
            } => Self::invalid_value(value, &parameter, &format!("Must be {expected}.")),
            QueryError::NotUtf8
            | QueryError::TooManyParameters
            | QueryError::GivenTwice(_)
            | QueryError::Custom(_) => Self::MalformedQueryString(error.to_string()),
        }
    }
}

/// A row of the table of wire codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Code {
    AccessDenied,
    BatchEntryIdsNotDistinct,
    BatchRequestTooLong,
    EmptyBatchRequest,
    IncompleteSignature,
    InternalFailure,
    InvalidAction,
    InvalidAttributeName,
    InvalidAttributeValue,
    InvalidBatchEntryId,
    InvalidClientTokenId,
    InvalidMessageContents,
    InvalidParameterValue,
    MalformedQueryString,
    MethodNotAllowed,
    MissingAction,
    MissingAuthenticationToken,
    MissingParameter,
    OverLimit,
    PurgeQueueInProgress,
    QueueDeletedRecently,
    QueueDoesNotExist,
    QueueNameExists,
    ReceiptHandleIsInvalid,
    RequestExpired,
    RequestTimeout,
    RequestTooLarge,
    ResourceNotFound,
    Serialization,
    ServiceUnavailable,
    SignatureDoesNotMatch,
    TooManyEntriesInBatchRequest,
    UnknownOperation,
}

/// How an error looks on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WireCode {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The code of Query, of batch entries, and of the header `x-amzn-query-error`.
    pub(crate) query: &'static str,
    /// The `__type` of AWS JSON.
    pub(crate) json_type: &'static str,
}

impl WireCode {
    /// Whose fault it is: `Sender` or `Receiver`.
    pub(crate) const fn fault(&self) -> &'static str {
        if self.status < 500 { "Sender" } else { "Receiver" }
    }
}

/// Makes a row whose error is one of the service's model.
macro_rules! modelled {
    ($status:literal, $name:literal) => {
        modelled!($status, $name, $name)
    };
    ($status:literal, $query:expr, $json:literal) => {
        WireCode {
            status: $status,
            query: $query,
            json_type: concat!("com.amazonaws.sqs#", $json),
        }
    };
}

/// Makes a row whose error is one of the service's model, under the longer name of the older model in Query.
macro_rules! legacy {
    ($status:literal, $name:literal) => {
        legacy!($status, $name, $name)
    };
    ($status:literal, $query:literal, $json:literal) => {
        modelled!($status, concat!("AWS.SimpleQueueService.", $query), $json)
    };
}

/// Makes a row whose error every AWS service has.
macro_rules! generic {
    ($status:literal, $name:literal) => {
        generic!($status, $name, $name)
    };
    ($status:literal, $query:literal, $json:literal) => {
        WireCode {
            status: $status,
            query: $query,
            json_type: concat!("com.amazon.coral.service#", $json),
        }
    };
}

impl Code {
    /// Returns how the error looks on the wire. This is the only place that knows.
    #[rustfmt::skip] // One line for each code.
    pub(crate) const fn wire(self) -> WireCode {
        match self {
            Self::AccessDenied => generic!(403, "AccessDenied", "AccessDeniedException"),
            Self::BatchEntryIdsNotDistinct => legacy!(400, "BatchEntryIdsNotDistinct"),
            Self::BatchRequestTooLong => legacy!(400, "BatchRequestTooLong"),
            Self::EmptyBatchRequest => legacy!(400, "EmptyBatchRequest"),
            Self::IncompleteSignature => generic!(400, "IncompleteSignature", "IncompleteSignatureException"),
            Self::InternalFailure => generic!(500, "InternalFailure"),
            Self::InvalidAction => generic!(400, "InvalidAction"),
            Self::InvalidAttributeName => modelled!(400, "InvalidAttributeName"),
            Self::InvalidAttributeValue => modelled!(400, "InvalidAttributeValue"),
            Self::InvalidBatchEntryId => legacy!(400, "InvalidBatchEntryId"),
            Self::InvalidClientTokenId => generic!(403, "InvalidClientTokenId", "UnrecognizedClientException"),
            Self::InvalidMessageContents => modelled!(400, "InvalidMessageContents"),
            Self::InvalidParameterValue => generic!(400, "InvalidParameterValue", "InvalidParameterValueException"),
            Self::MalformedQueryString => generic!(400, "MalformedQueryString"),
            Self::MethodNotAllowed => generic!(405, "MethodNotAllowed"),
            Self::MissingAction => generic!(400, "MissingAction"),
            Self::MissingAuthenticationToken => generic!(403, "MissingAuthenticationToken", "MissingAuthenticationTokenException"),
            Self::MissingParameter => generic!(400, "MissingParameter", "MissingRequiredParameterException"),
            Self::OverLimit => modelled!(403, "OverLimit"),
            Self::PurgeQueueInProgress => legacy!(403, "PurgeQueueInProgress"),
            Self::QueueDeletedRecently => legacy!(400, "QueueDeletedRecently"),
            Self::QueueDoesNotExist => legacy!(400, "NonExistentQueue", "QueueDoesNotExist"),
            Self::QueueNameExists => modelled!(400, "QueueAlreadyExists", "QueueNameExists"),
            Self::ReceiptHandleIsInvalid => modelled!(400, "ReceiptHandleIsInvalid"),
            Self::RequestExpired => generic!(403, "RequestExpired"),
            Self::RequestTimeout => generic!(408, "RequestTimeout"),
            Self::RequestTooLarge => generic!(413, "RequestEntityTooLarge"),
            Self::ResourceNotFound => modelled!(404, "ResourceNotFoundException"),
            Self::Serialization => generic!(400, "MalformedInput", "SerializationException"),
            Self::ServiceUnavailable => generic!(503, "ServiceUnavailable", "ServiceUnavailableException"),
            Self::SignatureDoesNotMatch => generic!(403, "SignatureDoesNotMatch", "InvalidSignatureException"),
            Self::TooManyEntriesInBatchRequest => legacy!(400, "TooManyEntriesInBatchRequest"),
            Self::UnknownOperation => generic!(404, "UnknownOperationException"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_of_the_state_machine_has_the_recorded_code_and_text() {
        let subject = Subject {
            queue: "q",
            receipt_handle: "h",
            visibility_seconds: 43_200,
            attempt_id: "a",
        };
        let check = |error: QueueError, code: &str, json_type: &str, text: &str| {
            let error = ApiError::of_queue(error, subject);
            let wire = error.code().wire();
            assert_eq!(
                (wire.query, wire.json_type.split_once('#').unwrap().1),
                (code, json_type)
            );
            assert_eq!(error.to_string(), text);
        };
        check(
            QueueError::NoSuchQueue,
            "AWS.SimpleQueueService.NonExistentQueue",
            "QueueDoesNotExist",
            "The specified queue does not exist.",
        );
        check(
            QueueError::AttributeDiffers(AttributeName::DelaySeconds),
            "QueueAlreadyExists",
            "QueueNameExists",
            "A queue already exists with the same name and a different value for attribute DelaySeconds",
        );
        check(
            QueueError::PurgeInProgress,
            "AWS.SimpleQueueService.PurgeQueueInProgress",
            "PurgeQueueInProgress",
            "Only one PurgeQueue operation on q is allowed every 60 seconds.",
        );
        check(
            QueueError::QueueDeletedRecently,
            "AWS.SimpleQueueService.QueueDeletedRecently",
            "QueueDeletedRecently",
            "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
        );
        check(
            QueueError::MessageTooLong { max_bytes: 1024 },
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.",
        );
        check(
            QueueError::MissingDeduplicationId,
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided \
             explicitly",
        );
        check(
            QueueError::ForeignReceipt,
            "ReceiptHandleIsInvalid",
            "ReceiptHandleIsInvalid",
            "The input receipt handle \"h\" is not a valid receipt handle.",
        );
        check(
            QueueError::ReceiptExpired,
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "Value h for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
        );
        check(
            QueueError::VisibilityNotChangeable,
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "Value h for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for \
             visibility timeout change.",
        );
        check(
            QueueError::VisibilityTooLong { max_seconds: 43_200 },
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message \
             is beyond the limit [43200 seconds].",
        );
    }

    #[test]
    fn the_fault_is_the_servers_only_when_it_is() {
        assert_eq!(Code::OverLimit.wire().fault(), "Sender");
        assert_eq!(Code::ServiceUnavailable.wire().fault(), "Receiver");
        assert_eq!(ApiError::from(BrokerError::Unknown).code().wire().status, 503);
        assert_eq!(ApiError::from(BrokerError::NoLeader).code().wire().status, 503);
    }
}
