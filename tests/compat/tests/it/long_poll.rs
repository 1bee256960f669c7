//! Long polls as sockets see them: clients that leave, many that wait, and one message each.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use compat::{Connection, Server, Sqs, decode, post_json};
use serde_json::{Value, json};

fn poll_request(connection: &Connection, url: &str, wait: u32) -> Result<Vec<u8>> {
    let input = json!({ "QueueUrl": url, "WaitTimeSeconds": wait });
    let headers = [
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", "AmazonSQS.ReceiveMessage"),
    ];
    Ok(connection.encode("POST", "/", &headers, &serde_json::to_vec(&input)?))
}

/// Returns once the server has taken up everything sent before on other connections of this test.
fn settle(sqs: &mut Sqs, url: &str) -> Result<()> {
    for _ in 0..20 {
        sqs.counters(url)?;
        thread::yield_now();
    }
    Ok(())
}

fn send(sqs: &mut Sqs, url: &str, body: &str) -> Result<()> {
    sqs.call("SendMessage", json!({ "QueueUrl": url, "MessageBody": body }))?;
    Ok(())
}

/// Checks that a client that left while it polled has taken no message away from the next receive.
fn check_left_client(leave: impl FnOnce(Connection) -> Result<Option<Connection>>) -> Result<()> {
    let server = Server::dev()?;
    let mut sqs = server.sqs();
    let url = sqs.create_queue("left", json!({}))?;
    let mut connection = server.connect()?;
    let request = poll_request(&connection, &url, 20)?;
    connection.send(&request)?;
    settle(&mut sqs, &url)?;
    let left = leave(connection)?;
    settle(&mut sqs, &url)?;

    send(&mut sqs, &url, "for the next one")?;
    let messages = sqs.receive(&url, 30)?;
    ensure!(
        messages.len() == 1,
        "a client that had left took the message: {:?}",
        sqs.counters(&url)?
    );
    ensure!(messages[0]["Body"] == "for the next one", "{messages:?}");
    drop(left);
    Ok(())
}

#[test]
fn a_client_that_closed_its_socket_takes_no_message() -> Result<()> {
    check_left_client(|connection| {
        drop(connection);
        Ok(None)
    })
}

#[test]
fn a_half_closed_socket_takes_no_message() -> Result<()> {
    check_left_client(|mut connection| {
        connection.finish_writing()?;
        Ok(Some(connection))
    })
}

#[test]
fn each_message_wakes_one_of_many_polls() -> Result<()> {
    const POLLS: usize = 50;
    let server = Server::dev()?;
    let mut sqs = server.sqs();
    let url = sqs.create_queue("many", json!({}))?;
    let mut polls = Vec::new();
    for _ in 0..POLLS {
        let mut connection = server.connect()?;
        let request = poll_request(&connection, &url, 20)?;
        connection.send(&request)?;
        polls.push(connection);
    }
    settle(&mut sqs, &url)?;
    let started = Instant::now();
    for number in 0..POLLS {
        send(&mut sqs, &url, &number.to_string())?;
    }
    let mut bodies = Vec::new();
    for poll in &mut polls {
        let output = decode(&poll.receive()?)?.ok().context("a poll was refused")?;
        let messages = output["Messages"]
            .as_array()
            .with_context(|| format!("an empty answer: {output}"))?;
        ensure!(messages.len() == 1, "{output}");
        bodies.extend(
            messages[0]["Body"]
                .as_str()
                .and_then(|body| body.parse::<usize>().ok()),
        );
    }
    bodies.sort_unstable();
    ensure!(bodies == (0..POLLS).collect::<Vec<_>>(), "{bodies:?}");
    ensure!(
        started.elapsed() < Duration::from_secs(10),
        "it took {:?}",
        started.elapsed()
    );
    Ok(())
}

#[test]
fn the_wait_of_the_request_wins_over_the_queue_s() -> Result<()> {
    let server = Server::dev()?;
    let mut sqs = server.sqs();
    let url = sqs.create_queue("default", json!({ "ReceiveMessageWaitTimeSeconds": "1" }))?;
    let mut timed = |input: Value| -> Result<Duration> {
        let started = Instant::now();
        let output = sqs.call("ReceiveMessage", input)?;
        ensure!(output.get("Messages").is_none(), "{output}");
        Ok(started.elapsed())
    };
    let by_queue = timed(json!({ "QueueUrl": url }))?;
    ensure!(
        by_queue >= Duration::from_millis(950),
        "the queue's wait of 1 s ended after {by_queue:?}"
    );
    let by_request = timed(json!({ "QueueUrl": url, "WaitTimeSeconds": 0 }))?;
    ensure!(
        by_request < Duration::from_millis(900),
        "a wait of 0 took {by_request:?}"
    );
    Ok(())
}

#[test]
fn a_delay_that_ends_answers_the_poll() -> Result<()> {
    let server = Server::dev()?;
    let mut sqs = server.sqs();
    let url = sqs.create_queue("delayed", json!({}))?;
    sqs.call(
        "SendMessage",
        json!({ "QueueUrl": url, "MessageBody": "late", "DelaySeconds": 60 }),
    )?;
    let mut connection = server.connect()?;
    let request = poll_request(&connection, &url, 20)?;
    connection.send(&request)?;
    settle(&mut sqs, &url)?;
    let started = Instant::now();
    server.advance(Duration::from_secs(59))?;
    ensure!(
        sqs.counters(&url)? == [0, 0, 1],
        "due before its time: {:?}",
        sqs.counters(&url)?
    );
    server.advance(Duration::from_secs(2))?;
    let output = decode(&connection.receive()?)?
        .ok()
        .context("the poll was refused")?;
    ensure!(output["Messages"][0]["Body"] == "late", "{output}");
    ensure!(
        started.elapsed() < Duration::from_secs(10),
        "it took {:?}",
        started.elapsed()
    );
    // The connection serves on after a poll.
    let reply = post_json(&mut connection, "ListQueues", b"{}")?;
    ensure!(reply.status == 200, "{}", reply.text());
    Ok(())
}
