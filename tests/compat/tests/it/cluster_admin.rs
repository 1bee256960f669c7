//! What operators do to a running server or cluster: draining, handing over, adding and removing nodes.

use std::thread;

use anyhow::{Context, Result, ensure};
use compat::{Connection, Launch, Reply, Server, holdfast, run_to_end, wait_for};
use serde_json::{Value, json};

use crate::cluster::{
    LIMIT, QUEUE, SECRET, Trio, create_queue, drain as receive_all, own_addresses, patiently,
};

const TOKEN: &str = "the token of the operators";

/// Asks a port of a server to drain.
fn drain(address: std::net::SocketAddr, method: &str, token: Option<&str>) -> Result<Reply> {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = bearer
        .iter()
        .map(|bearer| ("authorization", bearer.as_str()))
        .collect();
    Connection::open(address)?.request(method, "/api/drain", &headers, b"")
}

fn json_of(reply: &Reply) -> Result<Value> {
    serde_json::from_slice(&reply.body).with_context(|| reply.text())
}

#[test]
fn draining_needs_the_token_on_both_ports() -> Result<()> {
    let server = Server::start(Launch::with_keys().variable("SHARED_SQS_ADMIN_TOKEN", TOKEN))?;
    let without = Server::start(Launch::with_keys())?;
    for (server, port, without) in [
        (&server, server.sqs_address(), without.sqs_address()),
        (&server, server.control_address(), without.control_address()),
    ] {
        for (method, token, status, header) in [
            ("GET", Some(TOKEN), 405, ("allow", "POST")),
            ("POST", None, 401, ("www-authenticate", "Bearer")),
            ("POST", Some("another token"), 401, ("www-authenticate", "Bearer")),
        ] {
            let reply = drain(port, method, token)?;
            ensure!(reply.status == status, "{method} {token:?}: {}", reply.text());
            ensure!(reply.header(header.0) == Some(header.1), "{method}: {reply:?}");
            ensure!(json_of(&reply)?["error"]["hint"].is_string(), "{}", reply.text());
        }
        let reply = drain(without, "POST", Some(TOKEN))?;
        ensure!(reply.status == 403, "{}", reply.text());
        ensure!(reply.text().contains("HOLDFAST_ADMIN_TOKEN"), "{}", reply.text());
        ensure!(server.get("/ready")?.status == 200);
    }
    let reply = drain(server.sqs_address(), "POST", Some(TOKEN))?;
    ensure!(reply.status == 200, "{}", reply.text());
    Ok(())
}

#[test]
fn a_drained_server_finishes_and_takes_nothing_more() -> Result<()> {
    for is_on_control_port in [false, true] {
        let mut server = Server::dev()?;
        let mut sqs = server.sqs();
        sqs.call("CreateQueue", json!({ "QueueName": "q" }))?;
        let port = match is_on_control_port {
            true => server.control_address(),
            false => server.sqs_address(),
        };
        let poll = thread::scope(|scope| {
            let poll = scope.spawn(|| {
                let input = json!({ "QueueUrl": "q", "WaitTimeSeconds": 20 });
                server.sqs().call("ReceiveMessage", input)
            });
            wait_for("the poll to wait", LIMIT, || {
                let metrics = server.get("/metrics")?.text();
                Ok(metrics.contains("holdfast_long_polls_parked 1").then_some(()))
            })?;
            let reply = drain(port, "POST", None)?;
            ensure!(reply.status == 200, "{}", reply.text());
            let answer = json_of(&reply)?;
            ensure!(answer["status"] == "draining", "{answer}");
            ensure!(
                answer["in_flight_requests"]
                    .as_u64()
                    .is_some_and(|left| left <= 1),
                "{answer}"
            );
            poll.join().expect("the poll does not panic")
        })?;
        ensure!(poll["Messages"].as_array().is_none_or(Vec::is_empty), "{poll}");
        wait_for("nothing to be left", LIMIT, || {
            let answer = json_of(&drain(port, "POST", None)?)?;
            Ok((answer["in_flight_requests"] == 0).then_some(()))
        })?;
        let input = json!({ "QueueUrl": "q", "MessageBody": "late" });
        let refusal = server.sqs().try_call("SendMessage", &input)?;
        let refusal = refusal.err().context("a drained server took a message")?;
        ensure!(refusal.status == 503, "{refusal:?}");
        let body = input.to_string();
        let headers = [
            ("content-type", "application/x-amz-json-1.0"),
            ("x-amz-target", "AmazonSQS.SendMessage"),
        ];
        let reply = server
            .connect()?
            .request("POST", "/", &headers, body.as_bytes())?;
        ensure!(
            reply.status == 503 && reply.header("retry-after") == Some("1"),
            "{reply:?}"
        );
        for address in [server.sqs_address(), server.control_address()] {
            let get = |path| Connection::open(address)?.request("GET", path, &[], b"");
            let ready = get("/ready")?;
            ensure!(
                ready.status == 503 && json_of(&ready)?["status"] == "draining",
                "{}",
                ready.text()
            );
            ensure!(get("/health")?.status == 200);
        }
        ensure!(server.stop()?.success());
        server.restart()?;
        server.sqs().call("SendMessage", input)?;
    }
    Ok(())
}

