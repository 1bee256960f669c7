//! Three processes as one: any node serves any client, and what was answered outlives every leader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use compat::{Launch, Refusal, Server, Sqs, wait_for};
use serde_json::{Value, json};

pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const SECRET: &str = "a secret of the tests that is long enough";
pub(crate) const QUEUE: &str = "jobs";
const LEASE_SECONDS: u64 = 600;

/// Returns three addresses that nobody else uses: of this process, on the loopback network. A port that was free a moment ago
/// may be taken by an outgoing connection.
pub(crate) fn own_addresses() -> [String; 3] {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let first = NEXT.fetch_add(3, Ordering::Relaxed);
    let [high, low] = [std::process::id() / 250 % 250 + 1, std::process::id() % 250];
    [0, 1, 2].map(|number| format!("127.{high}.{low}.{}:7901", first + number))
}

/// Three nodes.
pub(crate) struct Trio {
    pub(crate) nodes: Vec<Server>,
}

impl Trio {
    /// Starts three nodes, which form a cluster.
    pub(crate) fn form() -> Result<Self> {
        Self::form_with(&[])
    }

    /// The same, with these variables set on all nodes.
    pub(crate) fn form_with(variables: &[(&str, &str)]) -> Result<Self> {
        Self::form_of(|_, launch| {
            let set = |launch: Launch, (name, value): &(&str, &str)| launch.variable(name, value);
            variables.iter().fold(launch, set)
        })
    }

    /// The same, with a change to how each is started, by its number.
    pub(crate) fn form_of(change: impl Fn(usize, Launch) -> Launch) -> Result<Self> {
        let addresses = own_addresses();
        let seeds = addresses.join(",");
        let starts = addresses.iter().enumerate().map(|(number, address)| {
            let launch = Launch::dev()
                .variable("HOLDFAST_CLUSTER_LISTEN", address)
                .variable("HOLDFAST_CLUSTER_SEEDS", &seeds)
                .variable("HOLDFAST_CLUSTER_SECRET", SECRET);
            let launch = change(number, launch);
            thread::spawn(move || Server::start(launch))
        });
        let starts: Vec<_> = starts.collect();
        let nodes = starts
            .into_iter()
            .map(|start| start.join().expect("a start does not panic"));
        Ok(Self {
            nodes: nodes.collect::<Result<_>>()?,
        })
    }

    /// Returns the number of the node that leads.
    pub(crate) fn leader(&self) -> Result<usize> {
        wait_for("a leader", LIMIT, || {
            for (number, node) in self.nodes.iter().enumerate() {
                let Ok(reply) = node.get("/api/cluster/status") else {
                    continue;
                };
                let status: Value = serde_json::from_slice(&reply.body)?;
                if status["role"] == "leader" {
                    return Ok(Some(number));
                }
            }
            Ok(None)
        })
    }

