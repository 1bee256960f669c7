//! A disk that fills up: sends are refused, everything else goes on, and room that comes back is used.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use compat::{Launch, Refusal, Server, Sqs, wait_for};
use serde_json::{Value, json};

use crate::cluster::{LIMIT, QUEUE, Trio, create_queue, drain, patiently};

const DISK_MEBIBYTES: u32 = 32;
const BODY_BYTES: usize = 40_000;
/// Longest that anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn start() -> Result<Server> {
    Server::start(Launch::dev().small_disk(DISK_MEBIBYTES))
}

fn body(number: usize) -> String {
    format!("{number} {}", "x".repeat(BODY_BYTES))
}

fn send(sqs: &mut Sqs, queue: &str, body: &str) -> Result<std::result::Result<Value, Refusal>> {
    sqs.try_call("SendMessage", &json!({ "QueueUrl": queue, "MessageBody": body }))
}

/// Sends until the server has no room; returns how many were taken.
fn fill(sqs: &mut Sqs, queue: &str, from: usize) -> Result<usize> {
    for number in from..100_000 {
        if let Err(refusal) = send(sqs, queue, &body(number))? {
            check_no_room(&refusal)?;
            return Ok(number - from);
        }
    }
    bail!("a disk of {DISK_MEBIBYTES} MiB took everything");
}

/// An error that every SDK tries again after.
fn check_no_room(refusal: &Refusal) -> Result<()> {
    ensure!(
        (refusal.status, refusal.code.as_str()) == (503, "ServiceUnavailableException")
            && refusal.message.contains("room"),
        "{refusal:?}"
    );
    Ok(())
}

/// Receives and deletes some; returns their bodies.
fn consume(sqs: &mut Sqs, queue: &str) -> Result<Vec<String>> {
    let messages = sqs.receive(queue, 600)?;
    for message in &messages {
        let input = json!({ "QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"] });
        sqs.call("DeleteMessage", input)?;
    }
    let body = |message: &Value| message["Body"].as_str().map(str::to_owned);
    messages
        .iter()
        .map(body)
        .collect::<Option<_>>()
        .context("a message without a body")
}

/// Sends until one is taken again.
fn until_taken(sqs: &mut Sqs, queue: &str, text: &str) -> Result<()> {
    let began = Instant::now();
    while let Err(refusal) = send(sqs, queue, text)? {
        check_no_room(&refusal)?;
        ensure!(began.elapsed() < PATIENCE, "no room for {PATIENCE:?}");
    }
    Ok(())
}

#[test]
fn a_full_disk_refuses_sends_only_and_is_left_by_receiving() -> Result<()> {
    let mut server = start()?;
    let mut sqs = server.sqs();
    let queue = sqs.create_queue("q", json!({}))?;
    let sent = fill(&mut sqs, &queue, 0)?;
    ensure!(sent * BODY_BYTES > 10 << 20, "room for {sent} only");

    // What is held can be looked at, hidden and shown, over a crash as well.
    let messages = sqs.receive(&queue, 600)?;
    ensure!(!messages.is_empty(), "nothing to receive");
    for message in &messages {
        let input = json!({
            "QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0,
        });
        sqs.call("ChangeMessageVisibility", input)?;
    }
    server.kill()?;
    server.restart()?;
    let mut sqs = server.sqs();
    ensure!(
        sqs.counters(&queue)? == [sent as u64, 0, 0],
        "{:?}",
        sqs.counters(&queue)?
    );

    let mut found = Vec::new();
    while found.len() < sent {
        let bodies = consume(&mut sqs, &queue)?;
        ensure!(!bodies.is_empty(), "{} of {sent} are there", found.len());
        found.extend(bodies);
    }
    found.sort_unstable();
    let mut expected: Vec<_> = (0..sent).map(body).collect();
    expected.sort_unstable();
    ensure!(found == expected, "what was received is not what was sent");
    until_taken(&mut sqs, &queue, "again").with_context(|| server.log_tail())?;
    ensure!(consume(&mut sqs, &queue)? == ["again"]);
    Ok(())
}

