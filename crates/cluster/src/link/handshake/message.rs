//! The messages of a handshake as bytes. The drawing is in `docs/formats/link.md`.

use std::io;

use bytes::{Buf, BufMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::WallTime;

use super::HandshakeError;
use crate::link::limits::{HANDSHAKE_BYTES_MAX, VERSIONS};
use crate::link::network::BoxStream;
use crate::link::{ClusterId, NodeId, Reason};

pub(super) const MAGIC: [u8; 4] = *b"HFLK";

/// Magic, kind, length.
const HEADER_BYTES: usize = 7;

/// How a TLS session begins: a record of kind handshake.
const TLS_RECORD: [u8; 2] = [0x16, 3];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Hello,
    Challenge,
    Proof,
    Accept,
    Refuse,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Challenge => 2,
            Self::Proof => 3,
            Self::Accept => 4,
            Self::Refuse => 5,
        }
    }
}

/// A message: all its bytes, its header included.
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new(kind: Kind, payload: &[u8]) -> Self {
        let length = u16::try_from(payload.len()).expect("a handshake message is short");
        let mut bytes = MAGIC.to_vec();
        bytes.put_u8(kind.code());
        bytes.put_u16_le(length);
        bytes.put_slice(payload);
        Self(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.0[HEADER_BYTES..]
    }

    pub(super) async fn write(&self, stream: &mut BoxStream) -> io::Result<()> {
        stream.write_all(&self.0).await?;
        stream.flush().await
    }

    /// Reads the message that is due, or the refusal that came in its place. `begun` are bytes that were read already.
    pub(super) async fn read(
        stream: &mut BoxStream,
        due: Kind,
        begun: &[u8],
    ) -> Result<Self, HandshakeError> {
        let mut header = [0; HEADER_BYTES];
        header[..begun.len()].copy_from_slice(begun);
        stream.read_exact(&mut header[begun.len()..]).await?;
        if header[..4] != MAGIC {
            let is_tls = header.starts_with(&TLS_RECORD);
            let reason = if is_tls {
                Reason::OtherSecurity
            } else {
                Reason::Malformed
            };
            return Err(HandshakeError::Here(reason));
        }
        let length = usize::from(u16::from_le_bytes([header[5], header[6]]));
        if length > HANDSHAKE_BYTES_MAX - HEADER_BYTES {
            return Err(HandshakeError::Here(Reason::Malformed));
        }
        let mut bytes = header.to_vec();
        bytes.resize(HEADER_BYTES + length, 0);
        stream.read_exact(&mut bytes[HEADER_BYTES..]).await?;
        let message = Self(bytes);
        if header[4] == Kind::Refuse.code() {
            let reason = message.payload().first().copied().and_then(Reason::from_code);
            return Err(HandshakeError::ByPeer(reason.unwrap_or(Reason::Malformed)));
        }
        if header[4] != due.code() {
            return Err(HandshakeError::Here(Reason::Malformed));
        }
        Ok(message)
    }
}

/// Tells the other end why, as far as it still listens, and returns the error.
pub(super) async fn refuse(stream: &mut BoxStream, reason: Reason) -> HandshakeError {
    let (min, max) = VERSIONS;
    let refusal = Message::new(Kind::Refuse, &[reason.code(), min, max]);
    match refusal.write(stream).await {
        Ok(()) => HandshakeError::Here(reason),
        Err(error) => {
            tracing::debug!(%error, %reason, "the peer went before it heard why it is refused");
            HandshakeError::Here(reason)
        }
    }
}

/// Who somebody says to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Introduction {
    pub(super) level: u32,
    pub(super) cluster: Option<ClusterId>,
    pub(super) node: NodeId,
    pub(super) wall: WallTime,
    pub(super) nonce: [u8; 32],
    pub(super) address: String,
}

