//! What a metrics table wants to know of links.

use std::fmt::Debug;

use super::{Lost, Peer, Reason};

/// Which end of a link this node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// It dialled, and asks.
    Dialled,
    /// It accepted, and answers.
    Accepted,
}

/// Is told what happens on links. Called on the links' tasks: it must not wait.
pub trait Observer: Debug + Send + Sync {
    /// Frames were written.
    fn sent(&self, _frames: u64, _bytes: u64) {}

    /// Frames were read.
    fn received(&self, _frames: u64, _bytes: u64) {}

    /// A handshake ended with a refusal by one of the two ends.
    fn refused(&self, _side: Side, _reason: Reason) {}

    /// A peer is connected.
    fn connected(&self, _peer: &Peer, _side: Side) {}

    /// A connection ended.
    fn lost(&self, _peer: &Peer, _side: Side, _lost: &Lost) {}

    /// A peer's wall clock is more than five seconds away: this many milliseconds ahead of ours, or behind.
    fn clock_differs(&self, _peer: &Peer, _millis: i64) {}
}

/// Looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