#[test]
fn a_purge_makes_room_and_the_next_messages_are_whole() -> Result<()> {
    let server = start()?;
    let mut sqs = server.sqs();
    let queue = sqs.create_queue("q", json!({}))?;
    for round in 0..3 {
        let sent = fill(&mut sqs, &queue, round * 10_000)?;
        ensure!(sent > 0, "round {round}");
        // Some are kept, so that their files are only partly needed.
        let kept = sqs.receive(&queue, 0)?;
        sqs.call("PurgeQueue", json!({ "QueueUrl": queue }))?;
        ensure!(!kept.is_empty());
        until_taken(&mut sqs, &queue, "after the purge").with_context(|| server.log_tail())?;
        ensure!(consume(&mut sqs, &queue)? == ["after the purge"]);
    }
    Ok(())
}

#[test]
fn room_that_somebody_else_takes_and_gives_back_is_noticed() -> Result<()> {
    let server = start()?;
    let mut sqs = server.sqs();
    let queue = sqs.create_queue("q", json!({}))?;
    send(&mut sqs, &queue, "before")?.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    let filler = server.data_dir().join("filler");
    fs::write(&filler, vec![7; (DISK_MEBIBYTES as usize - 4) << 20])?;
    let began = Instant::now();
    let refusal = loop {
        if let Err(refusal) = send(&mut sqs, &queue, "while it is full")? {
            break refusal;
        }
        ensure!(began.elapsed() < PATIENCE, "never refused");
    };
    check_no_room(&refusal)?;
    ensure!(consume(&mut sqs, &queue)?.contains(&"before".to_owned()));
    let metrics = server.get("/metrics")?.text();
    ensure!(metrics.contains("holdfast_disk_short 1"), "{metrics}");
    fs::remove_file(&filler)?;
    until_taken(&mut sqs, &queue, "after")?;
    Ok(())
}

/// A file that takes the room of a node's disk.
fn take_room(node: &Server) -> Result<std::path::PathBuf> {
    let filler = node.data_dir().join("filler");
    fs::write(&filler, vec![7; (DISK_MEBIBYTES as usize - 4) << 20])?;
    Ok(filler)
}

#[test]
fn a_cluster_goes_on_without_room_on_one_node_and_refuses_sends_without_room_on_two() -> Result<()> {
    let mut trio = Trio::form_of(|number, launch| {
        if number == 2 {
            launch
        } else {
            launch.small_disk(DISK_MEBIBYTES)
        }
    })?;
    let done = fill_nodes(&mut trio);
    done.with_context(|| trio.logs())
}

fn fill_nodes(trio: &mut Trio) -> Result<()> {
    create_queue(trio)?;
    // A node with a small disk is to lead.
    while trio.leader()? == 2 {
        trio.nodes[2].stop()?;
        trio.leader()?;
        trio.nodes[2].restart()?;
    }
    let first = trio.leader()?;
    let filler = take_room(&trio.nodes[first])?;
    let mut sqs = trio.nodes[2].sqs();
    let text = "while one node has no room";
    wait_for("a leader that has room", LIMIT, || {
        patiently(
            &mut sqs,
            "SendMessage",
            json!({ "QueueUrl": QUEUE, "MessageBody": text }),
        )?;
        Ok((trio.leader()? != first).then_some(()))
    })?;
    // It goes on, and nothing is refused for want of room.
    for _ in 0..20 {
        patiently(
            &mut sqs,
            "SendMessage",
            json!({ "QueueUrl": QUEUE, "MessageBody": text }),
        )?;
    }
    let other = 1 - first;
    let second_filler = take_room(&trio.nodes[other])?;
    wait_for("sends to be refused", LIMIT, || {
        let sent = send(&mut sqs, QUEUE, text)?;
        let is_for_room = |refusal: &Refusal| refusal.message.contains("room");
        Ok(sent.is_err_and(|refusal| is_for_room(&refusal)).then_some(()))
    })?;
    // Receiving and deleting go on, and sends do when one of the two has room.
    ensure!(drain(&mut trio.nodes[2].sqs())?.len() > 20);
    fs::remove_file(second_filler)?;
    wait_for("sends to be taken", LIMIT, || {
        Ok(send(&mut sqs, QUEUE, "after")?.ok())
    })?;
    fs::remove_file(filler)?;
    Ok(())
}
