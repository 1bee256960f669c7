//! What nodes ask each other beside Raft's own messages: who is there, and to become one of them. Little-endian; drawings in
//! `docs/formats/raft.md`.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::raft::codec::{ADDRESS_BYTES_MAX, CodecError, NODES_MAX};
use crate::raft::network::Kind;

const VERSION: u8 = 1;

/// Requests by number. Those below 256 are also for nodes that have no cluster yet.
pub(crate) const DISCOVER: u16 = 1;
pub(crate) const ADOPT: u16 = 2;
pub(crate) const FORWARD: u16 = 272;
pub(crate) const TELL: u16 = 273;
pub(crate) const COMPARE: u16 = 274;
pub(crate) const ROOM: u16 = 275;
pub(crate) const STATUS: u16 = 276;
pub(crate) const JOIN: u16 = 288;
pub(crate) const CHANGE: u16 = 289;

/// Returns the number of one of Raft's requests.
pub(crate) fn number(kind: Kind) -> u16 {
    match kind {
        Kind::Append => 256,
        Kind::Vote => 257,
        Kind::PreVote => 258,
        Kind::TransferLeader => 259,
        Kind::SyncBegin => 260,
        Kind::SyncPart => 261,
    }
}

/// Returns the request of Raft that has this number.
pub(crate) fn kind(number: u16) -> Option<Kind> {
    Some(match number {
        256 => Kind::Append,
        257 => Kind::Vote,
        258 => Kind::PreVote,
        259 => Kind::TransferLeader,
        260 => Kind::SyncBegin,
        261 => Kind::SyncPart,
        _ => return None,
    })
}

/// A node by its random id, and where it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) node: u64,
    pub(crate) address: String,
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// It belongs to no cluster.
    Fresh { node: u64 },
    /// It belongs to this one.
    Member { cluster: [u8; 16] },
}

/// A cluster that is being formed: its id and all its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Founding {
    pub(crate) cluster: [u8; 16],
    pub(crate) nodes: Vec<Place>,
}

/// What became of a wish to join, or to be adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// Somebody else leads: ask there, if it is known.
    Elsewhere(Option<String>),
    Refused(String),
}

type Result<T> = std::result::Result<T, CodecError>;

pub(crate) fn begin() -> BytesMut {
    let mut to = BytesMut::new();
    to.put_u8(VERSION);
    to
}

pub(crate) fn check_version(from: &mut Bytes) -> Result<()> {
    match from.try_get_u8()? {
        VERSION => Ok(()),
        other => Err(CodecError::Version(other)),
    }
}

pub(crate) fn check_end(from: &Bytes) -> Result<()> {
    if from.has_remaining() {
        return Err(CodecError::Invalid("what follows the message"));
    }
    Ok(())
}

