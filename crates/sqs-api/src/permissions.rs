//! Changes of a queue's policy by label: what AddPermission adds and RemovePermission takes away.
//!
//! A policy is a JSON text that its owner may have written with anything in it, so only its list of statements is
//! touched. What a policy means is not known here (`auth`).

use queue_core::{AttributeChange, QueueError};
use serde::Serialize;
use serde_json::{Map, Value, json};
use types::{QueueKey, TenantId};

use crate::{ApiError, Context, queue_url};

/// Most statements of a policy.
const STATEMENTS_MAX: usize = 20;
/// Most actions of a statement.
const ACTIONS_MAX: usize = 7;
/// Longest label.
const LABEL_BYTES_MAX: usize = 80;
/// How often a change is tried that others overtake. Each time one of them has succeeded.
const TRIES: usize = 100;

const STATEMENT: &str = "Statement";
const SID: &str = "Sid";

/// A permission about to be added.
#[derive(Debug)]
pub(crate) struct Permission<'a> {
    pub(crate) label: &'a str,
    pub(crate) accounts: Vec<TenantId>,
    pub(crate) actions: Vec<&'a str>,
}

/// One value stands alone, several in a list.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn of(mut all: Vec<String>) -> Self {
        match all.pop() {
            Some(one) if all.is_empty() => Self::One(one),
            Some(last) => {
                all.push(last);
                Self::Many(all)
            }
            None => Self::Many(all),
        }
    }
}

/// A statement, its members in the order in which AWS writes them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Statement<'a> {
    sid: &'a str,
    effect: &'static str,
    principal: Principal,
    action: OneOrMany,
    resource: &'a str,
}

#[derive(Debug, Serialize)]
struct Principal {
    #[serde(rename = "AWS")]
    accounts: OneOrMany,
}

/// A policy that AddPermission began.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    version: &'static str,
    id: String,
    statement: [Statement<'a>; 1],
}

impl Permission<'_> {
    fn statement<'a>(&'a self, arn: &'a str) -> Statement<'a> {
        let root = |account: &TenantId| format!("arn:aws:iam::{account}:root");
        let action = |action: &&str| format!("SQS:{action}");
        Statement {
            sid: self.label,
            effect: "Allow",
            principal: Principal {
                accounts: OneOrMany::of(self.accounts.iter().map(root).collect()),
            },
            action: OneOrMany::of(self.actions.iter().map(action).collect()),
            resource: arn,
        }
    }
}

/// Checks a label.
pub(crate) fn check_label(label: &str) -> Result<(), ApiError> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(is_word) {
        return Ok(());
    }
    let reason = format!(
        "Can only include alphanumeric characters, hyphens, or underscores. 1 to {LABEL_BYTES_MAX} in length"
    );
    Err(ApiError::invalid_value(label, "Label", &reason))
}

/// Checks the number of actions of a permission.
pub(crate) fn check_action_count(count: usize) -> Result<(), ApiError> {
    if count <= ACTIONS_MAX {
        return Ok(());
    }
    Err(ApiError::PolicyOverLimit(format!(
        "{count} Actions were found, maximum allowed is {ACTIONS_MAX}."
    )))
}

/// Returns the policy with the permission in it.
pub(crate) fn with(policy: Option<&str>, permission: &Permission<'_>, arn: &str) -> Result<String, ApiError> {
    let Some(policy) = policy else {
        let document = Document {
            version: "2008-10-17",
            id: format!("{arn}/SQSDefaultPolicy"),
            statement: [permission.statement(arn)],
        };
        return Ok(serde_json::to_string(&document).expect("made of texts"));
    };
    let (mut document, mut statements) = read(policy)?;
    if statements
        .iter()
        .any(|statement| statement[SID] == permission.label)
    {
        return Err(ApiError::invalid_value(
            permission.label,
            "Label",
            "Already exists.",
        ));
    }
    if statements.len() >= STATEMENTS_MAX {
        return Err(ApiError::PolicyOverLimit(format!(
            "{} Statements were found, maximum allowed is {STATEMENTS_MAX}.",
            statements.len() + 1
        )));
    }
    statements.push(json!(permission.statement(arn)));
    document.insert(STATEMENT.to_owned(), statements.into());
    Ok(Value::Object(document).to_string())
}

/// Returns the policy without the statement of this label; `None` if it was the last.
pub(crate) fn without(policy: Option<&str>, label: &str) -> Result<Option<String>, ApiError> {
    let not_found = || ApiError::invalid_value(label, "Label", "can't find label.");
    let (mut document, mut statements) = read(policy.ok_or_else(not_found)?)?;
    let count = statements.len();
    statements.retain(|statement| statement[SID] != label);
    if statements.len() == count {
        return Err(not_found());
    }
    if statements.is_empty() {
        return Ok(None);
    }
    document.insert(STATEMENT.to_owned(), statements.into());
    Ok(Some(Value::Object(document).to_string()))
}

/// Reads a policy: the document, and its statements taken out.
fn read(policy: &str) -> Result<(Map<String, Value>, Vec<Value>), ApiError> {
    let unreadable = || {
        ApiError::InvalidParameterValue(
            "The policy of the queue is not one whose permissions can be changed by label.".to_owned(),
        )
    };
    let mut document: Map<String, Value> = serde_json::from_str(policy).map_err(|_| unreadable())?;
    let statements = match document.remove(STATEMENT) {
        Some(Value::Array(statements)) => statements,
        Some(statement @ Value::Object(_)) => vec![statement],
        None => Vec::new(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            return Err(unreadable());
        }
    };
    Ok((document, statements))
}

