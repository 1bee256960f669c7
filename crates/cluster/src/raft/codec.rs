//! The stored and sent form of what Raft says: votes, memberships, entries, requests. Little-endian; drawings in
//! `docs/formats/raft.md`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};

use super::types::{
    Batch, Entry, LeaderId, LogId, Member, Membership, Payload, StoredMembership, Types, Vote,
};

/// The only version so far of everything here.
pub(super) const VERSION: u8 = 1;
/// Most nodes of a membership: far more than anybody runs, and a bound for what a message can make us allocate.
pub(crate) const NODES_MAX: usize = 128;
/// Longest address of a node.
pub(crate) const ADDRESS_BYTES_MAX: usize = 512;

const BLANK: u8 = 0;
const COMMANDS: u8 = 1;
const MEMBERSHIP: u8 = 2;

/// Bytes that do not say what they should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodecError {
    #[error("the message ends early")]
    Short,
    #[error("version {0} is not known")]
    Version(u8),
    #[error("{0} is not valid")]
    Invalid(&'static str),
}

impl From<bytes::TryGetError> for CodecError {
    fn from(_: bytes::TryGetError) -> Self {
        Self::Short
    }
}

impl From<CodecError> for std::io::Error {
    fn from(error: CodecError) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, error)
    }
}

pub(super) type Result<T> = std::result::Result<T, CodecError>;

fn flag(from: &mut impl Buf) -> Result<bool> {
    match from.try_get_u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(CodecError::Invalid("a flag")),
    }
}

pub(super) fn version(from: &mut impl Buf) -> Result<()> {
    match from.try_get_u8()? {
        VERSION => Ok(()),
        other => Err(CodecError::Version(other)),
    }
}

/// Refuses what follows the end.
pub(super) fn end(from: &impl Buf) -> Result<()> {
    if from.has_remaining() {
        return Err(CodecError::Invalid("what follows the message"));
    }
    Ok(())
}

fn put_leader(to: &mut impl BufMut, leader: LeaderId) {
    to.put_u64_le(leader.term);
    to.put_u64_le(leader.node_id);
}

fn leader(from: &mut impl Buf) -> Result<LeaderId> {
    Ok(LeaderId {
        term: from.try_get_u64_le()?,
        node_id: from.try_get_u64_le()?,
    })
}

fn put_log_id(to: &mut impl BufMut, id: LogId) {
    put_leader(to, id.leader_id);
    to.put_u64_le(id.index);
}

fn get_log_id(from: &mut impl Buf) -> Result<LogId> {
    Ok(LogId {
        leader_id: leader(from)?,
        index: from.try_get_u64_le()?,
    })
}

pub(super) fn put_maybe_log_id(to: &mut impl BufMut, id: Option<LogId>) {
    to.put_u8(u8::from(id.is_some()));
    if let Some(id) = id {
        put_log_id(to, id);
    }
}

pub(super) fn maybe_log_id(from: &mut impl Buf) -> Result<Option<LogId>> {
    flag(from)?.then(|| get_log_id(from)).transpose()
}

pub(super) fn put_vote(to: &mut impl BufMut, vote: Vote) {
    put_leader(to, vote.leader_id);
    to.put_u8(u8::from(vote.committed));
}

pub(super) fn vote(from: &mut impl Buf) -> Result<Vote> {
    Ok(Vote {
        leader_id: leader(from)?,
        committed: flag(from)?,
    })
}

pub(super) fn put_membership(to: &mut impl BufMut, membership: &Membership) {
    let configs = membership.get_joint_config();
    to.put_u8(count(configs.len()));
    for config in configs {
        to.put_u8(count(config.len()));
        config.iter().for_each(|node| to.put_u64_le(*node));
    }
    let nodes: Vec<_> = membership.nodes().collect();
    to.put_u8(count(nodes.len()));
    for (id, member) in nodes {
        to.put_u64_le(*id);
        let address = member.address.as_bytes();
        to.put_u16_le(u16::try_from(address.len()).unwrap_or(0));
        to.put_slice(address);
    }
}

