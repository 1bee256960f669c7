//! Clients that send, receive, delete and change visibility through any node, and write down what they were told.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use compat::{Random, Refusal, Sqs, wait_for};
use history::{Call, DeadLetters, Delivery, Queue, Reply};
use serde_json::{Value, json};

use crate::nodes::LIMIT;
use crate::{NODES, Shared};

/// Longest that a client waits for an answer: longer than a server tries to find a leader.
const PATIENCE: Duration = Duration::from_secs(8);
/// Between two calls of one client.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest lease that is asked for, in seconds.
pub(crate) const LEASE_SECONDS_MAX: u64 = 4;
const GROUPS: u64 = 3;
/// Of a hundred sends to a FIFO queue, those that repeat the one before.
const REPEAT_PERCENT: u64 = 25;
/// Of a hundred messages, those that are deleted at once, late, and whose visibility is changed.
const DELETE_PERCENT: u64 = 60;
const LATE_DELETE_PERCENT: u64 = 5;
const CHANGE_PERCENT: u64 = 10;

/// A queue of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueSpec {
    pub(crate) name: &'static str,
    dead_letters: Option<(usize, u32)>,
}

const fn queue(name: &'static str, dead_letters: Option<(usize, u32)>) -> QueueSpec {
    QueueSpec { name, dead_letters }
}

/// The queues of every run. Those that others name come first.
pub(crate) const QUEUES: [QueueSpec; 6] = [
    queue("dead", None),
    queue("dead.fifo", None),
    queue("plain", None),
    queue("retry", Some((0, 2))),
    queue("plain.fifo", None),
    queue("retry.fifo", Some((1, 2))),
];
/// The first that is sent to.
const SENT_TO: u64 = 2;

impl QueueSpec {
    fn is_fifo(self) -> bool {
        self.name.ends_with(".fifo")
    }

    /// Returns it as the judge has to know it.
    pub(crate) fn recorded(self) -> Queue {
        Queue {
            name: self.name.to_owned(),
            retention_micros: 4 * 24 * 3_600 * 1_000_000,
            deduplication_micros: if self.is_fifo() { 300_000_000 } else { 0 },
            dead_letters: self.dead_letters.map(|(queue, max_receive_count)| DeadLetters {
                queue,
                max_receive_count,
            }),
        }
    }

    fn attributes(self) -> Value {
        let mut attributes = json!({ "VisibilityTimeout": "3" });
        if self.is_fifo() {
            attributes["FifoQueue"] = "true".into();
        }
        if let Some((queue, count)) = self.dead_letters {
            let arn = format!("arn:aws:sqs:us-east-1:000000000000:{}", QUEUES[queue].name);
            let policy = json!({ "deadLetterTargetArn": arn, "maxReceiveCount": count });
            attributes["RedrivePolicy"] = policy.to_string().into();
        }
        attributes
    }
}

/// Makes the queues, as often as it takes.
pub(crate) fn create_queues(shared: &Shared) -> Result<()> {
    let mut client = Client::new(shared, u32::MAX, 0);
    for queue in QUEUES {
        let input = json!({ "QueueName": queue.name, "Attributes": queue.attributes() });
        wait_for(queue.name, LIMIT, || {
            let node = client.draw_node();
            Ok(client.ask(node, "CreateQueue", &input).and_then(Result::ok))
        })?;
    }
    Ok(())
}

/// Sends until the run is over.
pub(crate) fn produce(shared: &Shared, process: u32, seed: u64) {
    let mut client = Client::new(shared, process, seed);
    let mut last = None;
    let mut sent = 0_u64;
    while !shared.is_over() {
        let mut queue = (SENT_TO + client.below(QUEUES.len() as u64 - SENT_TO)) as usize;
        sent += 1;
        let mut body = format!("{process}.{sent}");
        let mut group = format!("g{}", client.below(GROUPS));
        if let Some((last_queue, last_group, last_body)) = last.take()
            && client.below(100) < REPEAT_PERCENT
        {
            (queue, group, body) = (last_queue, last_group, last_body);
        }
        let is_fifo = QUEUES[queue].is_fifo();
        if is_fifo {
            last = Some((queue, group.clone(), body.clone()));
        }
        client.send(queue, body, is_fifo.then_some(group));
        thread::sleep(PAUSE);
    }
}

/// Receives, and deletes most of it, until the run is over.
pub(crate) fn consume(shared: &Shared, process: u32, seed: u64) {
    let mut client = Client::new(shared, process, seed);
    while !shared.is_over() {
        let queue = client.below(QUEUES.len() as u64) as usize;
        let (lease, wait) = (1 + client.below(LEASE_SECONDS_MAX), client.below(2));
        let max = 1 + client.below(10);
        let node = client.draw_node();
        let received = client.receive(node, queue, lease, wait, max);
        for handle in received.into_iter().flatten() {
            let drawn = client.below(100);
            if drawn < DELETE_PERCENT {
                client.delete(queue, handle);
            } else if drawn < DELETE_PERCENT + LATE_DELETE_PERCENT {
                // Behind the end of the lease: somebody else may have it by now.
                thread::sleep(Duration::from_millis(lease * 1_000 + client.below(500)));
                client.delete(queue, handle);
            } else if drawn < DELETE_PERCENT + LATE_DELETE_PERCENT + CHANGE_PERCENT {
                let seconds = client.below(LEASE_SECONDS_MAX);
                client.change(queue, handle, seconds);
            }
        }
        thread::sleep(PAUSE);
    }
}

