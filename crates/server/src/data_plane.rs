//! The data plane: accepts connections, reads whole requests within limits, and lets the API answer them.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sqs_api::{Answer, Api, Refusal};
use telemetry::{ActionLabel, Metrics, RefusalReason};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{debug, warn};

use crate::connection::{Connection, WatchedBody, WatchedSocket};
use crate::health::Health;

/// Longest body that is read: 1 MiB of message where every byte takes six (`\u0009`), and room for the rest.
const BODY_BYTES_MAX: u64 = 6 * 1024 * 1024 + 256 * 1024;
/// Longest that a body may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How often a connection's watchdog looks.
const WATCHDOG: Duration = Duration::from_secs(5);
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
        let known = self
            .0
            .iter()
            .find(|(name, _)| std::ptr::eq(*name, action) || *name == action);
        known.map_or_else(|| metrics.requests.action(action), |(_, label)| *label)
    }
}

impl DataPlane {
    /// Accepts connections until `stop` changes. Every connection holds a clone of `open` until it is closed.
    pub(crate) async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        mut stop: watch::Receiver<bool>,
        open: tokio::sync::mpsc::Sender<()>,
    ) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.changed() => return,
            };
            let socket = match accepted {
                Ok((socket, _)) => socket,
                Err(error) => {
                    self.rest_after(&error).await;
                    continue;
                }
            };
            let Ok(permit) = self.connections.clone().try_acquire_owned() else {
                self.metrics
                    .backpressure_refusals
                    .increment(RefusalReason::Connections);
                debug!("a connection was refused: too many are open");
                continue;
            };
            let connection = self
                .clone()
                .connection(socket, stop.clone(), permit, open.clone());
            tokio::spawn(connection);
        }
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

    async fn connection(
        self: Arc<Self>,
        socket: TcpStream,
        mut stop: watch::Receiver<bool>,
        permit: OwnedSemaphorePermit,
        open: tokio::sync::mpsc::Sender<()>,
    ) {
        self.metrics.connections_open.increment();
        // A socket that is gone already fails again at the first read.
        let _ = socket.set_nodelay(true);
        let watched = Connection::new();
        let io = TokioIo::new(WatchedSocket {
            socket,
            connection: watched.clone(),
        });
        let plane = self.clone();
        let of_requests = watched.clone();
        let service = service_fn(move |request| {
            let (plane, connection) = (plane.clone(), of_requests.clone());
            async move { Ok::<_, Infallible>(plane.answer(request, connection).await) }
        });
        let mut http = http1::Builder::new();
        http.max_buf_size(HEAD_BYTES_MAX).half_close(false);
        let mut serving = std::pin::pin!(http.serve_connection(io, service));
        let mut watchdog = interval(WATCHDOG);
        watchdog.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                served = serving.as_mut() => {
                    if let Err(error) = served {
                        debug!(%error, "a connection ended");
                    }
                    break;
                }
                Ok(()) = stop.changed() => serving.as_mut().graceful_shutdown(),
                _ = watchdog.tick() => if watched.is_overdue() {
                    debug!("a connection was closed: its client was too slow");
                    break;
                },
            }
        }
        self.metrics.connections_open.decrement();
        drop((permit, open));
    }

    async fn answer(&self, request: Request<Incoming>, connection: Connection) -> Response<WatchedBody> {
        connection.begin_request();
        let (parts, body) = request.into_parts();
        if parts.method == Method::GET
            && let Some(response) = self.health_response(parts.uri.path(), &connection)
        {
            return response;
        }
        let started = Instant::now();
        let answer = match self.read(&parts, body).await {
            Ok((body, _reserved)) => self.api.call(&parts, body).await,
            Err(refusal) => sqs_api::refusal(&parts, refusal),
        };
        let Answer {
            response,
            take,
            action,
            code,
        } = answer;
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.metrics
            .requests
            .observe(self.labels.of(&self.metrics, action), code, nanos);
        response.map(|bytes| WatchedBody::new(bytes, take, connection))
    }

    fn health_response(&self, path: &str, connection: &Connection) -> Option<Response<WatchedBody>> {
        let (status, body) = match path {
            "/health" => self.health.health(),
            "/ready" => self.health.ready(),
            _ => return None,
        };
        let mut response = Response::new(WatchedBody::new(body.into(), None, connection.clone()));
        *response.status_mut() = status;
        let content_type = HeaderValue::from_static(Health::CONTENT_TYPE);
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        Some(response)
    }

    /// Reads the body of a request, within the limits of one and of all requests.
    async fn read(&self, parts: &Parts, body: Incoming) -> Result<(Bytes, Reserved<'_>), Refusal> {
        let declared = body.size_hint().exact();
        if declared.is_some_and(|bytes| bytes > BODY_BYTES_MAX) {
            return Err(Refusal::BodyTooLarge);
        }
        // A body of unknown length may become as long as any: reserve for that, so that all of them stay bounded.
        let Some(reserved) = self.reserve(declared.unwrap_or(BODY_BYTES_MAX)) else {
            self.metrics
                .backpressure_refusals
                .increment(RefusalReason::RequestBytes);
            debug!(method = %parts.method, "a request was refused: too many bytes of requests are held");
            return Err(Refusal::Overloaded);
        };
        match timeout(BODY_TIMEOUT, collect(body)).await {
            Ok(body) => Ok((body?, reserved)),
            Err(_) => Err(Refusal::BodyIncomplete),
        }
    }

    fn reserve(&self, bytes: u64) -> Option<Reserved<'_>> {
        let before = self.body_bytes.fetch_add(bytes, Ordering::Relaxed);
        let reserved = Reserved {
            held: &self.body_bytes,
            bytes,
        };
        (before + bytes <= self.body_bytes_max).then_some(reserved)
    }
}

/// Bytes of a request that count as held until the request is answered.
struct Reserved<'a> {
    held: &'a AtomicU64,
    bytes: u64,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Collects the frames of a body; one frame is taken as it is.
async fn collect(mut body: Incoming) -> Result<Bytes, Refusal> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refusal::BodyIncomplete)?.into_data() else {
            continue;
        };
        if (first.len() + rest.len() + data.len()) as u64 > BODY_BYTES_MAX {
            return Err(Refusal::BodyTooLarge);
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}
