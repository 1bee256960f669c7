//! The two JSON documents about dead-letter queues: RedrivePolicy and RedriveAllowPolicy.
//!
//! They are read in the forms that clients send and shown in one canonical form. Whether a dead-letter queue exists
//! is looked up when a policy is set, as a service to the caller, and again by the state machine when it is used.

use std::borrow::Cow;

use queue_core::{RedrivePolicy, attributes::AttributeName};
use serde::{Deserialize, Serialize};
use types::{QueueArn, QueueKey, Region, limits};

use crate::{ApiError, ApiOptions, queue_url};

/// Most queues that a RedriveAllowPolicy can name.
const SOURCE_QUEUES_MAX: usize = 10;

/// Reads a RedrivePolicy for the queue `source`.
pub(crate) fn parse_policy(
    text: &str,
    source: &QueueKey,
    options: &ApiOptions,
) -> Result<RedrivePolicy, ApiError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Document {
        dead_letter_target_arn: Option<String>,
        max_receive_count: Option<serde_json::Value>,
    }
    let invalid = |reason: &str| ApiError::invalid_value(text, AttributeName::RedrivePolicy.as_str(), reason);
    let document: Document =
        serde_json::from_str(text).map_err(|_| invalid("Redrive policy is not a valid JSON map."))?;
    let missing = |name: &str| {
        invalid(&format!(
            "Redrive policy does not contain mandatory attribute: {name}."
        ))
    };
    let arn = document
        .dead_letter_target_arn
        .ok_or_else(|| missing("deadLetterTargetArn"))?;
    let count = document
        .max_receive_count
        .ok_or_else(|| missing("maxReceiveCount"))?;
    // A number, or a text that is one.
    let count = count.as_str().map_or_else(|| count.to_string(), str::to_owned);
    let max_receive_count = count
        .parse()
        .ok()
        .filter(|count| limits::MAX_RECEIVE_COUNT.contains(count));
    let max_receive_count = max_receive_count.ok_or_else(|| {
        invalid(&format!(
            "Invalid value for maxReceiveCount: {count}, valid values are from 1 to 1000 both inclusive."
        ))
    })?;
    let dead_letter_queue = queue_url::own_queue(&arn, source.tenant, options)
        .ok_or_else(|| invalid("Invalid value for deadLetterTargetArn."))?;
    if dead_letter_queue.name.is_fifo() != source.name.is_fifo() {
        return Err(invalid(
            "Dead letter target must be same type of queue as the source.",
        ));
    }
    Ok(RedrivePolicy {
        dead_letter_queue,
        max_receive_count,
    })
}

/// Returns the text of a RedrivePolicy: canonical, so that tools that compare it find no difference.
pub(crate) fn policy_text(policy: &RedrivePolicy, region: &Region) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Document {
        dead_letter_target_arn: String,
        max_receive_count: u32,
    }
    let document = Document {
        dead_letter_target_arn: queue_url::arn(region, &policy.dead_letter_queue),
        max_receive_count: policy.max_receive_count,
    };
    serde_json::to_string(&document).expect("a text and a number")
}

/// Which queues may name a queue as their dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AllowPolicy<'a> {
    redrive_permission: Permission,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    source_queue_arns: Vec<Cow<'a, str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Permission {
    AllowAll,
    DenyAll,
    ByQueue,
}

/// Reads a RedriveAllowPolicy and returns its canonical text.
pub(crate) fn parse_allow_policy(text: &str) -> Result<String, ApiError> {
    let invalid =
        |reason: &str| ApiError::invalid_value(text, AttributeName::RedriveAllowPolicy.as_str(), reason);
    let policy: AllowPolicy<'_> = serde_json::from_str(text).map_err(|_| {
        invalid("Amazon SQS can't create the redrive allow policy, as it's in an unsupported format.")
    })?;
    let count = policy.source_queue_arns.len();
    match policy.redrive_permission {
        Permission::ByQueue if count == 0 || count > SOURCE_QUEUES_MAX => {
            return Err(invalid(
                "sourceQueueArns must name 1 to 10 queues when redrivePermission is byQueue.",
            ));
        }
        Permission::AllowAll | Permission::DenyAll if count > 0 => {
            return Err(invalid(
                "sourceQueueArns can only be given when redrivePermission is byQueue.",
            ));
        }
        Permission::AllowAll | Permission::DenyAll | Permission::ByQueue => {}
    }
    let is_arn = |arn: &Cow<'_, str>| arn.parse::<QueueArn>().is_ok();
    if !policy.source_queue_arns.iter().all(is_arn) {
        return Err(invalid("sourceQueueArns must hold ARNs of queues."));
    }
    Ok(serde_json::to_string(&policy).expect("texts and a word"))
}

