//! From what a client wants to send to the entry that is stored, and to what the client is told.

use std::sync::Arc;

use queue_core::{Content, Deduplication, EnqueueEntry, Enqueued};
use serde::Serialize;
use sha2::{Digest, Sha256};
use types::{QueueName, Sequence, limits};

use super::attributes::{self, Checked};
use super::{AttributeInput, HexDigest, UuidText, attributes_md5, check_id, digest};
use crate::message::characters;
use crate::wire::{Pairs, Text};
use crate::{ApiError, Context};

/// A message as a client wants to send it: the members that SendMessage and an entry of SendMessageBatch share.
#[derive(Debug, Default)]
pub(crate) struct Draft<'a> {
    pub(crate) body: Option<Text<'a>>,
    pub(crate) delay_seconds: Option<i64>,
    pub(crate) attributes: Pairs<'a, AttributeInput<'a>>,
    pub(crate) system_attributes: Pairs<'a, AttributeInput<'a>>,
    pub(crate) group: Option<Text<'a>>,
    pub(crate) deduplication_id: Option<Text<'a>>,
}

/// A message that has passed every check that needs no state.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    body: Text<'a>,
    delay_seconds: Option<u32>,
    attributes: Vec<Checked<'a>>,
    trace_header: Option<Checked<'a>>,
    group: Option<Text<'a>>,
    deduplication_id: Option<Text<'a>>,
    is_fifo: bool,
}

/// What a client is told of a message that it sent.
#[derive(Debug, Serialize)]
pub(crate) struct Sent<'a> {
    /// The entry's id, in the answer of a batch.
    #[serde(rename = "Id", skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "MessageId")]
    message_id: UuidText,
    #[serde(rename = "MD5OfMessageBody")]
    body_md5: HexDigest,
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    attributes_md5: Option<HexDigest>,
    #[serde(
        rename = "MD5OfMessageSystemAttributes",
        skip_serializing_if = "Option::is_none"
    )]
    system_attributes_md5: Option<HexDigest>,
    #[serde(rename = "SequenceNumber", skip_serializing_if = "Option::is_none")]
    sequence_number: Option<String>,
}

impl<'a> Draft<'a> {
    /// Returns what the message counts against the limit of a batch, before anything is checked.
    pub(crate) fn size(&self) -> u64 {
        let attribute_size = |(name, input): &(Text<'_>, AttributeInput<'_>)| {
            let of = |text: &Option<Text<'_>>| text.as_ref().map_or(0, |text| text.len());
            // Base64 takes four characters for three bytes.
            let padding = |text: &Text<'_>| text.bytes().rev().take_while(|byte| *byte == b'=').count();
            let binary = input
                .binary_value
                .as_ref()
                .map_or(0, |text| (text.len() - padding(text)) * 3 / 4);
            name.len() + of(&input.data_type) + of(&input.string_value) + binary
        };
        let body = self.body.as_ref().map_or(0, |body| body.len());
        (body + self.attributes.0.iter().map(attribute_size).sum::<usize>()) as u64
    }

    /// Checks all that needs no state.
    pub(crate) fn check(self, queue: &QueueName) -> Result<Outgoing<'a>, ApiError> {
        let is_fifo = queue.is_fifo();
        let body = self
            .body
            .filter(|body| !body.is_empty())
            .ok_or_else(|| ApiError::missing("MessageBody"))?;
        if !characters::are_allowed(&body) {
            return Err(ApiError::InvalidMessageContents);
        }
        check_ids(self.group.as_ref(), self.deduplication_id.as_ref(), is_fifo)?;
        let outgoing = Outgoing {
            body,
            delay_seconds: check_delay(self.delay_seconds, is_fifo)?,
            attributes: attributes::check_user(self.attributes)?,
            trace_header: attributes::check_system(self.system_attributes)?,
            group: self.group,
            deduplication_id: self.deduplication_id,
            is_fifo,
        };
        // The queue's own limit is the state machine's to check. What no queue can take does not get that far.
        if outgoing.size() > u64::from(*limits::MESSAGE_BYTES.end()) {
            return Err(ApiError::message_too_long(*limits::MESSAGE_BYTES.end()));
        }
        Ok(outgoing)
    }
}

