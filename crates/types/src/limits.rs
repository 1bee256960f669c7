//! Every limit that SQS states, under one name each. Limits of this implementation stand with what they bound.

use std::ops::RangeInclusive;

/// Longest queue name, the `.fifo` suffix included.
pub const QUEUE_NAME_BYTES_MAX: usize = 80;
/// Most entries of a batch request.
pub const BATCH_ENTRIES_MAX: usize = 10;
/// Longest entry id of a batch request.
pub const BATCH_ENTRY_ID_BYTES_MAX: usize = 80;
/// Largest sum of body and attributes over a batch.
pub const BATCH_BYTES_MAX: u64 = 1_048_576;
/// Most messages that one receive returns.
pub const RECEIVE_MESSAGES_MAX: u32 = 10;
/// Most user attributes of a message.
pub const MESSAGE_ATTRIBUTES_MAX: usize = 10;
/// Longest name or data type of a message attribute.
pub const MESSAGE_ATTRIBUTE_NAME_BYTES_MAX: usize = 256;
/// Longest message group id or deduplication id.
pub const GROUP_ID_BYTES_MAX: usize = 128;
/// Seconds for which a deduplication id is remembered.
pub const DEDUPLICATION_SECONDS: u32 = 300;
/// Seconds before a deleted queue's name can be used again.
pub const DELETED_NAME_WAIT_SECONDS: u32 = 60;
/// Seconds between two purges of one queue.
pub const PURGE_WAIT_SECONDS: u32 = 60;
/// Longest time that a message can stay invisible after a receive.
pub const VISIBILITY_SECONDS_MAX: u32 = 43_200;
/// Most messages in flight in one queue.
pub const IN_FLIGHT_MAX: u64 = 120_000;
/// Most queue URLs on one page.
pub const LIST_QUEUES_PAGE_MAX: usize = 1_000;

/// Allowed VisibilityTimeout of a queue or receive, in seconds.
pub const VISIBILITY_SECONDS: RangeInclusive<u32> = 0..=VISIBILITY_SECONDS_MAX;
/// Allowed DelaySeconds of a queue or message.
pub const DELAY_SECONDS: RangeInclusive<u32> = 0..=900;
/// Allowed WaitTimeSeconds of a receive.
pub const WAIT_SECONDS: RangeInclusive<u32> = 0..=20;
/// Allowed MessageRetentionPeriod of a queue, in seconds.
pub const RETENTION_SECONDS: RangeInclusive<u32> = 60..=1_209_600;
/// Allowed MaximumMessageSize of a queue, in bytes.
pub const MESSAGE_BYTES: RangeInclusive<u32> = 1_024..=1_048_576;
/// Allowed maxReceiveCount of a redrive policy.
pub const MAX_RECEIVE_COUNT: RangeInclusive<u32> = 1..=1_000;
/// Allowed KmsDataKeyReusePeriodSeconds of a queue.
pub const KMS_REUSE_SECONDS: RangeInclusive<u32> = 60..=86_400;