/// A membership is checked before it is proposed, so its parts are few.
fn count(len: usize) -> u8 {
    u8::try_from(len).expect("a membership has few nodes")
}

pub(super) fn membership(from: &mut impl Buf) -> Result<Membership> {
    let mut configs = Vec::new();
    for _ in 0..from.try_get_u8()? {
        let mut config = BTreeSet::new();
        for _ in 0..from.try_get_u8()? {
            config.insert(from.try_get_u64_le()?);
        }
        configs.push(config);
    }
    let mut nodes = BTreeMap::new();
    let nodes_len = usize::from(from.try_get_u8()?);
    if nodes_len > NODES_MAX {
        return Err(CodecError::Invalid("the number of nodes"));
    }
    for _ in 0..nodes_len {
        let id = from.try_get_u64_le()?;
        let len = usize::from(from.try_get_u16_le()?);
        if len > ADDRESS_BYTES_MAX {
            return Err(CodecError::Invalid("the length of an address"));
        }
        let mut address = vec![0; len];
        from.try_copy_to_slice(&mut address)?;
        let address = String::from_utf8(address).map_err(|_| CodecError::Invalid("an address"))?;
        nodes.insert(id, Member { address });
    }
    if configs.is_empty() && nodes.is_empty() {
        return Ok(Membership::default());
    }
    Membership::new(configs, nodes).map_err(|_| CodecError::Invalid("a membership"))
}

/// What a node must not forget, beside its entries: the mark of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Its random id, never 0.
    pub(crate) node: u64,
    /// The cluster that it belongs to.
    pub(crate) cluster: Option<[u8; 16]>,
    pub(crate) vote: Option<Vote>,
}

impl Mark {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = vec![VERSION];
        to.put_u64_le(self.node);
        to.put_u8(u8::from(self.cluster.is_some()));
        if let Some(cluster) = self.cluster {
            to.put_slice(&cluster);
        }
        to.put_u8(u8::from(self.vote.is_some()));
        if let Some(voted) = self.vote {
            put_vote(&mut to, voted);
        }
        to
    }

    /// Reads the mark; none in a directory that was never used.
    pub(crate) fn decode(mut from: &[u8]) -> Result<Option<Self>> {
        if from.is_empty() {
            return Ok(None);
        }
        version(&mut from)?;
        let node = from.try_get_u64_le()?;
        let cluster = if flag(&mut from)? {
            Some(cluster_id(&mut from)?)
        } else {
            None
        };
        let vote = flag(&mut from)?.then(|| vote(&mut from)).transpose()?;
        end(&from)?;
        Ok(Some(Self { node, cluster, vote }))
    }
}

fn cluster_id(from: &mut impl Buf) -> Result<[u8; 16]> {
    let mut id = [0; 16];
    from.try_copy_to_slice(&mut id)?;
    Ok(id)
}

/// Encodes the membership that a snapshot stands for.
pub(crate) fn encode_stored_membership(stored: &StoredMembership) -> Vec<u8> {
    let mut to = vec![VERSION];
    put_maybe_log_id(&mut to, *stored.log_id());
    put_membership(&mut to, stored.membership());
    to
}

pub(crate) fn decode_stored_membership(mut from: &[u8]) -> Result<StoredMembership> {
    version(&mut from)?;
    let id = maybe_log_id(&mut from)?;
    let members = membership(&mut from)?;
    end(&from)?;
    Ok(StoredMembership::new(id, members))
}

/// What is stored of an entry: the owner's bytes, or Raft's own.
#[derive(Debug)]
pub(crate) enum StoredPayload<'a> {
    Commands(&'a Bytes),
    Raft(Vec<u8>),
}

