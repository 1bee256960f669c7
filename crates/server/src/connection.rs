//! One client connection, watched: when a request is slow to come, and when an answer has left.
//!
//! Messages in an answer are given back unless the kernel took the whole answer. hyper flushes the socket only after
//! everything it buffered was written, so a flush that succeeds after a body was handed over proves it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use broker::Take;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Longest that the head of a request may take to come.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest that a connection may stand without a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Longest that a client may take to read an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No byte of a next request has come.
    Idle,
    /// A request has begun to come.
    Head,
    /// A request is read or worked on.
    Busy,
    /// An answer was handed over, and the kernel has not taken all of it.
    Answering,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    since: Instant,
    /// Takes whose answers were handed over to be written.
    handed: Vec<Take>,
}

/// What is known of a connection; shared by its socket, its requests and its watchdog.
#[derive(Debug, Clone)]
pub(crate) struct Connection(Arc<Mutex<State>>);

impl Connection {
    pub(crate) fn new() -> Self {
        let state = State {
            phase: Phase::Idle,
            since: Instant::now(),
            handed: Vec::new(),
        };
        Self(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is whole: a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head of a request was read.
    pub(crate) fn begin_request(&self) {
        self.lock().phase = Phase::Busy;
    }

    fn bytes_came(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Idle {
            (state.phase, state.since) = (Phase::Head, Instant::now());
        }
    }

    fn body_handed(&self, take: Option<Take>) {
        let mut state = self.lock();
        state.handed.extend(take);
        (state.phase, state.since) = (Phase::Answering, Instant::now());
    }

    fn flushed(&self) {
        let mut state = self.lock();
        // A pipelined request may have begun meanwhile; what was handed over before has left all the same.
        if state.phase == Phase::Answering {
            (state.phase, state.since) = (Phase::Idle, Instant::now());
        }
        let delivered = std::mem::take(&mut state.handed);
        drop(state);
        delivered.into_iter().for_each(Take::delivered);
    }

    /// Whether the client has been too slow: its connection is to be closed.
    pub(crate) fn is_overdue(&self) -> bool {
        let state = self.lock();
        match state.phase {
            Phase::Idle => state.since.elapsed() > IDLE_TIMEOUT,
            Phase::Head => state.since.elapsed() > HEAD_TIMEOUT,
            Phase::Busy => false,
            Phase::Answering => state.since.elapsed() > ANSWER_TIMEOUT,
        }
    }
}

/// The socket of a connection.
#[derive(Debug)]
pub(crate) struct WatchedSocket {
    pub(crate) socket: TcpStream,
    pub(crate) connection: Connection,
}

impl AsyncRead for WatchedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.connection.bytes_came();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.socket).poll_flush(context))?;
        self.connection.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// The body of an answer, with the take that depends on it. Dropped before it is handed over, it gives the take back.
#[derive(Debug)]
pub(crate) struct WatchedBody {
    bytes: Option<Bytes>,
    take: Option<Take>,
    connection: Connection,
}

impl WatchedBody {
    pub(crate) fn new(bytes: Bytes, take: Option<Take>, connection: Connection) -> Self {
        if bytes.is_empty() {
            // hyper does not ask for the bytes of an empty body.
            connection.body_handed(None);
        }
        Self {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            take,
            connection,
        }
    }
}

impl http_body::Body for WatchedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(bytes) = self.bytes.take() else {
            return Poll::Ready(None);
        };
        let take = self.take.take();
        self.connection.body_handed(take);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
