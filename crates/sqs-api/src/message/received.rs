//! A message on its way out: which attributes were asked for, and how they look.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use queue_core::content::{Attribute, AttributeValue};
use queue_core::{Content, Delivery};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use types::Region;

use super::{HexDigest, UuidText, attributes_md5, sequence_text};
use crate::queue_url;
use crate::wire::Text;

/// A system attribute of a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SystemAttribute {
    SenderId,
    SentTimestamp,
    ApproximateReceiveCount,
    ApproximateFirstReceiveTimestamp,
    SequenceNumber,
    MessageDeduplicationId,
    MessageGroupId,
    TraceHeader,
    DeadLetterQueueSourceArn,
}

impl SystemAttribute {
    const ALL: [Self; 9] = [
        Self::SenderId,
        Self::SentTimestamp,
        Self::ApproximateReceiveCount,
        Self::ApproximateFirstReceiveTimestamp,
        Self::SequenceNumber,
        Self::MessageDeduplicationId,
        Self::MessageGroupId,
        Self::TraceHeader,
        Self::DeadLetterQueueSourceArn,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::SenderId => "SenderId",
            Self::SentTimestamp => "SentTimestamp",
            Self::ApproximateReceiveCount => "ApproximateReceiveCount",
            Self::ApproximateFirstReceiveTimestamp => "ApproximateFirstReceiveTimestamp",
            Self::SequenceNumber => "SequenceNumber",
            Self::MessageDeduplicationId => "MessageDeduplicationId",
            Self::MessageGroupId => "MessageGroupId",
            Self::TraceHeader => "AWSTraceHeader",
            Self::DeadLetterQueueSourceArn => "DeadLetterQueueSourceArn",
        }
    }
}

/// What a receive asked for beside the bodies.
#[derive(Debug, Default)]
pub(crate) struct Wanted<'a> {
    /// Names of system attributes, from both parameters that can hold them.
    pub(crate) system: Vec<Text<'a>>,
    /// Patterns of user attributes.
    pub(crate) user: Vec<Text<'a>>,
    /// Whether the queue numbers its messages for clients.
    pub(crate) is_fifo: bool,
}

impl Wanted<'_> {
    fn wants_system(&self, attribute: SystemAttribute) -> bool {
        self.system
            .iter()
            .any(|name| name.as_str() == "All" || name.as_str() == attribute.name())
    }

    fn wants_user(&self, name: &str) -> bool {
        self.user.iter().any(|pattern| match pattern.as_str() {
            "All" | ".*" | "*" => true,
            // A prefix, with no word boundary: `Hel.*` asks for `Hello` as well as for `Help.Me`.
            other => match other.strip_suffix(".*") {
                Some(prefix) => name.starts_with(prefix),
                None => name == other,
            },
        })
    }
}

/// A received message as the client sees it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Message<'a> {
    message_id: UuidText,
    receipt_handle: String,
    #[serde(rename = "MD5OfBody")]
    body_md5: HexDigest,
    body: &'a str,
    #[serde(skip_serializing_if = "SystemAttributes::is_empty")]
    attributes: SystemAttributes<'a>,
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    attributes_md5: Option<HexDigest>,
    #[serde(skip_serializing_if = "UserAttributes::is_empty")]
    message_attributes: UserAttributes<'a>,
}

impl<'a> Message<'a> {
    /// Makes the message of what is stored and how it was delivered.
    pub(crate) fn new(
        content: Content<'a>,
        delivery: &Delivery,
        receipt_handle: String,
        wanted: &Wanted<'_>,
        region: &Region,
    ) -> Self {
        let attributes = system_attributes(&content, delivery, wanted, region);
        let mut user = content.attributes;
        user.retain(|attribute| wanted.wants_user(attribute.name));
        Self {
            // The content is never rewritten: the id that a move task gave stands beside it.
            message_id: delivery.message_id.unwrap_or(content.message_id).into(),
            receipt_handle,
            body_md5: HexDigest::of_md5(&content.body_md5),
            body: content.body,
            attributes: SystemAttributes(attributes),
            // Over the attributes that are returned, so the client can check what it got.
            attributes_md5: attributes_md5(user.iter().copied())
                .as_ref()
                .map(HexDigest::of_md5),
            message_attributes: UserAttributes(user),
        }
    }
}

