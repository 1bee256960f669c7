//! The region of a server and the ARN of a queue.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{ParseError, QueueKey};

/// The region that a server answers for, such as `us-east-1`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Region(Box<str>);

impl Region {
    /// Returns the region as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Region {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if !text.is_empty() && text.len() <= 32 && text.bytes().all(is_word) {
            Ok(Self(text.into()))
        } else {
            Err(ParseError::new("region", text))
        }
    }
}

impl TryFrom<String> for Region {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

impl From<Region> for String {
    fn from(region: Region) -> Self {
        region.0.into()
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The ARN of a queue: `arn:aws:sqs:<region>:<account>:<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueueArn {
    /// The region named in the ARN.
    pub region: Region,
    /// The queue it names.
    pub key: QueueKey,
}

impl FromStr for QueueArn {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new("queue ARN", text);
        let rest = text.strip_prefix("arn:aws:sqs:").ok_or_else(error)?;
        let (region, rest) = rest.split_once(':').ok_or_else(error)?;
        let (tenant, name) = rest.split_once(':').ok_or_else(error)?;
        Ok(Self {
            region: region.parse().map_err(|_| error())?,
            key: QueueKey {
                tenant: tenant.parse().map_err(|_| error())?,
                name: name.parse().map_err(|_| error())?,
            },
        })
    }
}

impl fmt::Display for QueueArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "arn:aws:sqs:{}:{}:{}",
            self.region, self.key.tenant, self.key.name
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_round_trips_and_a_wrong_one_is_refused() {
        let text = "arn:aws:sqs:eu-west-1:123456789012:orders.fifo";
        assert_eq!(text.parse::<QueueArn>().unwrap().to_string(), text);
        for wrong in [
            "",
            "arn:aws:sns:eu-west-1:123456789012:orders",
            "arn:aws:sqs::123456789012:orders",
            "arn:aws:sqs:eu-west-1:12345:orders",
            "arn:aws:sqs:eu-west-1:123456789012:or/ders",
            "arn:aws:sqs:eu-west-1:123456789012",
        ] {
            assert!(wrong.parse::<QueueArn>().is_err(), "{wrong:?}");
        }
    }
}
