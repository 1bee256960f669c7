//! Nodes for tests: a handler whose doings can be watched, and an observer that remembers.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker::{ManualClock, SeededRandom};
use bytes::Bytes;
use cluster::link::{
    ClusterId, Handler, HandlerError, Identity, LinkError, Links, Lost, NodeId, Observer, Options, Outside,
    Peer, PieceSender, Reason, Request, Secret, Security, Side, Target,
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use types::WallTime;

use crate::memory::Memory;

/// Answers with its body, outside of a cluster too.
pub(crate) const DISCOVER: u16 = 1;
/// Answers with its body.
pub(crate) const ECHO: u16 = 300;
/// Never answers.
pub(crate) const HANG: u16 = 301;
/// Sends pieces of the length and number that its body says, both as u32.
pub(crate) const PIECES: u16 = 302;
/// Fails.
pub(crate) const FAIL: u16 = 303;
/// Remembers its body's first eight bytes, and answers with all of it.
pub(crate) const REMEMBER: u16 = 305;
/// Panics.
pub(crate) const PANIC: u16 = 304;

/// The deadline of calls that are meant to be answered, and the longest that a test waits for a condition.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// What a handler did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doing {
    Started(u16, Peer),
    Dropped,
}

pub(crate) struct Watched {
    doings: mpsc::UnboundedSender<Doing>,
    pub(crate) sent_bytes: Arc<AtomicU64>,
    pub(crate) remembered: Arc<Mutex<Vec<u64>>>,
}

struct SaysDropped(mpsc::UnboundedSender<Doing>);

impl Drop for SaysDropped {
    fn drop(&mut self) {
        // The test may be over.
        drop(self.0.send(Doing::Dropped));
    }
}

impl Watched {
    fn started(&self, kind: u16, peer: Peer) {
        // The test may not watch.
        drop(self.doings.send(Doing::Started(kind, peer)));
    }
}

impl Handler for Watched {
    async fn call(&self, peer: Peer, kind: u16, body: Bytes) -> Result<Bytes, HandlerError> {
        self.started(kind, peer);
        match kind {
            DISCOVER | ECHO => Ok(body),
            REMEMBER => {
                let number = u64::from_le_bytes(body[..8].try_into().unwrap());
                self.remembered.lock().unwrap().push(number);
                Ok(body)
            }
            HANG => {
                let _says = SaysDropped(self.doings.clone());
                pending().await
            }
            FAIL => Err(HandlerError::Failed("no luck".to_owned())),
            PANIC => panic!("on request"),
            _ => Err(HandlerError::UnknownKind),
        }
    }

    async fn stream(
        &self,
        peer: Peer,
        kind: u16,
        body: Bytes,
        mut pieces: PieceSender,
    ) -> Result<(), HandlerError> {
        self.started(kind, peer);
        let _says = SaysDropped(self.doings.clone());
        match kind {
            PIECES => {
                let field = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
                for number in 0..field(4) {
                    let piece = vec![number as u8; field(0) as usize];
                    let length = piece.len() as u64;
                    let sent = pieces.send(piece.into()).await;
                    sent.map_err(|error| HandlerError::Failed(error.to_string()))?;
                    self.sent_bytes.fetch_add(length, Ordering::SeqCst);
                }
                Ok(())
            }
            FAIL => Err(HandlerError::Failed("no luck".to_owned())),
            HANG => pending().await,
            _ => Err(HandlerError::UnknownKind),
        }
    }
}

/// What an observer saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Refused(Side, Reason),
    Connected(NodeId, Side),
    Lost(NodeId, Side, Lost),
    ClockDiffers(NodeId, i64),
}

#[derive(Debug)]
pub(crate) struct Recorder {
    events: watch::Sender<Vec<Event>>,
    pub(crate) received_bytes: AtomicU64,
}

impl Recorder {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            events: watch::Sender::new(Vec::new()),
            received_bytes: AtomicU64::new(0),
        })
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }

    /// Waits until this was seen.
    pub(crate) async fn saw(&self, due: Event) {
        let mut events = self.events.subscribe();
        let seen = tokio::time::timeout_at(soon(), events.wait_for(|events| events.contains(&due))).await;
        assert!(seen.is_ok(), "{due:?} is not in {:?}", self.events());
    }

    fn push(&self, event: Event) {
        self.events.send_modify(|events| events.push(event));
    }
}

