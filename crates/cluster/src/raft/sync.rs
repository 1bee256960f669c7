//! The whole state for a node that is too far behind: its entries are no longer in the log.
//!
//! The leader reads its last snapshot, with every content that it needs, and sends it in pieces; the other node writes them
//! to a snapshot of its own, which takes the place of its state when all of it is there.

use std::future::Future;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use broker::Process;
use bytes::{BufMut, Bytes, BytesMut};
use journal::{RaftSnapshot, SnapshotSink};
use openraft::errors::{NetworkError, ReplicationClosed, StreamingError, Unreachable};
use openraft::raft::SnapshotResponse;
use tokio::sync::mpsc::error::{SendError, TrySendError};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tracing::info;

use super::codec::{self, SyncBegin};
use super::log_store;
use super::machine::SnapshotData;
use super::network::{Kind, Peer};
use super::types::{Raft, Snapshot, SnapshotMeta, Types, Vote, journal_index, to_journal};

/// Bytes of one piece.
const PIECE_BYTES: usize = 1 << 20;
/// Pieces that may wait for the link.
const PIECES_WAITING: usize = 2;

/// Writes pieces to a channel.
struct Pieces {
    piece: BytesMut,
    out: Sender<Bytes>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.put_slice(&bytes[..taken]);
        if self.piece.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, BytesMut::with_capacity(PIECE_BYTES)).freeze();
        let gone = |_| io::Error::other("nobody takes the state any more");
        if piece.is_empty() {
            Ok(())
        } else {
            send_piece(&self.out, piece).map_err(gone)
        }
    }
}

/// Waits while as many pieces wait as may.
fn send_piece(out: &Sender<Bytes>, piece: Bytes) -> Result<(), SendError<Bytes>> {
    match out.try_send(piece) {
        Ok(()) => Ok(()),
        Err(TrySendError::Closed(piece)) => Err(SendError(piece)),
        Err(TrySendError::Full(piece)) => out.blocking_send(piece),
    }
}

/// Reads the snapshot that Raft means with its contents, on a thread that may wait. A later one that has taken its place
/// would bring what the entries after the earlier one bring again.
fn read(store: &Arc<log_store::Shared>, meta: &SnapshotMeta) -> io::Result<Receiver<Bytes>> {
    let stored = store.log().stored_snapshot().ok_or(io::ErrorKind::NotFound)?;
    if meta.last_log_id.map(|last| journal_index(last.index)) != Some(stored.index()) {
        return Err(io::Error::other(
            "a later snapshot has taken the place of this one",
        ));
    }
    let (out, pieces) = channel(PIECES_WAITING);
    let reader = store.reader().clone();
    let reading = async move {
        let mut to = Pieces {
            piece: BytesMut::with_capacity(PIECE_BYTES),
            out,
        };
        let written = stored.read(|content| {
            broker::export_snapshot(content, &|segment| reader.file(segment), &mut to)?;
            to.flush()?;
            Ok(())
        });
        if let Err(error) = written {
            // The pieces end without their end, and the other node throws them away.
            tracing::warn!(%error, "the state could not be read for another node");
            return;
        }
        // An empty piece is the end.
        drop(send_piece(&to.out, Bytes::new()));
    };
    store.process().spawn("raft-state", Box::pin(reading))?;
    Ok(pieces)
}

/// Sends the last snapshot to a node.
pub(crate) async fn send(
    peer: &Peer,
    store: &Arc<log_store::Shared>,
    vote: Vote,
    snapshot: Snapshot,
    cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
    let sending = send_all(peer, store, vote, snapshot.meta);
    tokio::select! {
        sent = sending => sent,
        closed = cancel => Err(StreamingError::Closed(closed)),
    }
}

async fn send_all(
    peer: &Peer,
    store: &Arc<log_store::Shared>,
    vote: Vote,
    meta: SnapshotMeta,
) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
    let failed = |error: io::Error| StreamingError::Unreachable(Unreachable::new(&error));
    let mut pieces = read(store, &meta).map_err(failed)?;
    let begin = SyncBegin { vote, meta };
    info!(
        node = peer.node(),
        "sending the state to a node that is far behind"
    );
    let answer = peer.ask_sync(Kind::SyncBegin, begin.encode()).await?;
    if let Some(higher) = decode(&answer)? {
        return Ok(SnapshotResponse::new(higher));
    }
    while let Some(piece) = pieces.recv().await {
        let is_end = piece.is_empty();
        let answer = if is_end {
            peer.ask_sync(Kind::SyncEnd, Bytes::new()).await?
        } else {
            peer.ask_sync(Kind::SyncPiece, piece).await?
        };
        if let Some(answered) = decode(&answer)? {
            return Ok(SnapshotResponse::new(answered));
        }
        if is_end {
            break;
        }
    }
    Err(failed(io::Error::other("the state could not be read or taken")))
}

