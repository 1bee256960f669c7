//! One client connection as the watchdog sees it: what it is doing since when, and what it is to do.
//!
//! One watchdog looks at all connections. A phase is timed by how often it was seen, so that a request neither reads the
//! clock nor sets a timer for it.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

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
    /// An answer is written, and the kernel has not taken all of it.
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

/// A phase and how often the watchdog has seen it, in one word, so that neither is read without the other.
#[derive(Debug, Clone, Copy)]
struct Seen(u32);

impl Seen {
    const LOOKS_BITS: u32 = 24;

    const fn begun(phase: Phase) -> Self {
        let phase = match phase {
            Phase::Idle => 0,
            Phase::Head => 1,
            Phase::Busy => 2,
            Phase::Answering => 3,
        };
        Self(phase << Self::LOOKS_BITS)
    }

    const fn phase(self) -> Phase {
        match self.0 >> Self::LOOKS_BITS {
            0 => Phase::Idle,
            1 => Phase::Head,
            2 => Phase::Busy,
            _ => Phase::Answering,
        }
    }

    /// Counts a look, up to a number that no limit reaches.
    const fn looked_at(self) -> Self {
        let looks = self.0 & ((1 << Self::LOOKS_BITS) - 1);
        if looks + 1 < 1 << Self::LOOKS_BITS {
            Self(self.0 + 1)
        } else {
            self
        }
    }

    /// Whether this phase has certainly lasted so long: the first look can come right after it began.
    fn has_lasted(self, limit: Duration) -> bool {
        let looks = self.0 & ((1 << Self::LOOKS_BITS) - 1);
        WATCHDOG * looks.saturating_sub(1) >= limit
    }
}

#[derive(Debug)]
struct State {
    /// A [`Seen`].
    seen: AtomicU32,
    /// An [`Order`], as its place among them.
    order: AtomicU8,
    /// Wakes the connection's task to a new order.
    waker: Mutex<Option<Waker>>,
}

/// What is known of a connection; shared by its task and the watchdog.
#[derive(Debug, Clone)]
pub(crate) struct Connection(Arc<State>);

impl Connection {
    fn new() -> Self {
        Self(Arc::new(State {
            seen: AtomicU32::new(Seen::begun(Phase::Idle).0),
            order: AtomicU8::new(Order::Serve as u8),
            waker: Mutex::new(None),
        }))
    }

    fn seen(&self) -> Seen {
        Seen(self.0.seen.load(Ordering::Relaxed))
    }

    fn enter(&self, phase: Phase) {
        self.0.seen.store(Seen::begun(phase).0, Ordering::Relaxed);
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        // Every change is whole: a panic elsewhere leaves nothing half done.
        self.0.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a head came.
    pub(crate) fn bytes_came(&self) {
        if self.seen().phase() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// The head of a request was read.
    pub(crate) fn begin_request(&self) {
        self.enter(Phase::Busy);
    }

    /// The kernel does not take more of an answer until the client has read some.
    pub(crate) fn waits_for_client(&self) {
        if self.seen().phase() != Phase::Answering {
            self.enter(Phase::Answering);
        }
    }

    /// An answer has left, and a next request may have begun to come.
    pub(crate) fn end_request(&self, has_begun_next: bool) {
        self.enter(if has_begun_next { Phase::Head } else { Phase::Idle });
    }

    /// Whether the body of the request has been too slow to come. The watchdog wakes the connection's task to ask.
    pub(crate) fn is_body_overdue(&self) -> bool {
        let seen = self.seen();
        seen.phase() == Phase::Busy && seen.has_lasted(BODY_TIMEOUT)
    }

    /// Has a later order wake a task. To be called before [`Self::order`] is.
    pub(crate) fn wake_with(&self, waker: &Waker) {
        let mut known = self.waker();
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }

    /// Returns what the connection is to do.
    pub(crate) fn order(&self) -> Order {
        match self.0.order.load(Ordering::SeqCst) {
            0 => Order::Serve,
            1 => Order::Finish,
            _ => Order::Close,
        }
    }

    /// Gives an order and wakes the connection's task.
    fn give(&self, order: Order) {
        self.0.order.fetch_max(order as u8, Ordering::SeqCst);
        let waker = self.waker().clone();
        waker.iter().for_each(Waker::wake_by_ref);
    }

    /// Counts one look of the watchdog, and does something about a client that is too slow.
    fn look(&self) {
        let before = self.seen();
        let seen = before.looked_at();
        // A phase that begins meanwhile has not been seen.
        let counted = self
            .0
            .seen
            .compare_exchange(before.0, seen.0, Ordering::Relaxed, Ordering::Relaxed);
        if counted.is_err() {
            return;
        }
        let (limit, order) = match seen.phase() {
            Phase::Idle => (IDLE_TIMEOUT, Order::Close),
            Phase::Head => (HEAD_TIMEOUT, Order::Close),
            // Woken, the request finds out by itself whether it still waits for its body, and answers that.
            Phase::Busy => (BODY_TIMEOUT, Order::Serve),
            Phase::Answering => (ANSWER_TIMEOUT, Order::Close),
        };
        if seen.has_lasted(limit) {
            debug!(?order, "a client was too slow");
            self.give(order);
        }
    }
}

/// The open connections of a listener.
#[derive(Debug, Default)]
pub(crate) struct Connections(Vec<Weak<State>>);

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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
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
        connection.wake_with(&waker);
        assert_eq!(connection.order(), Order::Serve);
        for looks in 1..100 {
            connections.look();
            if wakes.0.load(Ordering::SeqCst) > 0 {
                return (looks, connection.order());
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
        check(&Connection::waits_for_client, ANSWER_TIMEOUT, Order::Close);
    }

    #[test]
    fn every_step_of_a_request_begins_a_new_time() {
        let mut connections = Connections::default();
        let connection = connections.open();
        for _ in 0..20 {
            for step in [
                Connection::bytes_came,
                Connection::begin_request,
                Connection::waits_for_client,
                |connection: &Connection| connection.end_request(true),
                |connection: &Connection| connection.end_request(false),
            ] {
                step(&connection);
                connections.look();
                connections.look();
                assert!(!connection.is_body_overdue());
                assert_eq!(connection.order(), Order::Serve);
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
            connection.wake_with(&waker);
            assert_eq!(connection.order(), Order::Serve);
        }
        connections.finish();
        assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
        first.give(Order::Close);
        first.give(Order::Finish);
        assert_eq!((first.order(), second.order()), (Order::Close, Order::Finish));
        connections.look();
        assert_eq!(connections.0.len(), 2, "the closed one is forgotten");
    }
}