    pub(crate) fn logs(&self) -> String {
        self.nodes
            .iter()
            .map(Server::log_tail)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn body_of(message: &Value) -> Result<String> {
    Ok(message["Body"]
        .as_str()
        .context("a message without a body")?
        .to_owned())
}

fn is_retryable(refusal: &Refusal) -> bool {
    refusal.status == 503
}

/// Calls again what nobody could answer, as an SDK does: while a leader is elected, calls are refused for a moment.
pub(crate) fn patiently(sqs: &mut Sqs, action: &str, input: Value) -> Result<Value> {
    wait_for(action, LIMIT, || match sqs.try_call(action, &input)? {
        Ok(output) => Ok(Some(output)),
        Err(refusal) if is_retryable(&refusal) => Ok(None),
        Err(refusal) => bail!("{action} was refused: {refusal:?}"),
    })
}

pub(crate) fn create_queue(trio: &Trio) -> Result<()> {
    let input = json!({ "QueueName": QUEUE });
    patiently(&mut trio.nodes[0].sqs(), "CreateQueue", input).map(|_| ())
}

/// Receives and deletes until nothing is visible.
pub(crate) fn drain(sqs: &mut Sqs) -> Result<Vec<String>> {
    let mut bodies = Vec::new();
    loop {
        let input =
            json!({ "QueueUrl": QUEUE, "MaxNumberOfMessages": 10, "VisibilityTimeout": LEASE_SECONDS });
        let mut output = patiently(sqs, "ReceiveMessage", input)?;
        let Value::Array(messages) = output["Messages"].take() else {
            return Ok(bodies);
        };
        if messages.is_empty() {
            return Ok(bodies);
        }
        for message in messages {
            bodies.push(body_of(&message)?);
            let input = json!({ "QueueUrl": QUEUE, "ReceiptHandle": message["ReceiptHandle"] });
            patiently(sqs, "DeleteMessage", input)?;
        }
    }
}

#[test]
fn any_node_serves_any_client() -> Result<()> {
    let trio = Trio::form()?;
    let serve = || -> Result<()> {
        create_queue(&trio)?;
        for (number, node) in trio.nodes.iter().enumerate() {
            let body = format!("through node {number}");
            patiently(
                &mut node.sqs(),
                "SendMessage",
                json!({ "QueueUrl": QUEUE, "MessageBody": body }),
            )?;
        }
        for node in &trio.nodes {
            let counted = || {
                Ok(node
                    .sqs()
                    .counters(QUEUE)
                    .ok()
                    .filter(|counters| *counters == [3, 0, 0]))
            };
            wait_for("all three to be counted", LIMIT, counted)?;
        }
        let mut bodies: Vec<_> = drain(&mut trio.nodes[1].sqs())?;
        bodies.sort();
        ensure!(
            bodies == ["through node 0", "through node 1", "through node 2"],
            "{bodies:?}"
        );
        for number in 0..3 {
            let waiting = &trio.nodes[number];
            let sending = &trio.nodes[(number + 1) % 3];
            let messages = thread::scope(|scope| {
                let poll = scope.spawn(|| {
                    let input = json!({ "QueueUrl": QUEUE, "WaitTimeSeconds": 20 });
                    patiently(&mut waiting.sqs(), "ReceiveMessage", input)
                });
                wait_for("the poll to wait", LIMIT, || {
                    Ok((parked(&trio)? == 1).then_some(()))
                })?;
                let began = Instant::now();
                patiently(
                    &mut sending.sqs(),
                    "SendMessage",
                    json!({ "QueueUrl": QUEUE, "MessageBody": "woken" }),
                )?;
                let output = poll.join().expect("the poll does not panic")?;
                ensure!(
                    began.elapsed() < Duration::from_secs(15),
                    "the poll ended by its time"
                );
                Ok::<_, anyhow::Error>(output)
            })?;
            ensure!(messages["Messages"][0]["Body"] == "woken", "{messages}");
            let handle = &messages["Messages"][0]["ReceiptHandle"];
            patiently(
                &mut sending.sqs(),
                "DeleteMessage",
                json!({ "QueueUrl": QUEUE, "ReceiptHandle": handle }),
            )?;
        }
        Ok(())
    };
    serve().with_context(|| trio.logs())
}

/// Returns how many receives wait, on all nodes together.
fn parked(trio: &Trio) -> Result<u64> {
    let mut sum = 0;
    for node in &trio.nodes {
        let text = node.get("/metrics")?.text();
        let line = text
            .lines()
            .find(|line| line.starts_with("holdfast_long_polls_parked "));
        let value = line
            .and_then(|line| line.split_whitespace().last())
            .context("no metric of parked polls")?;
        sum += value.parse::<f64>()? as u64;
    }
    Ok(sum)
}

/// What senders know.
#[derive(Default)]
struct Account {
    sent: BTreeSet<String>,
    unknown: BTreeSet<String>,
}

/// Sends through all nodes in turn until told to stop.
fn send(number: usize, nodes: &[std::net::SocketAddr], account: &Mutex<Account>, stop: &AtomicBool) {
    let mut clients: Vec<_> = nodes.iter().map(|address| Sqs::new(*address)).collect();
    for count in 0.. {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let body = format!("{number}.{count}");
        let input = json!({ "QueueUrl": QUEUE, "MessageBody": body });
        let client = &mut clients[count % nodes.len()];
        let answer = client.try_call("SendMessage", &input);
        let mut account = account.lock().expect("no sender panicked");
        match answer {
            Ok(Ok(_)) => drop(account.sent.insert(body)),
            // Also of a node that is away: nobody says whether it was sent.
            Ok(Err(_)) | Err(_) => drop(account.unknown.insert(body)),
        }
    }
}

/// Turns the clock behind every lease.
fn advance(node: &Server) -> Result<()> {
    wait_for("the clock to be turned", LIMIT, || {
        Ok(node.advance(Duration::from_secs(LEASE_SECONDS + 1)).ok())
    })
}

#[test]
fn nothing_that_was_answered_is_lost_with_a_leader() -> Result<()> {
    const KILLS: usize = 4;
    let mut trio = Trio::form()?;
    create_queue(&trio)?;
    let account = Mutex::new(Account::default());
    for _ in 0..KILLS {
        let leader = trio.leader()?;
        let addresses: Vec<_> = trio.nodes.iter().map(Server::sqs_address).collect();
        let stop = AtomicBool::new(false);
        let sent = |account: &Mutex<Account>| account.lock().expect("no sender panicked").sent.len();
        let began = sent(&account);
        let served = thread::scope(|scope| {
            let senders: Vec<_> = (0..4)
                .map(|number| {
                    let (addresses, account, stop) = (&addresses, &account, &stop);
                    let number = began * 10 + number;
                    scope.spawn(move || send(number, addresses, account, stop))
                })
                .collect();
            let served = wait_for("sends before the kill", LIMIT, || {
                Ok((sent(&account) > began + 50).then_some(()))
            })
            .and_then(|()| trio.nodes[leader].kill())
            .and_then(|()| {
                let before = sent(&account);
                wait_for("sends after the kill", LIMIT, || {
                    Ok((sent(&account) > before + 50).then_some(()))
                })
            });
            stop.store(true, Ordering::Release);
            for sender in senders {
                sender.join().expect("a sender does not panic");
            }
            served
        });
        served.with_context(|| trio.logs())?;
        trio.nodes[leader].restart()?;
    }
    let account = account.into_inner().expect("no sender panicked");
    let mut received = BTreeMap::<String, usize>::new();
    // What a receive took whose answer was lost is visible again after its lease.
    let passes = trio.nodes.iter().map(|node| (node, false));
    for (node, is_late) in passes.chain([(&trio.nodes[0], true)]) {
        if is_late {
            advance(node)?;
        }
        for body in drain(&mut node.sqs()).with_context(|| trio.logs())? {
            *received.entry(body).or_default() += 1;
        }
    }
    let lost: Vec<_> = account
        .sent
        .iter()
        .filter(|body| !received.contains_key(*body))
        .collect();
    ensure!(
        lost.is_empty(),
        "{} of {} sent messages are lost: {lost:?}",
        lost.len(),
        account.sent.len()
    );
    let strange: Vec<_> = received
        .iter()
        .filter(|(body, count)| {
            **count > 1 || !(account.sent.contains(*body) || account.unknown.contains(*body))
        })
        .collect();
    ensure!(strange.is_empty(), "received twice, or never sent: {strange:?}");
    Ok(())
}

#[test]
fn without_a_quorum_nothing_is_answered_as_done() -> Result<()> {
    let mut trio = Trio::form()?;
    create_queue(&trio)?;
    let leader = trio.leader()?;
    for number in 0..3 {
        if number != leader {
            trio.nodes[number].kill()?;
        }
    }
    let last = &trio.nodes[leader];
    let mut sqs = last.sqs();
    let send = json!({ "QueueUrl": QUEUE, "MessageBody": "nobody can promise this" });
    let refusal = match sqs.try_call("SendMessage", &send)? {
        Ok(output) => bail!("a send was answered without a quorum: {output}"),
        Err(refusal) => refusal,
    };
    ensure!(is_retryable(&refusal), "{refusal:?}");
    let ready = wait_for("/ready to say that there is no leader", LIMIT, || {
        let reply = last.get("/ready")?;
        Ok((reply.status == 503).then_some(reply))
    })?;
    ensure!(ready.text().contains("no leader"), "{}", ready.text());
    ensure!(last.get("/health")?.status == 200);
    let reply = last.get("/leader")?;
    ensure!(
        reply.status == 503 && reply.text().contains("null"),
        "{}",
        reply.text()
    );
    Ok(())
}

#[test]
fn a_leader_that_stops_hands_over_first() -> Result<()> {
    let mut trio = Trio::form()?;
    create_queue(&trio)?;
    let first = trio.leader()?;
    trio.nodes[first].stop()?;
    let second = trio.leader()?;
    ensure!(second != first);
    let mut sqs = trio.nodes[second].sqs();
    patiently(
        &mut sqs,
        "SendMessage",
        json!({ "QueueUrl": QUEUE, "MessageBody": "after" }),
    )?;
    trio.nodes[first].restart()?;
    let counted = drain(&mut trio.nodes[first].sqs())?;
    ensure!(counted.contains(&"after".to_owned()), "{counted:?}");
    Ok(())
}

#[test]
fn a_node_that_lost_its_disk_gets_the_whole_state() -> Result<()> {
    // More entries than stay in the log behind a snapshot.
    const SENT: usize = 1_500;
    let mut trio = Trio::form_with(&[
        ("HOLDFAST_SNAPSHOT_LOG_BYTES", "64KiB"),
        ("HOLDFAST_SEGMENT_BYTES", "1MiB"),
        ("HOLDFAST_CACHE_BYTES", "64KiB"),
    ])?;
    create_queue(&trio)?;
    let lost = (trio.leader()? + 1) % 3;
    trio.nodes[lost].kill()?;
    std::fs::remove_dir_all(trio.nodes[lost].data_dir())?;
    let leader = trio.leader()?;
    let mut sqs = trio.nodes[leader].sqs();
    let text = "x".repeat(500);
    for number in 0..SENT {
        let input = json!({ "QueueUrl": QUEUE, "MessageBody": format!("{number} {text}") });
        patiently(&mut sqs, "SendMessage", input)?;
    }
    // A leader keeps its log for a voter that is away. The next one has let the beginning go.
    trio.nodes[leader].stop()?;
    trio.nodes[leader].restart()?;
    let leader = trio.leader()?;
    trio.nodes[lost].restart().with_context(|| trio.logs())?;
    wait_for("the whole state to be sent", LIMIT, || {
        let log = trio.nodes[lost].log_tail();
        Ok(log.contains("receiving the state of the leader").then_some(()))
    })
    .with_context(|| trio.logs())?;
    // With the other follower away, the new node is needed for every commit, and has it all.
    let other = (0..3)
        .find(|number| ![lost, leader].contains(number))
        .context("three nodes")?;
    wait_for("the new node to have the place of the lost one", LIMIT, || {
        let reply = trio.nodes[lost].get("/api/cluster/status")?;
        let status: Value = serde_json::from_slice(&reply.body)?;
        let peers = status["peers"].as_array().context("peers")?;
        Ok((status["role"] == "follower" && peers.len() == 2).then_some(()))
    })
    .with_context(|| trio.logs())?;
    trio.nodes[other].kill()?;
    trio.nodes[leader].stop()?;
    trio.nodes[other].restart().with_context(|| trio.logs())?;
    let mut bodies = drain(&mut trio.nodes[lost].sqs()).with_context(|| trio.logs())?;
    advance(&trio.nodes[lost])?;
    bodies.extend(drain(&mut trio.nodes[lost].sqs()).with_context(|| trio.logs())?);
    let numbers: BTreeSet<_> = bodies
        .iter()
        .filter_map(|body| body.split_once(' ')?.0.parse::<usize>().ok())
        .collect();
    ensure!(numbers.len() == SENT, "{} of {SENT} messages", numbers.len());
    ensure!(bodies.iter().all(|body| body.ends_with(&text)));
    Ok(())
}
