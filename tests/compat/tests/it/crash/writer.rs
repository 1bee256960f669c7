//! One client that works until the server dies under it.
//!
//! Every call is noted in the ledger before it is made and again when it is answered. A call without an answer ends
//! the round; it is never repeated.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use anyhow::{Context, Result, ensure};
use compat::{Random, Refusal, Sqs};
use serde_json::{Value, json};

use super::ledger::{Lease, Ledger, Progress};

/// The queue that all writers share.
pub(super) const QUEUE: &str = "crash";
/// Longer than the whole test, so that a lease can only end because it was lost.
pub(super) const LEASE_SECONDS: u32 = 600;
/// What a changed visibility timeout is set to.
pub(super) const EXTENDED_SECONDS: u32 = 7_200;
/// A writer that holds this many messages deletes before it takes more.
const HELD_MAX: usize = 40;

/// Some bodies are this long, so that the log goes through many files.
const LONG_BODY_BYTES: usize = 4_000;

#[derive(Debug)]
struct Held {
    id: String,
    receipt_handle: String,
}

#[derive(Debug)]
pub(super) struct Writer {
    number: usize,
    sequence: u64,
    random: Random,
    /// Taken in this round or an earlier one: handles outlive a crash.
    held: Vec<Held>,
    /// The last answered value of an attribute of this writer's own queue.
    answered_value: Option<u64>,
    /// A value that was asked for without an answer.
    tried_value: Option<u64>,
}

/// How a call ended for the writer: the round goes on or is over.
type Step = Result<Option<()>>;

impl Writer {
    pub(super) fn new(number: usize, seed: u64) -> Self {
        let random = Random::new(seed.wrapping_mul(31).wrapping_add(number as u64));
        Self {
            number,
            sequence: 0,
            random,
            held: Vec::new(),
            answered_value: None,
            tried_value: None,
        }
    }

    /// Works until the server is gone; an error is a broken promise.
    pub(super) fn work(
        &mut self,
        address: SocketAddr,
        ledger: &Mutex<Ledger>,
        killed: &AtomicBool,
    ) -> Result<()> {
        let mut sqs = Sqs::new(address);
        loop {
            let step = match self.random.below(100) {
                _ if self.held.len() >= HELD_MAX => self.delete_batch(&mut sqs, ledger),
                0..25 => self.send(&mut sqs, ledger),
                25..40 => self.send_batch(&mut sqs, ledger),
                40..60 => self.receive(&mut sqs, ledger),
                60..75 => self.delete(&mut sqs, ledger),
                75..80 => self.delete_batch(&mut sqs, ledger),
                80..88 => self.extend(&mut sqs, ledger),
                88..95 => self.give_back(&mut sqs, ledger),
                _ => self.set_attribute(&mut sqs, ledger),
            };
            if step.with_context(|| format!("writer {}", self.number))?.is_none() {
                // The kill and its note are two steps; a connection that broke before is a server that crashed.
                while !killed.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                return Ok(());
            }
        }
    }

    /// Checks that the attribute of this writer's queue is what was answered last, or what was tried after it.
    pub(super) fn check_attributes(&mut self, sqs: &mut Sqs) -> Result<()> {
        let Some(answered) = self.answered_value else {
            return Ok(());
        };
        let input = json!({ "QueueUrl": self.own_queue(), "AttributeNames": ["VisibilityTimeout"] });
        let output = sqs.call("GetQueueAttributes", input)?;
        let text = output["Attributes"]["VisibilityTimeout"]
            .as_str()
            .context("no VisibilityTimeout")?;
        let value: u64 = text
            .parse()
            .with_context(|| format!("VisibilityTimeout is {text:?}"))?;
        let tried = self.tried_value.take();
        ensure!(
            value == answered || Some(value) == tried,
            "{} has {value}; {answered} was answered, {tried:?} was tried",
            self.own_queue()
        );
        self.answered_value = Some(value);
        Ok(())
    }

