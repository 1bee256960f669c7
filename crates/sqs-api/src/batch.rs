//! What all batch actions share: the checks of a batch as a whole, and the form of their answer.

use queue_core::QueueError;
use serde::Serialize;
use types::{QueueKey, limits};

use crate::wire::Text;
use crate::{ApiError, Context, Subject};

/// Checks a batch as a whole, from its entries' ids.
///
/// `entry_name` is what an entry is called, as in `SendMessageBatchRequestEntry`.
pub(crate) fn check_ids<'i>(
    ids: impl ExactSizeIterator<Item = Option<&'i Text<'i>>> + Clone,
    entry_name: &'static str,
) -> Result<(), ApiError> {
    if ids.len() == 0 {
        return Err(ApiError::EmptyBatchRequest(entry_name));
    }
    if ids.len() > limits::BATCH_ENTRIES_MAX {
        return Err(ApiError::TooManyEntriesInBatchRequest(ids.len()));
    }
    for (at, id) in ids.clone().enumerate() {
        let id = id.ok_or_else(|| ApiError::missing(&format!("{entry_name}.{}.Id", at + 1)))?;
        if !is_valid_id(id) {
            return Err(ApiError::InvalidBatchEntryId);
        }
        if ids.clone().take(at).any(|earlier| earlier == Some(id)) {
            return Err(ApiError::BatchEntryIdsNotDistinct(id.to_string()));
        }
    }
    Ok(())
}

fn is_valid_id(id: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=limits::BATCH_ENTRY_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_word)
}

/// The answer of a batch action: what went well and what did not, each in the order of the request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct BatchResponse<'a, S> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) successful: Vec<S>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<Failed<'a>>,
}

/// An entry that was refused.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Failed<'a> {
    id: &'a str,
    sender_fault: bool,
    code: &'static str,
    message: String,
}

/// An entry that went well and has nothing more to say.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Succeeded<'a> {
    id: &'a str,
}

impl<'a> Failed<'a> {
    pub(crate) fn new(id: &'a str, error: &ApiError) -> Self {
        let wire = error.code().wire();
        Self {
            id,
            sender_fault: wire.fault() == "Sender",
            code: wire.query,
            message: error.to_string(),
        }
    }
}

impl<'a> BatchResponse<'a, Succeeded<'a>> {
    /// Joins what was checked before the broker was asked with what the broker said of the entries that passed:
    /// `checked` holds each entry's id and receipt handle text and whether it was passed on.
    pub(crate) fn of_entries(
        checked: impl IntoIterator<Item = (&'a str, Subject<'a>, Option<ApiError>)>,
        results: Vec<Result<(), QueueError>>,
    ) -> Self {
        let mut results = results.into_iter();
        let mut response = Self {
            successful: Vec::new(),
            failed: Vec::new(),
        };
        for (id, subject, refused) in checked {
            let result = match refused {
                Some(error) => Err(error),
                None => results
                    .next()
                    .expect("the broker gives a result for every entry")
                    .map_err(|error| ApiError::of_queue(error, subject)),
            };
            match result {
                Ok(()) => response.successful.push(Succeeded { id }),
                Err(error) => response.failed.push(Failed::new(id, &error)),
            }
        }
        response
    }
}

impl Context<'_> {
    /// Reads a receipt handle of a queue; a text that is none is the client's mistake. Handles are sealed for the
    /// queue's owner, so that those of other accounts that may use the queue are good.
    pub(crate) fn open_handle(
        &self,
        key: &QueueKey,
        text: Option<&Text<'_>>,
    ) -> Result<queue_core::Handle, ApiError> {
        let text = text.map_or("", Text::as_str);
        if text.is_empty() {
            return Err(ApiError::missing("ReceiptHandle"));
        }
        self.broker.knows_handles()?;
        self.broker
            .open(key.tenant, text)
            .ok_or_else(|| ApiError::ReceiptHandleIsInvalid(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ids: &[&str], expected: Result<(), ApiError>) {
        let texts: Vec<Text<'_>> = ids.iter().map(|id| Text::from(*id)).collect();
        assert_eq!(
            check_ids(texts.iter().map(Some), "XBatchRequestEntry"),
            expected,
            "{ids:?}"
        );
    }

    #[test]
    fn a_batch_is_checked_as_a_whole() {
        let (longest, too_long) = ("a".repeat(80), "a".repeat(81));
        check(&["a", "B-_9", &longest], Ok(()));
        check(&[], Err(ApiError::EmptyBatchRequest("XBatchRequestEntry")));
        check(&["x"; 11], Err(ApiError::TooManyEntriesInBatchRequest(11)));
        check(
            &["a", "b", "a"],
            Err(ApiError::BatchEntryIdsNotDistinct("a".to_owned())),
        );
        for wrong in ["", too_long.as_str(), "a b", "a.b", "ä"] {
            check(&["a", wrong], Err(ApiError::InvalidBatchEntryId));
        }
        assert_eq!(
            check_ids([None].into_iter(), "XBatchRequestEntry"),
            Err(ApiError::missing("XBatchRequestEntry.1.Id"))
        );
    }
}
