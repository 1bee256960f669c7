//! The verbs of the command line that work with queues and messages, against the real server.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use compat::{ACCESS_KEY_ID, Launch, SECRET_ACCESS_KEY, Server, holdfast, run_to_end, wait_for};
use serde_json::Value;

use crate::cluster::LIMIT;

/// A shell that works with one server.
struct Shell {
    endpoint: String,
    variables: Vec<(&'static str, &'static str)>,
}

impl Shell {
    fn of(server: &Server) -> Self {
        Self {
            endpoint: server.sqs_url(),
            variables: Vec::new(),
        }
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = holdfast()?;
        for name in [
            "HOLDFAST_ENDPOINT",
            "AWS_ENDPOINT_URL",
            "AWS_ENDPOINT_URL_SQS",
            "TINYMQ_URL",
        ] {
            command.env_remove(name);
        }
        command.env("HOLDFAST_ENDPOINT", &self.endpoint).args(arguments);
        command.envs(self.variables.iter().copied());
        Ok(command)
    }

    /// Runs a verb; returns what it printed and its exit code.
    fn run(&self, arguments: &[&str]) -> Result<(String, i32)> {
        let output = run_to_end(&mut self.command(arguments)?, LIMIT)?;
        let text = String::from_utf8([output.stdout, output.stderr].concat())?;
        Ok((text, output.status.code().context("no exit code")?))
    }

    fn done(&self, arguments: &[&str]) -> Result<String> {
        let (text, code) = self.run(arguments)?;
        ensure!(code == 0, "{arguments:?}: {code}: {text}");
        Ok(text)
    }

    fn json(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.done(&[arguments, &["--json"]].concat())?;
        serde_json::from_str(&text).with_context(|| text.clone())
    }

    /// Runs a verb that fails with this code, in words that say what, why and what to try.
    fn fails(&self, arguments: &[&str], expected: i32, says: &str) -> Result<()> {
        let (text, code) = self.run(arguments)?;
        ensure!(
            code == expected && text.contains(says),
            "{arguments:?}: {code}: {text}"
        );
        ensure!(
            text.contains("cause:") && text.contains("try:"),
            "{arguments:?}: {text}"
        );
        let (text, code) = self.run(&[arguments, &["--json"]].concat())?;
        let document: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        ensure!(code == expected, "{code}: {text}");
        for field in ["code", "message", "cause", "hint"] {
            ensure!(document["error"][field].is_string(), "{text}");
        }
        Ok(())
    }
}

#[test]
fn a_message_goes_through_a_queue_by_hand() -> Result<()> {
    let server = Server::dev()?;
    let shell = Shell::of(&server);
    let create = [
        "queue",
        "create",
        "orders",
        "--visibility",
        "1h",
        "--delay",
        "0s",
        "--wait",
        "1s",
    ];
    let url = shell.done(&create)?;
    ensure!(url.trim().ends_with("/000000000000/orders"), "{url}");
    let sent = shell.json(&["send", "orders", "--body", "{\"id\":42}", "--attr", "kind=new"])?;
    ensure!(
        sent["schema"] == "holdfast.send/1" && sent["message_id"].is_string(),
        "{sent}"
    );
    let listed = shell.json(&["queue", "list"])?;
    ensure!(
        listed["items"][0]["name"] == "orders" && listed["items"][0]["visible"] == 1,
        "{listed}"
    );
    let text = shell.done(&["queue", "list", "ord"])?;
    ensure!(
        text.starts_with("NAME    TYPE      VISIBLE  IN-FLIGHT  DELAYED  DLQ\norders  standard  1 "),
        "{text}"
    );

    let received = shell.json(&["receive", "orders", "--wait", "5s"])?;
    let message = &received["messages"][0];
    ensure!(message["Body"] == "{\"id\":42}", "{received}");
    ensure!(
        message["MessageAttributes"]["kind"]["StringValue"] == "new",
        "{received}"
    );
    let handle = message["ReceiptHandle"].as_str().context("a handle")?;
    ensure!(
        shell
            .done(&["extend", "orders", handle, "--by", "2h"])?
            .contains("7200 s")
    );
    shell.done(&["nack", "orders", handle])?;
    let text = shell.done(&["receive", "orders"])?;
    ensure!(
        text.contains("receives 2") && text.contains("attr kind=new") && text.ends_with("{\"id\":42}\n"),
        "{text}"
    );
    let handle = text
        .lines()
        .find_map(|line| line.strip_prefix("handle "))
        .context("a handle")?;
    ensure!(shell.done(&["ack", "orders", handle])? == "deleted\n");
    ensure!(shell.done(&["receive", "orders", "--wait", "0s"])? == "no message came\n");

    // A body from a pipe, as it is.
    let mut child = shell
        .command(&["send", "orders", "--body", "-"])?
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    child.stdin.take().context("a pipe")?.write_all(b"two\nlines\n")?;
    ensure!(child.wait()?.success());
    let text = shell.done(&["receive", "orders", "--delete"])?;
    ensure!(
        text.ends_with("two\nlines\n\n") && !text.contains("handle"),
        "{text}"
    );
    let shown = shell.json(&["queue", "show", "orders"])?;
    ensure!(shown["attributes"]["VisibilityTimeout"] == "3600", "{shown}");
    ensure!(
        shown["attributes"]["ApproximateNumberOfMessagesNotVisible"] == "0",
        "{shown}"
    );
    Ok(())
}

