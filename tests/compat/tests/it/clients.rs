//! The SDKs of other languages and the AWS CLI, each through the same flows.

use anyhow::{Context, Result, ensure};
use compat::{Client, Server, aws_cli, run_client};
use serde_json::Value;

const IN_FLIGHT: &str = "ApproximateNumberOfMessagesNotVisible";

#[test]
fn boto3_over_json() -> Result<()> {
    run_client(Client::Boto3Json, "flows.py", &Server::dev()?, &["json"])
}

#[test]
fn boto3_over_query() -> Result<()> {
    run_client(Client::Boto3Query, "flows.py", &Server::dev()?, &["query"])
}

#[test]
fn javascript_sdk() -> Result<()> {
    run_client(Client::JavaScript, "flows.cjs", &Server::dev()?, &[])
}

/// Runs a command of the CLI and reads the JSON that it prints.
fn aws(server: &Server, arguments: &[&str]) -> Result<Value> {
    let output = aws_cli(server, arguments)?;
    serde_json::from_str(&output).with_context(|| format!("{arguments:?} printed {output:?}"))
}

/// Returns a text of the output of a command.
fn text<'a>(output: &'a Value, pointer: &str) -> Result<&'a str> {
    output
        .pointer(pointer)
        .and_then(Value::as_str)
        .with_context(|| format!("no {pointer} in {output}"))
}

#[test]
fn aws_cli_sends_receives_and_deletes() -> Result<()> {
    let server = Server::dev()?;
    let create = [
        "create-queue",
        "--queue-name",
        "cli-queue",
        "--attributes",
        "VisibilityTimeout=45",
    ];
    let created = aws(&server, &create)?;
    let url = text(&created, "/QueueUrl")?;
    let named = aws(&server, &["get-queue-url", "--queue-name", "cli-queue"])?;
    ensure!(text(&named, "/QueueUrl")? == url, "{named} instead of {url}");
    let listed = aws(&server, &["list-queues", "--queue-name-prefix", "cli"])?;
    ensure!(text(&listed, "/QueueUrls/0")? == url, "{listed}");

    let attributes = r#"{"color":{"DataType":"String","StringValue":"red"}}"#;
    let send = [
        "send-message",
        "--queue-url",
        url,
        "--message-body",
        "from the shell",
        "--message-attributes",
    ];
    let sent = aws(&server, &[&send[..], &[attributes]].concat())?;
    let receive = ["receive-message", "--queue-url", url, "--wait-time-seconds", "5"];
    let received = aws(
        &server,
        &[&receive[..], &["--message-attribute-names", "All"]].concat(),
    )?;
    ensure!(
        text(&received, "/Messages/0/MessageId")? == text(&sent, "/MessageId")?,
        "{received}"
    );
    ensure!(
        text(&received, "/Messages/0/Body")? == "from the shell",
        "{received}"
    );
    let color = text(&received, "/Messages/0/MessageAttributes/color/StringValue")?;
    ensure!(color == "red", "{received}");

    let handle = text(&received, "/Messages/0/ReceiptHandle")?;
    let change = [
        "change-message-visibility",
        "--visibility-timeout",
        "0",
        "--queue-url",
        url,
    ];
    aws_cli(&server, &[&change[..], &["--receipt-handle", handle]].concat())?;
    let again = aws(&server, &receive)?;
    ensure!(text(&again, "/Messages/0/Body")? == "from the shell", "{again}");
    let handle = text(&again, "/Messages/0/ReceiptHandle")?;
    aws_cli(
        &server,
        &["delete-message", "--queue-url", url, "--receipt-handle", handle],
    )?;
    let left = aws(
        &server,
        &[
            "get-queue-attributes",
            "--queue-url",
            url,
            "--attribute-names",
            IN_FLIGHT,
        ],
    )?;
    ensure!(text(&left, &format!("/Attributes/{IN_FLIGHT}"))? == "0", "{left}");
    Ok(())
}

#[test]
fn aws_cli_handles_batches_fifo_and_purge() -> Result<()> {
    let server = Server::dev()?;
    let create = [
        "create-queue",
        "--queue-name",
        "cli.fifo",
        "--attributes",
        "FifoQueue=true",
    ];
    let created = aws(&server, &create)?;
    let url = text(&created, "/QueueUrl")?;
    let entries = r#"[
        {"Id":"1","MessageBody":"one","MessageGroupId":"g","MessageDeduplicationId":"1"},
        {"Id":"2","MessageBody":"two","MessageGroupId":"g","MessageDeduplicationId":"2"}]"#;
    let sent = aws(
        &server,
        &["send-message-batch", "--queue-url", url, "--entries", entries],
    )?;
    ensure!(sent["Successful"].as_array().map(Vec::len) == Some(2), "{sent}");

    let received = aws(
        &server,
        &[
            "receive-message",
            "--queue-url",
            url,
            "--max-number-of-messages",
            "10",
        ],
    )?;
    let bodies: Vec<_> = received["Messages"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|m| &m["Body"])
        .collect();
    ensure!(bodies == ["one", "two"], "{received}");

    aws_cli(&server, &["purge-queue", "--queue-url", url])?;
    let left = aws(
        &server,
        &[
            "get-queue-attributes",
            "--queue-url",
            url,
            "--attribute-names",
            IN_FLIGHT,
        ],
    )?;
    ensure!(text(&left, &format!("/Attributes/{IN_FLIGHT}"))? == "0", "{left}");
    aws_cli(&server, &["delete-queue", "--queue-url", url])?;
    Ok(())
}
