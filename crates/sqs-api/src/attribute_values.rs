//! Queue attributes as text: reading what clients pass, and showing what a queue has.

use std::ops::RangeInclusive;

use queue_core::attributes::{
    AttributeChange, AttributeName, DeduplicationScope, FifoAttributes, FifoThroughputLimit, QueueAttributes,
};
use types::{QueueKey, limits};

use crate::wire::{Pairs, Text};
use crate::{ApiError, ApiOptions, redrive};

/// The attribute that a queue is created with and that no change can have.
pub(crate) const FIFO_QUEUE: &str = "FifoQueue";

const SETTABLE: [AttributeName; 14] = [
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

/// What a client passed: the changes, and `FifoQueue` if it was among them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) changes: Vec<AttributeChange>,
    pub(crate) fifo_queue: Option<bool>,
}

/// Reads the attributes that a client passed for a queue. Of a name that is given twice the last value counts.
pub(crate) fn parse(
    attributes: &Pairs<'_, Text<'_>>,
    key: &QueueKey,
    options: &ApiOptions,
) -> Result<Passed, ApiError> {
    let mut passed = Passed {
        changes: Vec::with_capacity(attributes.0.len()),
        fifo_queue: None,
    };
    for (name, value) in &attributes.0 {
        if name.as_str() == FIFO_QUEUE {
            passed.fifo_queue = Some(boolean(FIFO_QUEUE, value)?);
            continue;
        }
        let change = parse_one(find(name)?, value, key, options)?;
        passed.changes.retain(|earlier| earlier.name() != change.name());
        passed.changes.push(change);
    }
    refuse_two_encryptions(&passed.changes)?;
    Ok(passed)
}

/// Returns the error for a name that is no attribute, or none of this kind of queue.
pub(crate) fn unknown(name: &str) -> ApiError {
    ApiError::InvalidAttributeName(format!("Unknown Attribute {name}."))
}

/// Returns the error for a value that an attribute cannot have.
pub(crate) fn invalid(name: &str) -> ApiError {
    ApiError::InvalidAttributeValue(format!("Invalid value for the parameter {name}."))
}

fn find(name: &str) -> Result<AttributeName, ApiError> {
    let found = SETTABLE.into_iter().find(|settable| settable.as_str() == name);
    found.ok_or_else(|| unknown(name))
}

fn parse_one(
    name: AttributeName,
    value: &str,
    key: &QueueKey,
    options: &ApiOptions,
) -> Result<AttributeChange, ApiError> {
    let number = |allowed| number(name, value, allowed);
    let optional = |text: &str| (!text.is_empty()).then(|| Box::from(text));
    Ok(match name {
        AttributeName::VisibilityTimeout => {
            AttributeChange::VisibilityTimeout(number(limits::VISIBILITY_SECONDS)?)
        }
        AttributeName::DelaySeconds => AttributeChange::DelaySeconds(number(limits::DELAY_SECONDS)?),
        AttributeName::MessageRetentionPeriod => {
            AttributeChange::MessageRetentionPeriod(number(limits::RETENTION_SECONDS)?)
        }
        AttributeName::MaximumMessageSize => {
            AttributeChange::MaximumMessageSize(number(limits::MESSAGE_BYTES)?)
        }
        AttributeName::ReceiveMessageWaitTimeSeconds => {
            AttributeChange::ReceiveMessageWaitTimeSeconds(number(limits::WAIT_SECONDS)?)
        }
        AttributeName::Policy => AttributeChange::Policy(policy(value)?),
        AttributeName::RedrivePolicy if value.is_empty() => AttributeChange::RedrivePolicy(None),
        AttributeName::RedrivePolicy => {
            AttributeChange::RedrivePolicy(Some(redrive::parse_policy(value, key, options)?))
        }
        AttributeName::RedriveAllowPolicy if value.is_empty() => AttributeChange::RedriveAllowPolicy(None),
        AttributeName::RedriveAllowPolicy => {
            AttributeChange::RedriveAllowPolicy(Some(redrive::parse_allow_policy(value)?.into()))
        }
        AttributeName::KmsMasterKeyId => AttributeChange::KmsMasterKeyId(optional(value)),
        AttributeName::KmsDataKeyReusePeriodSeconds => {
            AttributeChange::KmsDataKeyReusePeriodSeconds(number(limits::KMS_REUSE_SECONDS)?)
        }
        AttributeName::SqsManagedSseEnabled => {
            AttributeChange::SqsManagedSseEnabled(boolean(name.as_str(), value)?)
        }
        AttributeName::ContentBasedDeduplication if !key.name.is_fifo() => {
            return Err(unknown(name.as_str()));
        }
        AttributeName::ContentBasedDeduplication => {
            AttributeChange::ContentBasedDeduplication(boolean(name.as_str(), value)?)
        }
        AttributeName::DeduplicationScope | AttributeName::FifoThroughputLimit if !key.name.is_fifo() => {
            return Err(ApiError::InvalidAttributeName(format!(
                "You can specify the {name} only when FifoQueue is set to true."
            )));
        }
        AttributeName::DeduplicationScope => {
            AttributeChange::DeduplicationScope(scope_of(value).ok_or_else(|| invalid(name.as_str()))?)
        }
        AttributeName::FifoThroughputLimit => AttributeChange::FifoThroughputLimit(
            throughput_limit_of(value).ok_or_else(|| invalid(name.as_str()))?,
        ),
    })
}

