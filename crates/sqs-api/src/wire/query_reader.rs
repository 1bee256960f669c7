//! A serde reader over the parameters of a Query request, which reads the types that JSON is read into.
//!
//! A structure asks for its members by name, so that unknown parameters never matter; what a member is called and
//! whether it is a list or a map comes from [`members`](super::members). Numbers and booleans are parsed from text.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use super::members::{self, BATCH_ENTRIES, BATCH_ENTRY_SUFFIX, Shape};
use super::query::{Node, Parameters, QueryError};

impl Parameters<'_> {
    /// Reads the typed request.
    pub(super) fn to_request<'de, T: Deserialize<'de>>(&'de self) -> Result<T, QueryError> {
        T::deserialize(Reader {
            node: &self.root,
            path: String::new(),
            shape: Shape::One,
        })
    }
}

impl de::Error for QueryError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Custom(message.to_string())
    }
}

/// Reads what stands at one place of the tree.
struct Reader<'de> {
    node: &'de Node<'de>,
    path: String,
    shape: Shape,
}

impl<'de> Reader<'de> {
    fn text(&self) -> Result<&'de str, QueryError> {
        self.node
            .value
            .as_deref()
            .ok_or_else(|| QueryError::Missing(self.path.clone()))
    }

    fn parse<T: std::str::FromStr>(&self, expected: &'static str) -> Result<T, QueryError> {
        let text = self.text()?;
        text.parse().map_err(|_| QueryError::Invalid {
            parameter: self.path.clone(),
            value: text.to_owned(),
            expected,
        })
    }

    fn below(&self, node: &'de Node<'de>, part: impl std::fmt::Display, shape: Shape) -> Self {
        let path = if self.path.is_empty() {
            part.to_string()
        } else {
            format!("{}.{part}", self.path)
        };
        Self { node, path, shape }
    }

    /// Returns the reader of a structure's member, if the request has it.
    fn member(&self, name: &'static str) -> Option<Self> {
        if name == BATCH_ENTRIES {
            let (child_name, child) = self
                .node
                .children
                .iter()
                .find(|(child_name, _)| child_name.ends_with(BATCH_ENTRY_SUFFIX))?;
            return Some(self.below(child, child_name, Shape::List));
        }
        let (flat_name, shape) = members::of_request(name);
        // Some clients write the name of the whole list before each number.
        let child = self.node.child(flat_name).map(|child| (flat_name, child));
        let (flat_name, child) = child.or_else(|| Some((name, self.node.child(name)?)))?;
        Some(self.below(child, flat_name, shape))
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = QueryError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_bool(self.parse("a boolean")?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_i64(self.parse("an integer")?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        let mut items: Vec<_> = self
            .node
            .numbered()
            .into_iter()
            .map(|(number, node)| self.below(node, number, Shape::One))
            .collect();
        // `AttributeName=All`, without a number, is a list of one.
        if items.is_empty() && self.node.value.is_some() {
            items.push(Reader {
                shape: Shape::One,
                ..self
            });
        }
        items.reverse();
        visitor.visit_seq(Items(items))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        let Shape::Map { key, value } = self.shape else {
            return Err(QueryError::Custom(format!("{} is no map", self.path)));
        };
        let part = |entry: &Self, name| {
            let child = entry.node.child(name);
            let child = child.ok_or_else(|| QueryError::Missing(format!("{}.{name}", entry.path)))?;
            Ok(entry.below(child, name, Shape::One))
        };
        let mut entries = Vec::new();
        for (number, node) in self.node.numbered() {
            let entry = self.below(node, number, Shape::One);
            entries.push((part(&entry, key)?, part(&entry, value)?));
        }
        // `Attribute.Name=Policy&Attribute.Value=..`, without a number, is a map of one.
        if entries.is_empty() {
            entries.push((part(&self, key)?, part(&self, value)?));
        }
        entries.reverse();
        visitor.visit_map(Entries { entries, value: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        visitor.visit_map(Members {
            structure: self,
            fields: fields.iter(),
            value: None,
        })
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct
        tuple tuple_struct enum identifier ignored_any
    }
}

/// The items of a list, the last one first.
struct Items<'de>(Vec<Reader<'de>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = QueryError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, QueryError> {
        self.0.pop().map(|item| seed.deserialize(item)).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The entries of a map, the last one first.
struct Entries<'de> {
    entries: Vec<(Reader<'de>, Reader<'de>)>,
    value: Option<Reader<'de>>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = QueryError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, QueryError> {
        let Some((key, value)) = self.entries.pop() else {
            return Ok(None);
        };
        self.value = Some(value);
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, QueryError> {
        seed.deserialize(self.value.take().expect("serde asks for a value after its key"))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// The members of a structure that the request has.
struct Members<'de> {
    structure: Reader<'de>,
    fields: std::slice::Iter<'static, &'static str>,
    value: Option<Reader<'de>>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = QueryError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, QueryError> {
        for field in self.fields.by_ref() {
            if let Some(member) = self.structure.member(field) {
                self.value = Some(member);
                return seed.deserialize(BorrowedStrDeserializer::new(field)).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, QueryError> {
        seed.deserialize(self.value.take().expect("serde asks for a value after its key"))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::wire::{Pairs, Text};

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "PascalCase")]
    struct Example<'a> {
        #[serde(borrow)]
        queue_url: Option<Text<'a>>,
        delay_seconds: Option<i64>,
        #[serde(default, borrow)]
        attribute_names: Vec<Text<'a>>,
        #[serde(default, borrow)]
        attributes: Pairs<'a, Text<'a>>,
        #[serde(default, borrow, rename = "tags", alias = "Tags")]
        tags: Pairs<'a, Text<'a>>,
        #[serde(default, borrow)]
        entries: Vec<Entry<'a>>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "PascalCase")]
    struct Entry<'a> {
        #[serde(borrow)]
        id: Option<Text<'a>>,
        #[serde(default, borrow)]
        message_attributes: Pairs<'a, Value<'a>>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "PascalCase")]
    struct Value<'a> {
        #[serde(borrow)]
        data_type: Option<Text<'a>>,
    }

    fn check_equal(query: &str, json: &str) {
        let parameters = Parameters::read(Some(query), b"").unwrap();
        let expected: Example<'_> = serde_json::from_str(json).unwrap();
        assert_eq!(
            parameters.to_request::<Example<'_>>().unwrap(),
            expected,
            "{query}"
        );
    }

    #[test]
    fn flat_parameters_read_as_json_does() {
        check_equal("Action=X&X-Amz-Signature=1", "{}");
        check_equal(
            "QueueUrl=q&DelaySeconds=-3",
            r#"{"QueueUrl":"q","DelaySeconds":-3}"#,
        );
        check_equal("QueueUrl=", r#"{"QueueUrl":""}"#);
        let names = r#"{"AttributeNames":["All","Policy"]}"#;
        check_equal("AttributeName.2=Policy&AttributeName.1=All", names);
        check_equal("AttributeNames.1=All&AttributeNames.2=Policy", names);
        check_equal("AttributeName=All", r#"{"AttributeNames":["All"]}"#);
        check_equal(
            "Attribute.1.Name=a&Attribute.1.Value=1&Attribute.2.Value=&Attribute.2.Name=b",
            r#"{"Attributes":{"a":"1","b":""}}"#,
        );
        check_equal(
            "Attribute.Name=a&Attribute.Value=1",
            r#"{"Attributes":{"a":"1"}}"#,
        );
        check_equal("Tag.1.Key=a&Tag.1.Value=1", r#"{"tags":{"a":"1"}}"#);
        check_equal("Tags.1.Key=a&Tags.1.Value=1", r#"{"Tags":{"a":"1"}}"#);
        check_equal(
            "SendMessageBatchRequestEntry.1.Id=a\
             &SendMessageBatchRequestEntry.1.MessageAttribute.1.Name=n\
             &SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.DataType=String\
             &SendMessageBatchRequestEntry.2.Id=b",
            r#"{"Entries":[{"Id":"a","MessageAttributes":{"n":{"DataType":"String"}}},{"Id":"b"}]}"#,
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (query, expected) in [
            (
                "DelaySeconds=x",
                QueryError::Invalid {
                    parameter: "DelaySeconds".to_owned(),
                    value: "x".to_owned(),
                    expected: "an integer",
                },
            ),
            (
                "Attribute.1.Name=a",
                QueryError::Missing("Attribute.1.Value".to_owned()),
            ),
            (
                "Attribute.7.Value=a",
                QueryError::Missing("Attribute.7.Name".to_owned()),
            ),
            ("Attribute.x=a", QueryError::Missing("Attribute.Name".to_owned())),
            ("QueueUrl.1=a", QueryError::Missing("QueueUrl".to_owned())),
        ] {
            let parameters = Parameters::read(Some(query), b"").unwrap();
            assert_eq!(
                parameters.to_request::<Example<'_>>().unwrap_err(),
                expected,
                "{query}"
            );
        }
    }
}
