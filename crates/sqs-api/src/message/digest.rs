//! Digests and ids as the texts that answers show.

use md5::{Digest, Md5};
use serde::{Serialize, Serializer};
use types::MessageId;

/// An MD5 digest as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HexDigest([u8; 32]);

impl HexDigest {
    /// Takes the digest's bytes.
    pub(crate) fn of_md5(bytes: &[u8; 16]) -> Self {
        let mut text = [0; 32];
        write_hex(bytes, &mut text);
        Self(text)
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits")
    }
}

impl Serialize for HexDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A message id as the 36 characters of a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UuidText([u8; 36]);

impl From<MessageId> for UuidText {
    fn from(id: MessageId) -> Self {
        Self(id.to_text())
    }
}

impl Serialize for UuidText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.0).expect("hexadecimal digits and hyphens"))
    }
}

/// Returns the MD5 of a text.
pub(crate) fn md5(text: &[u8]) -> [u8; 16] {
    Md5::digest(text).into()
}

/// Returns a SHA-256 digest as 64 hexadecimal digits.
pub(crate) fn sha256_hex(digest: &[u8; 32]) -> String {
    let mut text = vec![0; 64];
    write_hex(digest, &mut text);
    String::from_utf8(text).expect("hexadecimal digits")
}

fn write_hex(bytes: &[u8], out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_print_as_hexadecimal() {
        let digest = HexDigest::of_md5(&md5(b"hello"));
        assert_eq!(digest.as_str(), "5d41402abc4b2a76b9719d911017c592");
        let mut bytes = [0; 32];
        bytes[31] = 0xaf;
        assert_eq!(sha256_hex(&bytes), format!("{}af", "0".repeat(62)));
    }
}
