//! Queue names, and the pair of tenant and name under which a queue is found.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{ParseError, TenantId, limits};

/// A queue name as SQS allows it: 1 to 80 letters, digits, hyphens or underscores; a FIFO queue's ends in `.fifo`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QueueName(Box<str>);

impl QueueName {
    /// The suffix that every FIFO queue has and no standard queue may have.
    pub const FIFO_SUFFIX: &'static str = ".fifo";

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name is that of a FIFO queue.
    pub fn is_fifo(&self) -> bool {
        self.0.ends_with(Self::FIFO_SUFFIX)
    }
}

impl FromStr for QueueName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let stem = text.strip_suffix(Self::FIFO_SUFFIX).unwrap_or(text);
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if !stem.is_empty() && text.len() <= limits::QUEUE_NAME_BYTES_MAX && stem.bytes().all(is_word) {
            Ok(Self(text.into()))
        } else {
            Err(ParseError::new("queue name", text))
        }
    }
}

impl TryFrom<String> for QueueName {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

impl From<QueueName> for String {
    fn from(name: QueueName) -> Self {
        name.0.into()
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a queue is found by: its tenant and its name. No function takes a name without its tenant.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QueueKey {
    /// The owner of the queue.
    pub tenant: TenantId,
    /// The queue's name within the tenant.
    pub name: QueueName,
}

impl fmt::Display for QueueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.name)
    }
}

impl fmt::Debug for QueueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_sqs() {
        let longest = "a".repeat(80);
        let too_long = "a".repeat(81);
        let longest_fifo = format!("{}.fifo", "a".repeat(75));
        let too_long_fifo = format!("{}.fifo", "a".repeat(76));
        for (text, valid, fifo) in [
            ("q", true, false),
            ("My-Queue_1", true, false),
            ("q.fifo", true, true),
            (longest.as_str(), true, false),
            (longest_fifo.as_str(), true, true),
            (too_long.as_str(), false, false),
            (too_long_fifo.as_str(), false, false),
            (".fifo", false, false),
            ("", false, false),
            ("a.b", false, false),
            ("a/b", false, false),
            ("ä", false, false),
            ("a.fifo.fifo", false, false),
        ] {
            let parsed = text.parse::<QueueName>();
            assert_eq!(parsed.is_ok(), valid, "{text:?}");
            if let Ok(name) = parsed {
                assert_eq!((name.as_str(), name.is_fifo()), (text, fifo));
            }
        }
    }
}
