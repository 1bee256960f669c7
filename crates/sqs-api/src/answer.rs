//! The answer to one request, for a server to write.

use broker::Take;
use bytes::Bytes;
use http::StatusCode;

use crate::request_id::RequestId;

/// The code of a request that succeeded.
pub(crate) const OK: &str = "ok";

/// The answer to one request.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) request_id: RequestId,
    /// Headers that not every answer has, their names in lower case.
    pub(crate) more_headers: Vec<(&'static str, String)>,
    /// What the client gets.
    pub body: Bytes,
    /// The messages in the answer. Dropped before the answer is delivered, it gives them back.
    pub take: Option<Take>,
    /// The action's name, or `unknown`: a bounded label.
    pub action: &'static str,
    /// `ok`, or the wire code of the error: a bounded label.
    pub code: &'static str,
}

impl Answer {
    /// Returns the headers, without those that are the server's: length, date and connection.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("content-type", self.content_type),
            ("x-amzn-requestid", self.request_id.as_str()),
        ]
        .into_iter()
        .chain(
            self.more_headers
                .iter()
                .map(|(name, value)| (*name, value.as_str())),
        )
    }
}
