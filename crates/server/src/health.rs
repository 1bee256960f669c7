//! Health and readiness, the same on both ports.

use broker::{Broker, Status};
use http::StatusCode;
use serde::Serialize;

use crate::endpoints::Endpoints;

/// What both ports say about the process.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    pub(crate) broker: Broker,
    pub(crate) endpoints: Endpoints,
    pub(crate) durability: &'static str,
}

#[derive(Serialize)]
struct Alive<'a> {
    status: &'static str,
    sqs: &'a str,
    control: &'a str,
}

#[derive(Serialize)]
struct Ready {
    status: &'static str,
    durability: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery: Option<Recovery>,
}

/// How far a start has come.
#[derive(Serialize)]
struct Recovery {
    log_bytes: u64,
    of_log_bytes: u64,
}

impl Health {
    pub(crate) const CONTENT_TYPE: &'static str = "application/json";

    /// `GET /health`: the process lives.
    pub(crate) fn health(&self) -> (StatusCode, String) {
        let alive = Alive {
            status: "ok",
            sqs: &self.endpoints.sqs,
            control: &self.endpoints.control,
        };
        (StatusCode::OK, json(&alive))
    }

    /// `GET /ready`: it can serve.
    pub(crate) fn ready(&self) -> (StatusCode, String) {
        let (code, status) = match self.broker.status() {
            Status::Recovering => (StatusCode::SERVICE_UNAVAILABLE, "recovering"),
            Status::Serving => (StatusCode::OK, "ready"),
            Status::Stopping | Status::Stopped => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        };
        let recovery = (self.broker.status() == Status::Recovering).then(|| {
            let (log_bytes, of_log_bytes) = self.broker.progress().log_bytes();
            Recovery {
                log_bytes,
                of_log_bytes,
            }
        });
        (
            code,
            json(&Ready {
                status,
                durability: self.durability,
                recovery,
            }),
        )
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain values always encode")
}
