//! openraft's state machine: it hands committed entries to the owner, in order, and keeps nothing but the membership.

use std::io;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use journal::{RaftSnapshot, SnapshotReceipt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{OptionalSend, RaftSnapshotBuilder};
use types::{LogIndex, Term};

use super::codec::{decode_stored_membership, encode_stored_membership};
use super::log_store::LogStore;
use super::types::{
    LogId, Payload, Snapshot, SnapshotMeta, StoredMembership, Types, from_journal, journal_index,
};
use crate::driver::{Deliveries, Delivery};

/// What stands for a snapshot inside a node: the state itself is the owner's, in the journal.
#[derive(Debug)]
pub(crate) enum SnapshotData {
    /// The last one that this node made or installed.
    Stored,
    /// One that was received and waits to take the place of the state.
    Received(SnapshotReceipt),
}

/// The state machine.
#[derive(Debug)]
pub(crate) struct Machine {
    store: LogStore,
    deliveries: Arc<Deliveries>,
    node: u64,
    applied: Option<LogId>,
    membership: StoredMembership,
}

impl Machine {
    /// Begins after the snapshot that the owner began with.
    pub(crate) fn new(
        store: LogStore,
        deliveries: Arc<Deliveries>,
        node: u64,
        snapshot: Option<&RaftSnapshot>,
    ) -> io::Result<Self> {
        let membership = match snapshot {
            Some(snapshot) => decode_stored_membership(&snapshot.membership)?,
            None => StoredMembership::default(),
        };
        let applied = snapshot.and_then(|snapshot| from_journal(snapshot.id));
        deliveries.member(LogIndex(0), encode_stored_membership(&membership));
        let index = applied.map_or(LogIndex(0), |id| journal_index(id.index));
        store.shared().set_applied(index);
        Ok(Self {
            store,
            deliveries,
            node,
            applied,
            membership,
        })
    }

    fn current(&self) -> io::Result<Option<Snapshot>> {
        if let Some(meta) = self.store.shared().outgoings().meta() {
            let snapshot = SnapshotData::Stored;
            return Ok(Some(Snapshot { meta, snapshot }));
        }
        let log = self.store.shared().log();
        let Some(snapshot) = log.snapshot() else {
            return Ok(None);
        };
        let meta = SnapshotMeta {
            last_log_id: from_journal(snapshot.id),
            last_membership: decode_stored_membership(&snapshot.membership)?,
        };
        Ok(Some(Snapshot {
            meta,
            snapshot: SnapshotData::Stored,
        }))
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let id = entry.log_id;
            let index = journal_index(id.index);
            if id.leader_id.node_id == self.node {
                self.deliveries.reigned(id.leader_id.term);
            }
            self.store.shared().set_applied(index);
            let own = self.store.shared().committed(id);
            match entry.payload {
                Payload::Blank => {}
                Payload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(id), membership);
                    self.deliveries
                        .member(index, encode_stored_membership(&self.membership));
                }
                Payload::Normal(batch) => {
                    self.store.shared().written(id.index).await;
                    let place = self.store.shared().reader().place(index);
                    let delivery = Delivery::Entry {
                        index,
                        term: Term(id.leader_id.term),
                        own,
                        bytes: batch.bytes,
                        place,
                    };
                    self.deliveries.push(delivery).await;
                }
            }
            self.applied = Some(id);
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        // The owner makes snapshots, by the bytes of the log. Here its last one is found.
        let snapshot = self.current();
        let has_one = matches!(snapshot, Ok(Some(_)) | Err(_));
        (force || has_one).then_some(Builder(Some(snapshot)))
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder(Some(self.current()))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: SnapshotData,
    ) -> Result<(), io::Error> {
        let SnapshotData::Received(receipt) = snapshot else {
            // A start offers the stored snapshot again; the owner has read it already.
            return Ok(());
        };
        let index = meta.last_log_id.map_or(LogIndex(0), |id| journal_index(id.index));
        self.store.install(receipt).await?;
        self.store.shared().set_applied(index);
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.deliveries
            .member(index, encode_stored_membership(&self.membership));
        self.deliveries.push(Delivery::Replaced { index }).await;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        self.current()
    }
}

/// Finds the last snapshot of the owner.
pub(crate) struct Builder(Option<io::Result<Option<Snapshot>>>);

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "the owner has made no snapshot yet");
        self.0.take().ok_or_else(missing)??.ok_or_else(missing)
    }
}
