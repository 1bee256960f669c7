//! What an action knows of its request beside its input, and how it answers.

use auth::Principal;
use broker::{Broker, Take};
use bytes::Bytes;
use serde::Serialize;
use types::QueueKey;

use crate::request_id::RequestId;
use crate::wire::{self, Protocol};
use crate::{Access, ApiOptions, queue_url};

/// What an action knows of its request.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) broker: &'a Broker,
    pub(crate) options: &'a ApiOptions,
    pub(crate) principal: Principal,
    pub(crate) protocol: Protocol,
    pub(crate) action: &'static str,
    pub(crate) access: Access,
    pub(crate) request_id: RequestId,
    /// The address that the client used, for queue URLs.
    pub(crate) host: &'a str,
    /// The path of the request.
    pub(crate) path: &'a str,
    /// The `X-Amzn-Trace-Id` header.
    pub(crate) trace_header: Option<&'a str>,
}

impl Context<'_> {
    /// Returns the URL at which this client reaches a queue.
    pub(crate) fn queue_url(&self, key: &QueueKey) -> String {
        match &self.options.public_url {
            Some(base) => queue_url::of(base, key),
            None => queue_url::of(&format!("http://{}", self.host), key),
        }
    }

    /// Writes the answer. It takes any type, so that an answer can borrow from what the action holds.
    pub(crate) fn reply(&self, answer: &impl Serialize) -> Reply {
        Reply {
            body: wire::result_body(self.protocol, self.action, self.request_id.as_str(), answer),
            take: None,
        }
    }
}

/// The answer of an action that succeeded.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) body: Bytes,
    pub(crate) take: Option<Take>,
}

impl Reply {
    /// Attaches the messages that go back if the answer cannot be delivered.
    pub(crate) fn with_take(self, take: Option<Take>) -> Self {
        Self { take, ..self }
    }
}
