//! The state of another node, as it comes.
//!
//! Contents are written to this node's log as they come, and the state is kept in memory; both are whole before anything
//! of this node's own goes. When the way breaks off, what came stays for a sender that begins with the same state.

use std::io;
use std::sync::Arc;

use broker::{Import, Process};
use bytes::Bytes;
use journal::{RaftSnapshot, SnapshotReceipt};
use tokio::sync::{Mutex, MutexGuard, oneshot};
use tracing::info;

use super::codec;
use super::log_store;
use super::machine::SnapshotData;
use super::sync_codec::{SyncAnswer, SyncBegin, SyncKey, SyncPart};
use super::types::{Raft, Snapshot, Vote, journal_index, to_journal};

/// Bytes of contents after which they are made durable, so that there is little to do at the end.
const SYNC_BYTES: u64 = 2 << 20;

/// A state that is being received.
#[derive(Debug)]
struct Receiving {
    begin: SyncBegin,
    import: Import,
    /// Bytes of contents since the last sync.
    unsynced: u64,
}

/// What a node receives of another one's state: one at a time, and the last one that began counts. It is locked while a part
/// is being taken, so that parts follow each other.
#[derive(Debug, Default)]
pub(crate) struct Incoming(Arc<Mutex<Option<Receiving>>>);

impl Incoming {
    /// Answers the beginning of a state.
    pub(crate) async fn begin(&self, store: &log_store::Shared, body: Bytes) -> io::Result<Bytes> {
        let begin = SyncBegin::decode(body)?;
        let mut receiving = self.0.lock().await;
        Ok(Self::take_begin(&mut receiving, store, begin)?.encode())
    }

    fn take_begin(
        receiving: &mut MutexGuard<'_, Option<Receiving>>,
        store: &log_store::Shared,
        begin: SyncBegin,
    ) -> io::Result<SyncAnswer> {
        let own = store.vote();
        if let Some(own) = own.filter(|own| *own > begin.vote) {
            return Ok(SyncAnswer::Vote(own));
        }
        let last = begin
            .meta
            .last_log_id
            .ok_or_else(|| io::Error::other("a state without a place in the log"))?;
        if journal_index(last.index) <= store.applied() {
            **receiving = None;
            // It came by other ways meanwhile: that is as good as taking it.
            let heard = own.filter(|own| *own == begin.vote);
            let unheard = || io::Error::other("the leader that sends this state is not known here yet");
            return heard.map(SyncAnswer::Vote).ok_or_else(unheard);
        }
        let is_same = |known: &SyncBegin| {
            (&known.meta, known.state_bytes, known.state_crc)
                == (&begin.meta, begin.state_bytes, begin.state_crc)
        };
        match receiving.as_mut().filter(|known| is_same(&known.begin)) {
            Some(known) => {
                known.begin = begin;
                info!(
                    index = last.index,
                    slot = known.import.next(),
                    "the state of the leader goes on"
                );
            }
            None => {
                info!(
                    index = last.index,
                    bytes = begin.state_bytes,
                    "receiving the state of the leader"
                );
                store.log().hold(journal_index(last.index));
                **receiving = Some(Receiving {
                    begin,
                    import: Import::default(),
                    unsynced: 0,
                });
            }
        }
        let import = receiving.as_ref().map(|known| &known.import);
        Ok(SyncAnswer::From {
            state_bytes: import.map_or(0, |import| import.received_state().len() as u64),
            next: import.map_or(0, Import::next),
        })
    }

