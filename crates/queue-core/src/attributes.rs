//! Queue attributes: their names on the wire, their values, and changes to them.
//!
//! A change is one variant with its value, so a stored command lists exactly what its client passed and a new
//! attribute is a new variant at the end of the enum. Parsing of text happens in the API crate.

use std::fmt;

use serde::{Deserialize, Serialize};
use types::QueueKey;

/// Where the messages go that were received too often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedrivePolicy {
    /// The dead-letter queue; found by name when it is needed, so it may be missing.
    pub dead_letter_queue: QueueKey,
    /// How often a message may be received before it moves there.
    pub max_receive_count: u32,
}

/// Where a deduplication id has to be unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeduplicationScope {
    /// In the whole queue.
    Queue,
    /// In each message group of its own.
    MessageGroup,
}

/// What the throughput quota of a FIFO queue counts. Stored and shown; there is no such quota here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FifoThroughputLimit {
    /// The whole queue.
    PerQueue,
    /// Each message group.
    PerMessageGroupId,
}

/// One attribute that a client passed, with its value. `None` removes the attribute.
///
/// Stored in commands: variants are only ever added, at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttributeChange {
    /// Seconds for which a received message stays invisible.
    VisibilityTimeout(u32),
    /// Seconds for which a sent message stays invisible.
    DelaySeconds(u32),
    /// Seconds for which a message is kept.
    MessageRetentionPeriod(u32),
    /// Largest message in bytes.
    MaximumMessageSize(u32),
    /// Seconds that a receive waits unless it says otherwise.
    ReceiveMessageWaitTimeSeconds(u32),
    /// The access policy, as JSON text.
    Policy(Option<Box<str>>),
    /// The dead-letter queue and when it is used.
    RedrivePolicy(Option<RedrivePolicy>),
    /// Which queues may name this one as their dead-letter queue, as JSON text.
    RedriveAllowPolicy(Option<Box<str>>),
    /// The KMS key; stored and shown.
    KmsMasterKeyId(Option<Box<str>>),
    /// Seconds for which a KMS data key is reused; stored and shown.
    KmsDataKeyReusePeriodSeconds(u32),
    /// Whether the server's own encryption is on; stored and shown.
    SqsManagedSseEnabled(bool),
    /// Whether the hash of a body is its deduplication id.
    ContentBasedDeduplication(bool),
    /// Where a deduplication id has to be unique.
    DeduplicationScope(DeduplicationScope),
    /// What the throughput quota counts.
    FifoThroughputLimit(FifoThroughputLimit),
    /// The access policy, changed from a text that was read before. Refused if it is another one by now, so that of
    /// two changes made at the same time none is lost.
    PolicyFrom {
        /// The text that was read.
        from: Option<Box<str>>,
        /// The text made of it.
        to: Option<Box<str>>,
    },
}

/// The name of an attribute, as in SQS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AttributeName {
    VisibilityTimeout,
    DelaySeconds,
    MessageRetentionPeriod,
    MaximumMessageSize,
    ReceiveMessageWaitTimeSeconds,
    Policy,
    RedrivePolicy,
    RedriveAllowPolicy,
    KmsMasterKeyId,
    KmsDataKeyReusePeriodSeconds,
    SqsManagedSseEnabled,
    ContentBasedDeduplication,
    DeduplicationScope,
    FifoThroughputLimit,
}

impl AttributeName {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::VisibilityTimeout => "VisibilityTimeout",
            Self::DelaySeconds => "DelaySeconds",
            Self::MessageRetentionPeriod => "MessageRetentionPeriod",
            Self::MaximumMessageSize => "MaximumMessageSize",
            Self::ReceiveMessageWaitTimeSeconds => "ReceiveMessageWaitTimeSeconds",
            Self::Policy => "Policy",
            Self::RedrivePolicy => "RedrivePolicy",
            Self::RedriveAllowPolicy => "RedriveAllowPolicy",
            Self::KmsMasterKeyId => "KmsMasterKeyId",
            Self::KmsDataKeyReusePeriodSeconds => "KmsDataKeyReusePeriodSeconds",
            Self::SqsManagedSseEnabled => "SqsManagedSseEnabled",
            Self::ContentBasedDeduplication => "ContentBasedDeduplication",
            Self::DeduplicationScope => "DeduplicationScope",
            Self::FifoThroughputLimit => "FifoThroughputLimit",
        }
    }
}

