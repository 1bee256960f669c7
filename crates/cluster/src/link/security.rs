//! How the two ends of a link prove themselves. There are three ways, and no falling back from one to another.

use super::secret::Secret;
use super::tls::Tls;

/// How nodes prove themselves, and what protects their frames.
#[derive(Debug, Clone)]
pub enum Security {
    /// Certificates of one CA on both ends, TLS 1.3.
    Tls(Tls),
    /// A shared secret, from which each session derives keys that seal its frames.
    Secret {
        /// The secret that this node dials with.
        current: Secret,
        /// While the secret is being changed: the other one that is accepted, and tried if the current one is refused.
        previous: Option<Secret>,
    },
    /// Nothing at all: anybody who reaches the port is a node.
    Insecure,
}

impl Security {
    /// The mode as it stands in a handshake.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Insecure => 0,
            Self::Secret { .. } => 1,
            Self::Tls(_) => 2,
        }
    }
}