fn system_attributes<'a>(
    content: &Content<'a>,
    delivery: &Delivery,
    wanted: &Wanted<'_>,
    region: &Region,
) -> Vec<(&'static str, TextValue<'a>)> {
    if wanted.system.is_empty() {
        return Vec::new();
    }
    let value = |attribute| match attribute {
        SystemAttribute::SenderId => Some(content.sender.into()),
        SystemAttribute::SentTimestamp => Some(delivery.sent.as_millis().to_string().into()),
        SystemAttribute::ApproximateReceiveCount => Some(delivery.receive_count.to_string().into()),
        SystemAttribute::ApproximateFirstReceiveTimestamp => {
            Some(delivery.first_received.as_millis().to_string().into())
        }
        SystemAttribute::SequenceNumber => wanted
            .is_fifo
            .then(|| sequence_text(delivery.handle.sequence).into()),
        SystemAttribute::MessageDeduplicationId => content.deduplication_id.map(Into::into),
        SystemAttribute::MessageGroupId => content.group.map(Into::into),
        SystemAttribute::TraceHeader => content.trace_header.map(Into::into),
        SystemAttribute::DeadLetterQueueSourceArn => delivery
            .dead_letter_source
            .as_ref()
            .map(|key| queue_url::arn(region, key).into()),
    };
    SystemAttribute::ALL
        .into_iter()
        .filter(|attribute| wanted.wants_system(*attribute))
        .filter_map(|attribute| Some((attribute.name(), value(attribute)?)))
        .collect()
}

type TextValue<'a> = std::borrow::Cow<'a, str>;

/// System attributes, written as a map.
#[derive(Debug)]
struct SystemAttributes<'a>(Vec<(&'static str, TextValue<'a>)>);

impl SystemAttributes<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for SystemAttributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// User attributes, written as a map.
#[derive(Debug)]
struct UserAttributes<'a>(Vec<Attribute<'a>>);

impl UserAttributes<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for UserAttributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Value<'v> {
            #[serde(skip_serializing_if = "Option::is_none")]
            string_value: Option<&'v str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            binary_value: Option<String>,
            data_type: &'v str,
        }
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for attribute in &self.0 {
            let (string_value, binary_value) = match attribute.value {
                AttributeValue::Text(text) => (Some(text), None),
                AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
            };
            let value = Value {
                string_value,
                binary_value,
                data_type: attribute.data_type,
            };
            map.serialize_entry(attribute.name, &value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patterns: &[&str], expected: &[&str]) {
        let wanted = Wanted {
            user: patterns.iter().map(|pattern| Text::from(*pattern)).collect(),
            ..Wanted::default()
        };
        let names = ["Hello", "Help.Me", "Help", "Other"];
        let found: Vec<&str> = names.into_iter().filter(|name| wanted.wants_user(name)).collect();
        assert_eq!(found, expected, "{patterns:?}");
    }

    #[test]
    fn filters_of_user_attributes_are_exact_names_prefixes_or_everything() {
        let all = ["Hello", "Help.Me", "Help", "Other"];
        for everything in ["All", ".*", "*"] {
            check(&[everything], &all);
        }
        check(&[], &[]);
        check(&["Hel.*"], &["Hello", "Help.Me", "Help"]);
        check(&["Help"], &["Help"]);
        check(&["Help.*"], &["Help.Me", "Help"]);
        check(&["Other", "Hello"], &["Hello", "Other"]);
        check(&["AWS.", "..foo", ""], &[]);
    }

    #[test]
    fn system_attributes_are_those_that_are_named() {
        let wanted = |names: &[&'static str]| Wanted {
            system: names.iter().map(|name| Text::from(*name)).collect(),
            ..Wanted::default()
        };
        let count = |wanted: &Wanted<'_>| {
            SystemAttribute::ALL
                .into_iter()
                .filter(|attribute| wanted.wants_system(*attribute))
                .count()
        };
        assert_eq!(count(&wanted(&[])), 0);
        assert_eq!(count(&wanted(&["SenderId", "Nonsense"])), 1);
        assert_eq!(count(&wanted(&["SenderId", "All"])), 9);
    }
}
