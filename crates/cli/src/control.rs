//! One call of the control API.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::failure::{Failure, Kind};
use crate::sqs::{Connection, Endpoint};

/// A node may have to be brought up to date before it gets a vote.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) enum Method {
    Get,
    Post(Value),
}

/// Calls, and returns the document that is answered.
pub(crate) fn call(
    url: &Endpoint,
    method: Method,
    path: &str,
    token: Option<&str>,
) -> Result<Value, Failure> {
    call_within(PATIENCE, url, method, path, token)
}

/// Does [`call`] with an answer that must come within a time.
pub(crate) fn call_within(
    patience: Duration,
    url: &Endpoint,
    method: Method,
    path: &str,
    token: Option<&str>,
) -> Result<Value, Failure> {
    let unavailable = |cause: String| {
        let hint = "name the control port of a node that runs, such as http://127.0.0.1:4101";
        Failure::new(Kind::Unavailable, format!("{url} does not answer"), cause, hint)
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unavailable(error.to_string()))?;
    let exchange = async {
        let request = request(url, method, path, token).map_err(|error| error.to_string())?;
        let mut connection = Connection::open(url).await.map_err(|error| error.to_string())?;
        connection
            .exchange(request)
            .await
            .map_err(|error| error.to_string())
    };
    let answered = runtime.block_on(async { timeout(patience, exchange).await });
    let (status, body) = answered
        .map_err(|_| unavailable(format!("no answer within {} s", patience.as_secs())))?
        .map_err(unavailable)?;
    let document: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status == StatusCode::OK {
        return Ok(document);
    }
    Err(Failure {
        document: Some(document.clone()),
        ..refusal(url, status, &document)
    })
}

fn request(
    url: &Endpoint,
    method: Method,
    path: &str,
    token: Option<&str>,
) -> http::Result<Request<Full<Bytes>>> {
    let (method, body) = match method {
        Method::Get => ("GET", Bytes::new()),
        Method::Post(body) => ("POST", body.to_string().into()),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(url.below(path.trim_start_matches('/')))
        .header(header::HOST, &url.host)
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    request.body(Full::new(body))
}

/// Says what the server says, and ends with the code that tells of it.
fn refusal(url: &Endpoint, status: StatusCode, document: &Value) -> Failure {
    let error = &document["error"];
    let text = |name: &str, otherwise: &str| error[name].as_str().unwrap_or(otherwise).to_owned();
    let kind = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Kind::Auth,
        StatusCode::NOT_FOUND => Kind::NotFound,
        StatusCode::CONFLICT => Kind::Precondition,
        StatusCode::BAD_REQUEST => Kind::Usage,
        StatusCode::SERVICE_UNAVAILABLE => Kind::Unavailable,
        _ => Kind::Failed,
    };
    Failure::new(
        kind,
        text("message", "the server refused"),
        text("cause", &format!("{url} answered {status}")),
        text("hint", "name the control port of a node of this version"),
    )
}
