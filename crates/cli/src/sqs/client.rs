//! Calls, one after the other, over a connection that is opened when it is needed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::Full;
use serde::Deserialize;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::connection::Connection;
use super::signer::Signer;
use super::{Action, Credentials, Endpoint};

const JSON: &str = "application/x-amz-json-1.0";
const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
const AMZ_TARGET: HeaderName = HeaderName::from_static("x-amz-target");

/// Longer than the longest wait of a receive.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Why a call gave no output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The server refused it.
    #[error("{code}: {message} (HTTP {status})")]
    Refused {
        status: u16,
        code: String,
        message: String,
    },
    /// There was no answer, so that the call may have happened or not.
    #[error("{reason}")]
    NoAnswer { code: &'static str, reason: String },
    /// The answer is none of the API.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

impl CallError {
    /// A short word to count it by.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            Self::NoAnswer { code, .. } => code,
            Self::Unreadable(_) => "unreadable",
        }
    }

    fn no_answer(code: &'static str, reason: impl ToString) -> Self {
        Self::NoAnswer {
            code,
            reason: reason.to_string(),
        }
    }
}

/// A client with one connection.
pub(crate) struct Client {
    endpoint: Arc<Endpoint>,
    signer: Signer,
    connection: Option<Connection>,
    limit: AnswerLimit,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(rename = "__type")]
    kind: String,
    #[serde(default, alias = "Message")]
    message: String,
}

impl Client {
    pub(crate) fn new(endpoint: Arc<Endpoint>, credentials: Credentials) -> Self {
        Self {
            signer: Signer::new(credentials, &endpoint, JSON),
            endpoint,
            connection: None,
            limit: AnswerLimit::new(),
        }
    }

    /// Calls an action with its JSON input and returns its JSON output.
    pub(crate) async fn call(&mut self, action: Action, input: Bytes) -> Result<Bytes, CallError> {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let signature = self.signer.sign(now, action, &input);
        let request = Request::post(self.endpoint.path.as_str())
            .header(HOST, &self.endpoint.host)
            .header(CONTENT_TYPE, HeaderValue::from_static(JSON))
            .header(AMZ_TARGET, action.header())
            .header(AMZ_DATE, signature.date)
            .header(AUTHORIZATION, signature.authorization)
            .body(Full::new(input));
        let (status, body) = self.exchange(request.expect("all parts were checked")).await?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        Err(refusal(status, &body))
    }

    /// Asks for a page below the endpoint, unsigned.
    pub(crate) async fn get(&mut self, name: &str) -> Result<(StatusCode, Bytes), CallError> {
        let request = Request::get(self.endpoint.below(name))
            .header(HOST, &self.endpoint.host)
            .body(Full::default());
        self.exchange(request.expect("all parts were checked")).await
    }

    /// Whatever ends early, by an error or by being dropped, takes the connection with it.
    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), CallError> {
        let kept = match self.connection.take() {
            Some(connection) => connection.if_open().await,
            None => None,
        };
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let until = Instant::now() + ANSWER_LIMIT;
        let answer = tokio::select! {
            biased;
            answer = connection.exchange(request) => answer,
            () = self.limit.wait(until) => {
                let reason = format!("no answer within {} s", ANSWER_LIMIT.as_secs());
                return Err(CallError::no_answer("timeout", reason));
            }
        };
        let answer = answer.map_err(|error| CallError::no_answer("connection", full_text(&error)))?;
        self.connection = Some(connection);
        Ok(answer)
    }

    async fn connect(&self) -> Result<Connection, CallError> {
        let unreachable = |reason: &dyn ToString| {
            CallError::no_answer("connect", format!("cannot connect: {}", reason.to_string()))
        };
        match timeout(CONNECT_LIMIT, Connection::open(&self.endpoint)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(unreachable(&error)),
            Err(elapsed) => Err(unreachable(&elapsed)),
        }
    }
}

/// A deadline for answers that costs nothing while they come: its timer is set once in [`ANSWER_LIMIT`], not once a
/// request.
struct AnswerLimit(Pin<Box<Sleep>>);

impl AnswerLimit {
    fn new() -> Self {
        Self(Box::pin(sleep_until(Instant::now())))
    }

    async fn wait(&mut self, until: Instant) {
        loop {
            self.0.as_mut().await;
            if Instant::now() >= until {
                return;
            }
            self.0.as_mut().reset(until);
        }
    }
}

fn refusal(status: StatusCode, body: &[u8]) -> CallError {
    let (code, message) = match serde_json::from_slice::<ErrorBody>(body) {
        Ok(error) => {
            let code = error.kind.rsplit('#').next().unwrap_or_default().to_owned();
            (code, error.message)
        }
        Err(_) => (
            format!("HTTP {}", status.as_u16()),
            String::from_utf8_lossy(body).chars().take(200).collect(),
        ),
    };
    CallError::Refused {
        status: status.as_u16(),
        code,
        message,
    }
}

/// Returns an error with its causes: the top one of hyper says little.
fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use tokio::sync::oneshot;

    use super::*;

    /// What a server did with an idle connection is no failure of the next request.
    #[tokio::test]
    async fn a_connection_that_was_closed_while_idle_is_replaced() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (close, may_close) = std::sync::mpsc::channel();
        let (closed, has_closed) = oneshot::channel();
        let server = thread::spawn(move || {
            let answer = || {
                let (mut stream, _) = listener.accept().unwrap();
                let count = stream.read(&mut [0; 4_096]).unwrap();
                assert!(count > 0);
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                stream.write_all(answer).unwrap();
                may_close.recv().unwrap();
            };
            answer();
            closed.send(()).unwrap();
            answer();
        });
        let credentials = Credentials::from_environment(|_| None);
        let mut client = Client::new(Arc::new(url.parse().unwrap()), credentials);
        let mut call = async || client.call(Action::GetQueueUrl, Bytes::from("{}")).await;
        assert_eq!(call().await, Ok(Bytes::from("{}")));
        close.send(()).unwrap();
        has_closed.await.unwrap();
        // Lets the runtime look at its sockets.
        tokio::task::yield_now().await;
        assert_eq!(call().await, Ok(Bytes::from("{}")));
        close.send(()).unwrap();
        server.join().unwrap();
    }

    #[test]
    fn refusals_have_a_code_to_count_by() {
        for (body, code, message) in [
            (
                r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"gone"}"#,
                "QueueDoesNotExist",
                "gone",
            ),
            (r#"{"__type":"Throttled","Message":"slow"}"#, "Throttled", "slow"),
            ("<html>", "HTTP 503", "<html>"),
        ] {
            let error = refusal(StatusCode::SERVICE_UNAVAILABLE, body.as_bytes());
            assert_eq!(error.code(), code);
            assert_eq!(error.to_string(), format!("{code}: {message} (HTTP 503)"));
        }
    }
}