#[test]
fn a_drained_leader_hands_over_and_the_others_go_on() -> Result<()> {
    let mut trio = Trio::form()?;
    create_queue(&trio)?;
    let first = trio.leader()?;
    let reply = drain(trio.nodes[first].control_address(), "POST", None)?;
    ensure!(reply.status == 200, "{}", reply.text());
    let second = trio.leader()?;
    ensure!(second != first, "the drained node leads: {}", trio.logs());
    ensure!(trio.nodes[first].get("/ready")?.status == 503);
    ensure!(trio.nodes[second].get("/ready")?.status == 200);
    let send = json!({ "QueueUrl": QUEUE, "MessageBody": "after" });
    patiently(&mut trio.nodes[second].sqs(), "SendMessage", send)?;
    // Not even an election makes it lead for long while another node can.
    trio.nodes[second].kill()?;
    let third = wait_for("the third node to lead", LIMIT, || {
        let leader = trio.leader()?;
        Ok((leader != first).then_some(leader))
    })?;
    let received = receive_all(&mut trio.nodes[third].sqs()).with_context(|| trio.logs())?;
    ensure!(received == ["after"], "{received:?}");
    Ok(())
}

/// Runs `holdfast cluster`; returns what it printed and its exit code.
fn cluster(arguments: &[&str]) -> Result<(String, i32)> {
    let output = run_to_end(holdfast()?.arg("cluster").args(arguments), LIMIT)?;
    let text = [output.stdout, output.stderr].concat();
    let code = output.status.code().context("no exit code")?;
    Ok((String::from_utf8(text)?, code))
}

fn done(arguments: &[&str]) -> Result<String> {
    let (text, code) = cluster(arguments)?;
    ensure!(
        code == 0,
        "holdfast cluster {arguments:?} ended with {code}: {text}"
    );
    Ok(text)
}

fn nodes(url: &str) -> Result<Vec<Value>> {
    let status: Value = serde_json::from_str(&done(&["status", url, "--json"])?)?;
    ensure!(status["schema"] == "holdfast.cluster.status/1", "{status}");
    Ok(status["nodes"].as_array().context("nodes")?.clone())
}

fn with_role(nodes: &[Value], role: &str) -> usize {
    nodes.iter().filter(|node| node["role"] == role).count()
}