/// A client with a connection to each node.
pub(crate) struct Client<'a> {
    shared: &'a Shared,
    process: u32,
    random: Random,
    connections: [Option<(std::net::SocketAddr, Sqs)>; NODES],
}

impl<'a> Client<'a> {
    pub(crate) fn new(shared: &'a Shared, process: u32, seed: u64) -> Self {
        Self {
            shared,
            process,
            random: Random::new(seed),
            connections: Default::default(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn draw_node(&mut self) -> usize {
        self.below(NODES as u64) as usize
    }

    /// Asks a node. None if nobody answers.
    fn ask(&mut self, node: usize, action: &str, input: &Value) -> Option<Result<Value, Refusal>> {
        let address = self.shared.directory.lock().expect("nobody panics with it")[node]?;
        let connection = &mut self.connections[node];
        if connection.as_ref().is_none_or(|(known, _)| *known != address) {
            *connection = Some((address, Sqs::new(address).answer_limit(PATIENCE)));
        }
        let (_, sqs) = connection.as_mut()?;
        sqs.try_call(action, input).ok()
    }

    /// Makes a call and writes down what comes of it. Returns the output.
    fn call(
        &mut self,
        node: usize,
        call: Call,
        action: &str,
        input: &Value,
        reply: impl FnOnce(&Value) -> Reply,
    ) -> Option<Value> {
        let number = u32::try_from(node).unwrap_or(u32::MAX);
        let ticket = self
            .shared
            .recorder
            .invoke(self.process, number, self.shared.now(), call);
        let answer = self.ask(node, action, input);
        let now = self.shared.now();
        let recorder = &self.shared.recorder;
        match answer {
            Some(Ok(output)) => {
                recorder.complete(ticket, now, reply(&output));
                Some(output)
            }
            // Only a request that is at fault is certainly not carried out; a 503 may be.
            Some(Err(refusal)) if refusal.status < 500 => {
                recorder.complete(ticket, now, Reply::Refused(refusal.code));
                None
            }
            Some(Err(_)) | None => None,
        }
    }

    fn send(&mut self, queue: usize, body: String, group: Option<String>) {
        let deduplication = group.as_ref().map(|_| body.clone());
        let mut input = json!({ "QueueUrl": QUEUES[queue].name, "MessageBody": body });
        if let (Some(group), Some(deduplication)) = (&group, &deduplication) {
            input["MessageGroupId"] = group.as_str().into();
            input["MessageDeduplicationId"] = deduplication.as_str().into();
        }
        let node = self.draw_node();
        let call = Call::Send {
            queue,
            body,
            group,
            deduplication,
        };
        self.call(node, call, "SendMessage", &input, |output| Reply::Sent {
            message: text(&output["MessageId"]),
            sequence: number(&output["SequenceNumber"]),
        });
    }

    /// Receives; returns the receipt handles, or nothing if nobody answers.
    pub(crate) fn receive(
        &mut self,
        node: usize,
        queue: usize,
        lease: u64,
        wait: u64,
        max: u64,
    ) -> Option<Vec<String>> {
        let input = json!({
            "QueueUrl": QUEUES[queue].name, "MaxNumberOfMessages": max, "VisibilityTimeout": lease,
            "WaitTimeSeconds": wait, "MessageSystemAttributeNames": ["All"],
        });
        let call = Call::Receive {
            queue,
            visibility_micros: lease * 1_000_000,
        };
        let output = self.call(node, call, "ReceiveMessage", &input, |output| {
            Reply::Received(messages(output).map(delivery).collect())
        });
        let handle = |message: &Value| text(&message["ReceiptHandle"]);
        output.map(|output| messages(&output).map(handle).collect())
    }

    pub(crate) fn delete(&mut self, queue: usize, handle: String) {
        let input = json!({ "QueueUrl": QUEUES[queue].name, "ReceiptHandle": handle });
        let node = self.draw_node();
        self.call(
            node,
            Call::Delete { queue, handle },
            "DeleteMessage",
            &input,
            |_| Reply::Done,
        );
    }

    fn change(&mut self, queue: usize, handle: String, seconds: u64) {
        let input = json!({
            "QueueUrl": QUEUES[queue].name, "ReceiptHandle": handle, "VisibilityTimeout": seconds,
        });
        let node = self.draw_node();
        let call = Call::ChangeVisibility {
            queue,
            handle,
            visibility_micros: seconds * 1_000_000,
        };
        self.call(node, call, "ChangeMessageVisibility", &input, |_| Reply::Done);
    }
}

fn messages(output: &Value) -> impl Iterator<Item = &Value> {
    output["Messages"].as_array().into_iter().flatten()
}

fn delivery(message: &Value) -> Delivery {
    let attributes = &message["Attributes"];
    let count = number(&attributes["ApproximateReceiveCount"]);
    Delivery {
        message: text(&message["MessageId"]),
        handle: text(&message["ReceiptHandle"]),
        body: text(&message["Body"]),
        receive_count: count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        sequence: number(&attributes["SequenceNumber"]),
        group: attributes["MessageGroupId"].as_str().map(str::to_owned),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}
