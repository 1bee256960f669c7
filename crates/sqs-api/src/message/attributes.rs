//! User and system attributes of a message: their rules and their MD5.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use md5::{Digest, Md5};
use queue_core::content::{Attribute, AttributeValue};
use serde::Deserialize;
use types::limits;

use super::characters;
use crate::ApiError;
use crate::wire::{Pairs, Text};

/// Some clients leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The only system attribute that a client can send.
const TRACE_HEADER: &str = "AWSTraceHeader";
/// The magnitudes that a Number can have.
const NUMBER_MAGNITUDES: std::ops::RangeInclusive<f64> = 1e-128..=1e126;

/// An attribute's value as a client sends it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct AttributeInput<'a> {
    #[serde(borrow)]
    pub(crate) data_type: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) string_value: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) binary_value: Option<Text<'a>>,
}

/// An attribute that has been checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Checked<'a> {
    pub(super) name: Text<'a>,
    data_type: Text<'a>,
    value: Value<'a>,
}

#[derive(Debug, Clone, PartialEq)]
enum Value<'a> {
    Text(Text<'a>),
    Binary(Vec<u8>),
}

/// What a data type begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BaseType {
    String,
    Number,
    Binary,
}

impl Checked<'_> {
    /// Returns the attribute in the form that is stored and hashed.
    pub(super) fn as_attribute(&self) -> Attribute<'_> {
        Attribute {
            name: &self.name,
            data_type: &self.data_type,
            value: match &self.value {
                Value::Text(text) => AttributeValue::Text(text),
                Value::Binary(bytes) => AttributeValue::Binary(bytes),
            },
        }
    }

    /// Returns the value of a String or Number.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Binary(_) => None,
        }
    }

    /// Returns what the attribute adds to a message's size.
    pub(super) fn size(&self) -> usize {
        let value = match &self.value {
            Value::Text(text) => text.len(),
            Value::Binary(bytes) => bytes.len(),
        };
        self.name.len() + self.data_type.len() + value
    }
}

/// Checks user attributes.
pub(super) fn check_user<'a>(
    attributes: Pairs<'a, AttributeInput<'a>>,
) -> Result<Vec<Checked<'a>>, ApiError> {
    if attributes.0.len() > limits::MESSAGE_ATTRIBUTES_MAX {
        return Err(ApiError::InvalidParameterValue(format!(
            "Number of message attributes [{}] exceeds the allowed maximum [{}].",
            attributes.0.len(),
            limits::MESSAGE_ATTRIBUTES_MAX
        )));
    }
    let mut checked: Vec<Checked<'a>> = Vec::with_capacity(attributes.0.len());
    for (name, input) in attributes.0 {
        check_name(&name)?;
        if checked.iter().any(|earlier| earlier.name == name) {
            return Err(invalid(format!(
                "Message (user) attribute name '{}' is given twice.",
                &*name
            )));
        }
        let (data_type, value) = check_value(&name, input, "user")?;
        checked.push(Checked {
            name,
            data_type,
            value,
        });
    }
    Ok(checked)
}

/// Checks system attributes and returns the trace header, if it is given.
pub(super) fn check_system<'a>(
    attributes: Pairs<'a, AttributeInput<'a>>,
) -> Result<Option<Checked<'a>>, ApiError> {
    let mut trace_header = None;
    for (name, input) in attributes.0 {
        if name.as_str() != TRACE_HEADER {
            return Err(invalid(format!(
                "Message system attribute name '{}' is invalid.",
                &*name
            )));
        }
        let (data_type, value) = check_value(&name, input, "system")?;
        if data_type.as_str() != "String" {
            return Err(invalid(format!(
                "The message system attribute '{}' with type '{}' must use type 'String'.",
                &*name, &*data_type
            )));
        }
        trace_header = Some(Checked {
            name,
            data_type,
            value,
        });
    }
    Ok(trace_header)
}

/// Returns the MD5 that SQS gives of attributes; `None` if there are none.
///
/// Over the attributes by name: name, data type, one byte for the kind of value, and value, each with its length.
pub(crate) fn attributes_md5<'a>(attributes: impl IntoIterator<Item = Attribute<'a>>) -> Option<[u8; 16]> {
    let mut sorted: Vec<Attribute<'a>> = attributes.into_iter().collect();
    if sorted.is_empty() {
        return None;
    }
    sorted.sort_unstable_by_key(|attribute| attribute.name);
    let mut md5 = Md5::new();
    for attribute in &sorted {
        add_block(&mut md5, attribute.name.as_bytes());
        add_block(&mut md5, attribute.data_type.as_bytes());
        let (kind, value) = match attribute.value {
            AttributeValue::Text(text) => (1, text.as_bytes()),
            AttributeValue::Binary(bytes) => (2, bytes),
        };
        md5.update([kind]);
        add_block(&mut md5, value);
    }
    Some(md5.finalize().into())
}

fn add_block(md5: &mut Md5, block: &[u8]) {
    let length = u32::try_from(block.len()).expect("a request is bounded far below 4 GiB");
    md5.update(length.to_be_bytes());
    md5.update(block);
}

