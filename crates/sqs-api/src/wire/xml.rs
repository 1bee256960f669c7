//! A serde writer of the XML of Query answers: compact, lists and maps flat, as AWS writes it.
//!
//! It writes the types that answers are made of (structures of texts, numbers, booleans, lists and maps) and refuses
//! the rest, which is a mistake in an answer's type and shows in any test of it.

use std::fmt::{self, Display, Write};

use serde::Serialize;
use serde::ser::{self, Impossible, SerializeMap, SerializeSeq, SerializeStruct};

use super::members::{self, BATCH_SUCCESSFUL, Shape};

/// Writes an element with the content of `value`. An empty structure becomes `<name/>`.
pub(super) fn write_element(out: &mut String, action: &str, name: &str, value: &impl Serialize) {
    let element = Element {
        out,
        action,
        name,
        member: None,
    };
    value
        .serialize(element)
        .expect("answers are made of structures, lists, maps, texts, numbers and booleans");
}

/// Writes text with what XML cannot hold replaced: markup by entities, CR by a reference because a parser would turn
/// it into LF, and characters that XML 1.0 forbids by U+FFFD.
pub(super) fn write_text(out: &mut String, text: &str) {
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        let (replacement, length) = match byte {
            b'&' => ("&amp;", 1),
            b'<' => ("&lt;", 1),
            b'>' => ("&gt;", 1),
            b'"' => ("&quot;", 1),
            b'\r' => ("&#xD;", 1),
            b'\t' | b'\n' => continue,
            0..0x20 => ("\u{fffd}", 1),
            0xef if matches!(text.as_bytes()[at..], [_, 0xbf, 0xbe | 0xbf, ..]) => ("\u{fffd}", 3),
            _ => continue,
        };
        out.push_str(&text[copied..at]);
        out.push_str(replacement);
        copied = at + length;
    }
    out.push_str(&text[copied..]);
}

/// An element about to be written.
struct Element<'w, 'n> {
    out: &'w mut String,
    action: &'n str,
    name: &'n str,
    /// The member of a structure that this is, if it is one: only members can be flat lists and maps.
    member: Option<&'static str>,
}

impl Element<'_, '_> {
    fn open(&mut self) {
        self.out.push('<');
        self.out.push_str(self.name);
        self.out.push('>');
    }

    fn text(mut self, text: &str) {
        self.open();
        write_text(self.out, text);
        close(self.out, self.name);
    }

    fn display(mut self, value: impl Display) {
        self.open();
        write!(self.out, "{value}").expect("a String takes everything");
        close(self.out, self.name);
    }
}

