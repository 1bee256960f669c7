//! `kill -9` at random moments while eight writers work, twenty times on the same data.
//!
//! Each writer notes in a shared ledger what it is about to do and what was answered. What was answered must be
//! there after the crash; what was not answered may have happened or not, once. The last drain settles the account.

mod ledger;
mod writer;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use compat::{Launch, Random, Server};
use serde_json::json;

use self::ledger::Ledger;
use self::writer::{EXTENDED_SECONDS, LEASE_SECONDS, QUEUE, Writer, id_of};

const ROUNDS: u64 = 20;
const WRITERS: usize = 8;
/// Writers work at least this long in each round, and up to as long again.
const ROUND_MILLIS: u64 = 250;
const SEED: u64 = 0x6b69_6c6c_2d39;

#[test]
fn every_answered_call_survives_kill_9() -> Result<()> {
    let started = Instant::now();
    let ledger = Mutex::new(Ledger::default());
    let mut random = Random::new(SEED);
    // Small files and many snapshots, so that crashes also hit the change from one to the next, and copies forward. Most
    // contents are read from the disk.
    let launch = Launch::dev()
        .variable("HOLDFAST_SEGMENT_BYTES", "1MiB")
        .variable("HOLDFAST_SNAPSHOT_LOG_BYTES", "256KiB")
        .variable("HOLDFAST_CACHE_BYTES", "64KiB");
    let mut server = Server::start(launch)?;
    server.sqs().create_queue(QUEUE, json!({}))?;
    let mut writers: Vec<Writer> = (0..WRITERS).map(|number| Writer::new(number, SEED)).collect();

    for round in 0..ROUNDS {
        work_until_killed(&mut server, &mut writers, &ledger, random.below(ROUND_MILLIS))?;
        server
            .restart()
            .with_context(|| format!("restart after round {round}"))?;
        for writer in &mut writers {
            writer
                .check_attributes(&mut server.sqs())
                .with_context(|| format!("after round {round}"))?;
        }
    }
    settle(&server, &ledger).with_context(|| server.log_tail())?;

    // The leases that were noted must have been in force until the drain turned the clock.
    ensure!(
        started.elapsed() < Duration::from_secs(u64::from(LEASE_SECONDS)),
        "the test was too slow to judge"
    );
    let ledger = ledger.into_inner().expect("no writer panicked");
    println!("{}", ledger.summary());
    ledger.check_coverage()
}

/// Lets the writers work, kills the server under them, and returns when all have noticed.
fn work_until_killed(
    server: &mut Server,
    writers: &mut [Writer],
    ledger: &Mutex<Ledger>,
    extra_millis: u64,
) -> Result<()> {
    let address = server.sqs_address();
    let killed = AtomicBool::new(false);
    thread::scope(|scope| {
        let running: Vec<_> = writers
            .iter_mut()
            .map(|writer| scope.spawn(|| writer.work(address, ledger, &killed)))
            .collect();
        // Not a wait for a condition: the moment of the crash is meant to be arbitrary.
        thread::sleep(Duration::from_millis(ROUND_MILLIS + extra_millis));
        let was_running = server.is_running();
        let result = server.kill();
        killed.store(true, Ordering::Release);
        for writer in running {
            writer.join().expect("a writer does not panic")?;
        }
        ensure!(was_running?, "the server ended by itself");
        result
    })
}

/// Takes everything out in two steps of the clock and compares it with the ledger.
fn settle(server: &Server, ledger: &Mutex<Ledger>) -> Result<()> {
    let mut drained = HashMap::new();
    // What is visible now was never under a lease that is still in force.
    drain(server, ledger, &mut drained, 0)?;
    server.advance(Duration::from_secs(u64::from(LEASE_SECONDS) + 1))?;
    drain(server, ledger, &mut drained, LEASE_SECONDS)?;
    server.advance(Duration::from_secs(u64::from(EXTENDED_SECONDS)))?;
    drain(server, ledger, &mut drained, EXTENDED_SECONDS)?;
    let counters = server.sqs().counters(QUEUE)?;
    ensure!(
        counters == [0, 0, 0],
        "the queue is drained but counts {counters:?}"
    );
    ledger.lock().expect("no writer panicked").check_drained(&drained)
}

/// Receives and deletes until nothing is visible; `passed` seconds of every lease are over.
fn drain(
    server: &Server,
    ledger: &Mutex<Ledger>,
    drained: &mut HashMap<String, u32>,
    passed: u32,
) -> Result<()> {
    let mut sqs = server.sqs();
    loop {
        let messages = sqs.receive(QUEUE, 43_200)?;
        if messages.is_empty() {
            return Ok(());
        }
        let mut entries = Vec::new();
        for (number, message) in messages.iter().enumerate() {
            let id = id_of(message["Body"].as_str().context("a message without a body")?)?;
            ledger
                .lock()
                .expect("no writer panicked")
                .check_delivery(id, passed)?;
            *drained.entry(id.to_owned()).or_default() += 1;
            entries.push(json!({ "Id": number.to_string(), "ReceiptHandle": message["ReceiptHandle"] }));
        }
        let output = sqs.call(
            "DeleteMessageBatch",
            json!({ "QueueUrl": QUEUE, "Entries": entries }),
        )?;
        ensure!(output.get("Failed").is_none(), "{output}");
    }
}
