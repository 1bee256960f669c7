//! Answers that their client does not read: what the kernel did not take whole is given back.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use compat::{Server, wait_for};
use serde_json::json;

const MESSAGES: usize = 8;
/// Together more than the buffers of both sockets hold.
const BODY_BYTES: usize = 1_000_000;

#[test]
fn messages_of_an_answer_that_did_not_leave_whole_come_back() -> Result<()> {
    let server = Server::dev()?;
    let mut sqs = server.sqs();
    let url = sqs.create_queue("unread", json!({}))?;
    for _ in 0..MESSAGES {
        let body = "x".repeat(BODY_BYTES);
        sqs.call("SendMessage", json!({ "QueueUrl": url, "MessageBody": body }))?;
    }
    let mut connection = server.connect()?;
    let input = json!({ "QueueUrl": url, "MaxNumberOfMessages": 10 });
    let headers = [
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", "AmazonSQS.ReceiveMessage"),
    ];
    let request = connection.encode("POST", "/", &headers, &serde_json::to_vec(&input)?);
    connection.send(&request)?;
    let limit = Duration::from_secs(20);
    wait_for("the messages to be taken", limit, || {
        Ok((sqs.counters(&url)? == [0, MESSAGES as u64, 0]).then_some(()))
    })?;
    // The client goes without having read a byte.
    drop(connection);
    wait_for("the messages to come back", limit, || {
        Ok((sqs.counters(&url)? == [MESSAGES as u64, 0, 0]).then_some(()))
    })?;
    let input = json!({ "QueueUrl": url, "AttributeNames": ["ApproximateReceiveCount"] });
    let output = sqs.call("ReceiveMessage", input)?;
    let count = output["Messages"][0]["Attributes"]["ApproximateReceiveCount"].as_str();
    ensure!(
        count.context("no message")? == "1",
        "the lost receive was counted: {count:?}"
    );
    Ok(())
}