fn check_name(name: &str) -> Result<(), ApiError> {
    if name.is_empty() {
        return Err(invalid(
            "The request must contain non-empty message (user) attribute names.".to_owned(),
        ));
    }
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.len() > limits::MESSAGE_ATTRIBUTE_NAME_BYTES_MAX {
        Err(invalid(format!(
            "Message (user) attribute name '{name}' can be at most {} bytes long.",
            limits::MESSAGE_ATTRIBUTE_NAME_BYTES_MAX
        )))
    } else if has_prefix(name, "AWS.") || has_prefix(name, "Amazon.") {
        Err(invalid(format!(
            "Message (user) attribute name '{name}' can't start with the reserved prefixes 'AWS.' and 'Amazon.'."
        )))
    } else if name.starts_with('.') || name.ends_with('.') || name.contains("..") {
        Err(invalid(format!(
            "Message (user) attribute name '{name}' can't start or end with a period or have periods in succession."
        )))
    } else if !name.chars().all(is_word) {
        Err(invalid(format!(
            "Message (user) attribute name '{name}' can only include letters, digits, underscores, hyphens and \
             periods."
        )))
    } else {
        Ok(())
    }
}

fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

fn check_value<'a>(
    name: &str,
    input: AttributeInput<'a>,
    owner: &str,
) -> Result<(Text<'a>, Value<'a>), ApiError> {
    let data_type = input
        .data_type
        .filter(|data_type| !data_type.is_empty())
        .ok_or_else(|| {
            invalid(format!(
                "The message attribute '{name}' must contain non-empty message attribute type."
            ))
        })?;
    let base = base_type(&data_type).ok_or_else(|| {
        invalid(format!(
            "The message attribute '{name}' has an invalid message attribute type, the set of supported type \
             prefixes is Binary, Number, and String."
        ))
    })?;
    let value = match base {
        BaseType::String | BaseType::Number => input.string_value.map(Value::Text),
        BaseType::Binary => input.binary_value.map(|text| binary(name, &text)).transpose()?,
    };
    match value {
        Some(Value::Text(text)) if !text.is_empty() => {
            check_text(name, &text, base)?;
            Ok((data_type, Value::Text(text)))
        }
        Some(Value::Binary(bytes)) if !bytes.is_empty() => Ok((data_type, Value::Binary(bytes))),
        Some(_) | None => Err(invalid(format!(
            "Message ({owner}) attribute '{name}' must contain a non-empty value of type '{}'.",
            if base == BaseType::Binary {
                "Binary"
            } else {
                "String"
            }
        ))),
    }
}

fn base_type(data_type: &str) -> Option<BaseType> {
    if data_type.len() > limits::MESSAGE_ATTRIBUTE_NAME_BYTES_MAX || !characters::are_allowed(data_type) {
        return None;
    }
    match data_type.split('.').next()? {
        "String" => Some(BaseType::String),
        "Number" => Some(BaseType::Number),
        "Binary" => Some(BaseType::Binary),
        _ => None,
    }
}

fn binary<'a>(name: &str, text: &str) -> Result<Value<'a>, ApiError> {
    BASE64.decode(text).map(Value::Binary).map_err(|_| {
        invalid(format!(
            "The value of the message attribute '{name}' is not valid base64."
        ))
    })
}

fn check_text(name: &str, text: &str, base: BaseType) -> Result<(), ApiError> {
    if !characters::are_allowed(text) {
        return Err(invalid(format!(
            "Invalid characters found in the value of the message attribute '{name}'. {}",
            "Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
        )));
    }
    if base == BaseType::Number && !is_number(text) {
        return Err(invalid(format!(
            "Can't cast the value of message (user) attribute '{name}' to a number."
        )));
    }
    Ok(())
}

/// Whether a text is a decimal number within the bounds of SQS.
fn is_number(text: &str) -> bool {
    // What else `f64` can be parsed from is words: inf, nan.
    let has_number_characters = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    let is_in_bounds = |number: f64| number == 0.0 || NUMBER_MAGNITUDES.contains(&number.abs());
    has_number_characters && text.parse().is_ok_and(is_in_bounds)
}

