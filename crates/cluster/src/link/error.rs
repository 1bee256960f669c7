//! Why a request got no answer, and why a handshake or a link ended.

use thiserror::Error;

/// A request without an answer. Whether it may have been carried out is the first thing that a caller has to know.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LinkError {
    /// The request surely was not carried out: it may be tried again anywhere.
    #[error("not sent: {0}")]
    NotSent(Cause),
    /// The request may have been carried out, or may still be.
    #[error("outcome unknown: {0}")]
    Unknown(Cause),
}

impl LinkError {
    /// Returns the cause.
    pub fn cause(&self) -> &Cause {
        match self {
            Self::NotSent(cause) | Self::Unknown(cause) => cause,
        }
    }
}

/// Why there was no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Cause {
    /// Nobody could be reached there.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// One of the two ends refused the other.
    #[error("refused: {0}")]
    Refused(Reason),
    /// The link broke.
    #[error("link lost: {0}")]
    Lost(Lost),
    /// The deadline passed.
    #[error("deadline passed")]
    Deadline,
    /// More requests or bytes are under way than the limits allow, here or there.
    #[error("too many requests under way")]
    Busy,
    /// The body is larger than the limits allow.
    #[error("body too large")]
    TooLarge,
    /// The two ends are not of one cluster, and this is no discovery request.
    #[error("not a member of the same cluster")]
    NotMember,
    /// The peer does not know this kind of request.
    #[error("unknown kind of request")]
    UnknownKind,
    /// The links of this node or of the peer are shutting down.
    #[error("shutting down")]
    ShuttingDown,
    /// The peer's handler failed.
    #[error("the peer failed: {0}")]
    Failed(String),
}

/// Why one end refused the other in the handshake. The number goes over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
pub enum Reason {
    /// The two belong to different clusters.
    #[error("other cluster")]
    OtherCluster,
    /// The two speak no common version of the protocol.
    #[error("no common protocol version")]
    OtherVersion,
    /// The proof was not made with a secret that the other end has.
    #[error("wrong secret")]
    WrongSecret,
    /// A node with this id is known under another address.
    #[error("duplicate node id")]
    DuplicateNode,
    /// The feature level is below what the cluster needs.
    #[error("feature level too old")]
    TooOld,
    /// The node is about to stop.
    #[error("shutting down")]
    ShuttingDown,
    /// One speaks TLS, the other a shared secret or neither: there is no falling back.
    #[error("other security mode")]
    OtherSecurity,
    /// Another node answers at this address.
    #[error("another node answers there")]
    OtherNode,
    /// The node reached itself.
    #[error("this node itself")]
    Myself,
    /// The peer has as many connections as are allowed.
    #[error("too many connections")]
    TooManyConnections,
    /// What came is no handshake.
    #[error("malformed handshake")]
    Malformed,
    /// The TLS handshake failed: the certificate, its issuer, its name or its time.
    #[error("TLS handshake failed")]
    Tls,
    /// The handshake took too long.
    #[error("handshake took too long")]
    TimedOut,
}

impl Reason {
    const ALL: [Self; 13] = [
        Self::OtherCluster,
        Self::OtherVersion,
        Self::WrongSecret,
        Self::DuplicateNode,
        Self::TooOld,
        Self::ShuttingDown,
        Self::OtherSecurity,
        Self::OtherNode,
        Self::Myself,
        Self::TooManyConnections,
        Self::Malformed,
        Self::Tls,
        Self::TimedOut,
    ];

    pub(super) fn code(self) -> u8 {
        match self {
            Self::OtherCluster => 1,
            Self::OtherVersion => 2,
            Self::WrongSecret => 3,
            Self::DuplicateNode => 4,
            Self::TooOld => 5,
            Self::ShuttingDown => 6,
            Self::OtherSecurity => 7,
            Self::OtherNode => 8,
            Self::Myself => 9,
            Self::TooManyConnections => 10,
            Self::Malformed => 11,
            Self::Tls => 12,
            Self::TimedOut => 13,
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }
}

/// Why a link ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Lost {
    /// Nothing was heard for the dead-link time.
    #[error("silent for too long")]
    Silent,
    /// The other end closed it.
    #[error("closed by the peer")]
    Closed,
    /// The other end closed it within a frame.
    #[error("closed within a frame")]
    Truncated,
    /// This end closed it.
    #[error("closed here")]
    ClosedHere,
    /// The network failed.
    #[error("{0}")]
    Io(String),
    /// A frame is longer than the limit.
    #[error("frame of {0} bytes is over the limit")]
    Oversized(u32),
    /// A frame is not the next one: replayed, reordered, or some are missing.
    #[error("frame {got} where {expected} was due")]
    OutOfSequence {
        /// The number that was due, its low 32 bits.
        expected: u32,
        /// The number that came.
        got: u32,
    },
    /// A frame was changed, or is of another session or direction.
    #[error("frame {0} does not authenticate")]
    Forged(u32),
    /// A frame says what this protocol does not know.
    #[error("malformed frame: {0}")]
    Malformed(&'static str),
}

/// What a [`Handler`](super::Handler) answers if it has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandlerError {
    /// It does not know this kind; nothing was done.
    #[error("unknown kind of request")]
    UnknownKind,
    /// It has too much to do; nothing was done.
    #[error("too many requests under way")]
    Busy,
    /// It failed; what was done is not known. At most 1 KiB of the text is sent.
    #[error("{0}")]
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_codes_of_their_own() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(reason.code()), index + 1);
            assert_eq!(Reason::from_code(reason.code()), Some(reason));
        }
        assert_eq!(Reason::from_code(0), None);
    }
}
