//! The data plane: accepts connections, reads whole requests within limits, and lets the API answer them.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, header};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sqs_api::{Answer, Api, Refusal};
use telemetry::{ActionLabel, Metrics, RefusalReason};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, warn};

use crate::connection::{Connection, Connections, Order, WATCHDOG, WatchedBody, WatchedSocket};
use crate::health::Health;

/// Longest body that is read: 1 MiB of message where every byte takes six (`\u0009`), and room for the rest.
const BODY_BYTES_MAX: u64 = 6 * 1024 * 1024 + 256 * 1024;
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;
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

    /// Serves a connection until it is closed.
    async fn serve(&self, socket: TcpStream, connection: &Connection) {
        // A socket that is gone already fails again at the first read.
        let _ = socket.set_nodelay(true);
        let io = TokioIo::new(WatchedSocket::new(socket, connection.clone()));
        let mut http = http1::Builder::new();
        http.max_buf_size(HEAD_BYTES_MAX).half_close(false);
        let service = service_fn(|request| self.answer(request, connection));
        let mut serving = std::pin::pin!(http.serve_connection(io, service));
        let mut is_finishing = false;
        let closed = poll_fn(|context| {
            loop {
                if let Poll::Ready(served) = serving.as_mut().poll(context) {
                    return Poll::Ready(served);
                }
                match connection.order(context.waker()) {
                    Order::Serve => return Poll::Pending,
                    Order::Finish if is_finishing => return Poll::Pending,
                    Order::Finish => {
                        is_finishing = true;
                        serving.as_mut().graceful_shutdown();
                    }
                    Order::Close => return Poll::Ready(Ok(())),
                }
            }
        });
        if let Err(error) = closed.await {
            debug!(%error, "a connection ended");
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
    ) -> Result<Response<WatchedBody>, Infallible> {
        connection.begin_request();
        let (parts, body) = request.into_parts();
        if parts.method == Method::GET
            && let Some(response) = self.health_response(parts.uri.path(), connection)
        {
            return Ok(response);
        }
        let started = Instant::now();
        let answer = match self.read(&parts, body, connection).await {
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
        Ok(response.map(|bytes| WatchedBody::new(bytes, take, connection.clone())))
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
    async fn read(
        &self,
        parts: &Parts,
        body: Incoming,
        connection: &Connection,
    ) -> Result<(Bytes, Reserved<'_>), Refusal> {
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
        Ok((collect(body, connection).await?, reserved))
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
async fn collect(
    mut body: impl Body<Data = Bytes> + Unpin,
    connection: &Connection,
) -> Result<Bytes, Refusal> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(data) = next_data(&mut body, connection).await? {
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

/// Waits for the next bytes of a body; no bytes come for a frame of another kind.
async fn next_data(
    body: &mut (impl Body<Data = Bytes> + Unpin),
    connection: &Connection,
) -> Result<Option<Bytes>, Refusal> {
    let frame = poll_fn(|context| {
        let polled = Pin::new(&mut *body).poll_frame(context);
        if polled.is_pending() && connection.is_body_overdue() {
            return Poll::Ready(Some(Err(Refusal::BodyIncomplete)));
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(|_| Refusal::BodyIncomplete)))
    });
    let frame = frame.await.transpose()?;
    Ok(frame.map(|frame| frame.into_data().unwrap_or_default()))
}
