//! One client connection, watched: when a request is slow to come, and when an answer has left.
//!
//! Messages in an answer are given back unless the kernel took the whole answer. hyper flushes the socket only after
//! everything it buffered was written, so a flush that succeeds after a body was handed over proves it.
//!
//! One watchdog looks at all connections. A phase is timed by how often it was seen, so that a request neither reads the
//! clock nor sets a timer for it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use broker::Take;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tracing::debug;

/// How often the watchdog looks. Each limit below can be exceeded by so much.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(5);

/// Longest that the head of a request may take to come.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest that the body of a request may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
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
    /// The body of a request is read, or the request is worked on.
    Busy,
    /// An answer was handed over, and the kernel has not taken all of it.
    Answering,
}

/// What a connection is to do. It never goes back to an earlier order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Answer requests.
    Serve,
    /// Answer what has begun to come, and close.
    Finish,
    /// Close at once: the client is too slow.
    Close,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// How often the watchdog has seen this phase.
    looks: u32,
    /// Takes whose answers were handed over to be written.
    handed: Vec<Take>,
    order: Order,
    /// Wakes the connection's task to a new order.
    waker: Option<Waker>,
}

impl State {
    fn enter(&mut self, phase: Phase) {
        (self.phase, self.looks) = (phase, 0);
    }

    /// Whether this phase has certainly lasted so long: the first look can come right after it began.
    fn has_lasted(&self, limit: Duration) -> bool {
        WATCHDOG * self.looks.saturating_sub(1) >= limit
    }
}

/// What is known of a connection; shared by its socket, its requests and the watchdog.
#[derive(Debug, Clone)]
pub(crate) struct Connection(Arc<Mutex<State>>);

