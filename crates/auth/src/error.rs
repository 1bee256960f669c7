//! Why a request was not accepted. Wire codes and statuses are the API layer's.

/// Why a request was not accepted; `Display` is what the client may read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The request carries no signature at all.
    #[error("Request is missing Authentication Token")]
    MissingAuthenticationToken,
    /// The signature's parts are missing, given twice or malformed.
    #[error("{0}")]
    IncompleteSignature(String),
    /// The server knows no such access key id.
    #[error("The security token included in the request is invalid.")]
    InvalidClientTokenId,
    /// The signature is well-formed, and is not one that the key makes for this request and this server.
    #[error("{0}")]
    SignatureDoesNotMatch(String),
    /// The request was signed too long ago, for a time that has not come, or its presigned URL has run out.
    #[error("{0}")]
    RequestExpired(String),
}
