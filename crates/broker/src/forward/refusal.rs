//! The refusals of the state machine as bytes: a code, and the value that some of them carry.

use queue_core::codec::{DecodeError, Decoder, put_u32};
use queue_core::{AttributeName, QueueError};

pub(super) fn put_error(out: &mut Vec<u8>, error: &QueueError) {
    out.push(code_of(error));
    match error {
        QueueError::AttributeDiffers(name) => out.push(code_of_name(*name)),
        QueueError::MessageTooLong { max_bytes } => put_u32(out, *max_bytes),
        QueueError::VisibilityTooLong { max_seconds } => put_u32(out, *max_seconds),
        QueueError::NoSuchQueue
        | QueueError::QueueDeletedRecently
        | QueueError::PurgeInProgress
        | QueueError::MissingDeduplicationId
        | QueueError::WrongQueueType
        | QueueError::ForeignReceipt
        | QueueError::ReceiptExpired
        | QueueError::VisibilityNotChangeable
        | QueueError::AttemptChanged
        | QueueError::NotADeadLetterQueue
        | QueueError::NoSuchDestination
        | QueueError::WrongDestinationType
        | QueueError::TaskRunning
        | QueueError::NoSuchTask
        | QueueError::PolicyChanged
        | QueueError::OverLimit => {}
    }
}

const fn code_of(error: &QueueError) -> u8 {
    match error {
        QueueError::NoSuchQueue => 1,
        QueueError::QueueDeletedRecently => 2,
        QueueError::AttributeDiffers(_) => 3,
        QueueError::PurgeInProgress => 4,
        QueueError::MessageTooLong { .. } => 5,
        QueueError::MissingDeduplicationId => 6,
        QueueError::WrongQueueType => 7,
        QueueError::ForeignReceipt => 8,
        QueueError::ReceiptExpired => 9,
        QueueError::VisibilityNotChangeable => 10,
        QueueError::VisibilityTooLong { .. } => 11,
        QueueError::AttemptChanged => 12,
        QueueError::NotADeadLetterQueue => 13,
        QueueError::NoSuchDestination => 14,
        QueueError::WrongDestinationType => 15,
        QueueError::TaskRunning => 16,
        QueueError::NoSuchTask => 17,
        QueueError::PolicyChanged => 18,
        QueueError::OverLimit => 19,
    }
}

pub(super) fn error(decoder: &mut Decoder<'_>) -> Result<QueueError, DecodeError> {
    Ok(match decoder.u8()? {
        1 => QueueError::NoSuchQueue,
        2 => QueueError::QueueDeletedRecently,
        3 => QueueError::AttributeDiffers(name(decoder.u8()?)?),
        4 => QueueError::PurgeInProgress,
        5 => QueueError::MessageTooLong {
            max_bytes: decoder.u32()?,
        },
        6 => QueueError::MissingDeduplicationId,
        7 => QueueError::WrongQueueType,
        8 => QueueError::ForeignReceipt,
        9 => QueueError::ReceiptExpired,
        10 => QueueError::VisibilityNotChangeable,
        11 => QueueError::VisibilityTooLong {
            max_seconds: decoder.u32()?,
        },
        12 => QueueError::AttemptChanged,
        13 => QueueError::NotADeadLetterQueue,
        14 => QueueError::NoSuchDestination,
        15 => QueueError::WrongDestinationType,
        16 => QueueError::TaskRunning,
        17 => QueueError::NoSuchTask,
        18 => QueueError::PolicyChanged,
        19 => QueueError::OverLimit,
        _ => return Err(DecodeError::Invalid("refusal")),
    })
}

const NAMES: [AttributeName; 14] = [
    AttributeName::VisibilityTimeout,
    AttributeName::DelaySeconds,
    AttributeName::MessageRetentionPeriod,
    AttributeName::MaximumMessageSize,
    AttributeName::ReceiveMessageWaitTimeSeconds,
    AttributeName::Policy,
    AttributeName::RedrivePolicy,
    AttributeName::RedriveAllowPolicy,
    AttributeName::KmsMasterKeyId,
    AttributeName::KmsDataKeyReusePeriodSeconds,
    AttributeName::SqsManagedSseEnabled,
    AttributeName::ContentBasedDeduplication,
    AttributeName::DeduplicationScope,
    AttributeName::FifoThroughputLimit,
];

const fn code_of_name(name: AttributeName) -> u8 {
    match name {
        AttributeName::VisibilityTimeout => 0,
        AttributeName::DelaySeconds => 1,
        AttributeName::MessageRetentionPeriod => 2,
        AttributeName::MaximumMessageSize => 3,
        AttributeName::ReceiveMessageWaitTimeSeconds => 4,
        AttributeName::Policy => 5,
        AttributeName::RedrivePolicy => 6,
        AttributeName::RedriveAllowPolicy => 7,
        AttributeName::KmsMasterKeyId => 8,
        AttributeName::KmsDataKeyReusePeriodSeconds => 9,
        AttributeName::SqsManagedSseEnabled => 10,
        AttributeName::ContentBasedDeduplication => 11,
        AttributeName::DeduplicationScope => 12,
        AttributeName::FifoThroughputLimit => 13,
    }
}

fn name(code: u8) -> Result<AttributeName, DecodeError> {
    let name = NAMES.get(usize::from(code)).copied();
    name.ok_or(DecodeError::Invalid("attribute name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_name_stands_at_its_code() {
        for (at, name) in NAMES.into_iter().enumerate() {
            assert_eq!(usize::from(code_of_name(name)), at);
        }
    }
}
