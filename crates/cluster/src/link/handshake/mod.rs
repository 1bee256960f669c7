//! Two nodes meet: they say who they are, prove it, and derive the keys of the session.
//!
//! ```text
//! dialler                               acceptor
//!    | hello: versions, who, nonce          |
//!    |------------------------------------->|
//!    |       challenge: version, who, nonce |
//!    |<-------------------------------------|
//!    | proof                                |
//!    |------------------------------------->|
//!    |                        accept, proof |
//!    |<-------------------------------------|
//! ```
//!
//! Either end may answer with a refusal instead. The dialler proves itself first, so that a stranger who connects gets
//! nothing that he could try secrets against. A refusal is not authenticated: it is believed only so far as to log it and
//! to try later.

mod accept;
mod dial;
mod message;

use std::io;
use std::sync::Arc;

use broker::{Clock, Random};
use ring::digest::{SHA256, digest};
use thiserror::Error;
use types::WallTime;

pub(super) use self::accept::greet;
pub(super) use self::dial::dial;
use self::message::Introduction;
use super::network::BoxStream;
use super::seal::{Protection, Seal, seals};
use super::{Identity, Peer, Reason, Side};

/// A link whose ends know each other.
pub(super) struct Established {
    pub(super) stream: BoxStream,
    pub(super) sealing: Seal,
    pub(super) opening: Seal,
    pub(super) peer: Peer,
    /// How far the peer's wall clock is ahead of ours.
    pub(super) clock_ahead_millis: i64,
}

/// What a handshake needs to know of this node.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub(super) identity: Identity,
    pub(super) level_min: u32,
    pub(super) is_shutting_down: bool,
    pub(super) random: Arc<dyn Random>,
    pub(super) clock: Arc<dyn Clock>,
}

/// A handshake that failed.
#[derive(Debug, Error)]
pub(super) enum HandshakeError {
    #[error("the peer refused: {0}")]
    ByPeer(Reason),
    #[error("{0}")]
    Here(Reason),
    #[error("{0}: {1}")]
    Tls(Reason, io::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl HandshakeError {
    pub(super) fn reason(&self) -> Option<Reason> {
        match self {
            Self::ByPeer(reason) | Self::Here(reason) | Self::Tls(reason, _) => Some(*reason),
            Self::Io(_) => None,
        }
    }
}

impl Own {
    fn introduce(&self) -> Introduction {
        let mut nonce = [0; 32];
        self.random.fill(&mut nonce);
        Introduction {
            level: self.identity.level,
            cluster: self.identity.cluster,
            node: self.identity.node,
            wall: self.clock.wall(),
            nonce,
            address: self.identity.advertise.clone(),
        }
    }

    /// Says why this node does not talk with that one, if it does not.
    fn objection(&self, other: &Introduction) -> Option<Reason> {
        let own = &self.identity;
        if other.node == own.node {
            let is_self = other.address == own.advertise;
            return Some(if is_self {
                Reason::Myself
            } else {
                Reason::DuplicateNode
            });
        }
        if let (Some(theirs), Some(ours)) = (other.cluster, own.cluster)
            && theirs != ours
        {
            return Some(Reason::OtherCluster);
        }
        if other.level < self.level_min {
            return Some(Reason::TooOld);
        }
        self.is_shutting_down.then_some(Reason::ShuttingDown)
    }

    fn peer(&self, other: Introduction) -> Peer {
        Peer {
            node: other.node,
            is_member: other.cluster.is_some() && other.cluster == self.identity.cluster,
            cluster: other.cluster,
            address: other.address,
            level: other.level,
        }
    }

    fn establish(
        &self,
        stream: BoxStream,
        other: Introduction,
        protection: &Protection,
        transcript: &[u8; 32],
        side: Side,
    ) -> Established {
        let (sealing, opening) = seals(protection, transcript, side);
        Established {
            stream,
            sealing,
            opening,
            clock_ahead_millis: ahead(other.wall, self.clock.wall()),
            peer: self.peer(other),
        }
    }
}

fn ahead(theirs: WallTime, ours: WallTime) -> i64 {
    let millis = |time: WallTime| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    millis(theirs).saturating_sub(millis(ours))
}

/// Everything that both ends said before they prove themselves, as one hash.
fn transcript(hello: &[u8], challenge: &[u8]) -> [u8; 32] {
    let hash = digest(&SHA256, &[hello, challenge].concat());
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
