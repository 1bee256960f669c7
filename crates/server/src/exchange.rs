//! The requests of one connection, one after the other: read whole within limits, answered, and answered in order.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use http::StatusCode;
use sqs_api::{Answer, Refusal, Request};
use tokio::net::TcpStream;
use tracing::debug;

use crate::admin::AdminAnswer;
use crate::connection::{Connection, Order};
use crate::data_plane::{DataPlane, Reserved};
use crate::drain;
use crate::health::Health;
use crate::http1::{
    Asked, Came, Chunked, ChunkedError, Encoded, Framing, Head, Next, Socket, bare, encode, head,
};

/// Longest body that is read: 1 MiB of message where every byte takes six (`\u0009`), and room for the rest.
const BODY_BYTES_MAX: u64 = 6 * 1024 * 1024 + 256 * 1024;
/// Most bytes of a body in chunks that are read before they are decoded.
const CHUNKED_READ_BYTES: usize = 64 * 1024;
/// The word for which a client may wait before it sends a body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Why a request has no body to work on.
#[derive(Debug)]
enum BodyError {
    /// The request is answered with a refusal of the API.
    Refused(Refusal),
    /// It is no HTTP.
    Malformed,
    /// The socket failed.
    Socket(io::Error),
}

impl From<ChunkedError> for BodyError {
    fn from(error: ChunkedError) -> Self {
        match error {
            ChunkedError::Malformed => Self::Malformed,
            ChunkedError::TooLarge => Self::Refused(Refusal::BodyTooLarge),
        }
    }
}

impl DataPlane {
    /// Serves a connection until it is closed.
    pub(crate) async fn serve(&self, tcp: TcpStream, connection: &Connection) {
        // A socket that is gone already fails again at the first read.
        let _ = tcp.set_nodelay(true);
        let mut socket = Socket::new(tcp, connection.clone());
        let mut serving = pin!(self.exchanges(&mut socket));
        let closed = poll_fn(|context| {
            // Before anything looks at the order, so that a later one wakes this task.
            connection.wake_with(context.waker());
            let polled = serving.as_mut().poll(context);
            if polled.is_pending() && connection.order() == Order::Close {
                return Poll::Ready(Ok(()));
            }
            polled
        });
        if let Err(error) = closed.await {
            debug!(%error, "a connection ended");
        }
    }

    async fn exchanges(&self, socket: &mut Socket) -> io::Result<()> {
        while self.exchange(socket).await? == Next::KeepAlive {}
        socket.shut_down().await
    }

    /// Answers one request.
    async fn exchange(&self, socket: &mut Socket) -> io::Result<Next> {
        let mut bytes = socket.begin_head();
        let mut looked_at = 0;
        let head = loop {
            head::skip_blank_lines(&mut bytes);
            if head::may_be_whole(&bytes, looked_at) {
                match Head::parse(&bytes) {
                    Ok(Some(head)) => break head,
                    Ok(None) => {}
                    Err(error) => return refuse(socket, error.status()).await,
                }
            }
            looked_at = bytes.len();
            if socket.read_head(&mut bytes).await? == 0 {
                return Ok(Next::Close);
            }
        };
        socket.connection().begin_request();
        let request = head.request();
        let asked = Asked {
            is_http_10: head.is_http_10,
            is_head: request.method == "HEAD",
        };
        let started = Instant::now();
        let after = &bytes[head.len..];
        let mut next = if head.is_kept_alive {
            Next::KeepAlive
        } else {
            Next::Close
        };
        // Until the whole answer has left.
        let in_flight;
        let answer = match self.read_body(socket, &head, after).await {
            Ok((body, _reserved)) => {
                if let Some(own) = self.own_answer(&request).await {
                    return self.write_own(socket, asked, own, next).await;
                }
                in_flight = self.health.drain.accept();
                match in_flight {
                    None => sqs_api::refusal(&request, Refusal::Stopping),
                    Some(_) => match self.answer(socket, &request, &body).await {
                        Some(answer) => answer,
                        None => return Ok(Next::Close),
                    },
                }
            }
            Err(BodyError::Refused(refusal)) => {
                if whole(head.framing, after).is_none() {
                    next = Next::Close;
                }
                sqs_api::refusal(&request, refusal)
            }
            Err(BodyError::Malformed) => return refuse(socket, StatusCode::BAD_REQUEST).await,
            Err(BodyError::Socket(error)) => return Err(error),
        };
        self.observe(&answer, started);
        let next = or_close(socket, next);
        let encoded = encode(asked, answer.status, answer.headers(), &answer.body, next);
        socket.write(&encoded).await?;
        // Everything of the answer has left. Dropped before, the take goes back.
        if let Some(take) = answer.take {
            take.delivered();
        }
        socket.end_request();
        Ok(next)
    }

