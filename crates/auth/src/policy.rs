//! Queue policies: who beside the owner may do what with a queue, and what is denied to everybody.
//!
//! Of the policy language this knows Effect, Principal, Action, Resource and their `Not` forms, with `*` and `?`. It
//! fails closed where it cannot decide: a statement with a Condition, or one that names a user or role of an account
//! (principals are accounts here), never allows and always denies. A text that is no policy allows nothing.

use serde::Deserialize;
use types::TenantId;

/// What a policy says about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// A statement denies it: nobody may, not even the owner.
    Denied,
    /// A statement allows it.
    Allowed,
    /// No statement is about it: the owner may, and nobody else.
    Silent,
}

/// A policy that was read.
#[derive(Debug, Clone)]
pub struct Policy {
    statements: Vec<Statement>,
}

/// A text that is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a policy: {0}")]
pub struct PolicyError(String);

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "Statement")]
    statement: OneOrMany<Statement>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statement {
    effect: Effect,
    principal: Option<Principals>,
    not_principal: Option<Principals>,
    action: Option<OneOrMany<String>>,
    not_action: Option<OneOrMany<String>>,
    resource: Option<OneOrMany<String>>,
    not_resource: Option<OneOrMany<String>>,
    #[serde(default)]
    condition: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Effect {
    Allow,
    Deny,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Principals {
    Text(String),
    ByKind {
        #[serde(rename = "AWS", default)]
        aws: Option<OneOrMany<String>>,
    },
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    Many(Vec<T>),
    One(T),
}

impl<T> OneOrMany<T> {
    fn as_slice(&self) -> &[T] {
        match self {
            Self::Many(all) => all,
            Self::One(one) => std::slice::from_ref(one),
        }
    }
}

/// Whether a pattern is about a request, where that can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    Yes,
    No,
    /// It names what this server does not have.
    Unknown,
}

impl Policy {
    /// Reads the text of a policy.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let document: Document =
            serde_json::from_str(text).map_err(|error| PolicyError(error.to_string()))?;
        let statements = match document.statement {
            OneOrMany::Many(statements) => statements,
            OneOrMany::One(statement) => vec![statement],
        };
        Ok(Self { statements })
    }

    /// Decides whether an account may do something: `action` as in `SendMessage`, `resource` the queue's ARN.
    pub fn decide(&self, account: TenantId, action: &str, resource: &str) -> Decision {
        let mut decision = Decision::Silent;
        for statement in &self.statements {
            match (statement.effect, statement.is_about(account, action, resource)) {
                (Effect::Deny, Match::Yes | Match::Unknown) => return Decision::Denied,
                (Effect::Allow, Match::Yes) => decision = Decision::Allowed,
                (Effect::Allow, Match::No | Match::Unknown) | (Effect::Deny, Match::No) => {}
            }
        }
        decision
    }
}

impl Statement {
    fn is_about(&self, account: TenantId, action: &str, resource: &str) -> Match {
        let action = format!("sqs:{action}");
        let action = any_or_none(self.action.as_ref(), self.not_action.as_ref(), |pattern| {
            is_like(&pattern.to_ascii_lowercase(), &action.to_ascii_lowercase())
        });
        let resource = any_or_none(self.resource.as_ref(), self.not_resource.as_ref(), |pattern| {
            is_like(pattern, resource)
        });
        if !action || !resource {
            return Match::No;
        }
        let principal = match (&self.principal, &self.not_principal) {
            (Some(principals), _) => principals.includes(account),
            (None, Some(principals)) => match principals.includes(account) {
                Match::Yes => Match::No,
                Match::No => Match::Yes,
                Match::Unknown => Match::Unknown,
            },
            (None, None) => Match::No,
        };
        if principal == Match::Yes && self.condition.is_some() {
            Match::Unknown
        } else {
            principal
        }
    }
}

impl Principals {
    fn includes(&self, account: TenantId) -> Match {
        let names = match self {
            Self::Text(text) => std::slice::from_ref(text),
            // Services and federated users do not call this server.
            Self::ByKind { aws: None } => return Match::No,
            Self::ByKind { aws: Some(names) } => names.as_slice(),
        };
        let mut found = Match::No;
        for name in names {
            match names_account(name, account) {
                Match::Yes => return Match::Yes,
                Match::Unknown => found = Match::Unknown,
                Match::No => {}
            }
        }
        found
    }
}

/// Whether a principal of a policy is this account: `*`, twelve digits, or `arn:aws:iam::<account>:root`.
fn names_account(name: &str, account: TenantId) -> Match {
    if name == "*" {
        return Match::Yes;
    }
    let Some(rest) = name.strip_prefix("arn:aws:iam::") else {
        return if name.parse() == Ok(account) {
            Match::Yes
        } else {
            Match::No
        };
    };
    let (digits, who) = rest.split_once(':').unwrap_or((rest, ""));
    match (digits.parse() == Ok(account), who) {
        (true, "root") => Match::Yes,
        (true, _) => Match::Unknown,
        (false, _) => Match::No,
    }
}

