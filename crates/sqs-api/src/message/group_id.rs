//! Message group ids and deduplication ids, which follow one rule.

use types::limits;

use crate::ApiError;

/// Checks a group id or deduplication id: 1 to 128 letters, digits and punctuation. An empty one is a violation.
pub(crate) fn check_id(id: &str, parameter: &str) -> Result<(), ApiError> {
    let is_valid =
        (1..=limits::GROUP_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    if is_valid {
        return Ok(());
    }
    let reason = format!(
        "{parameter} can only include alphanumeric and punctuation characters. 1 to {} in length.",
        limits::GROUP_ID_BYTES_MAX
    );
    Err(ApiError::invalid_value(id, parameter, &reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_recorded_rule_and_text() {
        for valid in ["a", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", &"x".repeat(128)] {
            assert_eq!(check_id(valid, "MessageGroupId"), Ok(()), "{valid}");
        }
        for wrong in ["", "a b", "ä", "a\tb", &"x".repeat(129)] {
            let expected = format!(
                "Value {wrong} for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include \
                 alphanumeric and punctuation characters. 1 to 128 in length."
            );
            let error = check_id(wrong, "MessageGroupId").unwrap_err();
            assert_eq!(error, ApiError::InvalidParameterValue(expected));
        }
    }
}
