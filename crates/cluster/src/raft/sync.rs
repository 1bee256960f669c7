//! Sends the whole state to a node that is too far behind: its entries are no longer in the log.
//!
//! First the state of the last snapshot, then the contents of its messages, a part at a time and the next one when the one
//! before is stored. A node that has a part of the very same state says so at the beginning, and gets the rest.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use broker::{DamagedContent, ExportedContents};
use bytes::Bytes;
use openraft::errors::{NetworkError, ReplicationClosed, StreamingError, Unreachable};
use openraft::raft::SnapshotResponse;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info};

use super::incoming::blocking;
use super::log_store;
use super::network::{Kind, Peer};
use super::outgoing::Outgoing;
use super::sync_codec::{SyncAnswer, SyncBegin, SyncKey, SyncPart};
use super::types::{Snapshot, SnapshotMeta, Types, Vote};

/// Bytes of one part, but for the content that ends it.
const PART_BYTES: usize = 256 << 10;
/// Longest pause after a part.
const REST_MAX: Duration = Duration::from_millis(50);

type Outcome = Result<SnapshotResponse<Types>, StreamingError<Types>>;

/// Sends the last snapshot to a node.
pub(crate) async fn send(
    peer: &Peer,
    store: &Arc<log_store::Shared>,
    vote: Vote,
    snapshot: Snapshot,
    cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
) -> Outcome {
    let sending = send_all(peer, store, vote, snapshot.meta);
    tokio::select! {
        sent = sending => sent,
        closed = cancel => Err(StreamingError::Closed(closed)),
    }
}

fn failed(error: &io::Error) -> StreamingError<Types> {
    StreamingError::Unreachable(Unreachable::new(error))
}

async fn send_all(peer: &Peer, store: &Arc<log_store::Shared>, vote: Vote, meta: SnapshotMeta) -> Outcome {
    let shared = Arc::clone(store);
    let state = blocking(&**store.process(), move || {
        shared.outgoings().open(&shared, &meta)
    });
    let state = state.await.map_err(|error| failed(&error))?;
    let begin = SyncBegin {
        vote,
        meta: state.meta.clone(),
        state_bytes: state.export.state().len() as u64,
        state_crc: state.state_crc,
    };
    let Some(key) = begin.key() else {
        return Err(failed(&io::Error::other("a state without a place in the log")));
    };
    let (node, bytes, contents) = (peer.node(), begin.state_bytes, state.export.count());
    info!(
        node,
        bytes, contents, "sending the state to a node that is far behind"
    );
    let (sent, next) = match ask(peer, Kind::SyncBegin, begin.encode()).await? {
        SyncAnswer::From { state_bytes, next } => (state_bytes, next),
        SyncAnswer::Vote(answered) => return Ok(SnapshotResponse::new(answered)),
        SyncAnswer::Taken => return Err(unexpected()),
    };
    let to = Receiver { peer, key };
    let sent = usize::try_from(sent).unwrap_or(usize::MAX);
    if let Some(answered) = to.send_state(state.export.state(), sent).await? {
        return Ok(answered);
    }
    if let Some(answered) = to.send_contents(store, &state, next).await? {
        return Ok(answered);
    }
    let end = SyncPart::End { contents };
    to.send(end).await?.ok_or_else(unexpected)
}

fn unexpected() -> StreamingError<Types> {
    failed(&io::Error::other(
        "an answer that does not fit the part of the state",
    ))
}

async fn ask(peer: &Peer, kind: Kind, body: Bytes) -> Result<SyncAnswer, StreamingError<Types>> {
    let answer = peer.ask_sync(kind, body).await?;
    SyncAnswer::decode(answer).map_err(|error| StreamingError::Network(NetworkError::new(&error)))
}

/// The node that gets the state. Its answer is returned where it needs no more.
struct Receiver<'a> {
    peer: &'a Peer,
    key: SyncKey,
}

impl Receiver<'_> {
    async fn send(&self, part: SyncPart) -> Result<Option<SnapshotResponse<Types>>, StreamingError<Types>> {
        match ask(self.peer, Kind::SyncPart, part.encode(self.key)).await? {
            SyncAnswer::Taken => Ok(None),
            SyncAnswer::Vote(answered) => Ok(Some(SnapshotResponse::new(answered))),
            SyncAnswer::From { .. } => Err(unexpected()),
        }
    }

    async fn send_state(
        &self,
        state: &Bytes,
        sent: usize,
    ) -> Result<Option<SnapshotResponse<Types>>, StreamingError<Types>> {
        for offset in (sent..state.len()).step_by(PART_BYTES) {
            let part = SyncPart::State {
                offset: offset as u64,
                bytes: state.slice(offset..state.len().min(offset + PART_BYTES)),
            };
            if let Some(answered) = self.send(part).await? {
                return Ok(Some(answered));
            }
        }
        Ok(None)
    }

    /// Sends contents from a slot on. The next part is read while one is under way.
    async fn send_contents(
        &self,
        store: &Arc<log_store::Shared>,
        state: &Arc<Outgoing>,
        from: u64,
    ) -> Result<Option<SnapshotResponse<Types>>, StreamingError<Types>> {
        let mut read = read(store, state, from).await?;
        while let Some(ExportedContents { copies, next }) = read {
            let part = SyncPart::Contents {
                next,
                copies: copies.into(),
            };
            let (began, applied) = (Instant::now(), store.applied());
            let (answered, following) = tokio::join!(self.send(part), self::read(store, state, next));
            let rest = began.elapsed().min(REST_MAX);
            if let Some(answered) = answered? {
                return Ok(Some(answered));
            }
            read = following?;
            if store.applied() != applied {
                // What clients do comes first: disks and links are busy with this half of the time.
                sleep_until(Instant::now() + rest).await;
            }
        }
        Ok(None)
    }
}

async fn read(
    store: &Arc<log_store::Shared>,
    state: &Arc<Outgoing>,
    from: u64,
) -> Result<Option<ExportedContents>, StreamingError<Types>> {
    let exported = Arc::clone(state);
    let read = move || Ok(exported.export.contents(from, PART_BYTES));
    let read = blocking(&**store.process(), read).await;
    read.map_err(|error| failed(&error))?.map_err(|damaged: DamagedContent| {
        error!(
            error = %damaged,
            "the state cannot be sent: another node with undamaged contents has to lead; without one, stop this node and \
             run `holdfast repair`"
        );
        store.outgoings().damaged();
        failed(&io::Error::other(damaged))
    })
}
