//! Tags of a queue as clients give them: their bounds, and the order in which they are stored.

use std::collections::{BTreeMap, BTreeSet};

use crate::ApiError;
use crate::wire::{Pairs, Text};

/// Most tags of a queue.
pub(crate) const TAGS_MAX: usize = 50;
/// Longest key of a tag, in characters.
const KEY_CHARACTERS_MAX: usize = 128;
/// Longest value of a tag, in characters.
const VALUE_CHARACTERS_MAX: usize = 256;

/// Tags as they are stored.
pub(crate) type Tags = Vec<(Box<str>, Box<str>)>;

/// Reads tags, in the order of their keys. Of a key that is given twice the last value counts.
pub(crate) fn parse(tags: &Pairs<'_, Text<'_>>) -> Result<Tags, ApiError> {
    let mut parsed = BTreeMap::new();
    for (key, value) in &tags.0 {
        if !(1..=KEY_CHARACTERS_MAX).contains(&key.chars().count()) {
            return Err(ApiError::InvalidParameterValue(
                "Tag keys must be between 1 and 128 characters in length.".to_owned(),
            ));
        }
        if value.chars().count() > VALUE_CHARACTERS_MAX {
            return Err(ApiError::InvalidParameterValue(
                "Tag values must be between 0 and 256 characters in length.".to_owned(),
            ));
        }
        parsed.insert(Box::from(&**key), Box::from(&**value));
    }
    check_count(parsed.len())?;
    Ok(parsed.into_iter().collect())
}

/// Refuses tags that would be too many together with those that the queue has.
pub(crate) fn check_together(present: &Tags, added: &Tags) -> Result<(), ApiError> {
    let keys: BTreeSet<&str> = present.iter().chain(added).map(|(key, _)| &**key).collect();
    check_count(keys.len())
}

fn check_count(count: usize) -> Result<(), ApiError> {
    if count <= TAGS_MAX {
        return Ok(());
    }
    Err(ApiError::InvalidParameterValue(format!(
        "Too many tags: a queue can have up to {TAGS_MAX}."
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_bounded_and_ordered() {
        let long_key = "k".repeat(129);
        let long_value = "v".repeat(257);
        let of = |pairs: &[(&str, &str)]| {
            parse(&Pairs(
                pairs
                    .iter()
                    .map(|(k, v)| (Text::from(*k), Text::from(*v)))
                    .collect(),
            ))
        };
        let expected: Tags = vec![("a".into(), "".into()), ("b".into(), "2".into())];
        assert_eq!(of(&[("b", "1"), ("a", ""), ("b", "2")]), Ok(expected));
        assert!(of(&[("", "v")]).is_err());
        assert!(of(&[(&long_key, "v")]).is_err());
        assert!(of(&[("k", &long_value)]).is_err());
        let many: Vec<String> = (0..=TAGS_MAX).map(|at| format!("k{at}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|key| (key.as_str(), "v")).collect();
        let fifty = of(&many[..TAGS_MAX]).unwrap();
        assert!(of(&many).is_err());
        assert!(check_together(&fifty, &of(&many[..1]).unwrap()).is_ok());
        assert!(check_together(&fifty, &of(&many[TAGS_MAX..]).unwrap()).is_err());
    }
}
