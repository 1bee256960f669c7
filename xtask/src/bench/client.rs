//! A client for what the load generator has no scenario for: the JSON protocol, unsigned, one request at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// Longer than any section takes, so that no lease ends while something is measured.
const VISIBILITY_SECONDS: &str = "43200";

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(super) fn connect(url: &str) -> Result<Self> {
        let stream = TcpStream::connect(authority(url)?)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Makes a queue and returns its URL.
    pub(super) fn create_queue(&mut self, name: &str) -> Result<String> {
        let attributes = json!({ "VisibilityTimeout": VISIBILITY_SECONDS });
        let queue = self.call(
            "CreateQueue",
            &json!({ "QueueName": name, "Attributes": attributes }),
        )?;
        let url = queue["QueueUrl"].as_str().context("no QueueUrl")?;
        Ok(url.to_owned())
    }

    pub(super) fn send(&mut self, queue: &str, body: &str) -> Result<()> {
        let input = json!({ "QueueUrl": queue, "MessageBody": body });
        self.call("SendMessage", &input).map(|_| ())
    }

    pub(super) fn send_batch<'a>(
        &mut self,
        queue: &str,
        bodies: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        let entry = |(id, body): (usize, &str)| json!({ "Id": id.to_string(), "MessageBody": body });
        let entries: Vec<Value> = bodies.enumerate().map(entry).collect();
        let input = json!({ "QueueUrl": queue, "Entries": entries });
        let output = self.call("SendMessageBatch", &input)?;
        ensure!(output.get("Failed").is_none(), "{output}");
        Ok(())
    }

    /// Receives up to `count` messages and returns their receipt handles.
    pub(super) fn receive(&mut self, queue: &str, count: u32) -> Result<Vec<String>> {
        let input = json!({ "QueueUrl": queue, "MaxNumberOfMessages": count });
        let output = self.call("ReceiveMessage", &input)?;
        let messages = output["Messages"].as_array();
        let handle = |message: &Value| message["ReceiptHandle"].as_str().map(str::to_owned);
        let handles = messages.into_iter().flatten().map(handle);
        handles
            .collect::<Option<_>>()
            .context("a message has no ReceiptHandle")
    }

    pub(super) fn change_visibility(&mut self, queue: &str, handle: &str) -> Result<()> {
        let input = json!({ "QueueUrl": queue, "ReceiptHandle": handle, "VisibilityTimeout": 40_000 });
        self.call("ChangeMessageVisibility", &input).map(|_| ())
    }

    pub(super) fn delete(&mut self, queue: &str, handle: &str) -> Result<()> {
        let input = json!({ "QueueUrl": queue, "ReceiptHandle": handle });
        self.call("DeleteMessage", &input).map(|_| ())
    }

    fn call(&mut self, action: &str, input: &Value) -> Result<Value> {
        self.stream.get_mut().write_all(&request(action, input)?)?;
        let status = self.line()?;
        let mut length = 0;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().context("content-length is not a number")?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        ensure!(
            status.starts_with("HTTP/1.1 200"),
            "{action}: {status}: {}",
            String::from_utf8_lossy(&body)
        );
        if body.is_empty() {
            return Ok(Value::Null);
        }
        Ok(serde_json::from_slice(&body)?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "the server closed the connection");
        Ok(line.trim_end().to_owned())
    }
}

/// Returns the bytes of a request.
pub(super) fn request(action: &str, input: &Value) -> Result<Vec<u8>> {
    let body = serde_json::to_vec(input)?;
    let mut request = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-amz-json-1.0\r\n\
         x-amz-target: AmazonSQS.{action}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend(body);
    Ok(request)
}

/// Returns the host and port of a URL.
pub(super) fn authority(url: &str) -> Result<&str> {
    url.strip_prefix("http://")
        .with_context(|| format!("{url} is not an http URL"))
}
