//! What operators do to a running server or cluster: draining, handing over, adding and removing nodes.

use std::thread;

use anyhow::{Context, Result, ensure};
use compat::{Connection, Launch, Reply, Server, wait_for};
use serde_json::{Value, json};

use crate::cluster::{LIMIT, QUEUE, Trio, create_queue, drain as receive_all, patiently};

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
