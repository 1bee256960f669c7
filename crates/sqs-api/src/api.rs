//! The way of one request through the API.

use std::sync::Arc;

use auth::{SignedRequest, Verifier};
use broker::{Broker, Take};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use types::Region;

use crate::actions;
use crate::request_id::RequestId;
use crate::wire::{self, Input, Protocol};
use crate::{ApiError, Context, Reply};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");
const QUERY_ERROR: HeaderName = HeaderName::from_static("x-amzn-query-error");
static TRACE_HEADER: HeaderName = HeaderName::from_static("x-amzn-trace-id");
/// Seconds after which a client should try again that was turned away for load.
const RETRY_AFTER_SECONDS: &str = "1";
/// The label of a request that names no known action.
const UNKNOWN_ACTION: &str = "unknown";
/// The label of a request that succeeded.
const OK: &str = "ok";

/// What the API has to know of its server.
#[derive(Debug, Clone)]
pub struct ApiOptions {
    /// The region that ARNs carry.
    pub region: Region,
    /// The address that queue URLs begin with; that of the request's `Host` header if `None`.
    pub public_url: Option<String>,
    /// Whether this is a development server, which takes ARNs of any region.
    pub is_dev: bool,
}

impl ApiOptions {
    /// Returns a path without that of the public URL, under which the server may be reached at a prefix. A proxy can
    /// have taken the prefix off already.
    fn path_below_public<'a>(&self, path: &'a str) -> &'a str {
        let public = self.public_url.as_deref().unwrap_or_default();
        let after_scheme = public.split_once("://").map_or(public, |(_, rest)| rest);
        let prefix = after_scheme.find('/').map_or("", |at| &after_scheme[at..]);
        let prefix = prefix.trim_end_matches('/');
        match path.strip_prefix(prefix) {
            Some("") => "/",
            Some(below) if below.starts_with('/') => below,
            Some(_) | None => path,
        }
    }
}

/// The SQS API of one server.
#[derive(Debug, Clone)]
pub struct Api {
    broker: Broker,
    verifier: Arc<Verifier>,
    options: Arc<ApiOptions>,
}

/// The answer to one request.
#[derive(Debug)]
pub struct Answer {
    /// What the client gets.
    pub response: Response<Bytes>,
    /// The messages in the answer. Dropped before the answer is delivered, it gives them back.
    pub take: Option<Take>,
    /// The action's name, or `unknown`: a bounded label.
    pub action: &'static str,
    /// `ok`, or the wire code of the error: a bounded label.
    pub code: &'static str,
}

/// Why a server refuses a request without calling the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The body is longer than the server takes.
    BodyTooLarge,
    /// The body was cut off or did not come in time.
    BodyIncomplete,
    /// The server has more work than it can take.
    Overloaded,
    /// The server is about to stop.
    Stopping,
    /// The server made a mistake.
    Internal,
}

impl Api {
    /// Makes the API over a broker.
    pub fn new(broker: Broker, verifier: Arc<Verifier>, options: ApiOptions) -> Self {
        Self {
            broker,
            verifier,
            options: Arc::new(options),
        }
    }

    /// Answers a request. A long poll answers when it is over; dropping the future ends it.
    pub async fn call(&self, parts: &Parts, body: Bytes) -> Answer {
        let exchange = Exchange::of(parts);
        let mut action = UNKNOWN_ACTION;
        match self.carry_out(&exchange, parts, &body, &mut action).await {
            Ok(reply) => exchange.success(action, reply),
            Err(error) => exchange.failure(action, &error),
        }
    }

    async fn carry_out(
        &self,
        exchange: &Exchange,
        parts: &Parts,
        body: &[u8],
        label: &mut &'static str,
    ) -> Result<Reply, ApiError> {
        if parts.method != Method::POST && parts.method != Method::GET {
            return Err(ApiError::MethodNotAllowed(parts.method.to_string()));
        }
        let signed = SignedRequest {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query(),
            headers: &parts.headers,
            body,
        };
        let principal = self.verifier.verify(&signed, self.broker.wall_now())?;
        let input = Input::of(exchange.protocol, parts, body)?;
        let path = self.options.path_below_public(parts.uri.path());
        let action = find_action(exchange.protocol, parts, path, &input)?;
        *label = action.name;
        let context = Context {
            broker: &self.broker,
            options: &self.options,
            principal,
            protocol: exchange.protocol,
            action: action.name,
            access: action.access,
            request_id: exchange.request_id,
            host: host(parts),
            path,
            trace_header: parts
                .headers
                .get(&TRACE_HEADER)
                .and_then(|value| value.to_str().ok()),
        };
        (action.call)(&context, &input).await
    }
}

