//! A queue that does one thing wrong, to see whether it is found.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// What goes wrong with the fiftieth message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Nothing,
    Lost,
    Doubled,
    /// It comes before the one that was sent before it.
    Overtaking,
    /// Its last byte is another.
    Changed,
    /// It is refused as one of a batch, and the others are not.
    Refused,
}

#[derive(Debug)]
struct State {
    fault: Fault,
    sent: u32,
    waiting: VecDeque<String>,
}

/// Serves one queue until the process ends, and returns its address.
pub(super) fn start(fault: Fault) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let state = Arc::new(Mutex::new(State {
        fault,
        sent: 0,
        waiting: VecDeque::new(),
    }));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let state = Arc::clone(&state);
            // A client that goes ends its connection by an error.
            thread::spawn(move || serve(stream, &state));
        }
    });
    Ok(address)
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let (mut action, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(name) = line.strip_prefix("x-amz-target: amazonsqs.") {
                name.clone_into(&mut action);
            }
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.parse()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let input: Value = serde_json::from_slice(&body).unwrap_or_default();
        let output = state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .answer(&action, &input)
            .with_context(|| format!("{action} {input}"))?
            .to_string();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", output.len());
        reader.get_mut().write_all((head + &output).as_bytes())?;
    }
}

impl State {
    fn answer(&mut self, action: &str, input: &Value) -> Result<Value> {
        Ok(match action {
            "createqueue" => json!({ "QueueUrl": "http://127.0.0.1/queue" }),
            "sendmessage" => {
                self.send(&input["MessageBody"]).context("no body")?;
                json!({ "MessageId": "id" })
            }
            "sendmessagebatch" => {
                let (mut successful, mut failed) = (Vec::new(), Vec::new());
                for entry in input["Entries"].as_array().context("no entries")? {
                    if self.send(&entry["MessageBody"]).context("no body")? {
                        successful.push(json!({ "Id": entry["Id"] }));
                    } else {
                        failed.push(json!({ "Id": entry["Id"], "Code": "Planted", "Message": "refused" }));
                    }
                }
                json!({ "Successful": successful, "Failed": failed })
            }
            "receivemessage" => {
                let count = input["MaxNumberOfMessages"].as_u64().context("no count")?;
                let message = |body| json!({ "Body": body, "ReceiptHandle": "handle" });
                let taken = (0..count).map_while(|_| self.waiting.pop_front());
                json!({ "Messages": taken.map(message).collect::<Vec<_>>() })
            }
            "getqueueattributes" => json!({ "Attributes": {
                "ApproximateNumberOfMessages": self.waiting.len().to_string(),
                "ApproximateNumberOfMessagesNotVisible": "0",
                "ApproximateNumberOfMessagesDelayed": "0",
            } }),
            _ => json!({}),
        })
    }

    /// Takes a message, and returns whether it says so.
    fn send(&mut self, body: &Value) -> Option<bool> {
        let mut body = body.as_str()?.to_owned();
        self.sent += 1;
        let fault = if self.sent == 50 {
            self.fault
        } else {
            Fault::Nothing
        };
        match fault {
            Fault::Nothing => {}
            Fault::Lost => return Some(true),
            Fault::Refused => return Some(false),
            Fault::Doubled => self.waiting.push_back(body.clone()),
            Fault::Overtaking => {
                let before = self.waiting.pop_back()?;
                self.waiting.push_back(body);
                body = before;
            }
            Fault::Changed => {
                body.pop();
                body.push('!');
            }
        }
        self.waiting.push_back(body);
        Some(true)
    }
}
