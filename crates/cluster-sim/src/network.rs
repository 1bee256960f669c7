//! A network in memory: bytes in order between nodes, each with a delay that the seed draws, that stop while their
//! direction is cut and arrive when it is healed, as TCP sends again what was lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use cluster::link::{BoxFuture, BoxStream, Listener, Network};
use simulator::Random;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xxhash_rust::xxh3::xxh3_64;

use crate::trace::Trace;

/// Bytes that one direction of a connection holds.
const PIPE_BYTES_MAX: usize = 256 << 10;
/// Where the kind of a frame stands in its header.
const KIND_AT: usize = 8;

/// How a network behaves that nothing was done to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// The longest usual delay in microseconds.
    pub(crate) delay_max: u64,
    /// Pieces in a thousand that take up to a second.
    pub(crate) late_permille: u64,
    /// Pieces in a thousand that are lost once and sent again.
    pub(crate) lost_permille: u64,
}

/// The network of a run.
pub(crate) struct SimNetwork {
    trace: Arc<Trace>,
    state: Mutex<State>,
}

struct State {
    random: Random,
    weather: Weather,
    pipes: BTreeMap<u64, Pipe>,
    next_pipe: u64,
    listeners: BTreeMap<usize, Accepting>,
    next_listener: u64,
    cut: BTreeSet<(usize, usize)>,
}

struct Accepting {
    listener: u64,
    arrived: VecDeque<(SimStream, String)>,
    waker: Option<Waker>,
}

/// One direction of a connection.
struct Pipe {
    from: usize,
    to: usize,
    travelling: VecDeque<(u64, Bytes)>,
    arrived: VecDeque<Bytes>,
    bytes: usize,
    /// The writer has gone; the reader hears it behind what travels.
    is_ended: bool,
    /// The reader has gone.
    is_unread: bool,
    /// Nothing arrives any more, and nobody hears of it.
    is_silent: bool,
    is_reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn wake(&mut self) {
        self.reader
            .take()
            .into_iter()
            .chain(self.writer.take())
            .for_each(Waker::wake);
    }
}

impl fmt::Debug for SimNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimNetwork").finish_non_exhaustive()
    }
}

impl SimNetwork {
    pub(crate) fn new(seed: u64, weather: Weather, trace: Arc<Trace>) -> Arc<Self> {
        Arc::new(Self {
            trace,
            state: Mutex::new(State {
                random: Random::new(seed),
                weather,
                pipes: BTreeMap::new(),
                next_pipe: 0,
                listeners: BTreeMap::new(),
                next_listener: 0,
                cut: BTreeSet::new(),
            }),
        })
    }

    /// Cuts one direction between two nodes, or heals it.
    pub(crate) fn set_cut(&self, from: usize, to: usize, is_cut: bool) {
        let mut state = self.state();
        if is_cut {
            state.cut.insert((from, to));
        } else {
            state.cut.remove(&(from, to));
        }
    }

    /// Heals everything.
    pub(crate) fn heal(&self) {
        self.state().cut.clear();
    }

    /// Changes how it behaves from now on.
    pub(crate) fn set_weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    /// Ends all connections between two nodes; both hear of it.
    pub(crate) fn reset(&self, a: usize, b: usize) {
        for pipe in self.state().pipes.values_mut() {
            if [(a, b), (b, a)].contains(&(pipe.from, pipe.to)) {
                pipe.is_reset = true;
                pipe.wake();
            }
        }
    }

    /// Ends all connections of a node whose power went: nobody hears of it.
    pub(crate) fn silence(&self, node: usize) {
        for pipe in self.state().pipes.values_mut() {
            pipe.is_silent |= pipe.from == node || pipe.to == node;
        }
    }

    /// Hands over what has arrived by now.
    pub(crate) fn deliver(&self) {
        let now = self.trace.now();
        let mut state = self.state();
        let State { pipes, cut, .. } = &mut *state;
        for (number, pipe) in pipes.iter_mut() {
            if pipe.is_silent || pipe.is_reset || cut.contains(&(pipe.from, pipe.to)) {
                continue;
            }
            while let Some((_, bytes)) = pipe.travelling.pop_front_if(|(due, _)| *due <= now) {
                let kind = bytes.get(KIND_AT).copied().unwrap_or_default();
                let hash = xxh3_64(&bytes);
                self.trace.note(format_args!(
                    "net {}>{} #{number} kind {kind} {} bytes {hash:016x}",
                    pipe.from,
                    pipe.to,
                    bytes.len()
                ));
                pipe.arrived.push_back(bytes);
                pipe.reader.take().into_iter().for_each(Waker::wake);
            }
            if pipe.is_ended && pipe.travelling.is_empty() {
                pipe.reader.take().into_iter().for_each(Waker::wake);
            }
        }
        pipes.retain(|_, pipe| !(pipe.is_ended && pipe.is_unread));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(self: &Arc<Self>, from: usize, to: usize) -> Option<io::Result<SimStream>> {
        let mut state = self.state();
        if state.cut.contains(&(from, to)) || state.cut.contains(&(to, from)) {
            return None;
        }
        if !state.listeners.contains_key(&to) {
            return Some(Err(io::ErrorKind::ConnectionRefused.into()));
        }
        let (there, back) = (state.add_pipe(from, to), state.add_pipe(to, from));
        let stream = |read, write| SimStream {
            network: Arc::clone(self),
            read,
            write,
        };
        let accepting = state.listeners.get_mut(&to)?;
        accepting
            .arrived
            .push_back((stream(there, back), format!("node {from}")));
        accepting.waker.take().into_iter().for_each(Waker::wake);
        Some(Ok(stream(back, there)))
    }
}

impl State {
    fn add_pipe(&mut self, from: usize, to: usize) -> u64 {
        self.next_pipe += 1;
        let pipe = Pipe {
            from,
            to,
            travelling: VecDeque::new(),
            arrived: VecDeque::new(),
            bytes: 0,
            is_ended: false,
            is_unread: false,
            is_silent: false,
            is_reset: false,
            reader: None,
            writer: None,
        };
        self.pipes.insert(self.next_pipe, pipe);
        self.next_pipe
    }

