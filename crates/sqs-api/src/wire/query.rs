//! The parameters of a Query request: a query string and a form, read into a tree of their dotted names.
//!
//! `Attribute.2.Name=x` is the value `x` at the path `Attribute`, `2`, `Name`. Unknown parameters, those of a
//! presigned URL among them, are in the tree and nobody asks for them. Depth and number of parameters are bounded.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// Most parameters of one request. A full batch with ten attributes a message and every field set has under 600.
const PARAMETERS_MAX: usize = 2_000;
/// Most parts of a parameter's name. The longest that means something has six:
/// `SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.StringValue`.
const NAME_PARTS_MAX: usize = 6;

/// Why parameters could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryError {
    /// A name or value that is not UTF-8 once decoded.
    #[error("the parameters of the request are not valid UTF-8")]
    NotUtf8,
    /// There are more parameters than any action knows.
    #[error("the request has more than {PARAMETERS_MAX} parameters")]
    TooManyParameters,
    /// The same parameter with two values, or a value where a structure belongs.
    #[error("the parameter {0} is given twice")]
    GivenTwice(String),
    /// A parameter without which an entry of a list means nothing.
    #[error("the request must contain the parameter {0}")]
    Missing(String),
    /// A value of the wrong type.
    #[error("the value {value} of the parameter {parameter} is not {expected}")]
    Invalid {
        /// The parameter.
        parameter: String,
        /// Its value.
        value: String,
        /// What it should have been.
        expected: &'static str,
    },
    /// What a type says of a value that it does not take.
    #[error("{0}")]
    Custom(String),
}

/// The parameters of one request.
#[derive(Debug, Default)]
pub(crate) struct Parameters<'a> {
    pub(super) root: Node<'a>,
}

/// A place in the tree: the value that stands there, and the places below it.
#[derive(Debug, Default)]
pub(super) struct Node<'a> {
    pub(super) value: Option<Cow<'a, str>>,
    pub(super) children: Vec<(Cow<'a, str>, Node<'a>)>,
}

impl<'a> Parameters<'a> {
    /// Reads the query string and the body of a request. A parameter that stands in both is an error unless both
    /// say the same.
    pub(crate) fn read(query: Option<&'a str>, form: &'a [u8]) -> Result<Self, QueryError> {
        let mut parameters = Self::default();
        let mut count = 0_usize;
        for pair in [query.unwrap_or_default().as_bytes(), form]
            .into_iter()
            .flat_map(|part| part.split(|byte| *byte == b'&'))
            .filter(|pair| !pair.is_empty())
        {
            count += 1;
            if count > PARAMETERS_MAX {
                return Err(QueryError::TooManyParameters);
            }
            let equals = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let name = decode(&pair[..equals])?;
            let value = decode(pair.get(equals + 1..).unwrap_or_default())?;
            parameters.insert(name, value)?;
        }
        Ok(parameters)
    }

    /// Returns the value of a parameter whose name has one part.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.root.child(name)?.value.as_deref()
    }

    fn insert(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) -> Result<(), QueryError> {
        if name.split('.').count() > NAME_PARTS_MAX {
            return Ok(());
        }
        let node = match &name {
            Cow::Borrowed(name) => name.split('.').fold(&mut self.root, |node, part| {
                node.child_or_new(part, Cow::Borrowed)
            }),
            Cow::Owned(name) => name.split('.').fold(&mut self.root, |node, part| {
                node.child_or_new(part, |part| Cow::Owned(part.to_owned()))
            }),
        };
        match &node.value {
            Some(present) if *present != value => Err(QueryError::GivenTwice(name.into_owned())),
            Some(_) | None => {
                node.value = Some(value);
                Ok(())
            }
        }
    }
}

impl<'a> Node<'a> {
    pub(super) fn child(&self, name: &str) -> Option<&Node<'a>> {
        self.children
            .iter()
            .find(|(child_name, _)| child_name == name)
            .map(|(_, child)| child)
    }

    /// Returns the children whose names are numbers, in the order of these numbers.
    pub(super) fn numbered(&self) -> Vec<(u32, &Node<'a>)> {
        let mut numbered: Vec<_> = self
            .children
            .iter()
            .filter_map(|(name, child)| Some((name.parse().ok()?, child)))
            .collect();
        numbered.sort_by_key(|(number, _)| *number);
        numbered
    }

    fn child_or_new<'p>(
        &mut self,
        name: &'p str,
        owned: impl FnOnce(&'p str) -> Cow<'a, str>,
    ) -> &mut Node<'a> {
        // The last one first: the parameters of one entry come together.
        let at = match self
            .children
            .iter()
            .rposition(|(child_name, _)| child_name == name)
        {
            Some(at) => at,
            None => {
                self.children.push((owned(name), Node::default()));
                self.children.len() - 1
            }
        };
        &mut self.children[at].1
    }
}

fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, QueryError> {
    if !bytes.contains(&b'+') {
        return match Cow::from(percent_decode(bytes)) {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes)
                .map(Cow::Borrowed)
                .map_err(|_| QueryError::NotUtf8),
            Cow::Owned(bytes) => String::from_utf8(bytes)
                .map(Cow::Owned)
                .map_err(|_| QueryError::NotUtf8),
        };
    }
    let spaced: Vec<u8> = bytes
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    let decoded = Cow::from(percent_decode(&spaced)).into_owned();
    String::from_utf8(decoded)
        .map(Cow::Owned)
        .map_err(|_| QueryError::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_found_by_name() {
        let parameters = Parameters::read(
            Some("Action=SendMessage&Flag&Empty=&a%2eb=c"),
            b"MessageBody=a+b%26%C3%A9%zz&&Body=1=2",
        )
        .unwrap();
        for (name, expected) in [
            ("Action", Some("SendMessage")),
            ("Flag", Some("")),
            ("Empty", Some("")),
            ("MessageBody", Some("a b&é%zz")),
            ("Body", Some("1=2")),
            ("Absent", None),
            ("a.b", None),
        ] {
            assert_eq!(parameters.get(name), expected, "{name}");
        }
        assert_eq!(
            parameters
                .root
                .child("a")
                .unwrap()
                .child("b")
                .unwrap()
                .value
                .as_deref(),
            Some("c")
        );
    }

    #[test]
    fn numbers_order_by_value_and_what_is_no_number_is_left_out() {
        let parameters = Parameters::read(Some("a.10=j&a.2=b&a.x=n&a.99999999999=o&a.1=a"), b"").unwrap();
        let numbers: Vec<_> = parameters
            .root
            .child("a")
            .unwrap()
            .numbered()
            .iter()
            .map(|(n, _)| *n)
            .collect();
        assert_eq!(numbers, [1, 2, 10]);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let many = "a&".repeat(PARAMETERS_MAX + 1);
        for (query, form, expected) in [
            ("a=%FF", "", QueryError::NotUtf8),
            ("%FF=a", "", QueryError::NotUtf8),
            ("a=+%FF", "", QueryError::NotUtf8),
            ("a=1", "a=2", QueryError::GivenTwice("a".to_owned())),
            ("", many.as_str(), QueryError::TooManyParameters),
        ] {
            assert_eq!(
                Parameters::read(Some(query), form.as_bytes()).unwrap_err(),
                expected,
                "{query} {form}"
            );
        }
        assert!(Parameters::read(Some("a=1"), b"a=1").is_ok());
    }

    #[test]
    fn deep_names_are_passed_over() {
        let deep = format!("{}=1", vec!["a"; 100_000].join("."));
        let parameters = Parameters::read(None, deep.as_bytes()).unwrap();
        assert!(parameters.root.children.is_empty());
    }
}
