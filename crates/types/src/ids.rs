//! Numbers that must not be mixed up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ParseError;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(transparent)]
        pub struct $name(pub $int);

        impl $name {
            /// Returns the number that follows this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// One incarnation of a queue: a queue that is deleted and created again has a new id. 0 means none.
    QueueId(u64)
}
number! {
    /// The place of a message among all that its queue ever held; also the SequenceNumber of FIFO queues.
    Sequence(u64)
}
number! {
    /// Proof of one particular receive: grows with each, so an older one is told from the current one.
    LeaseToken(u64)
}
number! {
    /// Where a message's header lies in the slab.
    Slot(u32)
}
number! {
    /// The place of an entry in the journal; the first entry has index 1.
    LogIndex(u64)
}
number! {
    /// A Raft term; 0 on a single node.
    Term(u64)
}
number! {
    /// A node of a cluster; 0 on a single node.
    NodeId(u64)
}
number! {
    /// A unit of order and placement.
    PartitionId(u32)
}

/// A message id: a UUID.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessageId([u8; 16]);

impl MessageId {
    /// Makes a version 4 UUID of 16 random bytes.
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    /// Takes the bytes as they were stored.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to store.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns the 36 characters of the UUID.
    pub fn to_text(self) -> [u8; 36] {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; 36];
        let mut at = 0;
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                at += 1;
            }
            text[at] = HEX[usize::from(byte >> 4)];
            text[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
        }
        text
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_text()
            .iter()
            .try_for_each(|&byte| fmt::Write::write_char(f, char::from(byte)))
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MessageId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new("message id", text);
        if text.len() != 36 || !text.is_ascii() {
            return Err(error());
        }
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let number = u128::from_str_radix(&digits, 16).map_err(|_| error())?;
        let id = Self(number.to_be_bytes());
        if id.to_string() == text.to_ascii_lowercase() {
            Ok(id)
        } else {
            Err(error())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_id_prints_as_a_version_4_uuid_and_parses_back() {
        let id = MessageId::from_random([0xff; 16]);
        assert_eq!(id.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(id.to_string().parse::<MessageId>().unwrap(), id);
        for wrong in [
            "",
            "ffffffff-ffff-4fff-bfff-fffffffffff",
            "ffffffffffff-4fff-bfff--ffffffffffff-",
        ] {
            assert!(wrong.parse::<MessageId>().is_err(), "{wrong:?}");
        }
    }
}