fn invalid(text: String) -> ApiError {
    ApiError::InvalidParameterValue(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input<'a>(data_type: &'a str, string: Option<&'a str>, binary: Option<&'a str>) -> AttributeInput<'a> {
        AttributeInput {
            data_type: Some(Text::from(data_type)),
            string_value: string.map(Text::from),
            binary_value: binary.map(Text::from),
        }
    }

    fn check(name: &str, value: AttributeInput<'_>, expected: Result<(), &str>) {
        let result = check_user(Pairs(vec![(Text::from(name), value)]));
        match (result, expected) {
            (Ok(_), Ok(())) => {}
            (Err(ApiError::InvalidParameterValue(text)), Err(part)) => {
                assert!(text.contains(part) && text.contains(name), "{name}: {text}");
            }
            (result, expected) => panic!("{name}: {result:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn names_follow_the_recorded_rules() {
        let text = || input("String", Some("v"), None);
        let longest = "a".repeat(256);
        for name in ["a", "ø-ß_ä.9", "AWSx", "Amazon", "aws", &longest] {
            check(name, text(), Ok(()));
        }
        let too_long = "a".repeat(257);
        for (name, part) in [
            ("", "non-empty"),
            ("AWS.x", "reserved"),
            ("aMaZoN.x", "reserved"),
            (".a", "period"),
            ("a.", "period"),
            ("a..b", "period"),
            ("a b", "can only include"),
            ("a!", "can only include"),
            ("§", "can only include"),
            (too_long.as_str(), "at most 256"),
        ] {
            check(name, text(), Err(part));
        }
    }

    #[test]
    fn types_and_values_follow_the_recorded_rules() {
        check("a", input("String.label", Some("v"), None), Ok(()));
        check("a", input("Number.java.lang.Long", Some("-1.5e10"), None), Ok(()));
        check("a", input("Binary", None, Some("AAEC/w==")), Ok(()));
        check("a", input("Binary", None, Some("AAEC/w")), Ok(()));
        let long_label = format!("Number.{}", "x".repeat(256));
        for data_type in [
            "Foo",
            "string",
            "StringX",
            "Invalid",
            long_label.as_str(),
            "String.\0",
        ] {
            check(
                "a",
                input(data_type, Some("1"), None),
                Err("supported type prefixes"),
            );
        }
        check(
            "a",
            input("", Some("1"), None),
            Err("non-empty message attribute type"),
        );
        let empty = "must contain a non-empty value of type 'String'.";
        check("a", input("String", Some(""), None), Err(empty));
        check("a", input("Number", None, None), Err(empty));
        check("a", input("String", None, Some("AA==")), Err(empty));
        check(
            "a",
            input("Binary", Some("x"), None),
            Err("value of type 'Binary'"),
        );
        check(
            "a",
            input("Binary", None, Some("")),
            Err("value of type 'Binary'"),
        );
        check("a", input("Binary", None, Some("%%")), Err("base64"));
        check("a", input("String", Some("a\0"), None), Err("Invalid characters"));
        for number in ["abc", "1e999", "inf", "nan", "1e127", "--1", "1 ", "0x1", "."] {
            check("a", input("Number", Some(number), None), Err("Can't cast"));
        }
        for number in ["0", "-0", "1e126", "1e-128", "+3", "12345678901234567890"] {
            check("a", input("Number", Some(number), None), Ok(()));
        }
    }

    #[test]
    fn eleven_attributes_and_repeated_names_are_refused() {
        let many = |count: u32| {
            let names: Vec<String> = (0..count).map(|at| format!("n{at}")).collect();
            let pairs = names
                .iter()
                .map(|name| (Text::from(name.as_str()), input("String", Some("v"), None)));
            check_user(Pairs(pairs.collect())).map(|checked| checked.len())
        };
        assert_eq!(many(10), Ok(10));
        assert_eq!(
            many(11),
            Err(invalid(
                "Number of message attributes [11] exceeds the allowed maximum [10].".to_owned()
            ))
        );
        let twice = Pairs(vec![
            (Text::from("n"), input("String", Some("v"), None)),
            (Text::from("n"), input("String", Some("v"), None)),
        ]);
        assert!(check_user(twice).is_err());
    }

    #[test]
    fn the_digest_of_attributes_is_that_of_sqs() {
        let attribute = |name, data_type, value| Attribute {
            name,
            data_type,
            value,
        };
        let check = |attributes: &[Attribute<'_>], expected: &str| {
            let digest = attributes_md5(attributes.iter().copied()).unwrap();
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected);
        };
        let color = attribute("color", "String", AttributeValue::Text("red"));
        let number = attribute("n", "Number", AttributeValue::Text("42"));
        check(&[color], "20ca9041878c8c65d5a4bf6eaf446c21");
        check(&[number, color], "31833069ae184730205fedd825b226c3");
        check(
            &[attribute(
                "raw",
                "Binary",
                AttributeValue::Binary(&[0, 1, 2, 0xff]),
            )],
            "04d2a89dc1acf658087f7d04c2bb86d6",
        );
        let trace = "Root=1-00000000-000000000000000000000000";
        check(
            &[attribute(TRACE_HEADER, "String", AttributeValue::Text(trace))],
            "3a2447bcae6b3fa21454fda5f91cccfe",
        );
        assert_eq!(attributes_md5([]), None);
    }

    #[test]
    fn the_trace_header_is_the_only_system_attribute() {
        let check = |name: &str, value: AttributeInput<'_>, is_valid: bool| {
            let result = check_system(Pairs(vec![(Text::from(name), value)]));
            assert_eq!(result.is_ok(), is_valid, "{name}");
        };
        check(TRACE_HEADER, input("String", Some("Root=1"), None), true);
        check(TRACE_HEADER, input("Number", Some("1"), None), false);
        check(TRACE_HEADER, input("String", Some(""), None), false);
        check("Other", input("String", Some("x"), None), false);
    }
}
