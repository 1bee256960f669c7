//! The limits and times of links.

use std::time::Duration;

/// The protocol versions that this binary speaks, lowest and highest.
pub(super) const VERSIONS: (u8, u8) = (1, 1);

/// Kinds of requests below this one are for discovery: a node that has no cluster yet may ask and be asked them. All
/// others are served only between members of one cluster.
pub const DISCOVERY_KINDS_END: u16 = 256;

/// The most bytes of a handshake message.
pub(super) const HANDSHAKE_BYTES_MAX: usize = 4096;

/// The most bytes of a body in one frame. Longer bodies go in pieces, so that others get their turn between them.
pub(super) const PIECE_BYTES_MAX: usize = 64 << 10;

/// How many bodies of one priority are sent at a time, piece by piece in turn. The others wait, so that the other end
/// never holds more unfinished bodies than this of each priority.
pub(super) const BODIES_AT_ONCE: usize = 8;

/// How many bytes are sealed and written at a time, beyond which a lane waits for the next write.
pub(super) const BATCH_BYTES: usize = 64 << 10;

/// The most bytes of the text of a failure.
pub(super) const FAILURE_BYTES_MAX: usize = 1024;

/// A difference between two wall clocks that is reported.
pub(super) const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(5);

/// Limits of links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one body of a request or an answer, and of one piece of a stream.
    pub body_bytes_max: usize,
    /// The most requests under way on one connection.
    pub calls_max: usize,
    /// The most bytes of bodies waiting to be sent on one connection, and of requests being served on one,
    /// the windows of streams included. At least `body_bytes_max` and `stream_window_bytes`.
    pub queued_bytes_max: usize,
    /// The bytes of a stream that may be under way to a receiver that does not take them. A piece has 64 bytes less at
    /// most.
    pub stream_window_bytes: usize,
    /// The most connections that one peer may have here.
    pub connections_per_peer_max: usize,
    /// The most connections whose handshake is not done; more are closed at once.
    pub unauthenticated_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: (4 << 20) + (64 << 10),
            calls_max: 4096,
            queued_bytes_max: 64 << 20,
            stream_window_bytes: (4 << 20) + (64 << 10),
            connections_per_peer_max: 8,
            unauthenticated_max: 64,
        }
    }
}

/// Times of links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// Looking a name up, connecting and the handshake together may take this long.
    pub handshake_max: Duration,
    /// Silence in either direction after which the end that dialled sends a ping.
    pub ping_after: Duration,
    /// Silence after which a link counts as lost. At least three times `ping_after`.
    pub dead_after: Duration,
    /// The shortest pause between two dials that fail.
    pub backoff_min: Duration,
    /// The longest pause between two dials that fail.
    pub backoff_max: Duration,
    /// A link that nothing was asked on for this long is closed.
    pub idle_after: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            handshake_max: Duration::from_secs(2),
            ping_after: Duration::from_millis(500),
            dead_after: Duration::from_secs(2),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            idle_after: Duration::from_secs(60),
        }
    }
}