pub(crate) fn put_text(to: &mut BytesMut, text: &str) {
    let mut end = text.len().min(ADDRESS_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    to.put_u16_le(u16::try_from(end).unwrap_or(0));
    to.put_slice(&text.as_bytes()[..end]);
}

pub(crate) fn text(from: &mut Bytes) -> Result<String> {
    let len = usize::from(from.try_get_u16_le()?);
    if len > ADDRESS_BYTES_MAX {
        return Err(CodecError::Invalid("the length of a text"));
    }
    if from.remaining() < len {
        return Err(CodecError::Short);
    }
    let bytes = from.split_to(len);
    String::from_utf8(bytes.into()).map_err(|_| CodecError::Invalid("a text"))
}

fn cluster(from: &mut Bytes) -> Result<[u8; 16]> {
    let mut id = [0; 16];
    from.try_copy_to_slice(&mut id)?;
    Ok(id)
}

fn put_place(to: &mut BytesMut, place: &Place) {
    to.put_u64_le(place.node);
    put_text(to, &place.address);
}

fn place(from: &mut Bytes) -> Result<Place> {
    Ok(Place {
        node: from.try_get_u64_le()?,
        address: text(from)?,
    })
}

impl Place {
    pub(crate) fn encode(&self) -> Bytes {
        let mut to = begin();
        put_place(&mut to, self);
        to.freeze()
    }

    pub(crate) fn decode(mut from: Bytes) -> Result<Self> {
        check_version(&mut from)?;
        let found = place(&mut from)?;
        check_end(&from)?;
        Ok(found)
    }
}

impl Found {
    pub(crate) fn encode(&self) -> Bytes {
        let mut to = begin();
        match self {
            Self::Fresh { node } => {
                to.put_u8(0);
                to.put_u64_le(*node);
            }
            Self::Member { cluster } => {
                to.put_u8(1);
                to.put_slice(cluster);
            }
        }
        to.freeze()
    }

    pub(crate) fn decode(mut from: Bytes) -> Result<Self> {
        check_version(&mut from)?;
        let found = match from.try_get_u8()? {
            0 => Self::Fresh {
                node: from.try_get_u64_le()?,
            },
            1 => Self::Member {
                cluster: cluster(&mut from)?,
            },
            _ => return Err(CodecError::Invalid("what a node says of itself")),
        };
        check_end(&from)?;
        Ok(found)
    }
}

impl Founding {
    pub(crate) fn encode(&self) -> Bytes {
        let mut to = begin();
        to.put_slice(&self.cluster);
        to.put_u8(u8::try_from(self.nodes.len()).unwrap_or(0));
        self.nodes.iter().for_each(|place| put_place(&mut to, place));
        to.freeze()
    }

    pub(crate) fn decode(mut from: Bytes) -> Result<Self> {
        check_version(&mut from)?;
        let cluster = cluster(&mut from)?;
        let count = usize::from(from.try_get_u8()?);
        if count > NODES_MAX {
            return Err(CodecError::Invalid("the number of nodes"));
        }
        let nodes = (0..count).map(|_| place(&mut from)).collect::<Result<_>>()?;
        check_end(&from)?;
        Ok(Self { cluster, nodes })
    }
}

impl Answer {
    pub(crate) fn encode(&self) -> Bytes {
        let mut to = begin();
        match self {
            Self::Done => to.put_u8(0),
            Self::Elsewhere(None) => to.put_u8(1),
            Self::Elsewhere(Some(address)) => {
                to.put_u8(2);
                put_text(&mut to, address);
            }
            Self::Refused(reason) => {
                to.put_u8(3);
                put_text(&mut to, reason);
            }
        }
        to.freeze()
    }

    pub(crate) fn decode(mut from: Bytes) -> Result<Self> {
        check_version(&mut from)?;
        let answer = match from.try_get_u8()? {
            0 => Self::Done,
            1 => Self::Elsewhere(None),
            2 => Self::Elsewhere(Some(text(&mut from)?)),
            3 => Self::Refused(text(&mut from)?),
            _ => return Err(CodecError::Invalid("an answer")),
        };
        check_end(&from)?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood_and_nothing_that_is_cut_short() {
        let place = |node, address: &str| Place {
            node,
            address: address.to_owned(),
        };
        let founding = Founding {
            cluster: [7; 16],
            nodes: vec![place(1, "a:7901"), place(u64::MAX, "b:7901")],
        };
        assert_eq!(Founding::decode(founding.encode()), Ok(founding.clone()));
        let founding = founding.encode();
        for end in 0..founding.len() {
            assert!(Founding::decode(founding.slice(..end)).is_err(), "{end}");
        }
        for found in [Found::Fresh { node: 3 }, Found::Member { cluster: [9; 16] }] {
            assert_eq!(Found::decode(found.encode()), Ok(found));
        }
        for answer in [
            Answer::Done,
            Answer::Elsewhere(None),
            Answer::Elsewhere(Some("c:7901".to_owned())),
            Answer::Refused("no".to_owned()),
        ] {
            assert_eq!(Answer::decode(answer.encode()), Ok(answer));
        }
        assert_eq!(Place::decode(place(5, "é").encode()), Ok(place(5, "é")));
        assert!(Place::decode(Bytes::from_static(&[2])).is_err());
    }
}