impl Connection {
    fn new() -> Self {
        let state = State {
            phase: Phase::Idle,
            looks: 0,
            handed: Vec::new(),
            order: Order::Serve,
            waker: None,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is whole: a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head of a request was read.
    pub(crate) fn begin_request(&self) {
        self.lock().enter(Phase::Busy);
    }

    fn bytes_came(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Idle {
            state.enter(Phase::Head);
        }
    }

    fn body_handed(&self, take: Option<Take>) {
        let mut state = self.lock();
        state.handed.extend(take);
        state.enter(Phase::Answering);
    }

    fn flushed(&self) {
        let mut state = self.lock();
        // A pipelined request may have begun meanwhile; what was handed over before has left all the same.
        if state.phase == Phase::Answering {
            state.enter(Phase::Idle);
        }
        let delivered = std::mem::take(&mut state.handed);
        drop(state);
        delivered.into_iter().for_each(Take::delivered);
    }

    /// Whether the body of the request has been too slow to come. The watchdog wakes the connection's task to ask.
    pub(crate) fn is_body_overdue(&self) -> bool {
        let state = self.lock();
        state.phase == Phase::Busy && state.has_lasted(BODY_TIMEOUT)
    }

    /// Returns what the connection is to do. A later order wakes `waker`.
    pub(crate) fn order(&self, waker: &Waker) -> Order {
        let mut state = self.lock();
        if !state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        state.order
    }

    /// Gives an order and wakes the connection's task.
    fn give(&self, order: Order) {
        let mut state = self.lock();
        state.order = state.order.max(order);
        let waker = state.waker.clone();
        drop(state);
        waker.iter().for_each(Waker::wake_by_ref);
    }

    /// Counts one look of the watchdog, and does something about a client that is too slow.
    fn look(&self) {
        let mut state = self.lock();
        state.looks = state.looks.saturating_add(1);
        let (limit, order) = match state.phase {
            Phase::Idle => (IDLE_TIMEOUT, Order::Close),
            Phase::Head => (HEAD_TIMEOUT, Order::Close),
            // Woken, the request finds out by itself whether it still waits for its body, and answers that.
            Phase::Busy => (BODY_TIMEOUT, Order::Serve),
            Phase::Answering => (ANSWER_TIMEOUT, Order::Close),
        };
        let is_over = state.has_lasted(limit);
        drop(state);
        if is_over {
            debug!(?order, "a client was too slow");
            self.give(order);
        }
    }
}

/// The open connections of a listener.
#[derive(Debug, Default)]
pub(crate) struct Connections(Vec<Weak<Mutex<State>>>);

impl Connections {
    /// Adds a connection, which stays until its last clone is gone.
    pub(crate) fn open(&mut self) -> Connection {
        let connection = Connection::new();
        self.0.push(Arc::downgrade(&connection.0));
        connection
    }

    /// Looks at each once. To be called every [`WATCHDOG`].
    pub(crate) fn look(&mut self) {
        self.0.retain(|connection| {
            let connection = connection.upgrade().map(Connection);
            connection.iter().for_each(Connection::look);
            connection.is_some()
        });
    }

    /// Lets each answer what has begun to come, and close.
    pub(crate) fn finish(&self) {
        let open = self.0.iter().filter_map(Weak::upgrade).map(Connection);
        open.for_each(|connection| connection.give(Order::Finish));
    }
}

/// The socket of a connection.
#[derive(Debug)]
pub(crate) struct WatchedSocket {
    socket: TcpStream,
    connection: Connection,
    /// Whether bytes were written since the last flush. hyper flushes also when there is nothing to be flushed.
    has_written: bool,
}

impl WatchedSocket {
    pub(crate) fn new(socket: TcpStream, connection: Connection) -> Self {
        Self {
            socket,
            connection,
            has_written: false,
        }
    }
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
        self.has_written = true;
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.has_written = true;
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.socket).poll_flush(context))?;
        if std::mem::take(&mut self.has_written) {
            self.connection.flushed();
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Returns after how many looks a connection in a phase gets another order, or is woken.
    fn looks_until_woken(begin: impl Fn(&Connection)) -> (u32, Order) {
        let mut connections = Connections::default();
        let connection = connections.open();
        begin(&connection);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        assert_eq!(connection.order(&waker), Order::Serve);
        for looks in 1..100 {
            connections.look();
            if wakes.0.load(Ordering::SeqCst) > 0 {
                return (looks, connection.order(&waker));
            }
        }
        panic!("never woken");
    }

    #[test]
    fn a_slow_client_is_noticed_within_one_look_of_its_limit() {
        let looks = |limit: Duration| u32::try_from(limit.as_secs() / WATCHDOG.as_secs()).unwrap() + 1;
        let check = |begin: &dyn Fn(&Connection), limit: Duration, expected: Order| {
            assert_eq!(looks_until_woken(begin), (looks(limit), expected), "{limit:?}");
        };
        check(&|_| {}, IDLE_TIMEOUT, Order::Close);
        check(&Connection::bytes_came, HEAD_TIMEOUT, Order::Close);
        check(&Connection::begin_request, BODY_TIMEOUT, Order::Serve);
        check(
            &|connection| connection.body_handed(None),
            ANSWER_TIMEOUT,
            Order::Close,
        );
    }

    #[test]
    fn every_step_of_a_request_begins_a_new_time() {
        let mut connections = Connections::default();
        let connection = connections.open();
        for _ in 0..20 {
            for step in [
                Connection::bytes_came,
                Connection::begin_request,
                |connection: &Connection| connection.body_handed(None),
                Connection::flushed,
            ] {
                step(&connection);
                connections.look();
                connections.look();
                assert!(!connection.is_body_overdue());
                assert_eq!(connection.order(Waker::noop()), Order::Serve);
            }
        }
    }

    #[test]
    fn a_body_is_overdue_only_while_its_request_is_at_work() {
        let mut connections = Connections::default();
        let connection = connections.open();
        connection.begin_request();
        for _ in 0..10 {
            connections.look();
        }
        assert!(connection.is_body_overdue());
        connection.begin_request();
        assert!(!connection.is_body_overdue());
    }

    #[test]
    fn an_order_reaches_every_open_connection_and_stays() {
        let mut connections = Connections::default();
        let (first, second) = (connections.open(), connections.open());
        drop(connections.open());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        for connection in [&first, &second] {
            assert_eq!(connection.order(&waker), Order::Serve);
        }
        connections.finish();
        assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
        first.give(Order::Close);
        first.give(Order::Finish);
        assert_eq!(
            (first.order(&waker), second.order(&waker)),
            (Order::Close, Order::Finish)
        );
        connections.look();
        assert_eq!(connections.0.len(), 2, "the closed one is forgotten");
    }
}