    /// Lets the API answer; `None` if the client goes before that.
    async fn answer(&self, socket: &mut Socket, request: &Request<'_>, body: &[u8]) -> Option<Answer> {
        let mut call = pin!(self.api.call(request, body));
        poll_fn(|context| match call.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => socket.poll_gone(context).map(|()| None),
        })
        .await
    }

    /// Reads the body of a request, within the limits of one and of all requests. `after` is what came with the head.
    async fn read_body<'b>(
        &self,
        socket: &mut Socket,
        head: &Head<'_>,
        after: &'b [u8],
    ) -> Result<(Cow<'b, [u8]>, Reserved<'_>), BodyError> {
        if let Some(body) = whole(head.framing, after) {
            socket.keep(&after[body.len()..]);
        }
        let declared = match head.framing {
            Framing::Length(bytes) if bytes > BODY_BYTES_MAX => {
                return Err(BodyError::Refused(Refusal::BodyTooLarge));
            }
            Framing::Length(bytes) => bytes,
            // It may become as long as any: reserve for that, so that all of them stay bounded.
            Framing::Chunked => BODY_BYTES_MAX,
        };
        let reserved = self
            .reserve(declared)
            .ok_or(BodyError::Refused(Refusal::Overloaded))?;
        if let Some(body) = whole(head.framing, after) {
            return Ok((Cow::Borrowed(body), reserved));
        }
        if head.expects_continue && after.is_empty() {
            let word = Encoded {
                start: CONTINUE.to_vec(),
                rest: &[],
            };
            socket.write(&word).await.map_err(BodyError::Socket)?;
            // A client that was slow to take the word has all the time for its body.
            socket.connection().begin_request();
        }
        let body = match head.framing {
            Framing::Length(_) => read_length(socket, after, declared).await?,
            Framing::Chunked => read_chunked(socket, after).await?,
        };
        Ok((Cow::Owned(body), reserved))
    }

    /// Answers what is of the server and not of the API.
    async fn own_answer(&self, request: &Request<'_>) -> Option<AdminAnswer> {
        if request.path == drain::PATH {
            let authorization = request.headers.text("authorization");
            return Some(self.health.drain(request.method, authorization).await);
        }
        let (status, body) = (request.method == "GET")
            .then(|| self.health.answer(request.path))
            .flatten()?;
        Some(AdminAnswer {
            status,
            body,
            header: None,
        })
    }

    async fn write_own(
        &self,
        socket: &mut Socket,
        asked: Asked,
        own: AdminAnswer,
        next: Next,
    ) -> io::Result<Next> {
        let next = or_close(socket, next);
        let headers = [("content-type", Health::CONTENT_TYPE)]
            .into_iter()
            .chain(own.header);
        socket
            .write(&encode(asked, own.status, headers, own.body.as_bytes(), next))
            .await?;
        socket.end_request();
        Ok(next)
    }
}

/// Returns the body if all of it came with the head.
fn whole(framing: Framing, after: &[u8]) -> Option<&[u8]> {
    match framing {
        Framing::Length(bytes) => after.get(..usize::try_from(bytes).ok()?),
        Framing::Chunked => None,
    }
}

/// A server that stops closes after each answer.
fn or_close(socket: &Socket, next: Next) -> Next {
    match socket.connection().order() {
        Order::Serve => next,
        Order::Finish | Order::Close => Next::Close,
    }
}

/// Answers what is no request.
async fn refuse(socket: &mut Socket, status: StatusCode) -> io::Result<Next> {
    socket.write(&bare(status)).await?;
    Ok(Next::Close)
}

/// Reads a body of so many bytes, whose beginning is there.
async fn read_length(socket: &mut Socket, begun: &[u8], bytes: u64) -> Result<Vec<u8>, BodyError> {
    let bytes = usize::try_from(bytes).map_err(|_| BodyError::Refused(Refusal::BodyTooLarge))?;
    let mut body = Vec::with_capacity(bytes);
    body.extend_from_slice(begun);
    while body.len() < bytes {
        let missing = bytes - body.len();
        read_more(socket, &mut body, missing).await?;
    }
    Ok(body)
}

/// Reads a body in chunks, whose beginning is there.
async fn read_chunked(socket: &mut Socket, begun: &[u8]) -> Result<Vec<u8>, BodyError> {
    let mut chunked = Chunked::new(BODY_BYTES_MAX);
    let mut used = chunked.decode(begun)?;
    let mut bytes = Vec::new();
    socket.keep(&begun[used..]);
    while !chunked.is_done() {
        bytes.clear();
        read_more(socket, &mut bytes, CHUNKED_READ_BYTES).await?;
        used = chunked.decode(&bytes)?;
        socket.keep(&bytes[used..]);
    }
    Ok(chunked.into_body())
}

async fn read_more(socket: &mut Socket, body: &mut Vec<u8>, bytes_max: usize) -> Result<(), BodyError> {
    match socket.read_body(body, bytes_max).await {
        Ok(Came::Bytes(_)) => Ok(()),
        Ok(Came::End | Came::Overdue) => Err(BodyError::Refused(Refusal::BodyIncomplete)),
        Err(error) => Err(BodyError::Socket(error)),
    }
}