    fn draw_delay(&mut self) -> u64 {
        let mut delay = self.random.below(self.weather.delay_max + 1);
        if self.random.below(1_000) < self.weather.late_permille {
            delay += self.random.below(1_000_000);
        }
        if self.random.below(1_000) < self.weather.lost_permille {
            delay += 200_000 << self.random.below(3);
        }
        delay
    }
}

/// The network as one node has it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) node: usize,
    pub(crate) network: Arc<SimNetwork>,
}

/// Returns the address of a node.
pub(crate) fn address(node: usize) -> String {
    format!("node-{node}:7901")
}

fn node_at(address: &str) -> Option<usize> {
    address.strip_prefix("node-")?.strip_suffix(":7901")?.parse().ok()
}

impl Network for Port {
    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(async move {
            let to = node_at(address).ok_or(io::ErrorKind::NotFound)?;
            match self.network.connect(self.node, to) {
                Some(connected) => Ok(Box::new(connected?) as BoxStream),
                // Whoever dials gives up.
                None => pending().await,
            }
        })
    }

    fn listen<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let mut state = self.network.state();
            state.next_listener += 1;
            let listener = state.next_listener;
            let accepting = Accepting {
                listener,
                arrived: VecDeque::new(),
                waker: None,
            };
            state.listeners.insert(self.node, accepting);
            drop(state);
            Ok(Box::new(SimListener {
                node: self.node,
                listener,
                network: Arc::clone(&self.network),
            }) as Box<dyn Listener>)
        })
    }
}

struct SimListener {
    node: usize,
    listener: u64,
    network: Arc<SimNetwork>,
}

impl Listener for SimListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxStream, String)>> {
        Box::pin(poll_fn(|context| {
            let mut state = self.network.state();
            let accepting = state.listeners.get_mut(&self.node);
            let Some(accepting) = accepting.filter(|accepting| accepting.listener == self.listener) else {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            };
            match accepting.arrived.pop_front() {
                Some((stream, from)) => Poll::Ready(Ok((Box::new(stream) as BoxStream, from))),
                None => {
                    accepting.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }

    fn local_address(&self) -> String {
        address(self.node)
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut state = self.network.state();
        let accepting = state.listeners.remove(&self.node);
        match accepting {
            Some(accepting) if accepting.listener != self.listener => {
                state.listeners.insert(self.node, accepting);
            }
            // Dropping what arrived wants the lock.
            accepting => {
                drop(state);
                drop(accepting);
            }
        }
    }
}

/// One end of a connection.
struct SimStream {
    network: Arc<SimNetwork>,
    read: u64,
    write: u64,
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.network.state();
        let Some(pipe) = state.pipes.get_mut(&self.read) else {
            return Poll::Ready(Ok(()));
        };
        if pipe.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if let Some(front) = pipe.arrived.front_mut() {
            let taken = front.len().min(buffer.remaining());
            buffer.put_slice(&front[..taken]);
            front.advance(taken);
            if front.is_empty() {
                pipe.arrived.pop_front();
            }
            pipe.bytes -= taken;
            pipe.writer.take().into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(()));
        }
        if pipe.is_ended && pipe.travelling.is_empty() && !pipe.is_silent {
            return Poll::Ready(Ok(()));
        }
        pipe.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let now = self.network.trace.now();
        let mut state = self.network.state();
        let delay = state.draw_delay();
        let Some(pipe) = state.pipes.get_mut(&self.write) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        if pipe.is_reset || pipe.is_unread {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if pipe.bytes >= PIPE_BYTES_MAX {
            pipe.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let taken = bytes.len().min(PIPE_BYTES_MAX - pipe.bytes);
        let last = pipe.travelling.back().map_or(0, |(due, _)| *due);
        let due = (now + delay).max(last);
        pipe.travelling
            .push_back((due, Bytes::copy_from_slice(&bytes[..taken])));
        pipe.bytes += taken;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(pipe) = self.network.state().pipes.get_mut(&self.write) {
            pipe.is_ended = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let mut state = self.network.state();
        if let Some(pipe) = state.pipes.get_mut(&self.write) {
            pipe.is_ended = true;
        }
        if let Some(pipe) = state.pipes.get_mut(&self.read) {
            pipe.is_unread = true;
            pipe.writer.take().into_iter().for_each(Waker::wake);
        }
    }
}
