//! A text of a request, borrowed from its bytes where they hold it as it is.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text of a request.
///
/// serde borrows a plain `Cow` only as a field of its own, not inside an `Option` or a list; this type borrows
/// everywhere, which saves a copy of every body.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    /// Returns the text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

// Texts of requests are bodies and attribute values, which must not reach a log by way of `{:?}`.
impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor).map(Self)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_escapes_is_borrowed_even_inside_an_option() {
        let plain: Option<Text<'_>> = serde_json::from_str(r#""hello""#).unwrap();
        assert!(matches!(plain, Some(Text(Cow::Borrowed("hello")))));
        let escaped: Option<Text<'_>> = serde_json::from_str(r#""a\"b""#).unwrap();
        assert_eq!(escaped.unwrap().as_str(), "a\"b");
        let absent: Option<Text<'_>> = serde_json::from_str("null").unwrap();
        assert!(absent.is_none());
    }

    #[test]
    fn debug_output_does_not_hold_the_text() {
        assert_eq!(format!("{:?}", Text::from("secret")), "<6 bytes>");
    }
}
