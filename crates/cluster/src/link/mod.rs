//! The links between nodes (port 7901): requests with answers, and streams, over connections whose ends have proved who
//! they are.
//!
//! Whoever wants to ask dials, so two nodes that ask each other have two connections. [`Links`] keeps one to each
//! [`Target`] that is asked, and hands what others ask to the [`Handler`]. What a request means is not known here, and
//! nothing is tried twice: an error says whether the request surely was not carried out ([`LinkError`]).
//!
//! The bytes are drawn in `docs/formats/link.md`. Start reading at [`Links`]; `handshake` is how a connection begins,
//! `seal` how its frames are protected, `outbox` in which order they go, `asker` and `served` are its two ends.

mod accepting;
mod asker;
mod condition;
mod dialling;
mod error;
mod frame;
mod handler;
mod handshake;
mod heard;
mod hub;
mod identity;
mod late;
mod limits;
mod links;
mod network;
mod observer;
mod outbox;
mod seal;
mod secret;
mod security;
mod served;
mod stream;
mod tls;
mod wire;

pub use error::{Cause, HandlerError, LinkError, Lost, Reason};
pub use handler::Handler;
pub use identity::{ClusterId, Identity, NodeId, Peer, Target};
pub use late::LateAnswer;
pub use limits::{DISCOVERY_KINDS_END, Limits, Timing};
pub use links::{Links, Options, Outside, PeerStatus, Request};
pub use network::{BoxFuture, BoxStream, Listener, Network, Stream, Tcp};
pub use observer::{NoObserver, Observer, Side};
pub use secret::Secret;
pub use security::Security;
pub use stream::{PieceSender, PieceTooLarge, Pieces};
pub use tls::{Tls, TlsError};