fn number(name: AttributeName, value: &str, allowed: RangeInclusive<u32>) -> Result<u32, ApiError> {
    let number = value.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| invalid(name.as_str()))
}

fn boolean(name: &str, value: &str) -> Result<bool, ApiError> {
    if value.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if value.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        Err(invalid(name))
    }
}

/// Takes a policy as it is: a JSON object, and otherwise not looked into.
fn policy(value: &str) -> Result<Option<Box<str>>, ApiError> {
    if value.is_empty() {
        return Ok(None);
    }
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(value).is_ok();
    let is_object = value.trim_start().starts_with('{');
    if is_json && is_object {
        Ok(Some(value.into()))
    } else {
        Err(invalid(AttributeName::Policy.as_str()))
    }
}

fn scope_of(value: &str) -> Option<DeduplicationScope> {
    match value {
        "queue" => Some(DeduplicationScope::Queue),
        "messageGroup" => Some(DeduplicationScope::MessageGroup),
        _ => None,
    }
}

fn throughput_limit_of(value: &str) -> Option<FifoThroughputLimit> {
    match value {
        "perQueue" => Some(FifoThroughputLimit::PerQueue),
        "perMessageGroupId" => Some(FifoThroughputLimit::PerMessageGroupId),
        _ => None,
    }
}

fn refuse_two_encryptions(changes: &[AttributeChange]) -> Result<(), ApiError> {
    let has_key = changes
        .iter()
        .any(|change| matches!(change, AttributeChange::KmsMasterKeyId(Some(_))));
    if has_key && changes.contains(&AttributeChange::SqsManagedSseEnabled(true)) {
        return Err(ApiError::InvalidAttributeName(
            "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or \
             SQS SSE."
                .to_owned(),
        ));
    }
    Ok(())
}