fn check_ids(
    group: Option<&Text<'_>>,
    deduplication_id: Option<&Text<'_>>,
    is_fifo: bool,
) -> Result<(), ApiError> {
    match group {
        Some(group) => check_id(group, "MessageGroupId")?,
        None if is_fifo => return Err(ApiError::missing("MessageGroupId")),
        None => {}
    }
    match deduplication_id {
        Some(id) if is_fifo => check_id(id, "MessageDeduplicationId"),
        Some(id) => Err(ApiError::invalid_value(
            &**id,
            "MessageDeduplicationId",
            "The request includes a parameter that is not valid for this queue type.",
        )),
        None => Ok(()),
    }
}

fn check_delay(delay_seconds: Option<i64>, is_fifo: bool) -> Result<Option<u32>, ApiError> {
    let Some(delay_seconds) = delay_seconds else {
        return Ok(None);
    };
    let seconds = u32::try_from(delay_seconds)
        .ok()
        .filter(|seconds| limits::DELAY_SECONDS.contains(seconds))
        .ok_or_else(|| {
            let reason = format!(
                "DelaySeconds must be >= 0 and <= {}.",
                limits::DELAY_SECONDS.end()
            );
            ApiError::invalid_value(delay_seconds, "DelaySeconds", &reason)
        })?;
    match (is_fifo, seconds) {
        (false, _) => Ok(Some(seconds)),
        // Accepted, and the queue's own delay counts nevertheless.
        (true, 0) => Ok(None),
        (true, _) => Err(ApiError::invalid_value(
            seconds,
            "DelaySeconds",
            // The grammar is that of AWS.
            "The request include parameter that is not valid for this queue type.",
        )),
    }
}

impl Outgoing<'_> {
    /// Returns body and user attributes in bytes, as SQS counts them.
    fn size(&self) -> u64 {
        (self.body.len() + self.attributes.iter().map(Checked::size).sum::<usize>()) as u64
    }

    /// Returns the entry to store, and what the client is told once it is.
    pub(crate) fn into_entry(self, context: &Context<'_>) -> (EnqueueEntry, Sent<'static>) {
        let message_id = context.broker.new_message_id();
        let body_md5 = digest::md5(self.body.as_bytes());
        let body_hash: Option<[u8; 32]> = (self.is_fifo && self.deduplication_id.is_none())
            .then(|| Sha256::digest(self.body.as_bytes()).into());
        let hash_text = body_hash.as_ref().map(digest::sha256_hex);
        let given_trace = self.trace_header.as_ref().map(Checked::as_attribute);
        let content = Content {
            message_id,
            body_md5,
            sender: &context.principal.access_key_id,
            group: self.group.as_deref(),
            deduplication_id: self.deduplication_id.as_deref().or(hash_text.as_deref()),
            trace_header: self
                .trace_header
                .as_ref()
                .and_then(Checked::text)
                .or(context.trace_header),
            attributes: self.attributes.iter().map(Checked::as_attribute).collect(),
            body: &self.body,
        };
        let sent = Sent {
            id: None,
            message_id: message_id.into(),
            body_md5: HexDigest::of_md5(&body_md5),
            attributes_md5: attributes_md5(content.attributes.iter().copied())
                .as_ref()
                .map(HexDigest::of_md5),
            system_attributes_md5: attributes_md5(given_trace).as_ref().map(HexDigest::of_md5),
            sequence_number: None,
        };
        let entry = EnqueueEntry {
            message_id,
            content: Arc::from(content.encode()),
            size_bytes: u32::try_from(self.size()).expect("checked against 1 MiB"),
            delay_seconds: self.delay_seconds,
            group: self.group.as_deref().map(Box::from),
            deduplication: match (self.deduplication_id, body_hash) {
                (Some(id), _) => Some(Deduplication::Id((&*id).into())),
                (None, Some(hash)) => Some(Deduplication::BodyHash(hash)),
                (None, None) => None,
            },
        };
        (entry, sent)
    }
}

impl<'a> Sent<'a> {
    /// Makes it the answer to one entry of a batch.
    pub(crate) fn with_id(self, id: &'a str) -> Self {
        Self { id: Some(id), ..self }
    }

