//! A server as a node of a cluster: what its options say, what it says of itself, and how it leaves.

mod metrics;
mod token;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::cluster::link::{Secret, Security, Tcp, Tls};
use ::cluster::{
    Change, ChangeError, Cluster, ENTRIES_KEPT, ElectionSilence, OpenError, Role, Settings, World,
};
use broker::{Clock, OsProcess, OsRandom, Recovered, Restoring};
use config::{ClusterOptions, ClusterSecurity};
use http::StatusCode;
use journal::{Disk, Journal, JournalError, LocalOptions, Lock, RecoveryReport};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

use crate::admin::{AdminAnswer, AdminError};
use crate::serve::ServeError;

pub(crate) use metrics::measure;
pub(crate) use token::{issue, join};

/// Longest that requests of other nodes may take to be answered once the server stops.
const LINKS_TIMEOUT: Duration = Duration::from_secs(1);

/// The threads of Raft and of the links: they go on while a disk holds up everything else.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("cluster")
        .enable_all()
        .build()
}

/// Prepares a node. It starts when its journal is opened.
pub(crate) fn prepare(
    options: &ClusterOptions,
    is_dev: bool,
    clock: Arc<dyn Clock>,
    runtime: &Runtime,
) -> Result<Cluster, ServeError> {
    let settings = Settings {
        name: options.name.clone(),
        listen: options.listen.to_string(),
        advertise: options.advertise.to_string(),
        seeds: options.seeds.iter().map(ToString::to_string).collect(),
        security: security(&options.security)?,
        election_silence: ElectionSilence {
            low: options.election_silence.low,
            high: options.election_silence.high,
        },
        replicate_timeout: options.replicate_timeout,
        entries_kept: ENTRIES_KEPT,
        may_move_clock: is_dev,
        prefers_to_lead: options.preferred_leader,
    };
    let world = World {
        network: Arc::new(Tcp),
        random: Arc::new(OsRandom),
        clock,
        process: Arc::new(OsProcess),
        runtime: runtime.handle().clone(),
    };
    Ok(Cluster::new(settings, world))
}

fn security(options: &ClusterSecurity) -> Result<Security, ServeError> {
    let secret = |secret: &config::ClusterSecret| {
        let made = Secret::new(secret.expose());
        made.ok_or_else(|| ServeError::Cluster("the shared secret is empty".to_owned()))
    };
    Ok(match options {
        ClusterSecurity::Tls { ca, cert, key } => {
            let tls = Tls::from_pem(&read(ca)?, &read(cert)?, &read(key)?, None);
            Security::Tls(tls.map_err(|error| ServeError::Cluster(error.to_string()))?)
        }
        ClusterSecurity::Secret { current, previous } => Security::Secret {
            current: secret(current)?,
            previous: previous.as_ref().map(secret).transpose()?,
        },
        ClusterSecurity::Insecure => Security::Insecure,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    std::fs::read(path)
        .map_err(|error| ServeError::Cluster(format!("cannot read {}: {error}", path.display())))
}

/// Opens the journal of a node: reads what it has, starts Raft, and looks for the cluster.
pub(crate) fn open(
    cluster: &Cluster,
    disk: Arc<dyn Disk>,
    lock: Box<dyn Lock>,
    options: LocalOptions,
    recovered: &mut Recovered,
) -> Result<(Box<dyn Journal>, RecoveryReport), JournalError> {
    match cluster.open(disk, lock, options, &mut Restoring(recovered)) {
        Ok((journal, report)) => Ok((Box::new(journal), report)),
        Err(OpenError::Journal(error)) => Err(error),
        Err(error @ (OpenError::Node(_) | OpenError::Listen { .. })) => Err(JournalError::Io {
            operation: "start",
            file: "the node of the cluster".to_owned(),
            source: io::Error::other(error),
        }),
    }
}

/// Leaves: the leader hands over first.
pub(crate) async fn leave(cluster: &Cluster) {
    cluster.step_down().await;
}

/// Ends links and Raft.
pub(crate) async fn end(cluster: &Cluster) {
    cluster.shutdown(LINKS_TIMEOUT).await;
}

/// Whether clients can be served through this node: it leads, or knows who does.
pub(crate) fn has_leader(cluster: &Cluster) -> bool {
    cluster.started().is_some_and(|node| node.view().has_quorum)
}

#[derive(Serialize)]
struct Status<'a> {
    id: String,
    address: &'a str,
    role: &'static str,
    term: u64,
    leader: Option<String>,
    has_quorum: bool,
    peers: Vec<PeerStatus<'a>>,
}

#[derive(Serialize)]
struct PeerStatus<'a> {
    id: String,
    address: &'a str,
    role: &'static str,
    reachable: bool,
}

fn id_text(id: u64) -> String {
    format!("{id:016x}")
}

/// `GET /api/cluster/status`: this node's own view.
pub(crate) fn status(cluster: &Cluster) -> (StatusCode, String) {
    let Some(node) = cluster.started() else {
        let body = r#"{"status":"recovering"}"#.to_owned();
        return (StatusCode::SERVICE_UNAVAILABLE, body);
    };
    let view = node.view();
    let role_of = |id: u64, has_vote: bool| match (view.leader == Some(id), has_vote) {
        (true, _) => "leader",
        (false, true) => "follower",
        (false, false) => "learner",
    };
    let others = view.members.iter().filter(|(id, _)| **id != view.id);
    let peers = others.map(|(id, (address, has_vote))| PeerStatus {
        id: id_text(*id),
        address,
        role: role_of(*id, *has_vote),
        reachable: cluster.reaches(*id),
    });
    let status = Status {
        id: id_text(view.id),
        address: cluster.address(),
        role: match view.role {
            Role::Leader if view.has_quorum => "leader",
            Role::Leader | Role::Candidate => "candidate",
            Role::Follower => "follower",
            Role::Learner => "learner",
        },
        term: view.term,
        leader: view.leader.map(id_text),
        has_quorum: view.has_quorum,
        peers: peers.collect(),
    };
    (StatusCode::OK, crate::health::json(&status))
}

