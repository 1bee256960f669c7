//! Policies: no text panics, and every decision is that of a slow evaluator which reads the same JSON.

use auth::{Decision, Policy};
use serde_json::Value;
use sqs_api::fuzzing;
use types::{QueueKey, Region, TenantId, limits};

const ACCOUNTS: [&str; 2] = ["000000000000", "123456789012"];
const ACTIONS: [&str; 2] = ["SendMessage", "ReceiveMessage"];
const RESOURCE: &str = "arn:aws:sqs:us-east-1:000000000000:q";

/// Checks the bytes as the policy of a queue.
pub fn policy(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let Ok(policy) = Policy::parse(text) else {
        return;
    };
    let value: Value = serde_json::from_str(text).expect("what is a policy is JSON");
    for account in ACCOUNTS {
        let tenant: TenantId = account.parse().expect("twelve digits");
        for action in ACTIONS {
            let decision = policy.decide(tenant, action, RESOURCE);
            if let Some(expected) = decide(&value, account, action) {
                assert_eq!(decision, expected, "{account} {action} {text}");
            }
        }
    }
}

/// Decides as the language is described; `None` where the policy is not written as it should be.
fn decide(policy: &Value, account: &str, action: &str) -> Option<Decision> {
    let mut decision = Decision::Silent;
    for statement in one_or_many(policy.get("Statement")?) {
        statement.as_object()?;
        let member = |name: &str| statement.get(name).filter(|value| !value.is_null());
        let fits = |name: &str, text: &str, ignoring_case: bool| -> Option<Option<bool>> {
            let Some(patterns) = member(name) else {
                return Some(None);
            };
            let patterns = texts(patterns)?;
            let fits = patterns.iter().any(|pattern| {
                if ignoring_case {
                    is_like(
                        pattern.to_ascii_lowercase().as_bytes(),
                        text.to_ascii_lowercase().as_bytes(),
                    )
                } else {
                    is_like(pattern.as_bytes(), text.as_bytes())
                }
            });
            Some(Some(fits))
        };
        let about = |positive: &str, negative: &str, text: &str, ignoring_case: bool| {
            let (yes, no) = (
                fits(positive, text, ignoring_case)?,
                fits(negative, text, ignoring_case)?,
            );
            Some(yes.or(no.map(|no| !no)).unwrap_or(true))
        };
        let is_action = about("Action", "NotAction", &format!("sqs:{action}"), true)?;
        let is_resource = about("Resource", "NotResource", RESOURCE, false)?;
        let principal = match (member("Principal"), member("NotPrincipal")) {
            (Some(named), _) => who(named, account)?,
            (None, Some(excluded)) => who(excluded, account)?.map(|is_named| !is_named),
            (None, None) => Some(false),
        };
        // Three answers: yes, no, and `None` for what this server cannot decide.
        let is_about = match principal {
            _ if !is_action || !is_resource => Some(false),
            Some(true) if member("Condition").is_some() => None,
            decided => decided,
        };
        match (statement.get("Effect")?.as_str()?, is_about) {
            ("Deny", Some(true) | None) => return Some(Decision::Denied),
            ("Allow", Some(true)) => decision = Decision::Allowed,
            _ => {}
        }
    }
    Some(decision)
}

/// Whether a principal is the account; the inner `None` if it is a user or role of it.
fn who(principal: &Value, account: &str) -> Option<Option<bool>> {
    let names = match principal {
        Value::String(name) => vec![name.as_str()],
        Value::Object(kinds) => match kinds.get("AWS").filter(|names| !names.is_null()) {
            Some(names) => texts(names)?,
            None => return Some(Some(false)),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    let root = format!("arn:aws:iam::{account}:root");
    let own = format!("arn:aws:iam::{account}");
    if names
        .iter()
        .any(|name| *name == "*" || *name == account || *name == root)
    {
        return Some(Some(true));
    }
    let is_inside = names
        .iter()
        .any(|name| *name == own || name.starts_with(&format!("{own}:")));
    Some(if is_inside { None } else { Some(false) })
}

fn one_or_many(value: &Value) -> &[Value] {
    value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice)
}

fn texts(value: &Value) -> Option<Vec<&str>> {
    one_or_many(value).iter().map(Value::as_str).collect()
}

/// Whether a text fits a pattern, by a table of all their beginnings.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let mut fits = vec![false; text.len() + 1];
    fits[0] = true;
    for byte in pattern {
        let before = fits.clone();
        for (end, fit) in fits.iter_mut().enumerate() {
            *fit = match byte {
                b'*' => before[..=end].contains(&true),
                _ if end == 0 => false,
                b'?' => before[end - 1],
                byte => before[end - 1] && text[end - 1] == *byte,
            };
        }
    }
    fits[text.len()]
}

/// Checks the bytes as either of the documents about dead-letter queues.
pub fn redrive_policy(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let region: Region = "us-east-1".parse().expect("a region");
    let source = QueueKey {
        tenant: TenantId::DEV,
        name: "q".parse().expect("a queue name"),
    };
    if let Some(policy) = fuzzing::redrive_policy(text, &source, &region) {
        assert!(
            limits::MAX_RECEIVE_COUNT.contains(&policy.max_receive_count),
            "{text}"
        );
        assert_eq!(policy.dead_letter_queue.tenant, source.tenant, "{text}");
        assert!(!policy.dead_letter_queue.name.is_fifo(), "{text}");
        let canonical = fuzzing::redrive_policy_text(&policy, &region);
        assert_eq!(
            fuzzing::redrive_policy(&canonical, &source, &region),
            Some(policy),
            "{text}"
        );
    }
    let is_json = serde_json::from_str::<Value>(text).is_ok();
    assert!(is_json || !fuzzing::redrive_allows(text, &source), "{text}");
    if let Some(canonical) = fuzzing::redrive_allow_policy(text) {
        assert_eq!(
            fuzzing::redrive_allow_policy(&canonical).as_ref(),
            Some(&canonical),
            "{text}"
        );
        assert_eq!(
            fuzzing::redrive_allows(text, &source),
            fuzzing::redrive_allows(&canonical, &source),
            "{text}"
        );
    }
}