    fn send(&mut self, sqs: &mut Sqs, ledger: &Mutex<Ledger>) -> Step {
        let id = self.next_id();
        lock(ledger).entry(&id).send = Progress::Tried;
        let input = json!({ "QueueUrl": QUEUE, "MessageBody": body_of(&id) });
        let Some(_) = answered(sqs, "SendMessage", &input)? else {
            return Ok(None);
        };
        lock(ledger).entry(&id).send = Progress::Answered;
        Ok(Some(()))
    }

    fn send_batch(&mut self, sqs: &mut Sqs, ledger: &Mutex<Ledger>) -> Step {
        let count = 2 + self.random.below(9);
        let ids: Vec<String> = (0..count).map(|_| self.next_id()).collect();
        for id in &ids {
            lock(ledger).entry(id).send = Progress::Tried;
        }
        let entries: Vec<Value> = ids
            .iter()
            .map(|id| json!({ "Id": id, "MessageBody": body_of(id) }))
            .collect();
        let input = json!({ "QueueUrl": QUEUE, "Entries": entries });
        let Some(output) = answered(sqs, "SendMessageBatch", &input)? else {
            return Ok(None);
        };
        ensure!(output.get("Failed").is_none(), "{output}");
        for id in &ids {
            lock(ledger).entry(id).send = Progress::Answered;
        }
        Ok(Some(()))
    }

    fn receive(&mut self, sqs: &mut Sqs, ledger: &Mutex<Ledger>) -> Step {
        let input = json!({
            "QueueUrl": QUEUE, "MaxNumberOfMessages": 1 + self.random.below(10),
            "VisibilityTimeout": LEASE_SECONDS,
        });
        let Some(output) = answered(sqs, "ReceiveMessage", &input)? else {
            return Ok(None);
        };
        for message in output["Messages"].as_array().into_iter().flatten() {
            let id = id_of(message["Body"].as_str().context("a message without a body")?)?.to_owned();
            let receipt_handle = message["ReceiptHandle"]
                .as_str()
                .context("no receipt handle")?
                .to_owned();
            let mut ledger = lock(ledger);
            ledger.check_delivery(&id, 0)?;
            ledger.entry(&id).lease = Lease::Held;
            self.held.push(Held { id, receipt_handle });
        }
        Ok(Some(()))
    }

    fn delete(&mut self, sqs: &mut Sqs, ledger: &Mutex<Ledger>) -> Step {
        let Some(held) = self.take_held() else {
            return Ok(Some(()));
        };
        lock(ledger).entry(&held.id).delete = Progress::Tried;
        let input = json!({ "QueueUrl": QUEUE, "ReceiptHandle": held.receipt_handle });
        let Some(_) = answered(sqs, "DeleteMessage", &input)? else {
            return Ok(None);
        };
        lock(ledger).entry(&held.id).delete = Progress::Answered;
        Ok(Some(()))
    }

    fn delete_batch(&mut self, sqs: &mut Sqs, ledger: &Mutex<Ledger>) -> Step {
        let count = self.held.len().min(10);
        if count == 0 {
            return Ok(Some(()));
        }
        let batch: Vec<Held> = self.held.drain(..count).collect();
        let mut entries = Vec::new();
        for held in &batch {
            lock(ledger).entry(&held.id).delete = Progress::Tried;
            entries.push(json!({ "Id": held.id, "ReceiptHandle": held.receipt_handle }));
        }
        let input = json!({ "QueueUrl": QUEUE, "Entries": entries });
        let Some(output) = answered(sqs, "DeleteMessageBatch", &input)? else {
            return Ok(None);
        };
        ensure!(output.get("Failed").is_none(), "{output}");
        for held in &batch {
            lock(ledger).entry(&held.id).delete = Progress::Answered;
        }
        Ok(Some(()))
    }

