//! What a node does with the requests of others.

use std::future::Future;

use bytes::Bytes;

use super::network::BoxFuture;
use super::{HandlerError, Peer, PieceSender};

/// Serves requests. A future is dropped as soon as the caller dropped its own, or the link is lost.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request.
    fn call(
        &self,
        peer: Peer,
        kind: u16,
        body: Bytes,
    ) -> impl Future<Output = Result<Bytes, HandlerError>> + Send;

    /// Answers a request with a stream of pieces. It ends, with the result, when the future does.
    fn stream(
        &self,
        _peer: Peer,
        _kind: u16,
        _body: Bytes,
        _pieces: PieceSender,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send {
        async { Err(HandlerError::UnknownKind) }
    }
}

/// A handler of whatever type.
pub(super) trait AnyHandler: Send + Sync {
    fn call(&self, peer: Peer, kind: u16, body: Bytes) -> BoxFuture<'_, Result<Bytes, HandlerError>>;

    fn stream(
        &self,
        peer: Peer,
        kind: u16,
        body: Bytes,
        pieces: PieceSender,
    ) -> BoxFuture<'_, Result<(), HandlerError>>;
}

impl<H: Handler> AnyHandler for H {
    fn call(&self, peer: Peer, kind: u16, body: Bytes) -> BoxFuture<'_, Result<Bytes, HandlerError>> {
        Box::pin(Handler::call(self, peer, kind, body))
    }

    fn stream(
        &self,
        peer: Peer,
        kind: u16,
        body: Bytes,
        pieces: PieceSender,
    ) -> BoxFuture<'_, Result<(), HandlerError>> {
        Box::pin(Handler::stream(self, peer, kind, body, pieces))
    }
}