    /// Takes in what the broker said: a repeated send is answered with the id of the first.
    pub(crate) fn stored(self, enqueued: &Enqueued, is_fifo: bool) -> Self {
        Self {
            message_id: enqueued.message_id.into(),
            sequence_number: is_fifo.then(|| sequence_text(enqueued.sequence)),
            ..self
        }
    }
}

/// Returns a sequence number as its text: twenty digits, so that clients that compare texts are right as well.
pub(crate) fn sequence_text(sequence: Sequence) -> String {
    format!("{:020}", sequence.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft<'a>(body: &'a str) -> Draft<'a> {
        Draft {
            body: Some(Text::from(body)),
            ..Draft::default()
        }
    }

    fn check(queue: &str, draft: Draft<'_>, expected: Result<(), &str>) {
        let result = draft
            .check(&queue.parse().unwrap())
            .map(|_| ())
            .map_err(|error| error.to_string());
        assert_eq!(result, expected.map_err(str::to_owned), "{queue}");
    }

    #[test]
    fn a_standard_queue_takes_what_the_recordings_take() {
        check("q", draft("b"), Ok(()));
        check(
            "q",
            Draft::default(),
            Err("The request must contain the parameter MessageBody."),
        );
        check(
            "q",
            draft(""),
            Err("The request must contain the parameter MessageBody."),
        );
        check(
            "q",
            draft("\u{8}"),
            Err(&ApiError::InvalidMessageContents.to_string()),
        );
        let grouped = |group| Draft {
            group: Some(Text::from(group)),
            ..draft("b")
        };
        check("q", grouped("g"), Ok(()));
        check(
            "q",
            grouped(""),
            Err(
                "Value  for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include \
                 alphanumeric and punctuation characters. 1 to 128 in length.",
            ),
        );
        let delayed = |seconds| Draft {
            delay_seconds: Some(seconds),
            ..draft("b")
        };
        check("q", delayed(900), Ok(()));
        for seconds in [-1, 901, i64::MAX] {
            let text = format!(
                "Value {seconds} for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
            );
            check("q", delayed(seconds), Err(&text));
        }
        let deduplicated = Draft {
            deduplication_id: Some(Text::from("d")),
            ..draft("b")
        };
        check(
            "q",
            deduplicated,
            Err(
                "Value d for parameter MessageDeduplicationId is invalid. Reason: The request includes a parameter \
                 that is not valid for this queue type.",
            ),
        );
    }

    #[test]
    fn a_fifo_queue_needs_a_group_and_takes_no_delay() {
        let grouped = || Draft {
            group: Some(Text::from("g")),
            ..draft("b")
        };
        check("q.fifo", grouped(), Ok(()));
        check(
            "q.fifo",
            draft("b"),
            Err("The request must contain the parameter MessageGroupId."),
        );
        check(
            "q.fifo",
            Draft {
                delay_seconds: Some(0),
                ..grouped()
            },
            Ok(()),
        );
        check(
            "q.fifo",
            Draft {
                delay_seconds: Some(2),
                ..grouped()
            },
            Err(
                "Value 2 for parameter DelaySeconds is invalid. Reason: The request include parameter that is not \
                 valid for this queue type.",
            ),
        );
    }

    #[test]
    fn size_is_body_and_attributes_and_one_mebibyte_is_the_most() {
        let of = |length: usize| {
            let body = "x".repeat(length);
            let attributes = Pairs(vec![(
                Text::from("n"),
                AttributeInput {
                    data_type: Some(Text::from("Binary")),
                    string_value: None,
                    binary_value: Some(Text::from("AAEC/w==")),
                },
            )]);
            let draft = Draft {
                attributes,
                ..draft(&body)
            };
            let size = draft.size();
            (
                size,
                draft.check(&"q".parse().unwrap()).map(|outgoing| outgoing.size()),
            )
        };
        assert_eq!(of(10), (21, Ok(21)));
        let most = 1_048_576 - 11;
        assert_eq!(of(most).1, Ok(1_048_576));
        assert_eq!(
            of(most + 1).1.unwrap_err().to_string(),
            "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes."
        );
    }
}