impl Introduction {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.level);
        out.put_slice(&self.cluster.map_or([0; 16], |cluster| *cluster.as_bytes()));
        out.put_u64_le(self.node.as_u64());
        out.put_u64_le(self.wall.as_millis());
        out.put_slice(&self.nonce);
        out.put_u8(u8::try_from(self.address.len()).expect("checked when the links start"));
        out.put_slice(self.address.as_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let level = bytes.try_get_u32_le().ok()?;
        let cluster = ClusterId::new(take(bytes)?);
        let node = NodeId::new(bytes.try_get_u64_le().ok()?)?;
        let wall = WallTime::from_millis(bytes.try_get_u64_le().ok()?);
        let nonce = take(bytes)?;
        let length = usize::from(bytes.try_get_u8().ok()?);
        let address = std::str::from_utf8(bytes.get(..length)?).ok()?.to_owned();
        bytes.advance(length);
        Some(Self {
            level,
            cluster,
            node,
            wall,
            nonce,
            address,
        })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (field, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*field)
}

/// What a dialler begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) versions: (u8, u8),
    pub(super) security: u8,
    /// The node that it wants to talk to.
    pub(super) expects: Option<NodeId>,
    pub(super) who: Introduction,
}

impl Hello {
    pub(super) fn encode(&self) -> Message {
        let mut out = vec![self.versions.0, self.versions.1, self.security];
        out.put_u64_le(self.expects.map_or(0, NodeId::as_u64));
        self.who.encode(&mut out);
        Message::new(Kind::Hello, &out)
    }

    /// Reads a hello. The range of versions comes first in every version of the protocol.
    pub(super) fn decode(message: &Message) -> Result<Self, Reason> {
        let mut bytes = message.payload();
        let [min, max] = take(&mut bytes).ok_or(Reason::Malformed)?;
        if min > VERSIONS.1 || max < VERSIONS.0 {
            return Err(Reason::OtherVersion);
        }
        let mut rest = || {
            let [security] = take(&mut bytes)?;
            let expects = NodeId::new(bytes.try_get_u64_le().ok()?);
            let who = Introduction::decode(&mut bytes)?;
            let versions = (min, max);
            bytes.is_empty().then_some(Self {
                versions,
                security,
                expects,
                who,
            })
        };
        rest().ok_or(Reason::Malformed)
    }
}

/// What an acceptor answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) version: u8,
    pub(super) security: u8,
    pub(super) who: Introduction,
}

impl Challenge {
    pub(super) fn encode(&self) -> Message {
        let mut out = vec![self.version, self.security];
        self.who.encode(&mut out);
        Message::new(Kind::Challenge, &out)
    }

    pub(super) fn decode(message: &Message) -> Result<Self, Reason> {
        let mut bytes = message.payload();
        let [version] = take(&mut bytes).ok_or(Reason::Malformed)?;
        if !(VERSIONS.0..=VERSIONS.1).contains(&version) {
            return Err(Reason::OtherVersion);
        }
        let mut rest = || {
            let [security] = take(&mut bytes)?;
            let who = Introduction::decode(&mut bytes)?;
            bytes.is_empty().then_some(Self {
                version,
                security,
                who,
            })
        };
        rest().ok_or(Reason::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn who() -> Introduction {
        Introduction {
            level: 3,
            cluster: ClusterId::new([5; 16]),
            node: NodeId::new(9).unwrap(),
            wall: WallTime::from_millis(77),
            nonce: [8; 32],
            address: "holdfast-0.holdfast:7901".to_owned(),
        }
    }

    #[test]
    fn messages_come_back() {
        let expects = NodeId::new(4);
        let hello = Hello {
            versions: (1, 3),
            security: 1,
            expects,
            who: who(),
        };
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        let challenge = Challenge {
            version: 1,
            security: 2,
            who: Introduction {
                cluster: None,
                ..who()
            },
        };
        assert_eq!(Challenge::decode(&challenge.encode()), Ok(challenge));
    }

    #[test]
    fn a_hello_of_another_version_is_told_so_whatever_follows() {
        let hello = Message::new(Kind::Hello, &[2, 9, 1, 2, 3]);
        assert_eq!(Hello::decode(&hello), Err(Reason::OtherVersion));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_refused(payload in proptest::collection::vec(any::<u8>(), 0..400)) {
            let message = Message::new(Kind::Hello, &payload);
            if let Ok(hello) = Hello::decode(&message) {
                prop_assert!(hello.encode().payload() == payload);
            }
            if let Ok(challenge) = Challenge::decode(&message) {
                prop_assert!(challenge.encode().payload() == payload);
            }
        }
    }
}
