//! `holdfast bench` against a real server: what it finds, what it refuses, and how it ends when the server does; and
//! against a queue that does something wrong.

mod faulty_queue;

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use compat::{
    ACCESS_KEY_ID, Launch, SECRET_ACCESS_KEY, Scratch, Server, holdfast, interrupt, run_to_end, wait_for,
    wait_for_end,
};
use serde_json::{Value, json};

use self::faulty_queue::Fault;

const LIMIT: Duration = Duration::from_secs(60);

fn bench(server: &Server, arguments: &str) -> Result<Command> {
    bench_at(&server.sqs_url(), arguments)
}

fn bench_at(url: &str, arguments: &str) -> Result<Command> {
    let mut command = holdfast()?;
    command
        .args(["bench", "--endpoint", url])
        .args(arguments.split_whitespace());
    for name in [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    ] {
        command.env_remove(name);
    }
    Ok(command)
}

fn run(server: &Server, arguments: &str) -> Result<Output> {
    run_to_end(&mut bench(server, arguments)?, LIMIT)
}

/// Runs a bench that must succeed and returns its JSON.
fn report(server: &Server, arguments: &str) -> Result<Value> {
    let output = run(server, &format!("{arguments} --json"))?;
    ensure!(
        output.status.code() == Some(0),
        "{arguments} ended with {}: {}",
        output.status,
        text(&output)
    );
    serde_json::from_slice(&output.stdout).with_context(|| format!("no JSON: {}", text(&output)))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// Checks that a bench ended with this code and these words.
fn ensure_ended(output: &Output, code: i32, words: &[&str]) -> Result<()> {
    let text = text(output);
    ensure!(
        output.status.code() == Some(code),
        "ended with {}: {text}",
        output.status
    );
    for word in words {
        ensure!(text.contains(word), "{word:?} is not in: {text}");
    }
    Ok(())
}

fn queues(server: &Server) -> Result<Value> {
    let output = server.sqs().call("ListQueues", json!({}))?;
    Ok(output["QueueUrls"].clone())
}

#[test]
fn every_verb_counts_and_checks_what_it_sent() -> Result<()> {
    let server = Server::dev()?;
    for (arguments, sent, measured, operations) in [
        ("send --messages 203", 203, 203, vec!["send"]),
        (
            "send --messages 203 --batch 10 --depth 40",
            243,
            203,
            vec!["send"],
        ),
        ("send --messages 50 --rate 1000", 50, 50, vec!["send"]),
        (
            "send --messages 50 --threads 2 --size 64KiB",
            50,
            50,
            vec!["send"],
        ),
        ("receive --messages 200", 200, 200, vec!["delete", "receive"]),
        (
            "receive --messages 200 --batch 10 --fifo --groups 7",
            200,
            200,
            vec!["delete", "receive"],
        ),
        (
            "roundtrip --messages 203",
            203,
            203,
            vec!["delete", "end_to_end", "receive", "send"],
        ),
        (
            "roundtrip --messages 203 --batch 4 --depth 60",
            263,
            203,
            vec!["delete", "end_to_end", "receive", "send"],
        ),
        (
            "roundtrip --messages 100 --rate 1000",
            100,
            100,
            vec!["delete", "end_to_end", "receive", "send"],
        ),
        (
            "roundtrip --messages 203 --fifo --groups 3",
            203,
            203,
            vec!["delete", "end_to_end", "receive", "send"],
        ),
        (
            "roundtrip --messages 203 --fifo --batch 10",
            203,
            203,
            vec!["delete", "end_to_end", "receive", "send"],
        ),
    ] {
        let report = report(&server, arguments)?;
        let is_fifo = arguments.contains("--fifo");
        let expected = json!({
            "sent": sent, "unacknowledged": 0, "received": sent, "lost": 0, "duplicated": 0,
            "out_of_order": is_fifo.then_some(0), "wrong_body": 0,
        });
        ensure!(report["checked"] == expected, "{arguments}: {report}");
        ensure!(
            report["complete"] == true && report["findings"] == json!([]),
            "{arguments}: {report}"
        );
        ensure!(report["errors"]["total"] == 0, "{arguments}: {report}");
        ensure!(
            report["server"]["durability"] == "always",
            "{arguments}: {report}"
        );
        let moved = if arguments.starts_with("receive") {
            "received"
        } else {
            "sent"
        };
        ensure!(report["messages"][moved] == measured, "{arguments}: {report}");
        let latencies = report["latency_us"].as_object().context("no latencies")?;
        let found: Vec<&str> = latencies.keys().map(String::as_str).collect();
        ensure!(found == operations, "{arguments}: {report}");
        if let Some(end_to_end) = latencies.get("end_to_end") {
            ensure!(end_to_end["count"] == measured, "{arguments}: {report}");
        }
    }
    ensure!(
        queues(&server)? == Value::Null,
        "queues are left: {}",
        queues(&server)?
    );
    Ok(())
}

#[test]
fn the_text_says_what_was_checked() -> Result<()> {
    let server = Server::start(Launch::dev().argument("--fsync=off"))?;
    let output = run(&server, "send --messages 20 --connections 2")?;
    ensure_ended(
        &output,
        0,
        &[
            "send        2 connections, 100 B bodies, 1 a request, closed loop, 20 messages\n",
            ", durability off\n",
            "errors      none\n",
            "checked     sent 20, received 20, lost 0, duplicated 0, ",
        ],
    )
}

#[test]
fn requests_are_signed_with_the_credentials_of_the_environment() -> Result<()> {
    let server = Server::start(Launch::with_keys())?;
    let mut signed = bench(&server, "roundtrip --messages 20 --batch 3")?;
    signed.env("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID);
    signed.env("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY);
    ensure_ended(&run_to_end(&mut signed, LIMIT)?, 0, &["lost 0"])?;

    signed.env("AWS_SECRET_ACCESS_KEY", "another");
    let words = [
        "InvalidSignatureException",
        "try:   set AWS_ACCESS_KEY_ID",
        "auth (exit 6)",
    ];
    ensure_ended(&run_to_end(&mut signed, LIMIT)?, 6, &words)
}

#[test]
fn a_named_queue_must_be_there_and_empty_and_stays() -> Result<()> {
    let server = Server::dev()?;
    let mut sqs = server.sqs();
    ensure_ended(
        &run(&server, "send --queue orders")?,
        4,
        &["cannot find queue orders"],
    )?;

    let url = sqs.create_queue("orders", json!({}))?;
    sqs.call("SendMessage", json!({ "QueueUrl": url, "MessageBody": "mine" }))?;
    let refused = run(&server, "send --queue orders --messages 5")?;
    ensure_ended(&refused, 5, &["queue orders is not empty", "1 messages"])?;
    ensure!(sqs.counters(&url)? == [1, 0, 0], "{:?}", sqs.counters(&url)?);

    sqs.call("PurgeQueue", json!({ "QueueUrl": url }))?;
    let report = report(&server, "send --queue orders --messages 5")?;
    ensure!(report["checked"]["received"] == 5, "{report}");
    ensure!(sqs.counters(&url)? == [0, 0, 0], "{:?}", sqs.counters(&url)?);
    Ok(())
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_sent() -> Result<()> {
    let server = Server::dev()?;
    let refused = run(&server, "send --size 1MiB --batch 2")?;
    ensure_ended(
        &refused,
        2,
        &["--batch 2 of --size 1048576 is too large", "  try:   "],
    )?;
    ensure_ended(&run(&server, "send --batch 11")?, 2, &["11 is not in 1..=10"])?;
    let refused = run(&server, "roundtrip --connections 1 --json")?;
    ensure_ended(
        &refused,
        2,
        &[r#"{"error":{"code":"usage","message":"--connections 1 "#],
    )?;
    ensure!(queues(&server)? == Value::Null, "{}", queues(&server)?);
    Ok(())
}

#[test]
fn two_results_are_compared_if_they_are_of_one_scenario() -> Result<()> {
    let server = Server::dev()?;
    let home = Scratch::new("compare")?;
    for (name, arguments) in [
        ("a", "send --messages 30"),
        ("b", "send --messages 30"),
        ("c", "send --messages 31"),
    ] {
        fs::write(home.path().join(name), report(&server, arguments)?.to_string())?;
    }
    let compare = |b: &str, json: &[&str]| {
        let mut command = holdfast()?;
        command
            .current_dir(home.path())
            .args(["bench", "--compare", "a", b])
            .args(json);
        run_to_end(&mut command, LIMIT)
    };
    ensure_ended(
        &compare("b", &[])?,
        0,
        &["requests per s", "send p99.9 us", "B / A"],
    )?;
    let json: Value = serde_json::from_slice(&compare("a", &["--json"])?.stdout)?;
    let ratios = json["rows"].as_array().context("no rows")?;
    ensure!(
        ratios[0]["figure"] == "requests per s" && ratios[0]["ratio"] == 1.0,
        "{json}"
    );
    ensure_ended(&compare("c", &[])?, 5, &["messages is 30 in A and 31 in B"])?;
    ensure_ended(&compare("d", &[])?, 1, &["cannot read d"])
}

/// Starts a bench without an end and waits until it sends.
fn endless(server: &Server, out: &Scratch, arguments: &str) -> Result<Child> {
    let child = bench(server, arguments)?
        .stdin(Stdio::null())
        .stdout(fs::File::create(out.path().join("out"))?)
        .stderr(fs::File::create(out.path().join("err"))?)
        .spawn()?;
    wait_for("messages", LIMIT, || {
        let metrics = server.get("/metrics")?.text();
        let sent = metrics
            .lines()
            .find_map(|line| line.strip_prefix("holdfast_messages_sent_total "));
        Ok(sent.filter(|sent| *sent != "0").map(|_| ()))
    })?;
    Ok(child)
}

/// Kills the server in the middle of a run, and returns what the run printed to both streams.
fn killed(arguments: &str) -> Result<(String, String)> {
    let mut server = Server::dev()?;
    let out = Scratch::new("killed")?;
    let mut child = endless(&server, &out, arguments)?;
    server.kill()?;
    let status = wait_for_end(&mut child, LIMIT)?;
    let read = |name| fs::read_to_string(out.path().join(name));
    let (printed, error) = (read("out")?, read("err")?);
    ensure!(
        status.code() == Some(7),
        "ended with {status}: {printed}\n{error}"
    );
    ensure!(error.contains("does not answer any more"), "{error}");
    Ok((printed, error))
}

#[test]
fn a_server_that_is_killed_ends_a_run() -> Result<()> {
    let (printed, error) = killed("send --duration 600")?;
    ensure!(printed.contains("lost not checked"), "{printed}");
    ensure!(error.contains("unavailable (exit 7)"), "{error}");
    Ok(())
}

#[test]
fn a_server_that_is_killed_ends_an_open_loop() -> Result<()> {
    let (printed, error) = killed("roundtrip --duration 600 --rate 500 --json")?;
    let report: Value = serde_json::from_str(&printed)?;
    ensure!(
        report["complete"] == false && report["checked"]["lost"] == Value::Null,
        "{report}"
    );
    ensure!(
        report["errors"]["by_code"]["connect"].as_u64() > Some(0),
        "{report}"
    );
    ensure!(error.contains(r#""retryable":true"#), "{error}");
    Ok(())
}

#[test]
fn a_fault_of_the_queue_is_found() -> Result<()> {
    let clean = json!({
        "sent": 100, "unacknowledged": 0, "received": 100, "lost": 0, "duplicated": 0, "out_of_order": 0,
        "wrong_body": 0,
    });
    for (fault, code, changed) in [
        (Fault::Nothing, 0, json!({})),
        (Fault::Lost, 8, json!({ "received": 99, "lost": 1 })),
        (Fault::Doubled, 8, json!({ "duplicated": 1 })),
        (Fault::Overtaking, 8, json!({ "out_of_order": 1 })),
        (
            Fault::Changed,
            8,
            json!({ "received": 99, "lost": 1, "wrong_body": 1 }),
        ),
        (
            Fault::Refused,
            1,
            json!({ "sent": 99, "received": 99, "unacknowledged": 1 }),
        ),
    ] {
        let url = format!("http://{}", faulty_queue::start(fault)?);
        let arguments = "send --fifo --groups 1 --connections 1 --batch 5 --messages 100 --json";
        let output = run_to_end(&mut bench_at(&url, arguments)?, LIMIT)?;
        ensure!(
            output.status.code() == Some(code),
            "{fault:?} ended with {}: {}",
            output.status,
            text(&output)
        );
        let mut expected = clean.clone();
        for (name, value) in changed.as_object().context("no object")? {
            expected[name] = value.clone();
        }
        let report: Value = serde_json::from_slice(&output.stdout)?;
        ensure!(report["checked"] == expected, "{fault:?}: {report}");
        ensure!(report["server"]["durability"] == "unknown", "{report}");
        let is_clean = fault == Fault::Nothing;
        ensure!(
            (report["findings"] == json!([])) == is_clean,
            "{fault:?}: {report}"
        );
    }
    Ok(())
}

#[test]
fn a_standard_queue_may_double() -> Result<()> {
    let url = format!("http://{}", faulty_queue::start(Fault::Doubled)?);
    let output = run_to_end(&mut bench_at(&url, "roundtrip --messages 100")?, LIMIT)?;
    ensure_ended(&output, 0, &["lost 0, duplicated 1,"])
}

#[test]
fn an_interrupted_run_deletes_its_queue() -> Result<()> {
    let server = Server::dev()?;
    let out = Scratch::new("interrupted")?;
    let mut child = endless(&server, &out, "send --duration 600")?;
    ensure!(queues(&server)? != Value::Null, "there is no queue");
    interrupt(&child)?;
    let status = wait_for_end(&mut child, LIMIT)?;
    let printed = fs::read_to_string(out.path().join("out"))?;
    ensure!(status.code() == Some(130), "ended with {status}: {printed}");
    ensure!(
        printed.contains(", ended early\n") && printed.contains("lost not checked"),
        "{printed}"
    );
    ensure!(queues(&server)? == Value::Null, "{}", queues(&server)?);
    Ok(())
}

#[test]
fn without_a_server_it_says_so() -> Result<()> {
    let mut server = Server::dev()?;
    server.kill()?;
    let words = [
        "cannot create a queue on http://127.0.0.1:",
        "try:   start a server",
        "unavailable (exit 7)",
    ];
    ensure_ended(&run(&server, "send")?, 7, &words)
}