impl fmt::Display for AttributeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What only FIFO queues have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FifoAttributes {
    /// Whether the hash of a body is its deduplication id.
    pub content_based_deduplication: bool,
    /// The scope as it is shown.
    pub deduplication_scope: DeduplicationScope,
    /// The scope that is in force: the one of creation, as recorded on AWS.
    pub effective_scope: DeduplicationScope,
    /// What the throughput quota counts.
    pub throughput_limit: FifoThroughputLimit,
}

/// All attributes of a queue that a client can set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueAttributes {
    /// Seconds for which a received message stays invisible.
    pub visibility_timeout_seconds: u32,
    /// Seconds for which a sent message stays invisible.
    pub delay_seconds: u32,
    /// Seconds for which a message is kept.
    pub message_retention_seconds: u32,
    /// Largest message in bytes.
    pub maximum_message_bytes: u32,
    /// Seconds that a receive waits unless it says otherwise.
    pub receive_wait_seconds: u32,
    /// The access policy, as JSON text.
    pub policy: Option<Box<str>>,
    /// The dead-letter queue and when it is used.
    pub redrive_policy: Option<RedrivePolicy>,
    /// Which queues may name this one as their dead-letter queue, as JSON text.
    pub redrive_allow_policy: Option<Box<str>>,
    /// The KMS key.
    pub kms_master_key_id: Option<Box<str>>,
    /// Seconds for which a KMS data key is reused.
    pub kms_reuse_seconds: u32,
    /// Whether the server's own encryption is on.
    pub sqs_managed_sse: bool,
    /// What only FIFO queues have; `None` on a standard queue.
    pub fifo: Option<FifoAttributes>,
}

impl QueueAttributes {
    /// KmsDataKeyReusePeriodSeconds of a queue that never set it.
    pub const KMS_REUSE_SECONDS_DEFAULT: u32 = 300;

    /// Returns the attributes of a queue that set none.
    pub fn defaults(is_fifo: bool) -> Self {
        Self {
            visibility_timeout_seconds: 30,
            delay_seconds: 0,
            message_retention_seconds: 345_600,
            maximum_message_bytes: 1_048_576,
            receive_wait_seconds: 0,
            policy: None,
            redrive_policy: None,
            redrive_allow_policy: None,
            kms_master_key_id: None,
            kms_reuse_seconds: Self::KMS_REUSE_SECONDS_DEFAULT,
            sqs_managed_sse: true,
            fifo: is_fifo.then_some(FifoAttributes {
                content_based_deduplication: false,
                deduplication_scope: DeduplicationScope::Queue,
                effective_scope: DeduplicationScope::Queue,
                throughput_limit: FifoThroughputLimit::PerQueue,
            }),
        }
    }

    /// Makes one change. A change that only a FIFO queue knows does nothing to a standard one: the API refuses it.
    pub(crate) fn change(&mut self, change: &AttributeChange) {
        match change {
            AttributeChange::VisibilityTimeout(seconds) => self.visibility_timeout_seconds = *seconds,
            AttributeChange::DelaySeconds(seconds) => self.delay_seconds = *seconds,
            AttributeChange::MessageRetentionPeriod(seconds) => self.message_retention_seconds = *seconds,
            AttributeChange::MaximumMessageSize(bytes) => self.maximum_message_bytes = *bytes,
            AttributeChange::ReceiveMessageWaitTimeSeconds(seconds) => self.receive_wait_seconds = *seconds,
            AttributeChange::Policy(text) | AttributeChange::PolicyFrom { to: text, .. } => {
                self.policy = text.clone();
            }
            AttributeChange::RedrivePolicy(policy) => self.redrive_policy = policy.clone(),
            AttributeChange::RedriveAllowPolicy(text) => self.redrive_allow_policy = text.clone(),
            AttributeChange::KmsMasterKeyId(id) => {
                self.kms_master_key_id = id.clone();
                // Recorded on AWS: a key switches the server's own encryption off, and it stays off.
                if id.is_some() {
                    self.sqs_managed_sse = false;
                }
            }
            AttributeChange::KmsDataKeyReusePeriodSeconds(seconds) => self.kms_reuse_seconds = *seconds,
            AttributeChange::SqsManagedSseEnabled(on) => self.sqs_managed_sse = *on,
            AttributeChange::ContentBasedDeduplication(on) => {
                self.change_fifo(|fifo| fifo.content_based_deduplication = *on);
            }
            AttributeChange::DeduplicationScope(scope) => {
                self.change_fifo(|fifo| fifo.deduplication_scope = *scope);
            }
            AttributeChange::FifoThroughputLimit(limit) => {
                self.change_fifo(|fifo| fifo.throughput_limit = *limit);
            }
        }
    }

