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
fn requests_that_are_sent_while_a_poll_waits_are_answered_after_it() -> Result<()> {
    /// Together more than the server keeps of what comes early.
    const REQUESTS: usize = 1_000;
    let server = Server::dev()?;
    let mut sqs = server.sqs();
    let url = sqs.create_queue("early", json!({}))?;
    let mut connection = server.connect()?;
    let poll = poll_request(&connection, &url, 20)?;
    let headers = [
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", "AmazonSQS.ListQueues"),
    ];
    let list = connection.encode("POST", "/", &headers, b"{}");
    connection.send(&[poll, list.repeat(REQUESTS)].concat())?;
    settle(&mut sqs, &url)?;
    send(&mut sqs, &url, "for the poll")?;
    let output = decode(&connection.receive()?)?
        .ok()
        .context("the poll was refused")?;
    ensure!(output["Messages"][0]["Body"] == "for the poll", "{output}");
    for number in 0..REQUESTS {
        let output = decode(&connection.receive()?)?
            .ok()
            .with_context(|| format!("request {number} was refused"))?;
        ensure!(output["QueueUrls"] == json!([url]), "{output}");
    }
    Ok(())
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
fn polls_without_messages_end_on_time() -> Result<()> {
    const POLLS: usize = 500;
    const QUEUES: usize = 50;
    let server = Server::dev()?;
    let mut sqs = server.sqs();
    let mut urls = Vec::new();
    for number in 0..QUEUES {
        urls.push(sqs.create_queue(&format!("empty-{number}"), json!({}))?);
    }
    let mut polls = Vec::new();
    for number in 0..POLLS {
        let mut connection = server.connect()?;
        let request = poll_request(&connection, &urls[number % QUEUES], 2)?;
        let started = Instant::now();
        connection.send(&request)?;
        polls.push((started, connection));
    }
    // In the order in which they began, so that reading one answer does not delay the measure of the next.
    for (started, connection) in &mut polls {
        let output = decode(&connection.receive()?)?
            .ok()
            .context("a poll was refused")?;
        let waited = started.elapsed();
        ensure!(output.get("Messages").is_none(), "{output}");
        let on_time = Duration::from_millis(1_950)..Duration::from_millis(3_500);
        ensure!(on_time.contains(&waited), "a poll of 2 s took {waited:?}");
    }
    Ok(())
}

/// Parks a poll on `polled`, makes a message available there, and checks that the poll gets it.
fn check_wakes(
    polled: &str,
    prepare: impl FnOnce(&mut Sqs) -> Result<Value>,
    make_available: impl FnOnce(&Server, &mut Sqs, &Value) -> Result<()>,
) -> Result<()> {
    let server = Server::dev()?;
    let mut sqs = server.sqs();
    let prepared = prepare(&mut sqs)?;
    let mut connection = server.connect()?;
    let request = poll_request(&connection, polled, 20)?;
    connection.send(&request)?;
    settle(&mut sqs, polled)?;
    let started = Instant::now();
    make_available(&server, &mut sqs, &prepared)?;
    let output = decode(&connection.receive()?)?
        .ok()
        .context("the poll was refused")?;
    ensure!(output["Messages"][0]["Body"] == "wanted", "{output}");
    ensure!(
        started.elapsed() < Duration::from_secs(10),
        "it took {:?}",
        started.elapsed()
    );
    Ok(())
}

/// Sends the message that a poll waits for and takes it once, for 60 seconds.
fn send_and_take(sqs: &mut Sqs, url: &str) -> Result<Value> {
    send(sqs, url, "wanted")?;
    let mut messages = sqs.receive(url, 60)?;
    messages.pop().context("nothing was received")
}

#[test]
fn a_lease_that_ends_answers_the_poll() -> Result<()> {
    let prepare = |sqs: &mut Sqs| {
        let url = sqs.create_queue("lease", json!({}))?;
        send_and_take(sqs, &url)
    };
    check_wakes("lease", prepare, |server, _, _| {
        server.advance(Duration::from_secs(61))
    })
}

#[test]
fn a_message_given_back_answers_the_poll() -> Result<()> {
    let prepare = |sqs: &mut Sqs| {
        let url = sqs.create_queue("back", json!({}))?;
        send_and_take(sqs, &url)
    };
    check_wakes("back", prepare, |_, sqs, taken| {
        let handle = &taken["ReceiptHandle"];
        let input = json!({ "QueueUrl": "back", "ReceiptHandle": handle, "VisibilityTimeout": 0 });
        sqs.call("ChangeMessageVisibility", input).map(|_| ())
    })
}

#[test]
fn a_group_that_is_free_again_answers_the_poll() -> Result<()> {
    let prepare = |sqs: &mut Sqs| {
        let attributes = json!({ "FifoQueue": "true", "ContentBasedDeduplication": "true" });
        let url = sqs.create_queue("group.fifo", attributes)?;
        let message = |body: &str| json!({ "QueueUrl": url, "MessageBody": body, "MessageGroupId": "g" });
        sqs.call("SendMessage", message("first"))?;
        let mut taken = sqs.receive(&url, 60)?;
        sqs.call("SendMessage", message("wanted"))?;
        taken.pop().context("nothing was received")
    };
    check_wakes("group.fifo", prepare, |_, sqs, taken| {
        let input = json!({ "QueueUrl": "group.fifo", "ReceiptHandle": taken["ReceiptHandle"] });
        sqs.call("DeleteMessage", input).map(|_| ())
    })
}

#[test]
fn a_dead_letter_answers_the_poll() -> Result<()> {
    let prepare = |sqs: &mut Sqs| {
        let dead = sqs.create_queue("dead", json!({}))?;
        let input = json!({ "QueueUrl": dead, "AttributeNames": ["QueueArn"] });
        let output = sqs.call("GetQueueAttributes", input)?;
        let arn = &output["Attributes"]["QueueArn"];
        let policy = json!({ "deadLetterTargetArn": arn, "maxReceiveCount": 1 }).to_string();
        let url = sqs.create_queue("source", json!({ "RedrivePolicy": policy }))?;
        send(sqs, &url, "wanted")?;
        ensure!(sqs.receive(&url, 0)?.len() == 1, "nothing was received");
        Ok(Value::Null)
    };
    // The receive that would be one too many moves the message.
    check_wakes("dead", prepare, |_, sqs, _| {
        let messages = sqs.receive("source", 0)?;
        ensure!(
            messages.is_empty(),
            "received more often than allowed: {messages:?}"
        );
        Ok(())
    })
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
