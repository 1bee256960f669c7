//! The outputs of the calls that a load is made of.

use std::borrow::Cow;

use serde::Deserialize;

use crate::sqs::CallError;

/// The output of a receive.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Received<'a> {
    #[serde(borrow, default)]
    pub(crate) messages: Vec<Message<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) body: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) receipt_handle: Cow<'a, str>,
}

/// The output of a batch.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct BatchResult {
    #[serde(default)]
    pub(crate) successful: Vec<Successful>,
    #[serde(default)]
    pub(crate) failed: Vec<Failed>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Successful {
    id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Failed {
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) message: String,
}

impl Successful {
    /// Returns the place of the entry in its request.
    pub(crate) fn place(&self) -> Option<u64> {
        self.id.parse().ok()
    }
}

impl From<&Failed> for CallError {
    fn from(failed: &Failed) -> Self {
        Self::Refused {
            status: 200,
            code: failed.code.clone(),
            message: failed.message.clone(),
        }
    }
}

/// Reads an output.
pub(crate) fn read<'a, T: Deserialize<'a>>(output: &'a [u8]) -> Result<T, CallError> {
    serde_json::from_slice(output).map_err(|error| CallError::Unreadable(error.to_string()))
}