fn close(out: &mut String, name: &str) {
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

/// A value that no answer has.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unwritable(String);

impl ser::Error for Unwritable {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

fn unwritable<T>(what: &str) -> Result<T, Unwritable> {
    Err(Unwritable(format!("an answer cannot hold {what}")))
}

impl<'w, 'n> ser::Serializer for Element<'w, 'n> {
    type Ok = ();
    type Error = Unwritable;
    type SerializeSeq = List<'w, 'n>;
    type SerializeMap = Map<'w, 'n>;
    type SerializeStruct = Structure<'w, 'n>;
    type SerializeTuple = Impossible<(), Unwritable>;
    type SerializeTupleStruct = Impossible<(), Unwritable>;
    type SerializeTupleVariant = Impossible<(), Unwritable>;
    type SerializeStructVariant = Impossible<(), Unwritable>;

    fn serialize_str(self, text: &str) -> Result<(), Unwritable> {
        self.text(text);
        Ok(())
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Unwritable> {
        self.text(&value.to_string());
        Ok(())
    }

    fn serialize_bool(self, value: bool) -> Result<(), Unwritable> {
        self.display(value);
        Ok(())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Unwritable> {
        self.display(value);
        Ok(())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Unwritable> {
        self.display(value);
        Ok(())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Unwritable> {
        self.display(value);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Unwritable> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    /// A unit is the answer of an action that has none: no element at all.
    fn serialize_unit(self) -> Result<(), Unwritable> {
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Unwritable> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<List<'w, 'n>, Unwritable> {
        let item = match self.member {
            Some(BATCH_SUCCESSFUL) => format!("{}ResultEntry", self.action),
            Some(member) => members::of_answer(member).0.to_owned(),
            None => return unwritable("a list outside a structure"),
        };
        Ok(List {
            out: self.out,
            action: self.action,
            item,
        })
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Map<'w, 'n>, Unwritable> {
        let member = self.member.map(members::of_answer);
        let Some((entry, Shape::Map { key, value })) = member else {
            return unwritable("a map whose entries have no name");
        };
        Ok(Map {
            out: self.out,
            action: self.action,
            entry,
            key,
            value,
        })
    }

    fn serialize_struct(
        mut self,
        _name: &'static str,
        _length: usize,
    ) -> Result<Structure<'w, 'n>, Unwritable> {
        self.open();
        Ok(Structure {
            content_from: self.out.len(),
            out: self.out,
            action: self.action,
            name: self.name,
        })
    }

    fn serialize_i8(self, value: i8) -> Result<(), Unwritable> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Unwritable> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Unwritable> {
        self.serialize_i64(value.into())
    }

    fn serialize_u8(self, value: u8) -> Result<(), Unwritable> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Unwritable> {
        self.serialize_u64(value.into())
    }

    fn serialize_f32(self, _value: f32) -> Result<(), Unwritable> {
        unwritable("a float")
    }

    fn serialize_f64(self, _value: f64) -> Result<(), Unwritable> {
        unwritable("a float")
    }

    fn serialize_char(self, _value: char) -> Result<(), Unwritable> {
        unwritable("a character")
    }

    fn serialize_bytes(self, _value: &[u8]) -> Result<(), Unwritable> {
        unwritable("raw bytes")
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Unwritable> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<(), Unwritable> {
        unwritable("a variant")
    }

    fn serialize_tuple(self, _length: usize) -> Result<Self::SerializeTuple, Unwritable> {
        unwritable("a tuple")
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleStruct, Unwritable> {
        unwritable("a tuple")
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleVariant, Unwritable> {
        unwritable("a variant")
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeStructVariant, Unwritable> {
        unwritable("a variant")
    }
}

/// A structure whose members are being written.
struct Structure<'w, 'n> {
    out: &'w mut String,
    action: &'n str,
    name: &'n str,
    content_from: usize,
}

impl SerializeStruct for Structure<'_, '_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Unwritable> {
        value.serialize(Element {
            out: self.out,
            action: self.action,
            name: key,
            member: Some(key),
        })
    }

    fn end(self) -> Result<(), Unwritable> {
        if self.out.len() == self.content_from {
            self.out.truncate(self.content_from - 1);
            self.out.push_str("/>");
        } else {
            close(self.out, self.name);
        }
        Ok(())
    }
}

/// A list whose items are being written, one element each.
struct List<'w, 'n> {
    out: &'w mut String,
    action: &'n str,
    item: String,
}

impl SerializeSeq for List<'_, '_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        value.serialize(Element {
            out: self.out,
            action: self.action,
            name: &self.item,
            member: None,
        })
    }

    fn end(self) -> Result<(), Unwritable> {
        Ok(())
    }
}

/// A map whose entries are being written, one element with two parts each.
struct Map<'w, 'n> {
    out: &'w mut String,
    action: &'n str,
    entry: &'static str,
    key: &'static str,
    value: &'static str,
}

impl Map<'_, '_> {
    fn part<T: Serialize + ?Sized>(&mut self, name: &str, part: &T) -> Result<(), Unwritable> {
        part.serialize(Element {
            out: self.out,
            action: self.action,
            name,
            member: None,
        })
    }
}

impl SerializeMap for Map<'_, '_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unwritable> {
        self.out.push('<');
        self.out.push_str(self.entry);
        self.out.push('>');
        self.part(self.key, key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.part(self.value, value)?;
        close(self.out, self.entry);
        Ok(())
    }

    fn end(self) -> Result<(), Unwritable> {
        Ok(())
    }
}

impl fmt::Debug for Element<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize, Default)]
    #[serde(rename_all = "PascalCase")]
    struct Answer {
        #[serde(skip_serializing_if = "Option::is_none")]
        queue_url: Option<&'static str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        queue_urls: Vec<&'static str>,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        attributes: BTreeMap<&'static str, String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        successful: Vec<Item>,
        #[serde(skip_serializing_if = "Option::is_none")]
        sender_fault: Option<bool>,
    }

    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Item {
        id: &'static str,
    }

    fn check(answer: &impl Serialize, expected: &str) {
        let mut out = String::new();
        write_element(&mut out, "SendMessageBatch", "R", answer);
        assert_eq!(out, expected);
    }

    #[test]
    fn lists_and_maps_are_flat_and_nothing_stands_between_the_tags() {
        check(&Answer::default(), "<R/>");
        check(&(), "");
        check(
            &Answer {
                queue_url: Some("http://h/q"),
                queue_urls: vec!["a", "b"],
                attributes: BTreeMap::from([("QueueArn", "arn:aws:sqs".to_owned()), ("X", String::new())]),
                successful: vec![Item { id: "1" }],
                sender_fault: Some(true),
            },
            "<R><QueueUrl>http://h/q</QueueUrl><QueueUrl>a</QueueUrl><QueueUrl>b</QueueUrl>\
             <Attribute><Name>QueueArn</Name><Value>arn:aws:sqs</Value></Attribute>\
             <Attribute><Name>X</Name><Value></Value></Attribute>\
             <SendMessageBatchResultEntry><Id>1</Id></SendMessageBatchResultEntry>\
             <SenderFault>true</SenderFault></R>",
        );
    }

    #[test]
    fn text_that_xml_cannot_hold_is_replaced() {
        for (text, expected) in [
            ("plain é 😀", "plain é 😀"),
            ("a&b<c>d\"e'f", "a&amp;b&lt;c&gt;d&quot;e'f"),
            ("&quot;", "&amp;quot;"),
            ("\r\n\t\r", "&#xD;\n\t&#xD;"),
            ("\0\u{8}\u{1f}", "\u{fffd}\u{fffd}\u{fffd}"),
            ("a\u{ffff}b\u{fffe}", "a\u{fffd}b\u{fffd}"),
            ("\u{fffd}\u{fffc}", "\u{fffd}\u{fffc}"),
        ] {
            let mut out = String::new();
            write_text(&mut out, text);
            assert_eq!(out, expected, "{text:?}");
        }
    }
}
