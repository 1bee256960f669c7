//! Fills one queue, so that the memory of its messages can be weighed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

const SENDERS: u32 = 8;
const BATCH: u32 = 10;
const BODY_BYTES: usize = 100;

/// Sends `messages` messages of 100 bytes to a new queue; a multiple of 80 is sent exactly.
pub(super) fn fill(url: &str, messages: u32) -> Result<()> {
    let queue = Client::connect(url)?.call("CreateQueue", &json!({ "QueueName": "memory" }))?;
    let queue = queue["QueueUrl"].as_str().context("no QueueUrl")?;
    thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| scope.spawn(move || send(url, queue, sender, messages / BATCH / SENDERS)))
            .collect();
        for sender in senders {
            sender.join().expect("a sender does not panic")?;
        }
        Ok(())
    })
}

fn send(url: &str, queue: &str, sender: u32, batches: u32) -> Result<()> {
    let mut client = Client::connect(url)?;
    for batch in 0..batches {
        let entries: Vec<Value> = (0..BATCH)
            .map(|entry| {
                let mut body = format!("{sender}-{batch}-{entry}-");
                body.extend(std::iter::repeat_n('x', BODY_BYTES.saturating_sub(body.len())));
                json!({ "Id": entry.to_string(), "MessageBody": body })
            })
            .collect();
        let output = client.call(
            "SendMessageBatch",
            &json!({ "QueueUrl": queue, "Entries": entries }),
        )?;
        ensure!(output.get("Failed").is_none(), "{output}");
    }
    Ok(())
}

/// A connection that speaks the JSON protocol, unsigned.
#[derive(Debug)]
struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(url: &str) -> Result<Self> {
        let authority = url
            .strip_prefix("http://")
            .with_context(|| format!("{url} is not an http URL"))?;
        let stream = TcpStream::connect(authority)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    fn call(&mut self, action: &str, input: &Value) -> Result<Value> {
        let body = serde_json::to_vec(input)?;
        let mut request = format!(
            "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-amz-json-1.0\r\n\
             x-amz-target: AmazonSQS.{action}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend(body);
        self.stream.get_mut().write_all(&request)?;
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
            "{status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(serde_json::from_slice(&body)?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "the server closed the connection");
        Ok(line.trim_end().to_owned())
    }
}