/// Whether one of the patterns fits, or none of the excluded ones. A statement without patterns fits everything of its
/// kind: a queue's policy is about that queue.
fn any_or_none(
    patterns: Option<&OneOrMany<String>>,
    excluded: Option<&OneOrMany<String>>,
    fits: impl Fn(&String) -> bool,
) -> bool {
    match (patterns, excluded) {
        (Some(patterns), _) => patterns.as_slice().iter().any(fits),
        (None, Some(excluded)) => !excluded.as_slice().iter().any(fits),
        (None, None) => true,
    }
}

/// Whether a text fits a pattern in which `*` is any text and `?` any one character. Linear in both lengths but for
/// the last `*`, which is tried at each place.
fn is_like(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[t] => {
                p += 1;
                t += 1;
            }
            Some(_) | None => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, t) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:sqs:us-east-1:111111111111:q";

    fn check(statements: &str, account: &str, action: &str, expected: Decision) {
        let policy =
            Policy::parse(&format!(r#"{{"Version":"2012-10-17","Statement":{statements}}}"#)).unwrap();
        let decision = policy.decide(account.parse().unwrap(), action, ARN);
        assert_eq!(decision, expected, "{statements} {account} {action}");
    }

    #[test]
    fn a_statement_allows_what_it_names_and_nothing_else() {
        let one = r#"{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::222222222222:root"},"Action":"SQS:SendMessage","Resource":"arn:aws:sqs:us-east-1:111111111111:q"}"#;
        check(one, "222222222222", "SendMessage", Decision::Allowed);
        check(one, "222222222222", "ReceiveMessage", Decision::Silent);
        check(one, "333333333333", "SendMessage", Decision::Silent);
        let many = r#"[{"Effect":"Allow","Principal":{"AWS":["222222222222","*"]},"Action":["sqs:Send*","sqs:?eceiveMessage"],"Resource":"*"}]"#;
        check(many, "333333333333", "SendMessageBatch", Decision::Allowed);
        check(many, "333333333333", "ReceiveMessage", Decision::Allowed);
        check(many, "333333333333", "DeleteMessage", Decision::Silent);
        let elsewhere = r#"{"Effect":"Allow","Principal":"*","Action":"*","Resource":"arn:aws:sqs:*:other"}"#;
        check(elsewhere, "222222222222", "SendMessage", Decision::Silent);
    }

    #[test]
    fn an_explicit_deny_wins_wherever_it_stands() {
        let deny = r#"{"Effect":"Deny","Principal":"*","Action":"sqs:DeleteMessage","Resource":"*"}"#;
        let allow = r#"{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}"#;
        for statements in [format!("[{deny},{allow}]"), format!("[{allow},{deny}]")] {
            check(&statements, "222222222222", "DeleteMessage", Decision::Denied);
            check(&statements, "222222222222", "SendMessage", Decision::Allowed);
        }
        let others = r#"{"Effect":"Deny","NotPrincipal":{"AWS":"222222222222"},"NotAction":"sqs:SendMessage","Resource":"*"}"#;
        check(others, "222222222222", "DeleteMessage", Decision::Silent);
        check(others, "333333333333", "DeleteMessage", Decision::Denied);
        check(others, "333333333333", "SendMessage", Decision::Silent);
    }

    #[test]
    fn what_cannot_be_decided_never_allows_and_always_denies() {
        for who in [
            r#""Principal":{"AWS":"arn:aws:iam::222222222222:user/u"}"#,
            r#""Principal":"*","Condition":{"Bool":{"aws:SecureTransport":"true"}}"#,
        ] {
            let statement =
                |effect: &str| format!(r#"{{"Effect":"{effect}",{who},"Action":"sqs:*","Resource":"*"}}"#);
            check(
                &statement("Allow"),
                "222222222222",
                "SendMessage",
                Decision::Silent,
            );
            check(
                &statement("Deny"),
                "222222222222",
                "SendMessage",
                Decision::Denied,
            );
        }
        let service = r#"{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Action":"sqs:*","Resource":"*"}"#;
        check(service, "222222222222", "SendMessage", Decision::Silent);
    }

    #[test]
    fn a_text_that_is_no_policy_is_an_error() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"Statement":"x"}"#,
            r#"{"Statement":[{"Effect":"Maybe"}]}"#,
            "{\"Statement\":",
        ] {
            assert!(Policy::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn patterns_take_stars_and_question_marks() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxb", true),
            ("*a*b", "xxaxxbx", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(is_like(pattern, text), fits, "{pattern} {text}");
        }
    }
}