/// Returns what the log keeps of an entry.
pub(crate) fn stored_payload(payload: &Payload) -> StoredPayload<'_> {
    match payload {
        Payload::Normal(batch) => StoredPayload::Commands(&batch.bytes),
        Payload::Blank => StoredPayload::Raft(vec![VERSION, BLANK]),
        Payload::Membership(members) => {
            let mut to = vec![VERSION, MEMBERSHIP];
            put_membership(&mut to, members);
            StoredPayload::Raft(to)
        }
    }
}

/// Reads one of Raft's own entries.
pub(crate) fn decode_raft_payload(mut from: &[u8]) -> Result<Payload> {
    version(&mut from)?;
    let payload = match from.try_get_u8()? {
        BLANK => Payload::Blank,
        MEMBERSHIP => Payload::Membership(membership(&mut from)?),
        _ => return Err(CodecError::Invalid("the kind of an entry")),
    };
    end(&from)?;
    Ok(payload)
}

fn put_entry(to: &mut BytesMut, entry: &Entry) {
    put_log_id(to, entry.log_id);
    let (kind, bytes) = match stored_payload(&entry.payload) {
        StoredPayload::Commands(bytes) => (COMMANDS, bytes.clone()),
        StoredPayload::Raft(bytes) => (BLANK, Bytes::from(bytes)),
    };
    to.put_u8(kind);
    // An entry is far shorter than 4 GiB.
    to.put_u32_le(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    to.put_slice(&bytes);
}

fn entry(from: &mut Bytes) -> Result<Entry> {
    let log_id = get_log_id(from)?;
    let kind = from.try_get_u8()?;
    let len = from.try_get_u32_le()? as usize;
    if from.remaining() < len {
        return Err(CodecError::Short);
    }
    let bytes = from.split_to(len);
    let payload = match kind {
        COMMANDS => Payload::Normal(Batch { bytes, ticket: None }),
        BLANK => decode_raft_payload(&bytes)?,
        _ => return Err(CodecError::Invalid("the kind of an entry")),
    };
    Ok(Entry { log_id, payload })
}

/// Bytes of an entry in a request beside those of its commands.
pub(crate) const ENTRY_HEADER_BYTES: usize = 24 + 1 + 4;

pub(crate) fn encode_append(request: &AppendEntriesRequest<Types>) -> Bytes {
    let mut to = BytesMut::new();
    to.put_u8(VERSION);
    put_vote(&mut to, request.vote);
    put_maybe_log_id(&mut to, request.prev_log_id);
    put_maybe_log_id(&mut to, request.leader_commit);
    to.put_u32_le(u32::try_from(request.entries.len()).unwrap_or(u32::MAX));
    for entry in &request.entries {
        put_entry(&mut to, entry);
    }
    to.freeze()
}

pub(crate) fn decode_append(mut from: Bytes) -> Result<AppendEntriesRequest<Types>> {
    version(&mut from)?;
    let vote = vote(&mut from)?;
    let prev_log_id = maybe_log_id(&mut from)?;
    let leader_commit = maybe_log_id(&mut from)?;
    let len = from.try_get_u32_le()?;
    let mut entries = Vec::new();
    for _ in 0..len {
        entries.push(entry(&mut from)?);
    }
    end(&from)?;
    Ok(AppendEntriesRequest {
        vote,
        prev_log_id,
        entries,
        leader_commit,
    })
}

pub(crate) fn encode_append_answer(answer: &AppendEntriesResponse<Types>) -> Bytes {
    let mut to = BytesMut::new();
    to.put_u8(VERSION);
    match answer {
        AppendEntriesResponse::Success => to.put_u8(0),
        AppendEntriesResponse::PartialSuccess(id) => {
            to.put_u8(1);
            put_maybe_log_id(&mut to, *id);
        }
        AppendEntriesResponse::Conflict => to.put_u8(2),
        AppendEntriesResponse::HigherVote(higher) => {
            to.put_u8(3);
            put_vote(&mut to, *higher);
        }
    }
    to.freeze()
}

pub(crate) fn decode_append_answer(mut from: Bytes) -> Result<AppendEntriesResponse<Types>> {
    version(&mut from)?;
    let answer = match from.try_get_u8()? {
        0 => AppendEntriesResponse::Success,
        1 => AppendEntriesResponse::PartialSuccess(maybe_log_id(&mut from)?),
        2 => AppendEntriesResponse::Conflict,
        3 => AppendEntriesResponse::HigherVote(vote(&mut from)?),
        _ => return Err(CodecError::Invalid("the answer to an append")),
    };
    end(&from)?;
    Ok(answer)
}

pub(crate) fn encode_vote(request: &VoteRequest<Types>) -> Bytes {
    let mut to = BytesMut::new();
    to.put_u8(VERSION);
    put_vote(&mut to, request.vote);
    put_maybe_log_id(&mut to, request.last_log_id);
    to.put_u8(u8::from(request.leadership_transfer));
    to.freeze()
}

pub(crate) fn decode_vote(mut from: Bytes) -> Result<VoteRequest<Types>> {
    version(&mut from)?;
    let vote = vote(&mut from)?;
    let mut request = VoteRequest::new(vote, maybe_log_id(&mut from)?);
    request.leadership_transfer = flag(&mut from)?;
    end(&from)?;
    Ok(request)
}

pub(crate) fn encode_vote_answer(answer: &VoteResponse<Types>) -> Bytes {
    let mut to = BytesMut::new();
    to.put_u8(VERSION);
    put_vote(&mut to, answer.vote);
    to.put_u8(u8::from(answer.vote_granted));
    put_maybe_log_id(&mut to, answer.last_log_id);
    to.freeze()
}

pub(crate) fn decode_vote_answer(mut from: Bytes) -> Result<VoteResponse<Types>> {
    version(&mut from)?;
    let voted = vote(&mut from)?;
    let granted = flag(&mut from)?;
    let answer = VoteResponse::new(voted, maybe_log_id(&mut from)?, granted);
    end(&from)?;
    Ok(answer)
}

pub(crate) fn encode_transfer(request: &TransferLeaderRequest<Types>) -> Bytes {
    let mut to = BytesMut::new();
    to.put_u8(VERSION);
    put_vote(&mut to, *request.from_leader());
    to.put_u64_le(*request.to_node_id());
    put_maybe_log_id(&mut to, request.last_log_id().copied());
    to.freeze()
}

pub(crate) fn decode_transfer(mut from: Bytes) -> Result<TransferLeaderRequest<Types>> {
    version(&mut from)?;
    let leader = vote(&mut from)?;
    let node = from.try_get_u64_le()?;
    let last = maybe_log_id(&mut from)?;
    end(&from)?;
    Ok(TransferLeaderRequest::new(leader, node, last))
}

pub(crate) fn encode_transfer_answer(answer: &TransferLeaderResponse<Types>) -> Bytes {
    let mut to = BytesMut::new();
    to.put_u8(VERSION);
    match answer {
        Ok(()) => to.put_u8(0),
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            to.put_u8(1);
            put_vote(&mut to, *expected);
            put_vote(&mut to, *actual);
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            to.put_u8(2);
            put_maybe_log_id(&mut to, *expected);
            put_maybe_log_id(&mut to, *actual);
        }
    }
    to.freeze()
}

