//! Start and stop: who may start, what a stop does to work in progress, what is there after it.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use compat::{Connection, Launch, Scratch, Server, decode, run_to_end};
use serde_json::{Value, json};

const REFUSAL_LIMIT: Duration = Duration::from_secs(20);

/// Starts a server that must refuse to, and returns what it wrote.
fn refusal(launch: &Launch, home: &Scratch) -> Result<String> {
    let output = run_to_end(&mut launch.command(home.path())?, REFUSAL_LIMIT)?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    ensure!(
        !output.status.success(),
        "it started, and ended with success: {text}"
    );
    Ok(text)
}

#[test]
fn a_stop_answers_the_polls_and_ends_with_0() -> Result<()> {
    let mut server = Server::dev()?;
    let mut sqs = server.sqs();
    let url = sqs.create_queue("stop", json!({}))?;
    let mut poll = server.connect()?;
    let input = serde_json::to_vec(&json!({ "QueueUrl": url, "WaitTimeSeconds": 20 }))?;
    let headers = [
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", "AmazonSQS.ReceiveMessage"),
    ];
    let request = poll.encode("POST", "/", &headers, &input);
    poll.send(&request)?;
    for _ in 0..20 {
        sqs.counters(&url)?;
    }

    server.ask_to_stop()?;
    let output = decode(&poll.receive()?)?.ok().context("the poll was refused")?;
    ensure!(output.get("Messages").is_none(), "{output}");
    let status = server.wait_for_exit()?;
    ensure!(
        status.code() == Some(0),
        "ended with {status}: {}",
        server.log_tail()
    );
    Ok(())
}

#[test]
fn what_was_answered_is_there_after_a_stop() -> Result<()> {
    let mut server = Server::dev()?;
    let mut sqs = server.sqs();
    let url = sqs.create_queue("kept", json!({ "VisibilityTimeout": "77" }))?;
    sqs.call(
        "SendMessage",
        json!({ "QueueUrl": url, "MessageBody": "kept", "DelaySeconds": 900 }),
    )?;
    sqs.call("SendMessage", json!({ "QueueUrl": url, "MessageBody": "taken" }))?;
    let taken = sqs.receive(&url, 600)?;
    let status = server.stop()?;
    ensure!(
        status.code() == Some(0),
        "ended with {status}: {}",
        server.log_tail()
    );

    server.restart()?;
    let mut sqs = server.sqs();
    ensure!(sqs.counters("kept")? == [0, 1, 1], "{:?}", sqs.counters("kept")?);
    let input = json!({ "QueueUrl": "kept", "AttributeNames": ["VisibilityTimeout"] });
    let output = sqs.call("GetQueueAttributes", input)?;
    ensure!(output["Attributes"]["VisibilityTimeout"] == "77", "{output}");
    // A handle is as good after the restart as before it.
    let handle = &taken[0]["ReceiptHandle"];
    sqs.call(
        "DeleteMessage",
        json!({ "QueueUrl": "kept", "ReceiptHandle": handle }),
    )?;
    ensure!(sqs.counters("kept")? == [0, 0, 1], "{:?}", sqs.counters("kept")?);
    Ok(())
}

#[test]
fn a_second_process_on_the_same_data_is_refused() -> Result<()> {
    let mut server = Server::dev()?;
    let endpoints = fs::read(server.data_dir().join("endpoints.json"))?;
    let home = server
        .data_dir()
        .parent()
        .context("the data directory has no parent")?
        .to_path_buf();
    let mut second = Launch::dev().command(&home)?;
    let output = run_to_end(&mut second, REFUSAL_LIMIT)?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    ensure!(!output.status.success(), "a second process started: {text}");
    ensure!(
        text.contains("another process") || text.contains("in use") || text.contains("lock"),
        "{text}"
    );
    ensure!(
        text.contains("data"),
        "the refusal does not name the directory: {text}"
    );
    ensure!(
        fs::read(server.data_dir().join("endpoints.json"))? == endpoints,
        "the first one's file changed"
    );

    // The first one is unharmed.
    server.sqs().create_queue("still", json!({}))?;
    server.kill()?;
    server.restart()?;
    server
        .sqs()
        .call("GetQueueUrl", json!({ "QueueName": "still" }))?;
    Ok(())
}

#[test]
fn an_open_address_without_keys_is_refused() -> Result<()> {
    let open = Launch::without_keys().argument("--bind").argument("0.0.0.0");
    let text = refusal(&open, &Scratch::new("open")?)?;
    ensure!(
        text.contains("key"),
        "the refusal does not say that keys are missing: {text}"
    );
    let open_dev = Launch::dev().argument("--bind").argument("0.0.0.0");
    let text = refusal(&open_dev, &Scratch::new("open-dev")?)?;
    ensure!(
        text.contains("dev") || text.contains("key"),
        "the refusal does not say why: {text}"
    );
    Ok(())
}

#[test]
fn a_mistake_on_the_command_line_is_refused() -> Result<()> {
    refusal(
        &Launch::dev().argument("--limits").argument("loose"),
        &Scratch::new("limits")?,
    )?;
    refusal(&Launch::dev().argument("--no-such-flag"), &Scratch::new("flag")?)?;
    refusal(
        &Launch::dev().argument("--config").argument("missing.toml"),
        &Scratch::new("config")?,
    )?;
    Ok(())
}

#[test]
fn health_and_readiness_are_told_on_both_ports() -> Result<()> {
    let server = Server::dev()?;
    for address in [server.sqs_address(), server.control_address()] {
        let mut connection = Connection::open(address)?;
        let reply = connection.request("GET", "/health", &[], b"")?;
        ensure!(reply.status == 200, "/health answered {}", reply.status);
        let health: Value = serde_json::from_slice(&reply.body)?;
        ensure!(health["status"] == "ok", "{health}");
        ensure!(health["sqs"] == server.sqs_url().as_str(), "{health}");
        ensure!(health["control"] == server.control_url().as_str(), "{health}");
        let reply = connection.request("GET", "/ready", &[], b"")?;
        ensure!(reply.status == 200, "/ready answered {}", reply.status);
    }
    Ok(())
}

#[test]
fn the_clock_can_only_be_turned_in_development() -> Result<()> {
    let server = Server::start(Launch::with_keys())?;
    ensure!(
        server.advance(Duration::from_secs(1)).is_err(),
        "the clock of a real server was turned"
    );
    Ok(())
}
