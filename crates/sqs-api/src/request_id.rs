//! The id of a request: in its answer and in the log.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use types::MessageId;

/// The id of a request, shaped as a UUID: a random number of this process and a counter. Unique, cheap, and no
/// secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId([u8; 36]);

impl RequestId {
    /// Returns an id that no other request has.
    pub(crate) fn fresh() -> Self {
        static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
        static COUNTER: AtomicU64 = AtomicU64::new(1);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&PROCESS.to_be_bytes());
        bytes[8..].copy_from_slice(&COUNTER.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        Self(MessageId::from_random(bytes).to_text())
    }

    /// Returns the id as text.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits and hyphens")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_and_differ() {
        let (first, second) = (RequestId::fresh(), RequestId::fresh());
        assert_ne!(first, second);
        assert!(first.as_str().parse::<MessageId>().is_ok(), "{}", first.as_str());
    }
}
