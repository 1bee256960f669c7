//! Lists of queue names in pages: the bounds of `MaxResults`, and the tokens that lead from page to page.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use types::{QueueName, limits};

use crate::ApiError;

/// Reads the MaxResults of a listing.
pub(crate) fn max_results(max: Option<i64>) -> Result<Option<usize>, ApiError> {
    let Some(max) = max else {
        return Ok(None);
    };
    let in_bounds = usize::try_from(max)
        .ok()
        .filter(|max| (1..=limits::LIST_QUEUES_PAGE_MAX).contains(max));
    let reason = format!(
        "Must be between 1 and {}, if provided.",
        limits::LIST_QUEUES_PAGE_MAX
    );
    in_bounds
        .map(Some)
        .ok_or_else(|| ApiError::invalid_value(max, "MaxResults", &reason))
}

/// Returns the token of the page after `last`. It carries what the listing is about (a prefix, a queue), to notice
/// when that changes between pages.
pub(crate) fn token_after(last: &QueueName, scope: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{last}/{scope}"))
}

/// Returns the name after which a page begins.
pub(crate) fn open_token(token: &str, scope: &str) -> Result<QueueName, ApiError> {
    let opened = URL_SAFE_NO_PAD
        .decode(token)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| {
            let (last, token_scope) = text.split_once('/')?;
            (token_scope == scope).then(|| last.parse().ok())?
        });
    opened.ok_or_else(|| {
        ApiError::invalid_value(
            token,
            "NextToken",
            "It is not the token of a page of this listing.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_prefix_only() {
        let last: QueueName = "a-1.fifo".parse().unwrap();
        let token = token_after(&last, "a-");
        assert_eq!(open_token(&token, "a-"), Ok(last));
        for (token, prefix) in [
            (token.as_str(), "a"),
            (token.as_str(), ""),
            ("", "a-"),
            ("%", "a-"),
            ("YQ", ""),
        ] {
            assert!(open_token(token, prefix).is_err(), "{token} {prefix}");
        }
    }

    #[test]
    fn pages_have_one_to_a_thousand_queues() {
        assert_eq!(max_results(None), Ok(None));
        assert_eq!(max_results(Some(1000)), Ok(Some(1000)));
        for wrong in [0, -1, 1001] {
            assert!(max_results(Some(wrong)).is_err());
        }
    }
}