/// Returns the answer to a request that the server refuses by itself, in the protocol of the request.
pub fn refusal(parts: &Parts, kind: Refusal) -> Answer {
    let error = match kind {
        Refusal::BodyTooLarge => ApiError::RequestTooLarge,
        Refusal::BodyIncomplete => ApiError::RequestTimeout,
        Refusal::Overloaded => ApiError::Overloaded,
        Refusal::Stopping => ApiError::Stopping,
        Refusal::Internal => ApiError::Internal,
    };
    Exchange::of(parts).failure(UNKNOWN_ACTION, &error)
}

fn find_action(
    protocol: Protocol,
    parts: &Parts,
    path: &str,
    input: &Input<'_>,
) -> Result<&'static actions::Entry, ApiError> {
    let is_queue_address = path != "/";
    let Some(name) = input.action_name(parts) else {
        // Recorded on AWS for a queue's URL opened in a browser.
        let is_opened = is_queue_address && parts.method == Method::GET;
        return Err(if is_opened {
            ApiError::UnknownOperation
        } else {
            ApiError::MissingAction
        });
    };
    match actions::find(name) {
        // JSON clients may send everything to a queue's address; PHP's does.
        Some(entry) if entry.is_for_queue || !is_queue_address || !protocol.is_query() => Ok(entry),
        Some(_) | None => Err(ApiError::InvalidAction(name.to_owned())),
    }
}

fn host(parts: &Parts) -> &str {
    let header = parts
        .headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok());
    let authority = || parts.uri.authority().map(http::uri::Authority::as_str);
    header.or_else(authority).unwrap_or("localhost")
}

/// A request as far as its answer depends on it whatever happens.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    protocol: Protocol,
    request_id: RequestId,
}

impl Exchange {
    fn of(parts: &Parts) -> Self {
        Self {
            protocol: Protocol::of(parts),
            request_id: RequestId::fresh(),
        }
    }

    fn success(&self, action: &'static str, reply: Reply) -> Answer {
        tracing::debug!(request_id = self.request_id.as_str(), action, "request answered");
        Answer {
            response: self.response(StatusCode::OK, self.protocol.content_type(), reply.body),
            take: reply.take,
            action,
            code: OK,
        }
    }

    fn failure(&self, action: &'static str, error: &ApiError) -> Answer {
        let wire = error.code().wire();
        let status = StatusCode::from_u16(wire.status).expect("the table holds valid statuses");
        self.log_failure(action, error, status);
        let mut response = if *error == ApiError::UnknownOperation {
            let content_type = Protocol::QueryXml.content_type();
            self.response(status, content_type, wire::unknown_operation_body())
        } else {
            let text = self.error_text(error);
            let body = wire::error_body(
                self.protocol,
                wire.json_type,
                wire.fault(),
                wire.query,
                &text,
                self.request_id.as_str(),
            );
            self.response(status, self.protocol.content_type(), body)
        };
        self.add_error_headers(response.headers_mut(), error);
        Answer {
            response,
            take: None,
            action,
            code: wire.query,
        }
    }

    /// Logs what is ours. Refusals for load come by the thousand and are counted, so they stay out of the usual log.
    fn log_failure(&self, action: &'static str, error: &ApiError, status: StatusCode) {
        let request_id = self.request_id.as_str();
        if status == StatusCode::SERVICE_UNAVAILABLE && *error != ApiError::OutcomeUnknown {
            tracing::debug!(request_id, action, %error, "request refused");
        } else if status.is_server_error() {
            tracing::warn!(request_id, action, %error, "request failed");
        } else {
            // The code alone: the text repeats what the client sent.
            tracing::debug!(
                request_id,
                action,
                code = error.code().wire().query,
                "request refused"
            );
        }
    }

    /// Returns what the client reads. One text differs between the protocols.
    fn error_text(&self, error: &ApiError) -> String {
        if *error == ApiError::QueueDoesNotExist && self.protocol.is_query() {
            "The specified queue does not exist for this wsdl version.".to_owned()
        } else {
            error.to_string()
        }
    }

    fn add_error_headers(&self, headers: &mut HeaderMap, error: &ApiError) {
        let wire = error.code().wire();
        if self.protocol == Protocol::Json {
            let value = format!("{};{}", wire.query, wire.fault());
            headers.insert(
                QUERY_ERROR,
                HeaderValue::from_str(&value).expect("the table holds ASCII"),
            );
        }
        if wire.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        if wire.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, POST"));
        }
    }

    fn response(&self, status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Bytes> {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(REQUEST_ID, self.request_id.to_header());
        response
    }
}