#[test]
fn an_operator_sees_all_nodes_and_moves_the_leadership() -> Result<()> {
    let mut trio = Trio::form()?;
    let act = |trio: &mut Trio| -> Result<()> {
        create_queue(trio)?;
        let url = trio.nodes[0].control_url();
        let known = nodes(&url)?;
        ensure!(known.len() == 3 && with_role(&known, "leader") == 1, "{known:?}");
        for node in &known {
            ensure!(node["applied_index"].as_u64() > Some(0), "{node}");
            ensure!(node["lag"].is_u64() && node["term"].is_u64(), "{node}");
        }
        let table = done(&["status", &url])?;
        ensure!(
            table.lines().count() == 5 && table.contains("follower"),
            "{table}"
        );
        // To a node by its address, asked of whichever node.
        let follower = known
            .iter()
            .find(|node| node["role"] == "follower")
            .context("no follower")?;
        let address = follower["address"].as_str().context("address")?;
        for node in 0..3 {
            done(&["transfer", &trio.nodes[node].control_url(), "--to", address])?;
        }
        wait_for("the node to lead", LIMIT, || {
            let leader = trio.leader()?;
            let status = json_of(&trio.nodes[leader].get("/api/cluster/status")?)?;
            Ok((status["address"] == address).then_some(()))
        })?;
        let (text, code) = cluster(&["transfer", &url, "--to", "10.9.9.9:1"])?;
        ensure!(
            code == 5 && text.contains("no node of the cluster"),
            "{code}: {text}"
        );
        // One that is away is shown, and nobody hands over to it.
        let leader = trio.leader()?;
        let away = (leader + 1) % 3;
        let gone = json_of(&trio.nodes[away].get("/api/cluster/status")?)?;
        let gone = gone["id"].as_str().context("id")?.to_owned();
        trio.nodes[away].kill()?;
        let url = trio.nodes[leader].control_url();
        wait_for("the node to be seen as away", LIMIT, || {
            Ok((with_role(&nodes(&url)?, "unreachable") == 1).then_some(()))
        })?;
        wait_for("the transfer to be refused", LIMIT, || {
            let (_, code) = cluster(&["transfer", &url, "--to", &gone])?;
            Ok((code == 5).then_some(()))
        })
    };
    act(&mut trio).with_context(|| trio.logs())
}

#[test]
fn a_cluster_grows_and_shrinks_without_losing_anything() -> Result<()> {
    let mut trio = Trio::form()?;
    let act = |trio: &mut Trio| -> Result<()> {
        create_queue(trio)?;
        for number in 0..50 {
            let input = json!({ "QueueUrl": QUEUE, "MessageBody": format!("{number}") });
            patiently(&mut trio.nodes[number % 3].sqs(), "SendMessage", input)?;
        }
        let url = trio.nodes[0].control_url();
        let seeds: Vec<_> = nodes(&url)?.iter().map(|node| node["address"].clone()).collect();
        let seeds: Vec<_> = seeds.iter().filter_map(Value::as_str).collect();
        let [address, ..] = own_addresses();
        let (text, code) = cluster(&["add", &url, "--node", &address])?;
        ensure!(code == 5 && text.contains("has not joined"), "{code}: {text}");
        let fourth = Launch::dev()
            .variable("HOLDFAST_CLUSTER_LISTEN", &address)
            .variable(
                "HOLDFAST_CLUSTER_SEEDS",
                &[&seeds[..], &[&address]].concat().join(","),
            )
            .variable("HOLDFAST_CLUSTER_SECRET", SECRET);
        let fourth = Server::start(fourth)?;
        wait_for("the node to join", LIMIT, || {
            Ok((with_role(&nodes(&url)?, "learner") == 1).then_some(()))
        })?;
        done(&["add", &url, "--node", &address])?;
        let known = nodes(&url)?;
        ensure!(known.len() == 4 && with_role(&known, "learner") == 0, "{known:?}");
        // The leader goes, and is not asked itself.
        let leader = trio.leader()?;
        let asked = trio.nodes[(leader + 1) % 3].control_url();
        let status = json_of(&trio.nodes[leader].get("/api/cluster/status")?)?;
        let id = status["id"].as_str().context("id")?;
        done(&["remove", &asked, "--node", id])?;
        trio.nodes[leader].kill()?;
        let known = nodes(&asked)?;
        ensure!(known.len() == 3 && with_role(&known, "leader") == 1, "{known:?}");
        // Two of the three that are left decide: the new one has a vote.
        let left = (leader + 2) % 3;
        let left_id = json_of(&trio.nodes[left].get("/api/cluster/status")?)?;
        let left_id = left_id["id"].as_str().context("id")?.to_owned();
        trio.nodes[left].kill()?;
        let received = receive_all(&mut fourth.sqs())?;
        ensure!(received.len() == 50, "{received:?}");
        // Without the one that is away two are left, and without another of them one of two in reach: no quorum.
        let mine = json_of(&fourth.get("/api/cluster/status")?)?;
        let mine = mine["id"].as_str().context("id")?;
        let (text, code) = cluster(&["remove", &asked, "--node", mine])?;
        ensure!(code == 5 && text.contains("in reach"), "{code}: {text}");
        done(&["remove", &asked, "--node", &left_id])?;
        ensure!(nodes(&asked)?.len() == 2);
        Ok(())
    };
    act(&mut trio).with_context(|| trio.logs())
}

