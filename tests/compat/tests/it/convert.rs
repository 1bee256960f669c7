//! A single node becomes the first of a cluster, with everything that it has.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use compat::{Launch, Server, holdfast, run_to_end, wait_for};
use serde_json::{Value, json};

use crate::cluster::{LIMIT, QUEUE, SECRET, drain, own_addresses, patiently};

/// Runs a verb; returns what it printed and its exit code.
fn run(arguments: &[&str]) -> Result<(String, i32)> {
    let output = run_to_end(holdfast()?.args(arguments), LIMIT)?;
    let text = String::from_utf8([output.stdout, output.stderr].concat())?;
    Ok((text, output.status.code().context("no exit code")?))
}

fn receive(server: &Server, queue: &str) -> Result<Vec<Value>> {
    let input = json!({ "QueueUrl": queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 3_600 });
    let output = patiently(&mut server.sqs(), "ReceiveMessage", input)?;
    Ok(output["Messages"].as_array().cloned().unwrap_or_default())
}

#[test]
fn a_single_node_becomes_the_first_of_a_cluster_and_loses_nothing() -> Result<()> {
    const SENT: usize = 300;
    let addresses = own_addresses();
    let mut server = Server::start(Launch::dev().variable("HOLDFAST_SNAPSHOT_LOG_BYTES", "64KiB"))?;
    let mut sqs = server.sqs();
    sqs.create_queue(QUEUE, json!({}))?;
    sqs.create_queue("ordered.fifo", json!({ "FifoQueue": "true" }))?;
    let text = "x".repeat(500);
    for number in 0..SENT {
        let input = json!({ "QueueUrl": QUEUE, "MessageBody": format!("{number} {text}") });
        sqs.call("SendMessage", input)?;
    }
    for number in 0..3 {
        let input = json!({
            "QueueUrl": "ordered.fifo", "MessageBody": format!("{number}"), "MessageGroupId": "g",
            "MessageDeduplicationId": format!("{number}"),
        });
        sqs.call("SendMessage", input)?;
    }
    let delayed = json!({ "QueueUrl": QUEUE, "MessageBody": "delayed", "DelaySeconds": 900 });
    sqs.call("SendMessage", delayed)?;
    let held = receive(&server, QUEUE)?;
    let held_handle = held[0]["ReceiptHandle"].clone();
    let first = receive(&server, "ordered.fifo")?;
    ensure!(first[0]["Body"] == "0", "{first:?}");

    let directory = server.data_dir().display().to_string();
    let init = [
        "cluster",
        "init",
        "--data-dir",
        &directory,
        "--advertise",
        &addresses[0],
        "--listen",
        &addresses[0],
        "--name",
        "prod-a",
    ];
    let (output, code) = run(&init)?;
    ensure!(
        code == 5 && output.contains("stop the server first"),
        "{code}: {output}"
    );
    ensure!(server.stop()?.success());
    let (output, code) = run(&init)?;
    ensure!(
        code == 0 && output.contains("the first of cluster"),
        "{code}: {output}"
    );
    let (output, code) = run(&init)?;
    ensure!(code == 0 && output.contains("already"), "{code}: {output}");
    let (output, code) = run(&["verify", "--deep", &directory])?;
    ensure!(code == 0 && output.contains("is whole"), "{code}: {output}");
    let (output, code) = run(&["repair", &directory])?;
    ensure!(code == 5 && output.contains("join again"), "{code}: {output}");
    // It is no single node's directory any more.
    let settings = server.data_dir().join("cluster.toml");
    let aside = server.data_dir().join("cluster.toml.aside");
    fs::rename(&settings, &aside)?;
    ensure!(
        server.restart().is_err(),
        "a single node serves a cluster's directory"
    );
    fs::rename(&aside, &settings)?;
    let mode = fs::metadata(&settings)?.permissions().mode();
    ensure!(mode & 0o077 == 0, "others may read the secret: {mode:o}");

    // It has the settings of its cluster, and the others get them with a token.
    server.restart()?;
    let url = server.control_url();
    let mut others = Vec::new();
    for address in &addresses[1..] {
        let (token, code) = run(&["cluster", "token", &url])?;
        ensure!(code == 0 && token.starts_with("hfj1-"), "{code}: {token}");
        let join = |directory: &Path| {
            let directory = directory.display().to_string();
            let listen = [
                "--advertise",
                address,
                "--listen",
                address,
                "--token",
                token.trim(),
            ];
            run(&[&["cluster", "join", &url, "--data-dir", &directory], &listen[..]].concat())
        };
        let mut node = Server::start_prepared(Launch::dev(), |directory| {
            let (output, code) = join(directory)?;
            ensure!(
                code == 0 && output.contains("is ready to join"),
                "{code}: {output}"
            );
            let (output, code) = join(directory)?;
            ensure!(
                code == 5 && output.contains("belongs to a node"),
                "{code}: {output}"
            );
            Ok(())
        })?;
        node.wait_until_ready().with_context(|| node.log_tail())?;
        others.push(node);
        wait_for("the node to get a vote", LIMIT, || {
            let (_, code) = run(&["cluster", "add", &url, "--node", address])?;
            Ok((code == 0).then_some(()))
        })?;
    }
    let (status, _) = run(&["cluster", "status", &url, "--json"])?;
    let status: Value = serde_json::from_str(&status)?;
    ensure!(status["cluster"] == "prod-a", "{status}");
    ensure!(
        status["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3),
        "{status}"
    );
    // With the first one gone the others have everything: handles, leases, order, delays.
    patiently(
        &mut others[0].sqs(),
        "DeleteMessage",
        json!({ "QueueUrl": QUEUE, "ReceiptHandle": held_handle }),
    )?;
    server.kill()?;
    let other = &others[1];
    let mut bodies = drain(&mut other.sqs())?;
    ensure!(
        bodies.len() == SENT - held.len(),
        "{} of {SENT} are visible",
        bodies.len()
    );
    let ordered = receive(other, "ordered.fifo")?;
    ensure!(ordered.is_empty(), "the group is held: {ordered:?}");
    wait_for("the clock to be turned", LIMIT, || {
        Ok(other.advance(std::time::Duration::from_secs(3_601)).ok())
    })?;
    bodies.extend(drain(&mut other.sqs())?);
    ensure!(bodies.contains(&"delayed".to_owned()));
    ensure!(
        bodies.len() == SENT,
        "{} of {SENT} with the delayed and without the deleted",
        bodies.len()
    );
    let ordered = receive(other, "ordered.fifo")?;
    let ordered: Vec<_> = ordered
        .iter()
        .filter_map(|message| message["Body"].as_str())
        .collect();
    ensure!(ordered == ["0", "1", "2"], "{ordered:?}");
    Ok(())
}

#[test]
fn a_token_that_does_not_count_lets_nobody_join() -> Result<()> {
    let [address, other, _] = own_addresses();
    let launch = |address: &str| {
        let settings = [("LISTEN", address), ("SEEDS", address), ("SECRET", SECRET)];
        settings.iter().fold(Launch::dev(), |launch, (name, value)| {
            launch.variable(&format!("HOLDFAST_CLUSTER_{name}"), value)
        })
    };
    let (server, foreign) = (Server::start(launch(&address))?, Server::start(launch(&other))?);
    let alone = Server::dev()?;
    let url = server.control_url();
    let token_of = |server: &Server, ttl: &str| -> Result<String> {
        let (token, code) = run(&["cluster", "token", &server.control_url(), "--ttl", ttl])?;
        ensure!(code == 0, "{code}: {token}");
        Ok(token.trim().to_owned())
    };
    let good = token_of(&server, "1h")?;
    // Another cluster's, though it has the same secret.
    let foreign = token_of(&foreign, "1h")?;
    let mut forged = good.clone();
    forged.replace_range(60..61, if &good[60..61] == "A" { "B" } else { "A" });
    let used = server.data_dir().display().to_string();
    for (url, token, directory, expected, says) in [
        (&*url, &*foreign, "fresh", 6, "not a token of this cluster"),
        (&url, &forged, "fresh", 6, "not a token of this cluster"),
        (&url, &good[..40], "fresh", 2, "no join token"),
        (&url, "nonsense", "fresh", 2, "no join token"),
        (&alone.control_url(), &good, "fresh", 4, "not a node of a cluster"),
        ("http://127.0.0.1:1", &good, "fresh", 7, "does not answer"),
        (&url, &good, &used, 5, "holds the messages"),
    ] {
        let directory = match directory {
            "fresh" => alone.data_dir().join("fresh").display().to_string(),
            other => other.to_owned(),
        };
        let join = [
            "cluster",
            "join",
            url,
            "--token",
            token,
            "--data-dir",
            &directory,
            "--advertise",
            "h:1",
        ];
        let (output, code) = run(&join)?;
        ensure!(code == expected && output.contains(says), "{code}: {output}");
        ensure!(output.contains("try:"), "{output}");
    }
    for ttl in ["0s", "8d"] {
        let (output, code) = run(&["cluster", "token", &url, "--ttl", ttl])?;
        ensure!(code == 2, "{code}: {output}");
    }
    Ok(())
}

#[test]
fn a_single_nodes_directory_is_not_started_as_a_clusters() -> Result<()> {
    let mut server = Server::dev()?;
    server.sqs().create_queue(QUEUE, json!({}))?;
    ensure!(server.stop()?.success());
    let [address, ..] = own_addresses();
    for (name, value) in [("LISTEN", &*address), ("SEEDS", &address), ("SECRET", SECRET)] {
        server.set_variable(&format!("HOLDFAST_CLUSTER_{name}"), value);
    }
    server.restart_unready()?;
    ensure!(!server.wait_for_exit()?.success());
    ensure!(
        server.logged("holdfast cluster init"),
        "the refusal names no way on: {}",
        server.log_tail()
    );
    Ok(())
}

#[test]
fn what_cannot_be_converted_says_why() -> Result<()> {
    let home = compat::Scratch::new("init")?;
    let directory = home.path().display().to_string();
    for (arguments, code, text) in [
        (
            ["--data-dir", directory.as_str(), "--advertise", "10.0.0.1:7901"],
            5,
            "never used",
        ),
        (
            ["--data-dir", directory.as_str(), "--advertise", "10.0.0.1"],
            2,
            "no port",
        ),
        (
            ["--data-dir", "/no/such/directory", "--advertise", "a:1"],
            4,
            "no directory",
        ),
    ] {
        let (output, found) = run(&[&["cluster", "init"], &arguments[..]].concat())?;
        ensure!(
            found == code && output.contains(text),
            "{arguments:?}: {found}: {output}"
        );
    }
    Ok(())
}
