//! Streams: many pieces as the answer to one request, no faster than they are taken.
//!
//! A piece costs its length and a little more. The receiver grants a window at first and gives back what it has taken,
//! so that never more than a window is under way or waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc};

use super::LinkError;
use super::asker::Ask;
use super::frame::{Frame, Head, Kind, STREAM};
use super::outbox::{Body, Outbox};

/// What a piece costs beside its bytes, so that empty ones are not free.
pub(super) const PIECE_COST_BYTES: usize = 64;

/// A piece that is larger than the other end takes at once.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a piece of {bytes} bytes, and at most {bytes_max} are taken")]
pub struct PieceTooLarge {
    /// The length of the piece.
    pub bytes: usize,
    /// The most that is allowed.
    pub bytes_max: usize,
}

/// Sends the pieces of one stream.
#[derive(Debug)]
pub struct PieceSender {
    pub(super) call: u64,
    pub(super) flags: u8,
    pub(super) outbox: Arc<Outbox>,
    pub(super) credit: Arc<Credit>,
    pub(super) piece_bytes_max: usize,
}

impl PieceSender {
    /// Returns the most bytes of a piece.
    pub fn piece_bytes_max(&self) -> usize {
        self.piece_bytes_max
    }

    /// Sends a piece as soon as the receiver has room for it.
    ///
    /// # Errors
    ///
    /// If the piece is larger than [`piece_bytes_max`](Self::piece_bytes_max).
    pub async fn send(&mut self, piece: Bytes) -> Result<(), PieceTooLarge> {
        let (bytes, bytes_max) = (piece.len(), self.piece_bytes_max);
        let length = u32::try_from(bytes).ok().filter(|_| bytes <= bytes_max);
        let Some(length) = length else {
            return Err(PieceTooLarge { bytes, bytes_max });
        };
        self.credit.spend(bytes + PIECE_COST_BYTES).await;
        let body = Body {
            kind: Kind::Piece,
            flags: self.flags | STREAM,
            head: Head::default().put(&length.to_le_bytes()),
            bytes: piece,
            sent: None,
        };
        self.outbox.push(self.call, body);
        Ok(())
    }
}

/// What may still be sent on a stream, in bytes.
#[derive(Debug)]
pub(super) struct Credit {
    bytes: Semaphore,
    window_bytes: usize,
}

impl Credit {
    pub(super) fn new(window_bytes: usize) -> Self {
        let window_bytes = window_bytes.min(Semaphore::MAX_PERMITS);
        Self {
            bytes: Semaphore::new(window_bytes),
            window_bytes,
        }
    }

    pub(super) fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    /// Adds what was given back; `false` if that is more than was ever granted.
    pub(super) fn grant(&self, bytes: usize) -> bool {
        let is_within = self.bytes.available_permits().saturating_add(bytes) <= self.window_bytes;
        if is_within {
            self.bytes.add_permits(bytes);
        }
        is_within
    }

    async fn spend(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match self.bytes.acquire_many(bytes).await {
            Ok(permit) => permit.forget(),
            Err(_) => unreachable!("nobody closes the semaphore"),
        }
    }
}

/// Receives the pieces of one stream. Dropping it cancels the stream.
#[derive(Debug)]
pub struct Pieces {
    pub(super) ask: Ask,
    pub(super) pieces: mpsc::UnboundedReceiver<Result<Bytes, LinkError>>,
    pub(super) granted: Arc<AtomicU64>,
    pub(super) owed_bytes: usize,
    pub(super) window_bytes: usize,
}

impl Pieces {
    /// Returns the next piece; `None` after the last one of a stream that is complete.
    pub async fn next(&mut self) -> Option<Result<Bytes, LinkError>> {
        let piece = self.pieces.recv().await;
        if let Some(Ok(piece)) = &piece {
            self.owed_bytes += piece.len() + PIECE_COST_BYTES;
            // Not with every piece: a frame for a quarter of the window, or when the sender may be waiting for it.
            if self.owed_bytes >= self.window_bytes / 4 || self.pieces.is_empty() {
                self.give_back();
            }
        }
        piece
    }

    fn give_back(&mut self) {
        let owed = std::mem::take(&mut self.owed_bytes);
        self.granted.fetch_add(owed as u64, Ordering::AcqRel);
        let owed = u32::try_from(owed).expect("a window fits 32 bits");
        self.ask
            .send(Frame::control(Kind::Credit, self.ask.call(), &owed.to_le_bytes()));
    }
}
