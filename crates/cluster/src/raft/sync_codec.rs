//! The sent form of a whole state that goes to a node that is far behind. Drawn in `docs/formats/sync.md`.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::codec::{
    CodecError, Result, VERSION, end, maybe_log_id, membership, put_maybe_log_id, put_membership, put_vote,
    version, vote,
};
use super::types::{SnapshotMeta, StoredMembership, Vote};

const TAKEN: u8 = 0;
const VOTE: u8 = 1;
const FROM: u8 = 2;

/// The beginning: whose state it is, what it stands for, and how the state, without contents, can be told from any other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyncBegin {
    pub(crate) vote: Vote,
    pub(crate) meta: SnapshotMeta,
    pub(crate) state_bytes: u64,
    pub(crate) state_crc: u32,
}

/// Which state a part belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SyncKey {
    /// The last entry in it, as Raft counts.
    pub(crate) index: u64,
    pub(crate) state_crc: u32,
}

/// A part of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SyncPart {
    /// Bytes of the state from an offset on.
    State { offset: u64, bytes: Bytes },
    /// Contents in the stored form of copies, and the slot to go on with.
    Contents { next: u64, copies: Bytes },
    /// All of it was sent, with so many contents.
    End { contents: u64 },
}

/// What the receiver says to a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncAnswer {
    /// It has it.
    Taken,
    /// It needs no more: the state is its own now, or the vote is higher than the sender's.
    Vote(Vote),
    /// It needs the state from this offset on, then the contents from this slot on.
    From { state_bytes: u64, next: u64 },
}

impl SyncBegin {
    pub(crate) fn encode(&self) -> Bytes {
        let mut to = BytesMut::new();
        to.put_u8(VERSION);
        put_vote(&mut to, self.vote);
        put_maybe_log_id(&mut to, self.meta.last_log_id);
        put_maybe_log_id(&mut to, *self.meta.last_membership.log_id());
        put_membership(&mut to, self.meta.last_membership.membership());
        to.put_u64_le(self.state_bytes);
        to.put_u32_le(self.state_crc);
        to.freeze()
    }

    pub(crate) fn decode(mut from: Bytes) -> Result<Self> {
        version(&mut from)?;
        let vote = vote(&mut from)?;
        let last_log_id = maybe_log_id(&mut from)?;
        let at = maybe_log_id(&mut from)?;
        let last_membership = StoredMembership::new(at, membership(&mut from)?);
        let begin = Self {
            vote,
            meta: SnapshotMeta {
                last_log_id,
                last_membership,
            },
            state_bytes: from.try_get_u64_le()?,
            state_crc: from.try_get_u32_le()?,
        };
        end(&from)?;
        Ok(begin)
    }

    /// Returns what the parts of this state are marked with; none if it stands for no entry.
    pub(crate) fn key(&self) -> Option<SyncKey> {
        let last = self.meta.last_log_id?;
        Some(SyncKey {
            index: last.index,
            state_crc: self.state_crc,
        })
    }
}

/// The number before the part, and the tag of its kind.
const STATE_PART: u8 = 0;
const CONTENTS_PART: u8 = 1;
const END_PART: u8 = 2;

impl SyncPart {
    pub(crate) fn encode(&self, key: SyncKey) -> Bytes {
        let mut to = BytesMut::new();
        to.put_u8(VERSION);
        to.put_u64_le(key.index);
        to.put_u32_le(key.state_crc);
        let (tag, number, rest) = match self {
            Self::State { offset, bytes } => (STATE_PART, *offset, &bytes[..]),
            Self::Contents { next, copies } => (CONTENTS_PART, *next, &copies[..]),
            Self::End { contents } => (END_PART, *contents, &[][..]),
        };
        to.put_u8(tag);
        to.put_u64_le(number);
        to.put_slice(rest);
        to.freeze()
    }