/// Returns the settable attributes that a queue shows, with their values.
pub(crate) fn shown(attributes: &QueueAttributes, options: &ApiOptions) -> Vec<(&'static str, String)> {
    let mut shown = Vec::with_capacity(16);
    let mut show = |name: AttributeName, value: String| shown.push((name.as_str(), value));
    show(
        AttributeName::VisibilityTimeout,
        attributes.visibility_timeout_seconds.to_string(),
    );
    show(AttributeName::DelaySeconds, attributes.delay_seconds.to_string());
    show(
        AttributeName::MessageRetentionPeriod,
        attributes.message_retention_seconds.to_string(),
    );
    show(
        AttributeName::MaximumMessageSize,
        attributes.maximum_message_bytes.to_string(),
    );
    show(
        AttributeName::ReceiveMessageWaitTimeSeconds,
        attributes.receive_wait_seconds.to_string(),
    );
    show(
        AttributeName::SqsManagedSseEnabled,
        attributes.sqs_managed_sse.to_string(),
    );
    if let Some(policy) = &attributes.policy {
        show(AttributeName::Policy, policy.to_string());
    }
    if let Some(policy) = &attributes.redrive_policy {
        show(
            AttributeName::RedrivePolicy,
            redrive::policy_text(policy, &options.region),
        );
    }
    if let Some(policy) = &attributes.redrive_allow_policy {
        show(AttributeName::RedriveAllowPolicy, policy.to_string());
    }
    if let Some(id) = &attributes.kms_master_key_id {
        show(AttributeName::KmsMasterKeyId, id.to_string());
    }
    // Recorded: setting the default value takes the attribute away again.
    if attributes.kms_reuse_seconds != QueueAttributes::KMS_REUSE_SECONDS_DEFAULT {
        show(
            AttributeName::KmsDataKeyReusePeriodSeconds,
            attributes.kms_reuse_seconds.to_string(),
        );
    }
    if let Some(fifo) = &attributes.fifo {
        show_fifo(fifo, &mut shown);
    }
    shown
}