    fn change_fifo(&mut self, change: impl FnOnce(&mut FifoAttributes)) {
        if let Some(fifo) = &mut self.fifo {
            change(fifo);
        }
    }

    /// Whether a change was made of what is no longer so.
    pub(crate) fn has_moved_on(&self, change: &AttributeChange) -> bool {
        matches!(change, AttributeChange::PolicyFrom { from, .. } if *from != self.policy)
    }

    /// Returns the first attribute of `passed` whose value differs from the one in force.
    pub(crate) fn differing(&self, passed: &[AttributeChange]) -> Option<AttributeName> {
        passed
            .iter()
            .find(|change| !self.has(change))
            .map(AttributeChange::name)
    }

    fn has(&self, change: &AttributeChange) -> bool {
        let fifo = self.fifo.as_ref();
        match change {
            AttributeChange::VisibilityTimeout(seconds) => self.visibility_timeout_seconds == *seconds,
            AttributeChange::DelaySeconds(seconds) => self.delay_seconds == *seconds,
            AttributeChange::MessageRetentionPeriod(seconds) => self.message_retention_seconds == *seconds,
            AttributeChange::MaximumMessageSize(bytes) => self.maximum_message_bytes == *bytes,
            AttributeChange::ReceiveMessageWaitTimeSeconds(seconds) => self.receive_wait_seconds == *seconds,
            AttributeChange::Policy(text) | AttributeChange::PolicyFrom { to: text, .. } => {
                self.policy == *text
            }
            AttributeChange::RedrivePolicy(policy) => self.redrive_policy == *policy,
            AttributeChange::RedriveAllowPolicy(text) => self.redrive_allow_policy == *text,
            AttributeChange::KmsMasterKeyId(id) => self.kms_master_key_id == *id,
            AttributeChange::KmsDataKeyReusePeriodSeconds(seconds) => self.kms_reuse_seconds == *seconds,
            AttributeChange::SqsManagedSseEnabled(on) => self.sqs_managed_sse == *on,
            AttributeChange::ContentBasedDeduplication(on) => {
                fifo.is_some_and(|fifo| fifo.content_based_deduplication == *on)
            }
            AttributeChange::DeduplicationScope(scope) => {
                fifo.is_some_and(|fifo| fifo.deduplication_scope == *scope)
            }
            AttributeChange::FifoThroughputLimit(limit) => {
                fifo.is_some_and(|fifo| fifo.throughput_limit == *limit)
            }
        }
    }
}

impl AttributeChange {
    /// Returns the name of the attribute that changes.
    pub const fn name(&self) -> AttributeName {
        match self {
            Self::VisibilityTimeout(_) => AttributeName::VisibilityTimeout,
            Self::DelaySeconds(_) => AttributeName::DelaySeconds,
            Self::MessageRetentionPeriod(_) => AttributeName::MessageRetentionPeriod,
            Self::MaximumMessageSize(_) => AttributeName::MaximumMessageSize,
            Self::ReceiveMessageWaitTimeSeconds(_) => AttributeName::ReceiveMessageWaitTimeSeconds,
            Self::Policy(_) | Self::PolicyFrom { .. } => AttributeName::Policy,
            Self::RedrivePolicy(_) => AttributeName::RedrivePolicy,
            Self::RedriveAllowPolicy(_) => AttributeName::RedriveAllowPolicy,
            Self::KmsMasterKeyId(_) => AttributeName::KmsMasterKeyId,
            Self::KmsDataKeyReusePeriodSeconds(_) => AttributeName::KmsDataKeyReusePeriodSeconds,
            Self::SqsManagedSseEnabled(_) => AttributeName::SqsManagedSseEnabled,
            Self::ContentBasedDeduplication(_) => AttributeName::ContentBasedDeduplication,
            Self::DeduplicationScope(_) => AttributeName::DeduplicationScope,
            Self::FifoThroughputLimit(_) => AttributeName::FifoThroughputLimit,
        }
    }
}
