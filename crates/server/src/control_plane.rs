//! The control plane: health, metrics, and with `--dev` a clock to turn. It has a runtime of its own.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use serde::Deserialize;
use telemetry::Metrics;

use crate::admin::AdminAnswer;
use crate::cluster;
use crate::drain;
use crate::health::Health;

#[derive(Debug, Clone)]
pub(crate) struct ControlPlane {
    pub(crate) health: Health,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) is_dev: bool,
}

impl ControlPlane {
    pub(crate) fn router(self) -> Router {
        let mut router = Router::new()
            .route("/health", get(health))
            .route("/ready", get(ready))
            .route("/api/cluster/status", get(cluster_status))
            .route("/leader", get(leader))
            .route("/api/cluster/nodes", get(cluster_nodes))
            .route("/api/cluster/join", post(join_cluster))
            .route("/api/cluster/{action}", post(change_cluster))
            .route(drain::PATH, any(drain))
            .route("/metrics", get(metrics));
        if self.is_dev {
            router = router.route("/_holdfast/clock/advance", post(advance));
        }
        router.with_state(self)
    }
}

async fn health(State(plane): State<ControlPlane>) -> Response {
    json(plane.health.health())
}

async fn ready(State(plane): State<ControlPlane>) -> Response {
    json(plane.health.ready())
}

async fn cluster_status(State(plane): State<ControlPlane>) -> Response {
    json(plane.health.cluster_status())
}

async fn cluster_nodes(State(plane): State<ControlPlane>, headers: HeaderMap) -> Response {
    answer(plane.health.cluster_nodes(authorization(&headers)).await)
}

async fn join_cluster(State(plane): State<ControlPlane>, body: Bytes) -> Response {
    answer(plane.health.join_cluster(&body))
}

async fn change_cluster(
    State(plane): State<ControlPlane>,
    Path(action): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let change = plane
        .health
        .change_cluster(&action, authorization(&headers), &body);
    answer(change.await)
}

async fn leader(State(plane): State<ControlPlane>) -> Response {
    json(plane.health.leader())
}

async fn drain(State(plane): State<ControlPlane>, method: Method, headers: HeaderMap) -> Response {
    answer(plane.health.drain(method.as_str(), authorization(&headers)).await)
}

fn authorization(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()
}

fn answer(answer: AdminAnswer) -> Response {
    let mut response = json((answer.status, answer.body));
    if let Some((name, value)) = answer.header {
        let name = HeaderName::from_static(name);
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn metrics(State(plane): State<ControlPlane>) -> Response {
    let waiting = plane.health.broker.waiting();
    plane
        .metrics
        .inbox_commands
        .set(i64::try_from(waiting).unwrap_or(i64::MAX));
    if let Some(cluster) = &plane.health.cluster {
        cluster::measure(cluster, &plane.metrics);
    }
    (
        [(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)],
        plane.metrics.render(),
    )
        .into_response()
}

#[derive(Debug, Deserialize)]
struct Advance {
    by: String,
}

async fn advance(State(plane): State<ControlPlane>, Query(advance): Query<Advance>) -> Response {
    let Some(by) = duration(&advance.by) else {
        let text = format!("by={:?} is no duration: try 30s, 500ms, 10m or 2h\n", advance.by);
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    match plane.health.broker.advance_clock(by).await {
        Ok(()) => {
            let body = format!(r#"{{"advanced_millis":{}}}"#, by.as_millis());
            json((StatusCode::OK, body))
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

fn json((status, body): (StatusCode, String)) -> Response {
    (status, [(header::CONTENT_TYPE, Health::CONTENT_TYPE)], body).into_response()
}

/// Reads a duration: a whole number with a unit.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, millis) in [
            ("30s", Some(30_000)),
            ("500ms", Some(500)),
            ("2h", Some(7_200_000)),
            ("1d", Some(86_400_000)),
            ("30", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("99999999999999999999s", None),
            ("9999999999999999999d", None),
        ] {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text:?}");
        }
    }
}
