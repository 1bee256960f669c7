//! Raft's messages over the links between nodes.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{RaftNetworkFactory, RaftNetworkV2};

use super::codec::{self, CodecError};
use super::incoming::Incoming;
use super::log_store;
use super::machine::SnapshotData;
use super::sync;
use super::types::{Member, Raft, Snapshot, Types, Vote};

/// What nodes of one cluster ask each other for Raft's sake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Entries, or the leader's sign of life.
    Append,
    /// A candidate asks for a vote.
    Vote,
    /// A node asks whether it would get one.
    PreVote,
    /// The leader asks its successor to stand.
    TransferLeader,
    /// A whole state begins.
    SyncBegin,
    /// A part of it.
    SyncPart,
}

/// Why a request to another node had no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// It did not leave this node: the other one cannot be reached now.
    #[error("node {node} cannot be reached: {reason}")]
    NotSent { node: u64, reason: String },
    /// It may have arrived or not.
    #[error("node {node} did not answer: {reason}")]
    Unknown { node: u64, reason: String },
}

pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<Bytes, CallError>> + Send + 'a>>;

/// The way to the other nodes.
pub trait Peers: Debug + Send + Sync {
    /// Asks a node, at the address that the membership has for it.
    fn call<'a>(
        &'a self,
        node: u64,
        address: &'a str,
        kind: Kind,
        body: Bytes,
        within: Duration,
    ) -> Calling<'a>;
}

/// Makes the ways to single nodes.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) peers: Arc<dyn Peers>,
    pub(crate) store: Arc<log_store::Shared>,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &Member) -> Peer {
        Peer {
            peers: Arc::clone(&self.peers),
            store: Arc::clone(&self.store),
            node: target,
            address: node.address.clone(),
        }
    }
}

/// The way to one node.
#[derive(Debug)]
pub(crate) struct Peer {
    peers: Arc<dyn Peers>,
    store: Arc<log_store::Shared>,
    node: u64,
    address: String,
}

/// How long a part of a state may take, the last one with its install.
const SYNC_TIMEOUT: Duration = Duration::from_secs(60);

impl Peer {
    pub(crate) fn node(&self) -> u64 {
        self.node
    }

    /// Sends a part of a state.
    pub(crate) async fn ask_sync(&self, kind: Kind, body: Bytes) -> Result<Bytes, RPCError<Types>> {
        self.ask(kind, body, &RPCOption::new(SYNC_TIMEOUT), Ok).await
    }

    async fn ask<T>(
        &self,
        kind: Kind,
        body: Bytes,
        option: &RPCOption,
        decode: impl FnOnce(Bytes) -> Result<T, CodecError>,
    ) -> Result<T, RPCError<Types>> {
        let answer = self
            .peers
            .call(self.node, &self.address, kind, body, option.hard_ttl())
            .await
            .map_err(|error| match error {
                CallError::NotSent { .. } => RPCError::Unreachable(Unreachable::new(&error)),
                CallError::Unknown { .. } => RPCError::Network(NetworkError::new(&error)),
            })?;
        decode(answer).map_err(|error| RPCError::Network(NetworkError::new(&error)))
    }
}

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let body = codec::encode_append(&request);
        self.ask(Kind::Append, body, &option, codec::decode_append_answer)
            .await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let body = codec::encode_vote(&request);
        self.ask(Kind::Vote, body, &option, codec::decode_vote_answer)
            .await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let body = codec::encode_vote(&request);
        self.ask(Kind::PreVote, body, &option, codec::decode_vote_answer)
            .await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        sync::send(self, &self.store, vote, snapshot, cancel).await
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let body = codec::encode_transfer(&request);
        self.ask(Kind::TransferLeader, body, &option, codec::decode_transfer_answer)
            .await
    }
}

/// Answers what another node asks.
pub(crate) async fn answer(
    raft: &Raft,
    store: &Arc<log_store::Shared>,
    incoming: &Incoming,
    kind: Kind,
    body: Bytes,
) -> io::Result<Bytes> {
    Ok(match kind {
        Kind::Append => {
            let answer = raft.append_entries(codec::decode_append(body)?).await;
            codec::encode_append_answer(&answer.map_err(io::Error::other)?)
        }
        Kind::Vote => {
            let answer = raft.vote(codec::decode_vote(body)?).await;
            codec::encode_vote_answer(&answer.map_err(io::Error::other)?)
        }
        Kind::PreVote => {
            let answer = raft.pre_vote(codec::decode_vote(body)?).await;
            codec::encode_vote_answer(&answer.map_err(io::Error::other)?)
        }
        Kind::TransferLeader => {
            let answer = raft.handle_transfer_leader(codec::decode_transfer(body)?).await;
            codec::encode_transfer_answer(&answer.map_err(io::Error::other)?)
        }
        Kind::SyncBegin => incoming.begin(store, body).await?,
        Kind::SyncPart => incoming.part(raft, store, body).await?,
    })
}
