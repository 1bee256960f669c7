//! Rounds that fill a queue and empty it again; nothing may stick, however often that happens.

use std::thread;

use anyhow::{Result, ensure};
use compat::{Server, Sqs};
use serde_json::{Value, json};

const ROUNDS: usize = 3;
const MESSAGES: usize = 2_000;
const CONSUMERS: usize = 4;

#[test]
fn three_rounds_of_2000_leave_every_counter_at_0() -> Result<()> {
    let server = Server::dev()?;
    let mut sqs = server.sqs();
    let url = sqs.create_queue("stress", json!({}))?;
    for round in 0..ROUNDS {
        send_all(&mut sqs, &url, round)?;
        ensure!(
            sqs.counters(&url)? == [MESSAGES as u64, 0, 0],
            "round {round}: {:?}",
            sqs.counters(&url)?
        );
        let mut taken = drain(&server, &url)?;
        taken.sort_unstable();
        let total = taken.len();
        taken.dedup();
        ensure!(
            taken.len() == total,
            "round {round}: {} messages came twice",
            total - taken.len()
        );
        ensure!(
            total == MESSAGES,
            "round {round}: {total} of {MESSAGES} messages came"
        );
        let counters = sqs.counters(&url)?;
        ensure!(counters == [0, 0, 0], "round {round} left {counters:?}");
        ensure!(
            sqs.receive(&url, 30)?.is_empty(),
            "round {round}: a message after the last"
        );
    }
    Ok(())
}

fn send_all(sqs: &mut Sqs, url: &str, round: usize) -> Result<()> {
    for batch in 0..MESSAGES / 10 {
        let entries: Vec<Value> = (0..10)
            .map(|n| json!({ "Id": n.to_string(), "MessageBody": format!("{round}-{batch}-{n}") }))
            .collect();
        let output = sqs.call("SendMessageBatch", json!({ "QueueUrl": url, "Entries": entries }))?;
        ensure!(output.get("Failed").is_none(), "{output}");
    }
    Ok(())
}

/// Receives and deletes with several consumers until the queue is empty, and returns the bodies.
fn drain(server: &Server, url: &str) -> Result<Vec<String>> {
    thread::scope(|scope| {
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|_| scope.spawn(|| consume(server.sqs(), url)))
            .collect();
        let mut bodies = Vec::new();
        for consumer in consumers {
            bodies.extend(consumer.join().expect("a consumer does not panic")?);
        }
        Ok(bodies)
    })
}

fn consume(mut sqs: Sqs, url: &str) -> Result<Vec<String>> {
    let mut bodies = Vec::new();
    loop {
        let messages = sqs.receive(url, 60)?;
        if messages.is_empty() {
            return Ok(bodies);
        }
        let entries: Vec<Value> = messages
            .iter()
            .enumerate()
            .map(|(n, message)| json!({ "Id": n.to_string(), "ReceiptHandle": message["ReceiptHandle"] }))
            .collect();
        let output = sqs.call(
            "DeleteMessageBatch",
            json!({ "QueueUrl": url, "Entries": entries }),
        )?;
        ensure!(output.get("Failed").is_none(), "{output}");
        bodies.extend(
            messages
                .iter()
                .filter_map(|m| m["Body"].as_str())
                .map(str::to_owned),
        );
    }
}
