//! Access keys and their secrets. A secret cannot be printed and is wiped from memory when dropped.

use std::fmt;

use types::TenantId;
use zeroize::Zeroizing;

/// A text that cannot be printed: its `Debug` is redacted, and it has no `Display`.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text, for the one place that signs with it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// An access key of a tenant.
#[derive(Debug, Clone)]
pub struct Key {
    /// The account that requests signed with this key act for.
    pub tenant: TenantId,
    /// The public half of the key.
    pub access_key_id: String,
    /// The private half of the key.
    pub secret: Secret,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        let key = Key {
            tenant: TenantId::DEV,
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret: Secret::new("hunter2"),
        };
        for printed in [format!("{key:?}"), format!("{key:#?}")] {
            assert!(!printed.contains("hunter2"), "{printed}");
            assert!(printed.contains("AKIDEXAMPLE"), "{printed}");
        }
    }
}
