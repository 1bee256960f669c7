//! The options of a cluster: what they become, what is refused, and what is only warned of.

mod refusals;
mod security;
mod values;

use config::{ClusterOptions, ClusterSecurity, NodeAddress};

use crate::process::Process;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OTHER_SECRET: &str = "fedcba9876543210fedcba9876543210";

/// A node that would start: it listens, and has a secret.
fn node() -> Process {
    Process::default()
        .variable("HOLDFAST_CLUSTER_LISTEN", "10.0.0.1")
        .variable("HOLDFAST_CLUSTER_SECRET", SECRET)
}

fn with_certificates(process: Process) -> Process {
    process
        .variable("HOLDFAST_CLUSTER_TLS_CA", "/ca.pem")
        .variable("HOLDFAST_CLUSTER_TLS_CERT", "/cert.pem")
        .variable("HOLDFAST_CLUSTER_TLS_KEY", "/key.pem")
}

#[track_caller]
fn cluster(process: &Process) -> ClusterOptions {
    process.load().unwrap().cluster.unwrap()
}

/// The warnings that are about the cluster.
#[track_caller]
fn warnings(process: &Process) -> Vec<String> {
    let all = process.load().unwrap().warnings;
    all.into_iter()
        .filter(|warning| !warning.contains("access key"))
        .collect()
}

#[track_caller]
fn warned(process: &Process, parts: &[&str]) {
    let warnings = warnings(process);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in parts {
        assert!(warnings[0].contains(part), "{warnings:?}\nhas no {part:?}");
    }
}

fn texts(addresses: &[NodeAddress]) -> Vec<String> {
    addresses.iter().map(NodeAddress::to_string).collect()
}

#[track_caller]
fn secrets(options: &ClusterOptions) -> (&[u8], Option<&[u8]>) {
    match &options.security {
        ClusterSecurity::Secret { current, previous } => {
            (current.expose(), previous.as_ref().map(|secret| secret.expose()))
        }
        ClusterSecurity::Tls { .. } | ClusterSecurity::Insecure => panic!("{options:?}"),
    }
}
