//! How a queue is addressed: by account and name, whatever host or form a client happens to use.

use anyhow::{Context, Result, ensure};
use compat::{Connection, Server, decode, post_json};
use serde_json::{Value, json};

/// Asks as a client does that reached the server under another name.
fn ask_as(connection: &mut Connection, host: &str, action: &str, input: &Value) -> Result<Value> {
    let body = serde_json::to_vec(input)?;
    let request = format!(
        "POST / HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/x-amz-json-1.0\r\n\
         x-amz-target: AmazonSQS.{action}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.send(&[request.into_bytes(), body].concat())?;
    decode(&connection.receive()?)?
        .ok()
        .with_context(|| format!("{action} was refused"))
}

#[test]
fn queue_urls_carry_the_host_that_was_asked() -> Result<()> {
    let server = Server::dev()?;
    let mut connection = server.connect()?;
    let input = json!({ "QueueName": "named" });
    for host in ["queue.internal:4100", "localhost:4566", "10.0.0.7"] {
        let output = ask_as(&mut connection, host, "CreateQueue", &input)?;
        let expected = format!("http://{host}/000000000000/named");
        ensure!(output["QueueUrl"] == expected.as_str(), "{output}");
    }
    Ok(())
}

#[test]
fn any_url_of_a_queue_finds_it() -> Result<()> {
    let server = Server::dev()?;
    let mut sqs = server.sqs();
    let url = sqs.create_queue("found", json!({}))?;
    let forms = [
        url.as_str(),
        "found",
        "/000000000000/found",
        "https://sqs.eu-west-1.amazonaws.com/000000000000/found",
        "http://some.proxy:80/000000000000/found",
    ];
    for (number, form) in forms.iter().enumerate() {
        sqs.call(
            "SendMessage",
            json!({ "QueueUrl": form, "MessageBody": number.to_string() }),
        )?;
        let sent = u64::try_from(number)? + 1;
        ensure!(sqs.counters(&url)?[0] == sent, "{form} did not reach the queue");
    }
    let other_account = url.replace("000000000000", "111111111111");
    let refusal = sqs.refused(
        "SendMessage",
        json!({ "QueueUrl": other_account, "MessageBody": "x" }),
    )?;
    ensure!(refusal.status >= 400, "{refusal:?}");
    ensure!(
        sqs.counters(&url)?[0] == forms.len() as u64,
        "another account's URL reached the queue"
    );
    Ok(())
}

#[test]
fn the_path_of_a_queue_is_an_endpoint_of_both_protocols() -> Result<()> {
    let server = Server::dev()?;
    server.sqs().create_queue("path", json!({}))?;
    let mut connection = server.connect()?;
    let path = "/000000000000/path";
    let reply = connection.request(
        "GET",
        &format!("{path}?Action=SendMessage&MessageBody=by+GET"),
        &[],
        b"",
    )?;
    ensure!(
        reply.status == 200 && reply.text().contains("<SendMessageResponse"),
        "{}",
        reply.text()
    );
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let reply = connection.request("POST", path, &form, b"Action=SendMessage&MessageBody=by+POST")?;
    ensure!(
        reply.status == 200 && reply.text().contains("<MessageId>"),
        "{}",
        reply.text()
    );
    let json_headers = [
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", "AmazonSQS.ReceiveMessage"),
    ];
    let input = json!({ "QueueUrl": "path", "MaxNumberOfMessages": 10 });
    let reply = connection.request("POST", path, &json_headers, &serde_json::to_vec(&input)?)?;
    let output = decode(&reply)?
        .ok()
        .context("JSON on the queue's path was refused")?;
    let messages = output["Messages"].as_array().context("no messages")?;
    let bodies: Vec<_> = messages.iter().map(|message| &message["Body"]).collect();
    ensure!(bodies == ["by GET", "by POST"], "{output}");
    // The connection has served three forms and still does.
    ensure!(
        post_json(&mut connection, "ListQueues", b"{}")?.status == 200,
        "the connection serves no more"
    );
    Ok(())
}