impl Observer for Recorder {
    fn received(&self, _frames: u64, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    fn refused(&self, side: Side, reason: Reason) {
        self.push(Event::Refused(side, reason));
    }

    fn connected(&self, peer: &Peer, side: Side) {
        self.push(Event::Connected(peer.node, side));
    }

    fn lost(&self, peer: &Peer, side: Side, lost: &Lost) {
        self.push(Event::Lost(peer.node, side, lost.clone()));
    }

    fn clock_differs(&self, peer: &Peer, millis: i64) {
        self.push(Event::ClockDiffers(peer.node, millis));
    }
}

/// How a node of a test is made.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) id: u64,
    pub(crate) advertise: &'static str,
    pub(crate) cluster: Option<ClusterId>,
    pub(crate) level: u32,
    pub(crate) wall_millis: u64,
    pub(crate) options: Options,
}

pub(crate) fn cluster(byte: u8) -> Option<ClusterId> {
    ClusterId::new([byte; 16])
}

pub(crate) fn secret(byte: u8) -> Secret {
    Secret::new([byte; 32]).unwrap()
}

pub(crate) fn with_secret(byte: u8) -> Security {
    let (current, previous) = (secret(byte), None);
    Security::Secret { current, previous }
}

pub(crate) fn setup(id: u64, address: &'static str) -> Setup {
    Setup {
        id,
        advertise: address,
        cluster: cluster(1),
        level: 1,
        wall_millis: 1_000_000,
        options: Options::new(address, with_secret(7)),
    }
}

pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) links: Links,
    pub(crate) seen: Arc<Recorder>,
    pub(crate) doings: mpsc::UnboundedReceiver<Doing>,
    pub(crate) sent_bytes: Arc<AtomicU64>,
    pub(crate) remembered: Arc<Mutex<Vec<u64>>>,
    pub(crate) address: String,
}

impl Setup {
    pub(crate) async fn start(self, network: &Arc<Memory>) -> Node {
        self.start_on(network.clone()).await
    }

    pub(crate) async fn start_on(self, network: Arc<dyn cluster::link::Network>) -> Node {
        self.try_start_on(network).await.unwrap()
    }

    pub(crate) async fn try_start_on(self, network: Arc<dyn cluster::link::Network>) -> io::Result<Node> {
        let id = NodeId::new(self.id).unwrap();
        let identity = Identity {
            node: id,
            cluster: self.cluster,
            advertise: self.advertise.to_owned(),
            level: self.level,
        };
        let seen = Recorder::new();
        let outside = Outside {
            network,
            random: Arc::new(SeededRandom::new(self.id)),
            clock: Arc::new(ManualClock::new(WallTime::from_millis(self.wall_millis))),
            observer: seen.clone(),
        };
        let (sender, doings) = mpsc::unbounded_channel();
        let sent_bytes = Arc::<AtomicU64>::default();
        let remembered = Arc::<Mutex<Vec<u64>>>::default();
        let handler = Watched {
            doings: sender,
            sent_bytes: sent_bytes.clone(),
            remembered: remembered.clone(),
        };
        let links = Links::start(identity, self.options, outside, handler).await?;
        let address = links.listen_address().to_owned();
        Ok(Node {
            id,
            links,
            seen,
            doings,
            sent_bytes,
            remembered,
            address,
        })
    }
}

impl Node {
    pub(crate) fn target(&self) -> Target {
        Target::node(self.id, self.address.clone())
    }

    pub(crate) async fn ask(
        &self,
        other: &Node,
        kind: u16,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, LinkError> {
        self.links
            .call(&other.target(), Request::new(kind, body), soon())
            .await
    }

    /// Waits until the handler did this.
    pub(crate) async fn did(&mut self, due: impl Fn(&Doing) -> bool) {
        loop {
            let doing = tokio::time::timeout_at(soon(), self.doings.recv()).await;
            if due(&doing.expect("it is done soon").expect("the handler is there")) {
                return;
            }
        }
    }
}

/// Two members of a cluster.
pub(crate) async fn pair(network: &Arc<Memory>) -> (Node, Node) {
    (
        setup(1, "one:7901").start(network).await,
        setup(2, "two:7901").start(network).await,
    )
}
