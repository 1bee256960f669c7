//! The secret that all nodes of a cluster share.

use std::fmt;

use zeroize::Zeroizing;

/// Below this many bytes a secret can be guessed by trying.
const SHORT_BELOW_BYTES: usize = 32;

/// A shared secret. It cannot be printed, and is wiped from memory when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes; `None` if there are none.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = Zeroizing::new(bytes.into());
        (!bytes.is_empty()).then_some(Self(bytes))
    }

    /// Whether it has fewer than 32 bytes, which deserves a warning or a refusal.
    pub fn is_short(&self) -> bool {
        self.0.len() < SHORT_BELOW_BYTES
    }

    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("hunter2").unwrap();
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert!(secret.is_short());
        assert!(Secret::new("").is_none());
        assert!(!Secret::new([b'x'; 32]).unwrap().is_short());
    }
}
