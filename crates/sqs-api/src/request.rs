//! The head of a request, borrowed from the bytes that came.

use auth::Headers;

/// The head of a request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The method, such as `POST`.
    pub method: &'a str,
    /// The path, neither decoded nor normalised.
    pub path: &'a str,
    /// What follows the question mark, not decoded.
    pub query: Option<&'a str>,
    /// The address that the request line names, if it is a whole URL.
    pub authority: Option<&'a str>,
    /// All headers.
    pub headers: Headers<'a>,
}

impl<'a> Request<'a> {
    /// Returns the address that the client used.
    pub(crate) fn host(&self) -> &'a str {
        self.headers
            .text("host")
            .or(self.authority)
            .unwrap_or("localhost")
    }
}