impl Context<'_> {
    /// Changes the policy of a queue. Of changes made at the same time none is lost: one that was overtaken is made
    /// again of the policy as it is then.
    pub(crate) async fn change_policy(
        &self,
        key: &QueueKey,
        change: impl Fn(Option<&str>, &str) -> Result<Option<String>, ApiError> + Send,
    ) -> Result<(), ApiError> {
        let arn = queue_url::arn(&self.options.region, key);
        for _ in 0..TRIES {
            let from = self.broker.describe_queue(key.clone()).await?.attributes.policy;
            let to = change(from.as_deref(), &arn)?.map(String::into_boxed_str);
            let change = AttributeChange::PolicyFrom { from, to };
            let result = self.broker.set_queue_attributes(key.clone(), vec![change]).await;
            let is_overtaken = result == Err(QueueError::PolicyChanged.into());
            if !is_overtaken {
                return Ok(result?);
            }
        }
        Err(QueueError::PolicyChanged.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ARN: &str = "arn:aws:sqs:us-east-1:000000000000:q";

    fn permission<'a>(label: &'a str, accounts: &[&str], actions: &[&'a str]) -> Permission<'a> {
        Permission {
            label,
            accounts: accounts.iter().map(|account| account.parse().unwrap()).collect(),
            actions: actions.to_vec(),
        }
    }

    // Facts 156 and 157.
    #[test]
    fn a_policy_has_the_recorded_form() {
        let one = permission("one", &["111111111111"], &["SendMessage"]);
        let policy = with(None, &one, ARN).unwrap();
        assert_eq!(
            policy,
            r#"{"Version":"2008-10-17","Id":"arn:aws:sqs:us-east-1:000000000000:q/SQSDefaultPolicy","Statement":[{"Sid":"one","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111111111111:root"},"Action":"SQS:SendMessage","Resource":"arn:aws:sqs:us-east-1:000000000000:q"}]}"#
        );
        let two = permission("two", &["111111111111", "222222222222"], &["ReceiveMessage", "*"]);
        let both = with(Some(&policy), &two, ARN).unwrap();
        let read: Value = serde_json::from_str(&both).unwrap();
        assert_eq!(read["Statement"].as_array().unwrap().len(), 2);
        assert_eq!(
            read["Statement"][1],
            json!({
                "Sid": "two",
                "Effect": "Allow",
                "Principal": {"AWS": ["arn:aws:iam::111111111111:root", "arn:aws:iam::222222222222:root"]},
                "Action": ["SQS:ReceiveMessage", "SQS:*"],
                "Resource": ARN,
            })
        );
        assert!(with(Some(&both), &two, ARN).is_err(), "the label is taken");
        let rest = without(Some(&both), "two").unwrap().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&rest).unwrap(),
            serde_json::from_str::<Value>(&policy).unwrap()
        );
        assert_eq!(without(Some(&rest), "one"), Ok(None));
        assert!(without(Some(&rest), "two").is_err());
        assert!(without(None, "one").is_err());
    }

    #[test]
    fn a_policy_of_the_owners_own_is_kept() {
        let own = r#"{"Version":"2012-10-17","Other":[1],"Statement":{"Effect":"Deny","Principal":"*"}}"#;
        let policy = with(Some(own), &permission("a", &["111111111111"], &["*"]), ARN).unwrap();
        let read: Value = serde_json::from_str(&policy).unwrap();
        assert_eq!(
            (&read["Version"], &read["Other"]),
            (&json!("2012-10-17"), &json!([1]))
        );
        assert_eq!(read["Statement"][0], json!({"Effect": "Deny", "Principal": "*"}));
        assert!(
            with(
                Some(r#"{"Statement":"x"}"#),
                &permission("a", &["111111111111"], &["*"]),
                ARN
            )
            .is_err()
        );
    }

    #[test]
    fn a_policy_has_at_most_twenty_statements() {
        let labels: Vec<String> = (0..=STATEMENTS_MAX).map(|at| format!("l{at}")).collect();
        let add = |policy: Option<&str>, label: &str| {
            with(policy, &permission(label, &["111111111111"], &["*"]), ARN)
        };
        let mut policy = None;
        for label in &labels[..STATEMENTS_MAX] {
            policy = Some(add(policy.as_deref(), label).unwrap());
        }
        assert_eq!(
            add(policy.as_deref(), &labels[STATEMENTS_MAX]),
            Err(ApiError::PolicyOverLimit(
                "21 Statements were found, maximum allowed is 20.".to_owned()
            ))
        );
    }

    #[test]
    fn labels_are_words() {
        for label in ["a", "A-1_b", &"x".repeat(80)] {
            assert_eq!(check_label(label), Ok(()));
        }
        for label in ["", "a b", "ä", &"x".repeat(81)] {
            assert!(check_label(label).is_err(), "{label}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_change_panic(
            policy in r#"(\{|\}|\[|\]|"Statement"|"Sid"|"a"|:|,|1|null| ){0,20}"#,
            label in ".{0,5}",
        ) {
            let added = with(Some(&policy), &permission(&label, &["111111111111"], &["*"]), ARN);
            if let Ok(policy) = added {
                prop_assert!(without(Some(&policy), &label).is_ok());
            }
            drop(without(Some(&policy), &label));
        }
    }
}