/// Whether a RedriveAllowPolicy, as it is stored, lets `source` use its queue.
pub(crate) fn allows(policy_text: Option<&str>, source: &QueueKey) -> bool {
    let Some(text) = policy_text else {
        return true;
    };
    // What is stored was written by `parse_allow_policy`; if it cannot be read, refusing is the safe side.
    let Ok(policy) = serde_json::from_str::<AllowPolicy<'_>>(text) else {
        return false;
    };
    let names_source = |arn: &Cow<'_, str>| arn.parse::<QueueArn>().is_ok_and(|arn| arn.key == *source);
    match policy.redrive_permission {
        Permission::AllowAll => true,
        Permission::DenyAll => false,
        Permission::ByQueue => policy.source_queue_arns.iter().any(names_source),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use types::TenantId;

    use super::*;

    fn key(name: &str) -> QueueKey {
        queue_url::resolve(name, TenantId::DEV).unwrap()
    }

    fn options(is_dev: bool) -> ApiOptions {
        ApiOptions {
            region: "us-east-1".parse().unwrap(),
            public_url: None,
            is_dev,
        }
    }

    /// Checks a policy of queue `q` against its canonical text, or against a part of the refusal.
    fn check(text: &str, expected: Result<&str, &str>) {
        let parsed = parse_policy(text, &key("q"), &options(false));
        match (parsed, expected) {
            (Ok(policy), Ok(canonical)) => {
                assert_eq!(policy_text(&policy, &options(false).region), canonical)
            }
            (Err(ApiError::InvalidParameterValue(message)), Err(part)) => {
                assert!(message.contains(part), "{text}: {message}");
            }
            (parsed, expected) => panic!("{text}: {parsed:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn a_redrive_policy_has_one_canonical_form() {
        let canonical =
            r#"{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:d","maxReceiveCount":5}"#;
        check(canonical, Ok(canonical));
        check(
            r#" {"maxReceiveCount":"5", "deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:d"}"#,
            Ok(canonical),
        );
        let of = |arn: &str, count: &str| {
            format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":{count}}}"#)
        };
        let own = "arn:aws:sqs:us-east-1:000000000000:d";
        for count in ["0", "1001", "\"x\"", "-1", "1.5", "true", "[]"] {
            check(&of(own, count), Err("maxReceiveCount"));
        }
        check(
            r#"{"maxReceiveCount":5}"#,
            Err("mandatory attribute: deadLetterTargetArn"),
        );
        check(
            &format!(r#"{{"deadLetterTargetArn":"{own}"}}"#),
            Err("mandatory attribute: maxReceiveCount"),
        );
        check("not json", Err("not a valid JSON map"));
        check("5", Err("not a valid JSON map"));
        check(
            &of("arn:aws:sqs:us-east-1:000000000000:d.fifo", "5"),
            Err("same type"),
        );
        check(
            &of("arn:aws:sqs:us-east-1:111111111111:d", "5"),
            Err("deadLetterTargetArn"),
        );
        check(
            &of("arn:aws:sqs:eu-west-1:000000000000:d", "5"),
            Err("deadLetterTargetArn"),
        );
        check(&of("d", "5"), Err("deadLetterTargetArn"));
        // The recordings set a queue as its own target.
        check(
            &of("arn:aws:sqs:us-east-1:000000000000:q", "5"),
            Ok(&of("arn:aws:sqs:us-east-1:000000000000:q", "5")),
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_panic_and_what_is_read_is_shown_as_what_is_read(
            text in prop_oneof![
                any::<String>(),
                r#"(\{|\}|\[|\]|"deadLetterTargetArn"|"maxReceiveCount"|"redrivePermission"|"sourceQueueArns"|"byQueue"|"arn:aws:sqs:us-east-1:000000000000:[a-z]"|:|,|[0-9]{1,4}|null| ){0,16}"#,
            ],
            count in "(\"[0-9]{1,5}\"|[0-9]{1,5}|-1|1e2|null|\\[\\])",
        ) {
            let options = options(false);
            let good = format!(r#"{{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:d","maxReceiveCount":{count}}}"#);
            for text in [&text, &good] {
                if let Ok(policy) = parse_policy(text, &key("q"), &options) {
                    let shown = policy_text(&policy, &options.region);
                    prop_assert_eq!(parse_policy(&shown, &key("q"), &options), Ok(policy));
                }
            }
            if let Ok(shown) = parse_allow_policy(&text) {
                prop_assert_eq!(parse_allow_policy(&shown), Ok(shown.clone()));
            }
            allows(Some(&text), &key("q"));
        }
    }

    #[test]
    fn a_development_server_takes_any_region() {
        let text = r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:000000000000:d","maxReceiveCount":5}"#;
        assert!(parse_policy(text, &key("q"), &options(true)).is_ok());
        assert!(parse_policy(text, &key("q"), &options(false)).is_err());
    }

    #[test]
    fn an_allow_policy_names_who_may_use_the_queue() {
        let by_queue =
            r#"{"redrivePermission":"byQueue","sourceQueueArns":["arn:aws:sqs:us-east-1:000000000000:q"]}"#;
        for (text, canonical, q_may) in [
            (
                r#"{"redrivePermission":"allowAll"}"#,
                Some(r#"{"redrivePermission":"allowAll"}"#),
                true,
            ),
            (
                r#"{ "redrivePermission" : "denyAll" }"#,
                Some(r#"{"redrivePermission":"denyAll"}"#),
                false,
            ),
            (by_queue, Some(by_queue), true),
            (r#"{"redrivePermission":"byQueue"}"#, None, false),
            (
                r#"{"redrivePermission":"byQueue","sourceQueueArns":["q"]}"#,
                None,
                false,
            ),
            (
                r#"{"redrivePermission":"denyAll","sourceQueueArns":["q"]}"#,
                None,
                false,
            ),
            (r#"{"redrivePermission":"other"}"#, None, false),
            ("{}", None, false),
            ("", None, false),
        ] {
            let parsed = parse_allow_policy(text).ok();
            assert_eq!(parsed.as_deref(), canonical, "{text}");
            if let Some(parsed) = parsed {
                assert_eq!(allows(Some(&parsed), &key("q")), q_may, "{text}");
                assert!(!allows(Some(by_queue), &key("other")));
            }
        }
        assert!(allows(None, &key("q")));
        assert!(!allows(Some("broken"), &key("q")));
    }
}
