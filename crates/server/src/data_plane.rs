//! The data plane: accepts connections, watches them, and bounds what all of them hold. `exchange.rs` serves one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqs_api::{Answer, Api};
use telemetry::{ActionLabel, Metrics, RefusalReason};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, warn};

use crate::connection::{Connections, WATCHDOG};
use crate::health::Health;

/// How long the accept loop rests when the process has no file handle left.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct DataPlane {
    pub(crate) api: Api,
    pub(crate) health: Health,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) labels: Labels,
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) body_bytes: AtomicU64,
    pub(crate) body_bytes_max: u64,
}

/// The metric label of each action, found once.
#[derive(Debug)]
pub(crate) struct Labels(Vec<(&'static str, ActionLabel)>);

impl Labels {
    pub(crate) fn new(metrics: &Metrics, actions: &[&'static str]) -> Self {
        Self(
            actions
                .iter()
                .map(|action| (*action, metrics.requests.action(action)))
                .collect(),
        )
    }

    fn of(&self, metrics: &Metrics, action: &'static str) -> ActionLabel {
        // The names that answers carry are those of the list itself.
        let known = self.0.iter().find(|(name, _)| std::ptr::eq(*name, action));
        known.map_or_else(|| metrics.requests.action(action), |(_, label)| *label)
    }
}

impl DataPlane {
    /// Accepts connections until `stop` changes, and watches them until they are closed. Every connection holds a clone
    /// of `open` until then.
    pub(crate) async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        mut stop: watch::Receiver<bool>,
        open: mpsc::Sender<()>,
    ) {
        let mut connections = Connections::default();
        let mut watchdog = interval(WATCHDOG);
        watchdog.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => self.open(socket, &mut connections, &open),
                    Err(error) => self.rest_after(&error).await,
                },
                _ = watchdog.tick() => connections.look(),
                _ = stop.changed() => break,
            }
        }
        drop((listener, open));
        connections.finish();
        loop {
            watchdog.tick().await;
            connections.look();
        }
    }

    fn open(self: &Arc<Self>, socket: TcpStream, connections: &mut Connections, open: &mpsc::Sender<()>) {
        let Ok(permit) = self.connections.clone().try_acquire_owned() else {
            self.metrics
                .backpressure_refusals
                .increment(RefusalReason::Connections);
            debug!("a connection was refused: too many are open");
            return;
        };
        let (plane, open, connection) = (self.clone(), open.clone(), connections.open());
        tokio::spawn(async move {
            plane.metrics.connections_open.increment();
            plane.serve(socket, &connection).await;
            plane.metrics.connections_open.decrement();
            drop((permit, open));
        });
    }

    async fn rest_after(&self, error: &io::Error) {
        // A client that went away before it was accepted is its own affair.
        if matches!(
            error.kind(),
            io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
        ) {
            return;
        }
        warn!(%error, "no connection can be accepted");
        let mut rest = interval(ACCEPT_REST);
        rest.tick().await;
        rest.tick().await;
    }

    /// Counts a request that was answered.
    pub(crate) fn observe(&self, answer: &Answer, started: Instant) {
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let label = self.labels.of(&self.metrics, answer.action);
        self.metrics.requests.observe(label, answer.code, nanos);
    }

    /// Takes room for the body of a request, unless the requests that are worked on hold all of it.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reserved<'_>> {
        let before = self.body_bytes.fetch_add(bytes, Ordering::Relaxed);
        let reserved = Reserved {
            held: &self.body_bytes,
            bytes,
        };
        if bytes > 0 && before + bytes > self.body_bytes_max {
            self.metrics
                .backpressure_refusals
                .increment(RefusalReason::RequestBytes);
            debug!(
                bytes,
                "a request was refused: too many bytes of requests are held"
            );
            return None;
        }
        Some(reserved)
    }
}

/// Bytes of a request that count as held until the request is answered.
#[derive(Debug)]
pub(crate) struct Reserved<'a> {
    held: &'a AtomicU64,
    bytes: u64,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