    /// Answers a part of a state: all of it is there when the vote comes back.
    pub(crate) async fn part(
        &self,
        raft: &Raft,
        store: &Arc<log_store::Shared>,
        body: Bytes,
    ) -> io::Result<Bytes> {
        let (key, part) = SyncPart::decode(body)?;
        let mut receiving = Arc::clone(&self.0).lock_owned().await;
        let is_known = receiving
            .as_ref()
            .is_some_and(|known| known.begin.key() == Some(key));
        if !is_known {
            return Err(io::Error::other("no such state is being received here"));
        }
        let log = Arc::clone(store);
        if let SyncPart::End { contents } = part {
            let Some(whole) = receiving.take() else {
                return Err(io::Error::other("no state is being received here"));
            };
            // A part that comes meanwhile belongs to nothing, and a beginning waits for the end of this.
            let SyncBegin { vote, meta, .. } = whole.begin.clone();
            let receipt = blocking(&**store.process(), move || whole.finish(&log, contents)).await?;
            let installed = install(
                raft,
                vote,
                Snapshot {
                    meta,
                    snapshot: SnapshotData::Received(receipt),
                },
            )
            .await?;
            return Ok(SyncAnswer::Vote(installed).encode());
        }
        blocking(&**store.process(), move || match receiving.as_mut() {
            Some(known) => known.take(&log, key, part),
            None => Err(io::Error::other("no state is being received here")),
        })
        .await?;
        Ok(SyncAnswer::Taken.encode())
    }
}

impl Receiving {
    /// Takes the next part. Whatever is not the next one changes nothing.
    fn take(&mut self, store: &log_store::Shared, key: SyncKey, part: SyncPart) -> io::Result<()> {
        match part {
            SyncPart::State { offset, bytes } => {
                let received = self.import.received_state().len() as u64;
                if offset != received || received + bytes.len() as u64 > self.begin.state_bytes {
                    return Err(out_of_order());
                }
                self.import.state(&bytes);
                Ok(())
            }
            SyncPart::Contents { next, copies } => {
                self.check_state()?;
                let index = journal_index(key.index);
                let place = store.copy(index, &copies)?;
                self.import
                    .contents(&copies, place, next)
                    .map_err(io::Error::other)?;
                self.unsynced += copies.len() as u64;
                if self.unsynced >= SYNC_BYTES {
                    store.sync()?;
                    self.unsynced = 0;
                }
                Ok(())
            }
            SyncPart::End { .. } => Err(out_of_order()),
        }
    }

    fn check_state(&self) -> io::Result<()> {
        let state = self.import.received_state();
        if state.len() as u64 != self.begin.state_bytes {
            return Err(out_of_order());
        }
        Ok(())
    }

    /// Makes a snapshot of it that waits to take the place of this node's state.
    fn finish(self, store: &log_store::Shared, contents: u64) -> io::Result<SnapshotReceipt> {
        self.check_state()?;
        if crc32c::crc32c(self.import.received_state()) != self.begin.state_crc {
            return Err(io::Error::other(
                "the state that came is not the one that was sent",
            ));
        }
        if self.import.count() != contents {
            let came = self.import.count();
            return Err(io::Error::other(format!(
                "{came} of {contents} contents have come"
            )));
        }
        let last = self.begin.meta.last_log_id.ok_or_else(out_of_order)?;
        let snapshot = RaftSnapshot {
            id: to_journal(last),
            membership: codec::encode_stored_membership(&self.begin.meta.last_membership),
        };
        store.sync()?;
        let begun = store.log().begin_install(&snapshot, &self.import.segments());
        let sink = begun.map_err(io::Error::other)?;
        self.import.store(sink).map_err(io::Error::other)
    }
}

fn out_of_order() -> io::Error {
    io::Error::other("a part of a state that is not the next one")
}

async fn install(raft: &Raft, vote: Vote, snapshot: Snapshot) -> io::Result<Vote> {
    let installed = raft.install_full_snapshot(vote, snapshot).await;
    Ok(installed.map_err(io::Error::other)?.vote)
}

/// Runs work on a thread that may wait.
pub(super) async fn blocking<T: Send + 'static>(
    process: &dyn Process,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, heard) = oneshot::channel();
    // Who no longer waits does not need it.
    let work = async move { drop(done.send(work())) };
    process.spawn("raft-state", Box::pin(work))?;
    heard.await.map_err(io::Error::other)?
}
