//! What is counted of the links between nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::agreement::Levels;
use crate::link::{Lost, Observer, Peer, Reason, Side};

/// Counts since the start of the process, of all links together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Bytes of frames that were written.
    pub sent_bytes: u64,
    /// Bytes of frames that were read.
    pub received_bytes: u64,
    /// Connections that ended.
    pub lost: u64,
    /// Handshakes that one of the two ends refused.
    pub refused: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    pub(crate) fn read(&self) -> LinkCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LinkCounts {
            sent_bytes: read(&self.sent_bytes),
            received_bytes: read(&self.received_bytes),
            lost: read(&self.lost),
            refused: read(&self.refused),
        }
    }
}

/// Hears what happens on links.
#[derive(Debug, Clone)]
pub(crate) struct LinkObserver {
    pub(crate) levels: Arc<Levels>,
    pub(crate) counts: Arc<Counts>,
}

impl Observer for LinkObserver {
    fn sent(&self, _frames: u64, bytes: u64) {
        self.counts.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn received(&self, _frames: u64, bytes: u64) {
        self.counts.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn refused(&self, _side: Side, _reason: Reason) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn connected(&self, peer: &Peer, _side: Side) {
        self.levels.announced(peer.node.as_u64(), peer.level);
    }

    fn lost(&self, _peer: &Peer, _side: Side, _lost: &Lost) {
        self.counts.lost.fetch_add(1, Ordering::Relaxed);
    }
}