#[derive(Serialize)]
struct Nodes {
    schema: &'static str,
    cluster: String,
    term: u64,
    nodes: Vec<NodeStatus>,
}

#[derive(Serialize)]
struct NodeStatus {
    id: String,
    address: String,
    role: &'static str,
    leader: Option<String>,
    term: Option<u64>,
    applied_index: Option<u64>,
    /// Entries behind the node that has applied most.
    lag: Option<u64>,
    disk_used_percent: Option<u8>,
}

fn role_text(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Candidate => "candidate",
        Role::Follower => "follower",
        Role::Learner => "learner",
    }
}

/// `GET /api/cluster/nodes`: what all nodes say of themselves.
pub(crate) async fn nodes(cluster: &Cluster) -> AdminAnswer {
    let surveyed = cluster.survey().await;
    let reports = || surveyed.iter().filter_map(|node| node.report.as_ref());
    let most = reports().map(|report| report.applied).max().unwrap_or(0);
    let id = cluster
        .started()
        .and_then(::cluster::Node::cluster)
        .unwrap_or_default();
    let nodes = surveyed.iter().map(|node| {
        let report = node.report.as_ref();
        NodeStatus {
            id: id_text(node.id),
            address: node.address.clone(),
            role: report.map_or("unreachable", |report| role_text(report.role)),
            leader: report.and_then(|report| report.leader).map(id_text),
            term: report.map(|report| report.term),
            applied_index: report.map(|report| report.applied),
            lag: report.map(|report| most - report.applied),
            disk_used_percent: report.and_then(|report| report.disk_used_percent),
        }
    });
    AdminAnswer::ok(&Nodes {
        schema: "holdfast.cluster.status/1",
        cluster: match cluster.name() {
            "" => id.iter().map(|byte| format!("{byte:02x}")).collect(),
            name => name.to_owned(),
        },
        term: reports().map(|report| report.term).max().unwrap_or(0),
        nodes: nodes.collect(),
    })
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Wish {
    node: Option<String>,
    force: bool,
}

/// Reads what a request asks for, by the last part of its path and its body.
fn wished(action: &str, body: &[u8]) -> Result<Change, String> {
    let wish: Wish = match body {
        [] => Wish::default(),
        body => serde_json::from_slice(body).map_err(|error| error.to_string())?,
    };
    let named = || {
        wish.node
            .clone()
            .ok_or_else(|| "the field node is missing".to_owned())
    };
    match action {
        "transfer" => Ok(Change::Transfer { to: wish.node }),
        "add" => Ok(Change::Add { node: named()? }),
        "remove" => Ok(Change::Remove {
            node: named()?,
            is_forced: wish.force,
        }),
        _ => Err(format!("{action} is not transfer, add or remove")),
    }
}

/// `POST /api/cluster/{transfer,add,remove}`: changes who leads, or who belongs to the cluster.
pub(crate) async fn change(cluster: &Cluster, action: &str, body: &[u8]) -> AdminAnswer {
    let refused = |status, code, cause: String, hint: &str, retryable| {
        let error = AdminError {
            code,
            message: format!("{action} was not done"),
            cause,
            hint: hint.to_owned(),
            retryable,
        };
        AdminAnswer::refused(status, &error)
    };
    let change = match wished(action, body) {
        Ok(change) => change,
        Err(cause) => {
            let hint = r#"send {"node": ID or ADDRESS}, and "force": true to remove without a quorum"#;
            return refused(StatusCode::BAD_REQUEST, "usage", cause, hint, false);
        }
    };
    match cluster.change(&change).await {
        Ok(()) => AdminAnswer::ok(&serde_json::json!({ "status": "done" })),
        Err(ChangeError::Refused(cause)) => {
            let hint = "look at the nodes: holdfast cluster status URL";
            refused(StatusCode::CONFLICT, "precondition", cause, hint, false)
        }
        Err(ChangeError::Unavailable(cause)) => {
            let hint = "try again when a node leads";
            refused(StatusCode::SERVICE_UNAVAILABLE, "unavailable", cause, hint, true)
        }
    }
}

#[derive(Serialize)]
struct Leader<'a> {
    id: String,
    address: &'a str,
    term: u64,
    since: u64,
}

/// `GET /leader`: who leads, as far as this node knows.
pub(crate) fn leader(cluster: &Cluster) -> (StatusCode, String) {
    let view = cluster.started().map(::cluster::Node::view);
    let found = view.as_ref().and_then(|view| {
        let leader = view.leader?;
        Some(Leader {
            id: id_text(leader),
            address: &view.members.get(&leader)?.0,
            term: view.term,
            since: view.leader_since_millis,
        })
    });
    match found {
        Some(leader) => (StatusCode::OK, crate::health::json(&leader)),
        None => (StatusCode::SERVICE_UNAVAILABLE, r#"{"leader":null}"#.to_owned()),
    }
}