pub(crate) fn decode_transfer_answer(mut from: Bytes) -> Result<TransferLeaderResponse<Types>> {
    version(&mut from)?;
    let answer = match from.try_get_u8()? {
        0 => Ok(()),
        1 => Err(TransferLeaderError::VoteChanged {
            expected: vote(&mut from)?,
            actual: vote(&mut from)?,
        }),
        2 => Err(TransferLeaderError::LogNotFlushed {
            expected: maybe_log_id(&mut from)?,
            actual: maybe_log_id(&mut from)?,
        }),
        _ => return Err(CodecError::Invalid("the answer to a transfer")),
    };
    end(&from)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(term: u64, node_id: u64, index: u64) -> LogId {
        let leader_id = LeaderId { term, node_id };
        LogId { leader_id, index }
    }

    fn members() -> Membership {
        let member = |address: &str| Member {
            address: address.to_owned(),
        };
        let nodes = BTreeMap::from([(1, member("a:7901")), (2, member("b:7901")), (9, member("c:1"))]);
        Membership::new(vec![BTreeSet::from([1, 2]), BTreeSet::from([1, 9])], nodes).unwrap()
    }

    fn entries() -> Vec<Entry> {
        let payloads = [
            Payload::Blank,
            Payload::Membership(members()),
            Payload::Normal(Batch {
                bytes: Bytes::from_static(b"commands"),
                ticket: None,
            }),
        ];
        let numbered = payloads.into_iter().zip(7..);
        numbered
            .map(|(payload, index)| Entry {
                log_id: id(3, 2, index),
                payload,
            })
            .collect()
    }

    /// Every cut of the bytes is refused, and so is what follows them.
    fn check<T: std::fmt::Debug>(bytes: &Bytes, decode: impl Fn(Bytes) -> Result<T>) -> String {
        for end in 0..bytes.len() {
            assert!(
                decode(bytes.slice(..end)).is_err(),
                "{end} of {} bytes",
                bytes.len()
            );
        }
        let mut longer = BytesMut::from(&bytes[..]);
        longer.put_u8(0);
        assert!(decode(longer.freeze()).is_err());
        format!("{:?}", decode(bytes.clone()).unwrap())
    }

    #[test]
    fn requests_and_answers_are_understood_whole_or_not_at_all() {
        let vote = Vote {
            leader_id: LeaderId { term: 4, node_id: 2 },
            committed: true,
        };
        let append = AppendEntriesRequest {
            vote,
            prev_log_id: Some(id(3, 1, 6)),
            entries: entries(),
            leader_commit: Some(id(3, 2, 8)),
        };
        assert_eq!(
            check(&encode_append(&append), decode_append),
            format!("{append:?}")
        );
        for answer in [
            AppendEntriesResponse::Success,
            AppendEntriesResponse::PartialSuccess(Some(id(1, 1, 1))),
            AppendEntriesResponse::Conflict,
            AppendEntriesResponse::HigherVote(vote),
        ] {
            assert_eq!(
                check(&encode_append_answer(&answer), decode_append_answer),
                format!("{answer:?}")
            );
        }
        let mut request = VoteRequest::<Types>::new(vote, Some(id(3, 2, 9)));
        request.leadership_transfer = true;
        assert_eq!(check(&encode_vote(&request), decode_vote), format!("{request:?}"));
        let answer = VoteResponse::<Types>::new(vote, None, true);
        assert_eq!(
            check(&encode_vote_answer(&answer), decode_vote_answer),
            format!("{answer:?}")
        );
        let transfer = TransferLeaderRequest::<Types>::new(vote, 9, None);
        assert_eq!(
            check(&encode_transfer(&transfer), decode_transfer),
            format!("{transfer:?}")
        );
    }

    #[test]
    fn what_a_node_must_not_forget_comes_back() {
        assert_eq!(Mark::decode(&[]), Ok(None));
        for cluster in [None, Some([5; 16])] {
            for vote in [None, Some(Vote::new(3, 4))] {
                let mark = Mark {
                    node: 7,
                    cluster,
                    vote,
                };
                let bytes = Bytes::from(mark.encode());
                let decode = |bytes: Bytes| match Mark::decode(&bytes)? {
                    Some(mark) => Ok(mark),
                    None => Err(CodecError::Short),
                };
                assert_eq!(check(&bytes, decode), format!("{mark:?}"));
            }
        }
        let stored = StoredMembership::new(Some(id(1, 2, 3)), members());
        let bytes = Bytes::from(encode_stored_membership(&stored));
        assert_eq!(
            check(&bytes, |bytes| decode_stored_membership(&bytes)),
            format!("{stored:?}")
        );
    }
}