#[test]
fn a_fifo_queue_has_groups_and_a_dead_letter_queue_gives_back() -> Result<()> {
    let server = Server::dev()?;
    let shell = Shell::of(&server);
    shell.done(&["queue", "create", "dead.fifo"])?;
    let source = [
        "queue",
        "create",
        "work.fifo",
        "--dlq",
        "dead.fifo",
        "--max-receives",
        "1",
    ];
    shell.done(&source)?;
    let send = ["send", "work.fifo", "--body", "m", "--group", "g", "--dedup", "d"];
    let sent = shell.json(&send)?;
    ensure!(sent["sequence_number"].is_string(), "{sent}");
    ensure!(
        shell.json(&send)?["message_id"] == sent["message_id"],
        "it is recognised"
    );
    for _ in 0..2 {
        shell.done(&["receive", "work.fifo", "--visibility", "0s"])?;
    }
    let listed = shell.json(&["queue", "list"])?;
    let dead = &listed["items"][0];
    ensure!(dead["name"] == "dead.fifo" && dead["visible"] == 1, "{listed}");
    ensure!(listed["items"][1]["dlq"] == "dead.fifo", "{listed}");
    shell.fails(&["redrive", "cancel", "dead.fifo"], 4, "no task runs")?;
    shell.done(&["redrive", "start", "dead.fifo"])?;
    wait_for("the message to be moved back", LIMIT, || {
        let tasks = shell.json(&["redrive", "list", "dead.fifo"])?;
        Ok((tasks["tasks"][0]["Status"] == "COMPLETED").then_some(()))
    })?;
    let text = shell.done(&["redrive", "list", "dead.fifo"])?;
    ensure!(
        text.contains("COMPLETED") && text.contains("where they came from"),
        "{text}"
    );
    ensure!(shell.json(&["queue", "list", "work"])?["items"][0]["visible"] == 1);
    Ok(())
}