fn show_fifo(fifo: &FifoAttributes, shown: &mut Vec<(&'static str, String)>) {
    let scope = match fifo.deduplication_scope {
        DeduplicationScope::Queue => "queue",
        DeduplicationScope::MessageGroup => "messageGroup",
    };
    let limit = match fifo.throughput_limit {
        FifoThroughputLimit::PerQueue => "perQueue",
        FifoThroughputLimit::PerMessageGroupId => "perMessageGroupId",
    };
    let content_based = fifo.content_based_deduplication.to_string();
    shown.push((FIFO_QUEUE, true.to_string()));
    shown.push((AttributeName::ContentBasedDeduplication.as_str(), content_based));
    shown.push((AttributeName::DeduplicationScope.as_str(), scope.to_owned()));
    shown.push((AttributeName::FifoThroughputLimit.as_str(), limit.to_owned()));
}

/// Whether a queue can have a settable attribute of this name.
pub(crate) fn is_known(name: &str) -> bool {
    name == FIFO_QUEUE || find(name).is_ok()
}

#[cfg(test)]
mod tests {
    use types::TenantId;

    use super::*;
    use crate::queue_url;

    fn parsed(queue: &str, attributes: &[(&str, &str)]) -> Result<Passed, ApiError> {
        let options = ApiOptions {
            region: "us-east-1".parse().unwrap(),
            public_url: None,
            is_dev: false,
        };
        let key = queue_url::resolve(queue, TenantId::DEV).unwrap();
        let pairs = attributes
            .iter()
            .map(|(name, value)| (Text::from(*name), Text::from(*value)))
            .collect();
        parse(&Pairs(pairs), &key, &options)
    }

    fn check(queue: &str, name: &str, value: &str, expected: AttributeChange) {
        let passed = parsed(queue, &[(name, value)]).unwrap();
        assert_eq!(passed.changes, [expected], "{name}={value}");
    }

    fn check_invalid(name: &str, values: &[&str]) {
        for value in values {
            let expected = format!("Invalid value for the parameter {name}.");
            let error = parsed("q.fifo", &[(name, value)]).unwrap_err();
            assert_eq!(error, ApiError::InvalidAttributeValue(expected), "{name}={value}");
        }
    }

    #[test]
    fn values_are_read_within_their_bounds() {
        check(
            "q",
            "VisibilityTimeout",
            "0",
            AttributeChange::VisibilityTimeout(0),
        );
        check(
            "q",
            "VisibilityTimeout",
            "43200",
            AttributeChange::VisibilityTimeout(43_200),
        );
        check("q", "DelaySeconds", "900", AttributeChange::DelaySeconds(900));
        check(
            "q",
            "MessageRetentionPeriod",
            "60",
            AttributeChange::MessageRetentionPeriod(60),
        );
        check(
            "q",
            "MaximumMessageSize",
            "1024",
            AttributeChange::MaximumMessageSize(1024),
        );
        check(
            "q",
            "MaximumMessageSize",
            "1048576",
            AttributeChange::MaximumMessageSize(1_048_576),
        );
        check(
            "q",
            "ReceiveMessageWaitTimeSeconds",
            "20",
            AttributeChange::ReceiveMessageWaitTimeSeconds(20),
        );
        check("q", "Policy", "", AttributeChange::Policy(None));
        check(
            "q",
            "Policy",
            "{\"a\": 1}",
            AttributeChange::Policy(Some("{\"a\": 1}".into())),
        );
        check("q", "RedrivePolicy", "", AttributeChange::RedrivePolicy(None));
        check(
            "q",
            "RedriveAllowPolicy",
            "",
            AttributeChange::RedriveAllowPolicy(None),
        );
        check("q", "KmsMasterKeyId", "", AttributeChange::KmsMasterKeyId(None));
        check(
            "q",
            "SqsManagedSseEnabled",
            "True",
            AttributeChange::SqsManagedSseEnabled(true),
        );
        check(
            "q.fifo",
            "ContentBasedDeduplication",
            "FALSE",
            AttributeChange::ContentBasedDeduplication(false),
        );
        check("q.fifo", "DeduplicationScope", "messageGroup", {
            AttributeChange::DeduplicationScope(DeduplicationScope::MessageGroup)
        });
        check_invalid("VisibilityTimeout", &["-1", "43201", "", "x", "1.5"]);
        check_invalid("DelaySeconds", &["901", " 1"]);
        check_invalid("MessageRetentionPeriod", &["59", "1209601"]);
        check_invalid("MaximumMessageSize", &["1023", "1048577"]);
        check_invalid("ReceiveMessageWaitTimeSeconds", &["21"]);
        check_invalid("KmsDataKeyReusePeriodSeconds", &["59", "86401"]);
        check_invalid("SqsManagedSseEnabled", &["yes", ""]);
        check_invalid("DeduplicationScope", &["Queue", ""]);
        check_invalid("FifoThroughputLimit", &["perGroup"]);
        check_invalid("Policy", &["x", "5", "{", "{}x"]);
        check_invalid("FifoQueue", &["x"]);
    }

    #[test]
    fn names_that_do_not_fit_have_their_recorded_texts() {
        for (queue, attributes, text) in [
            ("q", vec![("Foobar", "1")], "Unknown Attribute Foobar."),
            ("q", vec![("QueueArn", "1")], "Unknown Attribute QueueArn."),
            (
                "q",
                vec![("ContentBasedDeduplication", "false")],
                "Unknown Attribute ContentBasedDeduplication.",
            ),
            (
                "q",
                vec![("DeduplicationScope", "queue")],
                "You can specify the DeduplicationScope only when FifoQueue is set to true.",
            ),
            (
                "q",
                vec![("FifoThroughputLimit", "perQueue")],
                "You can specify the FifoThroughputLimit only when FifoQueue is set to true.",
            ),
            (
                "q",
                vec![("KmsMasterKeyId", "k"), ("SqsManagedSseEnabled", "true")],
                "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or \
                 SQS SSE.",
            ),
        ] {
            let expected = ApiError::InvalidAttributeName(text.to_owned());
            assert_eq!(parsed(queue, &attributes).unwrap_err(), expected);
        }
    }

    #[test]
    fn the_last_of_two_values_counts() {
        let passed = parsed(
            "q",
            &[
                ("DelaySeconds", "1"),
                ("FifoQueue", "true"),
                ("DelaySeconds", "2"),
            ],
        )
        .unwrap();
        assert_eq!(passed.changes, [AttributeChange::DelaySeconds(2)]);
        assert_eq!(passed.fifo_queue, Some(true));
    }
}
