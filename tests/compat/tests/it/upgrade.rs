//! A cluster is upgraded node by node; what only the new version understands is used when all nodes are new.

use anyhow::{Context, Result, ensure};
use compat::{Launch, Server, wait_for};
use serde_json::json;

use crate::cluster::{LIMIT, QUEUE, Trio, create_queue, drain, patiently};

/// What the log says when commands of the next version may be used, when one was, and when it is not understood.
const RAISED: &str = "the feature level of the cluster level=2";
const USED: &str = "a command of the next feature level";
const REFUSED: &str = "feature level 2: this version understands 1 at most";

#[test]
fn a_cluster_is_upgraded_node_by_node_and_old_nodes_have_no_place_in_it_then() -> Result<()> {
    let mut trio = Trio::form()?;
    let upgraded = upgrade(&mut trio);
    upgraded.with_context(|| trio.logs())
}

fn upgrade(trio: &mut Trio) -> Result<()> {
    create_queue(trio)?;
    let mut sent = Vec::new();
    let send = |trio: &Trio, sent: &mut Vec<String>| -> Result<()> {
        for node in &trio.nodes[..2] {
            let body = format!("message {}", sent.len());
            let input = json!({ "QueueUrl": QUEUE, "MessageBody": body });
            patiently(&mut node.sqs(), "SendMessage", input)?;
            sent.push(body);
        }
        Ok(())
    };
    send(trio, &mut sent)?;
    for number in 0..3 {
        let is_used = trio
            .nodes
            .iter()
            .any(|node| node.logged(RAISED) || node.logged(USED));
        ensure!(!is_used, "an old node would have to understand it");
        trio.nodes[number].stop()?;
        trio.nodes[number].use_program("holdfast-next");
        trio.nodes[number].restart()?;
        send(trio, &mut sent)?;
    }
    wait_for("the level to be raised", LIMIT, || {
        let raised = trio.nodes.iter().all(|node| node.logged(RAISED));
        let used = trio.nodes.iter().any(|node| node.logged(USED));
        Ok((raised && used).then_some(()))
    })?;
    let mut found = drain(&mut trio.nodes[1].sqs())?;
    found.sort();
    sent.sort();
    ensure!(found == sent, "{found:?} instead of {sent:?}");

    // One goes back: it must neither serve nor have a say.
    let old = &mut trio.nodes[2];
    old.stop()?;
    old.use_program("holdfast");
    old.restart_unready()?;
    // The others refuse it, unless it comes to an entry first that it does not understand, and ends.
    wait_for("the old node to be turned away", LIMIT, || {
        let is_away = old.logged("the peer refused: feature level too old") || old.logged(REFUSED);
        Ok(is_away.then_some(()))
    })?;
    send(trio, &mut sent)
}

/// A directory that the next version has written to is not opened by this one, in any way that could lose something.
#[test]
fn a_single_node_that_was_upgraded_does_not_go_back() -> Result<()> {
    let mut server = Server::start(Launch::dev().program("holdfast-next"))?;
    server.stop()?;
    server.use_program("holdfast");
    ensure!(server.restart().is_err(), "it started");
    ensure!(server.logged(REFUSED), "{}", server.log_tail());
    server.use_program("holdfast-next");
    server.restart()
}