#[test]
fn settings_are_shown_with_their_origin_and_without_secrets() -> Result<()> {
    let server = Server::dev()?;
    let mut shell = Shell::of(&server);
    shell.variables = vec![
        ("HOLDFAST_ADMIN_TOKEN", "a token that nobody may see"),
        ("HOLDFAST_PORT", "4777"),
    ];
    let flags = [
        "config",
        "show",
        "--dev",
        "--control-port",
        "4778",
        "--data-dir",
        "/nowhere",
    ];
    let text = shell.done(&flags)?;
    ensure!(
        text.contains("server.port = 4777\n") && text.contains("server.control_port = 4778\n"),
        "{text}"
    );
    ensure!(!text.contains("server.region"), "nobody set it: {text}");
    let all = shell.done(&[&flags[..], &["--origin"]].concat())?;
    let origin = |name: &str, origin: &str| {
        all.lines()
            .any(|line| line.starts_with(name) && line.ends_with(&format!("# {origin}")))
    };
    ensure!(
        origin("server.port ", "environment variable HOLDFAST_PORT"),
        "{all}"
    );
    ensure!(origin("server.control_port ", "flag --control-port"), "{all}");
    ensure!(origin("server.region ", "the default"), "{all}");
    let document = shell.json(&flags)?;
    ensure!(
        document["settings"]
            .as_array()
            .is_some_and(|settings| settings.len() > 30),
        "{document}"
    );
    for shown in [text, all, document.to_string()] {
        ensure!(
            shown.contains("admin.token") && !shown.contains("nobody may see"),
            "{shown}"
        );
    }
    ensure!(
        shell
            .done(&["config", "validate", "--dev"])?
            .contains("would start")
    );
    let (text, code) = shell.run(&["config", "validate", "--dev", "--control-port", "4777"])?;
    ensure!(code == 2 && text.contains("both 4777"), "{code}: {text}");
    Ok(())
}

#[test]
fn what_deletes_says_how_much_and_asks() -> Result<()> {
    let launch = Launch::dev().argument("--limits").argument("strict");
    let server = Server::start(launch)?;
    let shell = Shell::of(&server);
    shell.done(&["queue", "create", "orders"])?;
    shell.done(&["queue", "tag", "orders", "team=a"])?;
    shell.done(&[
        "queue",
        "set",
        "orders",
        "--visibility",
        "5s",
        "--attribute",
        "DelaySeconds=0",
    ])?;
    shell.done(&["send", "orders", "--body", "m"])?;
    for verb in ["purge", "delete"] {
        let refused = ["queue", verb, "orders"];
        shell.fails(&refused, 5, "with 1 messages")?;
        let dry = shell.done(&["queue", verb, "orders", "--dry-run"])?;
        ensure!(
            dry.contains("with 1 messages") && dry.contains("nothing was done"),
            "{dry}"
        );
    }
    ensure!(shell.json(&["queue", "list"])?["items"][0]["visible"] == 1);
    let done = shell.json(&["queue", "purge", "orders", "--yes"])?;
    ensure!(done["messages"] == 1 && done["done"] == true, "{done}");
    shell.fails(&["queue", "purge", "orders", "--yes"], 5, "PurgeQueueInProgress")?;
    shell.done(&["queue", "delete", "orders", "--yes"])?;
    ensure!(
        shell.json(&["queue", "list"])?["items"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
    Ok(())
}

#[test]
fn a_mistake_is_told_with_a_code_and_a_way_on() -> Result<()> {
    let server = Server::start(Launch::with_keys())?;
    let mut shell = Shell::of(&server);
    shell.variables = vec![
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY),
        ("AWS_REGION", "us-east-1"),
    ];
    shell.done(&["queue", "create", "orders"])?;
    shell.fails(&["queue", "show", "order"], 4, "did you mean orders?")?;
    shell.fails(&["send", "zzz", "--body", "m"], 4, "holdfast queue list")?;
    shell.fails(
        &["queue", "set", "orders", "--visibility", "13h"],
        2,
        "VisibilityTimeout",
    )?;
    shell.fails(&["ack", "orders", "nonsense"], 2, "ReceiptHandleIsInvalid")?;
    // The control port knows where the other one is.
    shell.endpoint = server.control_url();
    ensure!(shell.done(&["queue", "list"])?.contains("orders"));
    shell.variables[1].1 = "another";
    shell.fails(&["queue", "list"], 6, "signature")?;
    shell.endpoint = "http://127.0.0.1:1".to_owned();
    shell.fails(&["queue", "list"], 7, "does not answer")?;
    for arguments in [
        &["receive", "orders", "--max", "11"][..],
        &["send", "orders"],
        &["extend", "orders", "h", "--by", "soon"],
        &["queue", "create", "q", "--dlq", "d"],
    ] {
        let (text, code) = shell.run(arguments)?;
        ensure!(code == 2, "{arguments:?}: {code}: {text}");
    }
    Ok(())
}
