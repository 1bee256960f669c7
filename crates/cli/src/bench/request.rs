//! The inputs of the calls that a load is made of.

use bytes::Bytes;
use serde::Serialize;

use super::stamp::{Bodies, Stamp};
use crate::sqs::Action;

/// Distinguishes the entries of a batch.
const IDS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Send<'a> {
    queue_url: &'a str,
    #[serde(flatten)]
    message: Message,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Batch<'a, Entry> {
    queue_url: &'a str,
    entries: Vec<Entry>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct SendEntry {
    id: &'static str,
    #[serde(flatten)]
    message: Message,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Message {
    message_body: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_group_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_deduplication_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Receive<'a> {
    queue_url: &'a str,
    max_number_of_messages: u16,
    visibility_timeout: u32,
    wait_time_seconds: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Delete<'a> {
    queue_url: &'a str,
    receipt_handle: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DeleteEntry<'a> {
    id: &'static str,
    receipt_handle: &'a str,
}

impl Message {
    fn new(bodies: &Bodies, stamp: &Stamp, is_fifo: bool) -> Self {
        Self {
            message_body: bodies.write(stamp),
            message_group_id: is_fifo.then(|| format!("g{}", stamp.group)),
            message_deduplication_id: is_fifo.then(|| stamp.deduplication_id()),
        }
    }
}

/// Sends one to ten messages; the ids of a batch are the places in `stamps`.
pub(crate) fn send(queue_url: &str, bodies: &Bodies, stamps: &[Stamp], is_fifo: bool) -> (Action, Bytes) {
    if let [stamp] = stamps {
        let message = Message::new(bodies, stamp, is_fifo);
        return (Action::SendMessage, json(&Send { queue_url, message }));
    }
    let entry = |(id, stamp)| SendEntry {
        id,
        message: Message::new(bodies, stamp, is_fifo),
    };
    let entries = IDS.into_iter().zip(stamps).map(entry).collect();
    (Action::SendMessageBatch, json(&Batch { queue_url, entries }))
}

pub(crate) fn receive(queue_url: &str, count: u16, visibility_seconds: u32, wait_seconds: u32) -> Bytes {
    json(&Receive {
        queue_url,
        max_number_of_messages: count,
        visibility_timeout: visibility_seconds,
        wait_time_seconds: wait_seconds,
    })
}

/// Deletes one to ten messages.
pub(crate) fn delete(queue_url: &str, handles: &[&str]) -> (Action, Bytes) {
    if let [receipt_handle] = handles {
        return (
            Action::DeleteMessage,
            json(&Delete {
                queue_url,
                receipt_handle,
            }),
        );
    }
    let entry = |(id, receipt_handle)| DeleteEntry { id, receipt_handle };
    let entries = IDS.into_iter().zip(handles.iter().copied()).map(entry).collect();
    (Action::DeleteMessageBatch, json(&Batch { queue_url, entries }))
}

fn json<T: Serialize>(input: &T) -> Bytes {
    Bytes::from(serde_json::to_vec(input).expect("plain values always encode"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn stamp(sequence: u64) -> Stamp {
        Stamp {
            run: 1,
            producer: 2,
            sequence,
            group: 3,
            intended: Duration::ZERO,
        }
    }

    #[test]
    fn inputs_have_the_form_of_the_protocol() {
        let bodies = Bodies::new(1, 50);
        let (action, input) = send("u", &bodies, &[stamp(4)], true);
        let expected = format!(
            r#"{{"QueueUrl":"u","MessageBody":"{}","MessageGroupId":"g3","MessageDeduplicationId":"000000010002000000000004"}}"#,
            bodies.write(&stamp(4))
        );
        assert_eq!((action, input), (Action::SendMessage, Bytes::from(expected)));

        let (action, input) = send("u", &bodies, &[stamp(4), stamp(5)], false);
        let expected = format!(
            r#"{{"QueueUrl":"u","Entries":[{{"Id":"0","MessageBody":"{}"}},{{"Id":"1","MessageBody":"{}"}}]}}"#,
            bodies.write(&stamp(4)),
            bodies.write(&stamp(5))
        );
        assert_eq!((action, input), (Action::SendMessageBatch, Bytes::from(expected)));

        assert_eq!(
            receive("u", 10, 60, 1),
            r#"{"QueueUrl":"u","MaxNumberOfMessages":10,"VisibilityTimeout":60,"WaitTimeSeconds":1}"#
        );
        assert_eq!(delete("u", &["h"]).1, r#"{"QueueUrl":"u","ReceiptHandle":"h"}"#);
        assert_eq!(
            delete("u", &["h", "i"]).1,
            r#"{"QueueUrl":"u","Entries":[{"Id":"0","ReceiptHandle":"h"},{"Id":"1","ReceiptHandle":"i"}]}"#
        );
    }
}