    /// Makes a lease longer and forgets the handle, so that only the server knows.
    fn extend(&mut self, sqs: &mut Sqs, ledger: &Mutex<Ledger>) -> Step {
        let Some(held) = self.take_held() else {
            return Ok(Some(()));
        };
        lock(ledger).entry(&held.id).lease = Lease::MaybeExtended;
        let Some(_) = answered(sqs, "ChangeMessageVisibility", &change(&held, EXTENDED_SECONDS))? else {
            return Ok(None);
        };
        lock(ledger).entry(&held.id).lease = Lease::Extended;
        Ok(Some(()))
    }

    /// Ends a lease; another writer may have the message before the answer is here.
    fn give_back(&mut self, sqs: &mut Sqs, ledger: &Mutex<Ledger>) -> Step {
        let Some(held) = self.take_held() else {
            return Ok(Some(()));
        };
        lock(ledger).release(&held.id);
        Ok(answered(sqs, "ChangeMessageVisibility", &change(&held, 0))?.map(|_| ()))
    }

    fn set_attribute(&mut self, sqs: &mut Sqs, ledger: &Mutex<Ledger>) -> Step {
        if self.answered_value.is_none() {
            // Creating a queue that is there already is no error, so an unanswered try can be repeated.
            let attributes = json!({ "VisibilityTimeout": "1" });
            let input = json!({ "QueueName": self.own_queue(), "Attributes": attributes });
            let Some(_) = answered(sqs, "CreateQueue", &input)? else {
                return Ok(None);
            };
            self.answered_value = Some(1);
        }
        let value = 1 + self.random.below(43_200);
        self.tried_value = Some(value);
        let attributes = json!({ "VisibilityTimeout": value.to_string() });
        let input = json!({ "QueueUrl": self.own_queue(), "Attributes": attributes });
        let Some(_) = answered(sqs, "SetQueueAttributes", &input)? else {
            return Ok(None);
        };
        (self.answered_value, self.tried_value) = (Some(value), None);
        lock(ledger).count_attribute_change();
        Ok(Some(()))
    }

    fn next_id(&mut self) -> String {
        self.sequence += 1;
        format!("w{}-{}", self.number, self.sequence)
    }

    fn take_held(&mut self) -> Option<Held> {
        if self.held.is_empty() {
            return None;
        }
        let index = self.random.below(self.held.len() as u64);
        usize::try_from(index)
            .ok()
            .map(|index| self.held.swap_remove(index))
    }

    fn own_queue(&self) -> String {
        format!("crash-own-{}", self.number)
    }
}

/// Returns the body of the message with this id, always the same.
fn body_of(id: &str) -> String {
    if id.ends_with(['3', '7']) {
        format!("{id} {}", id.repeat(LONG_BODY_BYTES / id.len()))
    } else {
        id.to_owned()
    }
}

/// Returns the id of the message with this body, which must be whole.
pub(super) fn id_of(body: &str) -> Result<&str> {
    let id = body.split(' ').next().unwrap_or_default();
    ensure!(
        body == body_of(id),
        "the body of {id:?} is not what was sent: {body:?}"
    );
    Ok(id)
}

fn change(held: &Held, visibility_timeout: u32) -> Value {
    json!({
        "QueueUrl": QUEUE, "ReceiptHandle": held.receipt_handle, "VisibilityTimeout": visibility_timeout,
    })
}

/// Makes a call; `None` means that no answer came. A refusal is an error: nothing here deserves one.
fn answered(sqs: &mut Sqs, action: &str, input: &Value) -> Result<Option<Value>> {
    match sqs.try_call(action, input) {
        Ok(Ok(output)) => Ok(Some(output)),
        Ok(Err(Refusal { status: 503, .. })) | Err(_) => Ok(None),
        Ok(Err(refusal)) => Err(anyhow::anyhow!("{action} {input} was refused: {refusal:?}")),
    }
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().expect("no writer panicked")
}
