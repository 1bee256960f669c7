//! The stored form of what a client sent: body, attributes, ids and digests of one message.
//!
//! The state machine carries these bytes and never looks inside. They are written once by the API that took the
//! message and read by every API that shows it. Drawn byte by byte in `docs/formats/content.md`.

use types::MessageId;

/// The parts of a stored message, borrowed from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content<'a> {
    /// The id that the message was sent with; a move task gives it another, which its delivery shows.
    pub message_id: MessageId,
    /// MD5 of the body, computed once when it came in.
    pub body_md5: [u8; 16],
    /// Who sent it: what SenderId shows.
    pub sender: &'a str,
    /// The message group.
    pub group: Option<&'a str>,
    /// The deduplication id, given or computed.
    pub deduplication_id: Option<&'a str>,
    /// The AWSTraceHeader system attribute.
    pub trace_header: Option<&'a str>,
    /// The user attributes in the order of the request.
    pub attributes: Vec<Attribute<'a>>,
    /// The body.
    pub body: &'a str,
}

/// One user attribute of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its full data type, custom label included.
    pub data_type: &'a str,
    /// Its value.
    pub value: AttributeValue<'a>,
}

/// The value of a user attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// Of a String or Number.
    Text(&'a str),
    /// Of a Binary.
    Binary(&'a [u8]),
}

/// Bytes that are not a stored message of a known version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the stored form of a message: {0}")]
pub struct ContentError(&'static str);

const VERSION: u8 = 1;
const HAS_GROUP: u8 = 1;
const HAS_DEDUPLICATION: u8 = 2;
const HAS_TRACE: u8 = 4;
const TEXT: u8 = 1;
const BINARY: u8 = 2;

impl<'a> Content<'a> {
    /// Returns the stored form. Texts longer than their length field are cut by nobody: the API's limits (256 bytes
    /// for names, 1 MiB for all) are far below.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(64 + self.sender.len() + self.body.len() + self.attributes.len() * 64);
        let flag = |present: bool, bit: u8| if present { bit } else { 0 };
        bytes.push(VERSION);
        bytes.push(
            flag(self.group.is_some(), HAS_GROUP)
                | flag(self.deduplication_id.is_some(), HAS_DEDUPLICATION)
                | flag(self.trace_header.is_some(), HAS_TRACE),
        );
        bytes.extend_from_slice(self.message_id.as_bytes());
        bytes.extend_from_slice(&self.body_md5);
        put(&mut bytes, self.sender.as_bytes());
        for text in [self.group, self.deduplication_id, self.trace_header]
            .into_iter()
            .flatten()
        {
            put(&mut bytes, text.as_bytes());
        }
        put_length(&mut bytes, self.attributes.len());
        for attribute in &self.attributes {
            put(&mut bytes, attribute.name.as_bytes());
            put(&mut bytes, attribute.data_type.as_bytes());
            match attribute.value {
                AttributeValue::Text(text) => {
                    bytes.push(TEXT);
                    put(&mut bytes, text.as_bytes());
                }
                AttributeValue::Binary(value) => {
                    bytes.push(BINARY);
                    put(&mut bytes, value);
                }
            }
        }
        bytes.extend_from_slice(self.body.as_bytes());
        bytes
    }

    /// Reads the stored form back.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ContentError> {
        let mut rest = bytes;
        let [version, flags] = array(&mut rest)?;
        if version != VERSION {
            return Err(ContentError("unknown version"));
        }
        let message_id = MessageId::from_bytes(array(&mut rest)?);
        let body_md5 = array(&mut rest)?;
        let sender = text(&mut rest)?;
        let mut optional = |bit: u8| {
            if flags & bit == 0 {
                Ok(None)
            } else {
                text(&mut rest).map(Some)
            }
        };
        let group = optional(HAS_GROUP)?;
        let deduplication_id = optional(HAS_DEDUPLICATION)?;
        let trace_header = optional(HAS_TRACE)?;
        let count = length(&mut rest)?;
        let mut attributes = Vec::with_capacity(count.min(16));
        for _ in 0..count {
            let name = text(&mut rest)?;
            let data_type = text(&mut rest)?;
            let value = match array::<1>(&mut rest)? {
                [TEXT] => AttributeValue::Text(text(&mut rest)?),
                [BINARY] => AttributeValue::Binary(block(&mut rest)?),
                _ => return Err(ContentError("unknown kind of attribute value")),
            };
            attributes.push(Attribute {
                name,
                data_type,
                value,
            });
        }
        let body = std::str::from_utf8(rest).map_err(|_| ContentError("the body is not UTF-8"))?;
        Ok(Self {
            message_id,
            body_md5,
            sender,
            group,
            deduplication_id,
            trace_header,
            attributes,
            body,
        })
    }
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).expect("a request is bounded far below 4 GiB");
    bytes.extend_from_slice(&length.to_le_bytes());
}

fn put(bytes: &mut Vec<u8>, block: &[u8]) {
    put_length(bytes, block.len());
    bytes.extend_from_slice(block);
}

fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], ContentError> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(ContentError("cut short"))?;
    *rest = tail;
    Ok(*head)
}

fn length(rest: &mut &[u8]) -> Result<usize, ContentError> {
    usize::try_from(u32::from_le_bytes(array(rest)?)).map_err(|_| ContentError("length"))
}

fn block<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], ContentError> {
    let length = length(rest)?;
    let (head, tail) = rest.split_at_checked(length).ok_or(ContentError("cut short"))?;
    *rest = tail;
    Ok(head)
}

fn text<'a>(rest: &mut &'a [u8]) -> Result<&'a str, ContentError> {
    std::str::from_utf8(block(rest)?).map_err(|_| ContentError("a text is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Content<'static> {
        Content {
            message_id: MessageId::from_random([7; 16]),
            body_md5: [9; 16],
            sender: "000000000000",
            group: Some("g"),
            deduplication_id: None,
            trace_header: Some("Root=1"),
            attributes: vec![
                Attribute {
                    name: "color",
                    data_type: "String",
                    value: AttributeValue::Text("red"),
                },
                Attribute {
                    name: "raw",
                    data_type: "Binary.x",
                    value: AttributeValue::Binary(&[0, 255]),
                },
            ],
            body: "hello",
        }
    }

    #[test]
    fn content_round_trips() {
        let bytes = example().encode();
        assert_eq!(Content::decode(&bytes).unwrap(), example());
    }

    #[test]
    fn a_cut_anywhere_before_the_body_is_an_error() {
        let bytes = example().encode();
        for length in 0..bytes.len() - example().body.len() {
            assert!(Content::decode(&bytes[..length]).is_err(), "cut at {length}");
        }
    }
}