    pub(crate) fn decode(mut from: Bytes) -> Result<(SyncKey, Self)> {
        version(&mut from)?;
        let key = SyncKey {
            index: from.try_get_u64_le()?,
            state_crc: from.try_get_u32_le()?,
        };
        let tag = from.try_get_u8()?;
        let number = from.try_get_u64_le()?;
        let part = match tag {
            STATE_PART => Self::State {
                offset: number,
                bytes: from,
            },
            CONTENTS_PART => Self::Contents {
                next: number,
                copies: from,
            },
            END_PART => {
                end(&from)?;
                Self::End { contents: number }
            }
            _ => return Err(CodecError::Invalid("the kind of a part")),
        };
        Ok((key, part))
    }
}

impl SyncAnswer {
    pub(crate) fn encode(self) -> Bytes {
        let mut to = BytesMut::new();
        to.put_u8(VERSION);
        match self {
            Self::Taken => to.put_u8(TAKEN),
            Self::Vote(voted) => {
                to.put_u8(VOTE);
                put_vote(&mut to, voted);
            }
            Self::From { state_bytes, next } => {
                to.put_u8(FROM);
                to.put_u64_le(state_bytes);
                to.put_u64_le(next);
            }
        }
        to.freeze()
    }

    pub(crate) fn decode(mut from: Bytes) -> Result<Self> {
        version(&mut from)?;
        let answer = match from.try_get_u8()? {
            TAKEN => Self::Taken,
            VOTE => Self::Vote(vote(&mut from)?),
            FROM => Self::From {
                state_bytes: from.try_get_u64_le()?,
                next: from.try_get_u64_le()?,
            },
            _ => return Err(CodecError::Invalid("an answer to a part of a state")),
        };
        end(&from)?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::types::{LeaderId, LogId, Member, Membership};
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::fmt::Debug;

    /// What was encoded comes back, and no cut of it does.
    fn check<T: Debug + PartialEq>(
        bytes: &Bytes,
        expected: &T,
        decode: impl Fn(Bytes) -> Result<T>,
        least: usize,
    ) {
        assert_eq!(decode(bytes.clone()).as_ref(), Ok(expected));
        for length in 0..least {
            assert!(
                decode(bytes.slice(..length)).is_err(),
                "{length} of {} bytes",
                bytes.len()
            );
        }
        let mut other = BytesMut::from(&bytes[..]);
        other[0] = 9;
        assert_eq!(decode(other.freeze()), Err(CodecError::Version(9)));
    }

    #[test]
    fn parts_and_answers_are_understood_whole_or_not_at_all() {
        let leader_id = LeaderId { term: 3, node_id: 2 };
        let vote = Vote {
            leader_id,
            committed: true,
        };
        let id = LogId { leader_id, index: 8 };
        let address = "a:7901".to_owned();
        let members = Membership::new(
            vec![BTreeSet::from([1])],
            BTreeMap::from([(1, Member { address })]),
        );
        let begin = SyncBegin {
            vote,
            meta: SnapshotMeta {
                last_log_id: Some(id),
                last_membership: StoredMembership::new(Some(id), members.unwrap()),
            },
            state_bytes: 1 << 40,
            state_crc: 7,
        };
        let bytes = begin.encode();
        check(&bytes, &begin, SyncBegin::decode, bytes.len());
        let key = begin.key().unwrap();
        let bytes = Bytes::from_static(b"bytes");
        for (part, open) in [
            (
                SyncPart::State {
                    offset: 1 << 33,
                    bytes: bytes.clone(),
                },
                5,
            ),
            (
                SyncPart::Contents {
                    next: 1 << 32,
                    copies: bytes,
                },
                5,
            ),
            (SyncPart::End { contents: 5 }, 0),
        ] {
            let bytes = part.encode(key);
            check(&bytes, &(key, part), SyncPart::decode, bytes.len() - open);
        }
        for answer in [
            SyncAnswer::Taken,
            SyncAnswer::Vote(vote),
            SyncAnswer::From {
                state_bytes: 1,
                next: 1 << 32,
            },
        ] {
            let bytes = answer.encode();
            check(&bytes, &answer, SyncAnswer::decode, bytes.len());
        }
    }
}
