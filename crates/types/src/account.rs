//! A tenant: the 12-digit account that owns queues.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ParseError;

/// A 12-digit account. Every queue belongs to exactly one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TenantId(u64);

impl TenantId {
    /// The account of `--dev`: twelve zeros.
    pub const DEV: Self = Self(0);
    const DIGITS: usize = 12;

    /// Returns the account as a number, for stored keys.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl FromStr for TenantId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.len() == Self::DIGITS && text.bytes().all(|b| b.is_ascii_digit()) {
            text.parse()
                .map(Self)
                .map_err(|_| ParseError::new("12-digit account", text))
        } else {
            Err(ParseError::new("12-digit account", text))
        }
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012}", self.0)
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_digits_and_nothing_else() {
        for (text, valid) in [
            ("000000000000", true),
            ("123456789012", true),
            ("12345678901", false),
            ("1234567890123", false),
            ("12345678901a", false),
            ("+12345678901", false),
            ("", false),
        ] {
            let parsed = text.parse::<TenantId>();
            assert_eq!(parsed.is_ok(), valid, "{text:?}");
            if let Ok(tenant) = parsed {
                assert_eq!(tenant.to_string(), text);
            }
        }
    }
}
