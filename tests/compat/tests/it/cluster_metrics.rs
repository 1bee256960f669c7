//! What `/metrics` says of a cluster.

use anyhow::{Context, Result, ensure};
use compat::{Launch, Server, wait_for};
use serde_json::Value;

use crate::cluster::{LIMIT, Trio, create_queue, own_addresses};

/// Returns what a server says of its cluster; none if there is no such sample.
fn reading(server: &Server, name: &str) -> Result<Option<u64>> {
    let text = server.get("/metrics")?.text();
    let start = format!("holdfast_cluster_{name} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&start));
    value.map(str::parse).transpose().with_context(|| text.clone())
}

/// Returns what all of them say.
fn readings(nodes: &[&Server], name: &str) -> Result<Vec<u64>> {
    nodes
        .iter()
        .map(|node| reading(node, name)?.with_context(|| format!("no {name}")))
        .collect()
}

/// Waits until all of them say this.
fn wait_until(nodes: &[&Server], name: &str, expected: u64) -> Result<()> {
    wait_for(name, LIMIT, || {
        let found = readings(nodes, name)?;
        Ok(found.iter().all(|value| *value == expected).then_some(()))
    })
}

/// Waits until one of them leads and all know of its term; returns its place and the term.
fn leader_and_term(nodes: &[&Server]) -> Result<(usize, u64)> {
    wait_for("one leader in one term", LIMIT, || {
        let (leads, terms) = (readings(nodes, "is_leader")?, readings(nodes, "term")?);
        let leader = leads.iter().position(|leads| *leads == 1);
        let is_agreed = leads.iter().sum::<u64>() == 1 && terms.iter().all(|term| *term == terms[0]);
        Ok(leader.filter(|_| is_agreed).map(|leader| (leader, terms[0])))
    })
}

#[test]
fn nodes_say_who_leads_how_far_they_are_and_whom_they_reach() -> Result<()> {
    let mut trio = Trio::form()?;
    let say = |trio: &mut Trio| -> Result<()> {
        create_queue(trio)?;
        let nodes: Vec<&Server> = trio.nodes.iter().collect();
        wait_until(&nodes, "peers_reachable", 2)?;
        wait_until(&nodes, "insecure", 0)?;
        wait_until(&nodes, "feature_level", 1)?;
        let (leader, term) = leader_and_term(&nodes)?;
        let status: Value = serde_json::from_slice(&nodes[leader].get("/leader")?.body)?;
        ensure!(status["term"].as_u64() >= Some(term), "{status} before {term}");
        let applied = readings(&nodes, "applied_index")?[leader];
        ensure!(applied > 0);
        for name in ["link_sent_bytes_total", "link_received_bytes_total"] {
            wait_for(name, LIMIT, || {
                let found = readings(&nodes, name)?;
                Ok(found.iter().all(|bytes| *bytes > 1_000).then_some(()))
            })?;
        }
        ensure!(
            readings(&nodes, "links_refused_total")?
                .iter()
                .all(|refused| *refused == 0)
        );
        wait_for("all nodes to come as far", LIMIT, || {
            let found = readings(&nodes, "applied_index")?;
            Ok(found.iter().all(|index| *index >= applied).then_some(()))
        })?;
        trio.nodes[leader].kill()?;
        let left = [1, 2].map(|step| &trio.nodes[(leader + step) % 3]);
        wait_until(&left, "peers_reachable", 1)?;
        ensure!(readings(&left, "links_lost_total")?.iter().all(|lost| *lost > 0));
        let (_, next_term) = leader_and_term(&left)?;
        ensure!(next_term > term, "{next_term} follows {term}");
        Ok(())
    };
    say(&mut trio).with_context(|| trio.logs())
}

#[test]
fn a_node_that_is_alone_and_not_protected_says_so() -> Result<()> {
    let [address, ..] = own_addresses();
    let launch = Launch::dev()
        .variable("HOLDFAST_CLUSTER_LISTEN", &address)
        .variable("HOLDFAST_CLUSTER_SEEDS", &address)
        .variable("HOLDFAST_CLUSTER_ALLOW_INSECURE", "true");
    let node = Server::start(launch)?;
    for (name, value) in [("insecure", 1), ("is_leader", 1), ("peers_reachable", 0)] {
        wait_until(&[&node], name, value).with_context(|| node.log_tail())?;
    }
    Ok(())
}

#[test]
fn a_server_without_a_cluster_says_nothing_of_one() -> Result<()> {
    let server = Server::dev()?;
    for name in [
        "is_leader",
        "term",
        "applied_index",
        "peers_reachable",
        "insecure",
        "feature_level",
    ] {
        ensure!(reading(&server, name)?.is_none(), "{name}");
    }
    Ok(())
}