fn decode(answer: &Bytes) -> Result<Option<Vote>, StreamingError<Types>> {
    codec::decode_sync_answer(answer.clone())
        .map_err(|error| StreamingError::Network(NetworkError::new(&error)))
}

/// A state that is being received.
#[derive(Debug)]
struct Receiving {
    vote: Vote,
    meta: SnapshotMeta,
    sink: Box<dyn SnapshotSink>,
}

/// What a node receives of another one's state: one at a time, and the last one that began counts.
#[derive(Debug, Default)]
pub(crate) struct Inbound(Mutex<Option<Receiving>>);

impl Inbound {
    fn put(&self, receiving: Option<Receiving>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = receiving;
    }

    fn take(&self) -> io::Result<Receiving> {
        let receiving = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        receiving.ok_or_else(|| io::Error::other("no state is being received here"))
    }

    /// Answers one request; the vote comes with the last answer, or when it is higher than the sender's.
    pub(crate) async fn answer(
        &self,
        raft: &Raft,
        store: &Arc<log_store::Shared>,
        kind: Kind,
        body: Bytes,
    ) -> io::Result<Bytes> {
        let answered = match kind {
            Kind::SyncBegin => self.begin(store, SyncBegin::decode(body)?)?,
            Kind::SyncPiece => {
                let mut receiving = self.take()?;
                let receiving = blocking(&**store.process(), move || {
                    receiving.sink.write(&body).map_err(io::Error::other)?;
                    Ok(receiving)
                });
                self.put(Some(receiving.await?));
                None
            }
            Kind::SyncEnd => Some(self.end(raft, store).await?),
            Kind::Append | Kind::Vote | Kind::PreVote | Kind::TransferLeader => None,
        };
        Ok(codec::encode_sync_answer(answered))
    }

    fn begin(&self, store: &Arc<log_store::Shared>, begin: SyncBegin) -> io::Result<Option<Vote>> {
        let SyncBegin { vote, meta } = begin;
        let own = store.vote();
        if own.is_some_and(|own| own > vote) {
            return Ok(own);
        }
        let last = meta
            .last_log_id
            .ok_or_else(|| io::Error::other("a state without a place in the log"))?;
        if journal_index(last.index) <= store.applied() {
            // It came by other ways meanwhile: that is as good as taking it.
            let heard = own.filter(|own| *own == vote);
            let unheard = || io::Error::other("the leader that sends this state is not known here yet");
            return heard.map(Some).ok_or_else(unheard);
        }
        let snapshot = RaftSnapshot {
            id: to_journal(last),
            membership: codec::encode_stored_membership(&meta.last_membership),
        };
        let sink = store
            .log()
            .begin_install(&snapshot, &[])
            .map_err(io::Error::other)?;
        info!(index = last.index, "receiving the state of the leader");
        self.put(Some(Receiving { vote, meta, sink }));
        Ok(None)
    }

    async fn end(&self, raft: &Raft, store: &log_store::Shared) -> io::Result<Vote> {
        let Receiving { vote, meta, sink } = self.take()?;
        let finish = move || sink.finish().map_err(io::Error::other);
        let receipt = blocking(&**store.process(), finish).await?;
        let snapshot = Snapshot {
            meta,
            snapshot: SnapshotData::Received(receipt),
        };
        let installed = raft.install_full_snapshot(vote, snapshot).await;
        Ok(installed.map_err(io::Error::other)?.vote)
    }
}

async fn blocking<T: Send + 'static>(
    process: &dyn Process,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, heard) = oneshot::channel();
    // Who no longer waits does not need it.
    let work = async move { drop(done.send(work())) };
    process.spawn("raft-state", Box::pin(work))?;
    heard.await.map_err(io::Error::other)?
}
