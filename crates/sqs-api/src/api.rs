//! The way of one request through the API.

use std::sync::Arc;

use auth::{SignedRequest, Verifier};
use broker::Broker;
use http::StatusCode;
use types::Region;

use crate::actions;
use crate::answer::OK;
use crate::request_id::RequestId;
use crate::wire::{self, Input, Protocol};
use crate::{Answer, ApiError, Context, Reply, Request};

const QUERY_ERROR: &str = "x-amzn-query-error";
const TRACE_HEADER: &str = "x-amzn-trace-id";
/// Seconds after which a client should try again that was turned away for load.
const RETRY_AFTER_SECONDS: &str = "1";
/// The label of a request that names no known action.
const UNKNOWN_ACTION: &str = "unknown";

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
    pub async fn call(&self, request: &Request<'_>, body: &[u8]) -> Answer {
        let exchange = Exchange::of(request);
        let mut action = UNKNOWN_ACTION;
        match self.carry_out(&exchange, request, body, &mut action).await {
            Ok(reply) => exchange.success(action, reply),
            Err(error) => exchange.failure(action, &error),
        }
    }

    async fn carry_out(
        &self,
        exchange: &Exchange,
        request: &Request<'_>,
        body: &[u8],
        label: &mut &'static str,
    ) -> Result<Reply, ApiError> {
        if request.method != "POST" && request.method != "GET" {
            return Err(ApiError::MethodNotAllowed(request.method.to_owned()));
        }
        let signed = SignedRequest {
            method: request.method,
            path: request.path,
            query: request.query,
            headers: request.headers,
            body,
        };
        let principal = self.verifier.verify(&signed, self.broker.wall_now())?;
        let input = Input::of(exchange.protocol, request, body)?;
        let path = self.options.path_below_public(request.path);
        let action = find_action(exchange.protocol, request, path, &input)?;
        *label = action.name;
        let context = Context {
            broker: &self.broker,
            options: &self.options,
            principal,
            protocol: exchange.protocol,
            action: action.name,
            access: action.access,
            request_id: exchange.request_id,
            host: request.host(),
            path,
            trace_header: request.headers.text(TRACE_HEADER),
        };
        (action.call)(&context, &input).await
    }
}

/// Returns the answer to a request that the server refuses by itself, in the protocol of the request.
pub fn refusal(request: &Request<'_>, kind: Refusal) -> Answer {
    let error = match kind {
        Refusal::BodyTooLarge => ApiError::RequestTooLarge,
        Refusal::BodyIncomplete => ApiError::RequestTimeout,
        Refusal::Overloaded => ApiError::Overloaded,
        Refusal::Stopping => ApiError::Stopping,
        Refusal::Internal => ApiError::Internal,
    };
    Exchange::of(request).failure(UNKNOWN_ACTION, &error)
}

fn find_action(
    protocol: Protocol,
    request: &Request<'_>,
    path: &str,
    input: &Input<'_>,
) -> Result<&'static actions::Entry, ApiError> {
    let is_queue_address = path != "/";
    let Some(name) = input.action_name(request) else {
        // Recorded on AWS for a queue's URL opened in a browser.
        let is_opened = is_queue_address && request.method == "GET";
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

/// A request as far as its answer depends on it whatever happens.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    protocol: Protocol,
    request_id: RequestId,
}

impl Exchange {
    fn of(request: &Request<'_>) -> Self {
        Self {
            protocol: Protocol::of(request),
            request_id: RequestId::fresh(),
        }
    }

    fn success(&self, action: &'static str, reply: Reply) -> Answer {
        tracing::debug!(request_id = self.request_id.as_str(), action, "request answered");
        Answer {
            status: StatusCode::OK,
            content_type: self.protocol.content_type(),
            request_id: self.request_id,
            more_headers: Vec::new(),
            body: reply.body,
            take: reply.take,
            action,
            code: OK,
        }
    }

    fn failure(&self, action: &'static str, error: &ApiError) -> Answer {
        let wire = error.code().wire();
        let status = StatusCode::from_u16(wire.status).expect("the table holds valid statuses");
        self.log_failure(action, error, status);
        let (content_type, body) = if *error == ApiError::UnknownOperation {
            (Protocol::QueryXml.content_type(), wire::unknown_operation_body())
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
            (self.protocol.content_type(), body)
        };
        Answer {
            status,
            content_type,
            request_id: self.request_id,
            more_headers: self.error_headers(error),
            body,
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

    fn error_headers(&self, error: &ApiError) -> Vec<(&'static str, String)> {
        let wire = error.code().wire();
        let mut headers = Vec::new();
        if self.protocol == Protocol::Json {
            headers.push((QUERY_ERROR, format!("{};{}", wire.query, wire.fault())));
        }
        if wire.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.push(("retry-after", RETRY_AFTER_SECONDS.to_owned()));
        }
        if wire.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.push(("allow", "GET, POST".to_owned()));
        }
        headers
    }
}