#[test]
fn the_verbs_need_the_token_and_a_cluster() -> Result<()> {
    let server = Server::start(Launch::with_keys().variable("HOLDFAST_ADMIN_TOKEN", TOKEN))?;
    let url = server.control_url();
    let (text, code) = cluster(&["status", &url])?;
    ensure!(code == 6 && text.contains("try:"), "{code}: {text}");
    let (text, code) = cluster(&["status", &url, "--token", TOKEN])?;
    ensure!(
        code == 4 && text.contains("not a node of a cluster"),
        "{code}: {text}"
    );
    let text = done(&["drain", &url, "--token", TOKEN])?;
    ensure!(text.contains("drains"), "{text}");
    ensure!(server.get("/ready")?.status == 503);
    let (text, code) = cluster(&["status", "http://127.0.0.1:1"])?;
    ensure!(code == 7, "{code}: {text}");
    Ok(())
}

#[test]
fn a_preferred_leader_leads_whenever_it_can() -> Result<()> {
    const PREFERRED: usize = 1;
    let mut trio = Trio::form_of(|number, launch| match number {
        PREFERRED => launch.variable("TINYMQ_CLUSTER_LEADER", "true"),
        _ => launch,
    })?;
    let leads = |trio: &Trio| {
        wait_for("the preferred leader to lead", LIMIT, || {
            Ok((trio.leader()? == PREFERRED).then_some(()))
        })
    };
    leads(&trio).with_context(|| trio.logs())?;
    trio.nodes[PREFERRED].kill()?;
    ensure!(trio.leader()? != PREFERRED);
    trio.nodes[PREFERRED].restart()?;
    leads(&trio).with_context(|| trio.logs())
}

#[test]
fn a_node_says_that_the_others_reach_it_at_another_address() -> Result<()> {
    let [address, other, _] = own_addresses();
    let settings = [("LISTEN", &address), ("SEEDS", &address)];
    let launch = settings.iter().fold(Launch::dev(), |launch, (name, value)| {
        launch.variable(&format!("HOLDFAST_CLUSTER_{name}"), value)
    });
    let mut server = Server::start(launch.variable("HOLDFAST_CLUSTER_SECRET", SECRET))?;
    let warning = "reach this node at another address";
    ensure!(!server.logged(warning), "{}", server.log_tail());
    ensure!(server.stop()?.success());
    for name in ["ADVERTISE", "SEEDS"] {
        server.set_variable(&format!("HOLDFAST_CLUSTER_{name}"), &other);
    }
    server.restart()?;
    wait_for("the warning", LIMIT, || Ok(server.logged(warning).then_some(())))
}
