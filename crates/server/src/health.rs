//! Health and readiness, the same on both ports.

use ::cluster::Cluster;
use broker::{Broker, Status};
use http::StatusCode;
use serde::Serialize;

use crate::admin::{Admin, AdminAnswer, AdminError};
use crate::drain::Drain;
use crate::endpoints::Endpoints;

/// What both ports say about the process.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    pub(crate) broker: Broker,
    pub(crate) endpoints: Endpoints,
    pub(crate) durability: &'static str,
    /// The cluster that the server is a node of; none if it is alone.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) drain: Drain,
    pub(crate) admin: Admin,
}

/// What a server answers about a cluster that it has none of.
const ALONE: &str = r#"{"error":"this server is not a node of a cluster: cluster.listen is not set"}"#;

#[derive(Serialize)]
struct Alive<'a> {
    status: &'static str,
    sqs: &'a str,
    control: &'a str,
}

#[derive(Serialize)]
struct Ready<'a> {
    status: &'static str,
    durability: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery: Option<Recovery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
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

    /// Why the node takes no part in its cluster any more.
    fn halted(&self) -> Option<&str> {
        self.cluster.as_ref()?.halted()
    }

    fn has_leader(&self) -> bool {
        self.cluster.as_ref().is_none_or(crate::cluster::has_leader)
    }

    /// Answers what is the same on both ports; none for any other path.
    pub(crate) fn answer(&self, path: &str) -> Option<(StatusCode, String)> {
        match path {
            "/health" => Some(self.health()),
            "/ready" => Some(self.ready()),
            "/api/cluster/status" => Some(self.cluster_status()),
            _ => None,
        }
    }

    /// `POST /api/drain`, by its method and its header `Authorization`.
    pub(crate) async fn drain(&self, method: &str, authorization: Option<&str>) -> AdminAnswer {
        if method != "POST" {
            return AdminAnswer::method_not_allowed("POST");
        }
        match self.admin.check(authorization) {
            Ok(()) => self.drain.begin(&self.broker, self.cluster.as_ref()).await,
            Err(refused) => refused,
        }
    }

    /// `GET /api/cluster/nodes`: what all nodes say of themselves.
    pub(crate) async fn cluster_nodes(&self, authorization: Option<&str>) -> AdminAnswer {
        match self.cluster_of_operators(authorization) {
            Ok(cluster) => crate::cluster::nodes(cluster).await,
            Err(refused) => refused,
        }
    }

    /// `POST /api/cluster/join`: a new machine proves itself with its token.
    pub(crate) fn join_cluster(&self, body: &[u8]) -> AdminAnswer {
        match &self.cluster {
            Some(cluster) => crate::cluster::join(cluster, body),
            None => AdminAnswer::refused(StatusCode::NOT_FOUND, &no_cluster()),
        }
    }

    /// `POST /api/cluster/{transfer,add,remove,token}`.
    pub(crate) async fn change_cluster(
        &self,
        action: &str,
        authorization: Option<&str>,
        body: &[u8],
    ) -> AdminAnswer {
        match self.cluster_of_operators(authorization) {
            Ok(cluster) if action == "token" => crate::cluster::issue(cluster, body),
            Ok(cluster) => crate::cluster::change(cluster, action, body).await,
            Err(refused) => refused,
        }
    }

    /// Returns the cluster for whoever may change it.
    fn cluster_of_operators(&self, authorization: Option<&str>) -> Result<&Cluster, AdminAnswer> {
        self.admin.check(authorization)?;
        let refused = || AdminAnswer::refused(StatusCode::NOT_FOUND, &no_cluster());
        self.cluster.as_ref().ok_or_else(refused)
    }

    /// `GET /api/cluster/status`: the node's own view of its cluster.
    pub(crate) fn cluster_status(&self) -> (StatusCode, String) {
        match &self.cluster {
            Some(cluster) => crate::cluster::status(cluster),
            None => (StatusCode::NOT_FOUND, ALONE.to_owned()),
        }
    }

    /// `GET /leader`: who leads.
    pub(crate) fn leader(&self) -> (StatusCode, String) {
        match &self.cluster {
            Some(cluster) => crate::cluster::leader(cluster),
            None => (StatusCode::NOT_FOUND, ALONE.to_owned()),
        }
    }

    /// `GET /ready`: it can serve.
    pub(crate) fn ready(&self) -> (StatusCode, String) {
        let (code, status) = match self.broker.status() {
            Status::Recovering => (StatusCode::SERVICE_UNAVAILABLE, "recovering"),
            Status::Serving if self.halted().is_some() => (StatusCode::SERVICE_UNAVAILABLE, "halted"),
            Status::Serving | Status::Stopping if self.drain.is_begun() => {
                (StatusCode::SERVICE_UNAVAILABLE, "draining")
            }
            Status::Serving if !self.has_leader() => (StatusCode::SERVICE_UNAVAILABLE, "no leader"),
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
                reason: self.halted(),
            }),
        )
    }
}

pub(crate) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain values always encode")
}

fn no_cluster() -> AdminError {
    AdminError {
        code: "not_found",
        message: "there is no cluster".to_owned(),
        cause: "this server is not a node of a cluster".to_owned(),
        hint: "set cluster.listen and cluster.seeds".to_owned(),
        retryable: false,
    }
}
