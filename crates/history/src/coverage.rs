//! What a history must have met before its silence means anything: names of the checker's own counters. Faults are
//! counted too, under the names that the run gave them.

/// Sends that were accepted.
pub const SENT: &str = "sent";
/// Messages received, each as often as it was.
pub const RECEIVED: &str = "received";
/// Deletes that were accepted while the lease was certain.
pub const DELETED: &str = "deleted";
/// Operations without a reply.
pub const UNKNOWN: &str = "unknown outcome";
/// Messages received again.
pub const REDELIVERED: &str = "redelivery";
/// Messages received from a dead-letter queue.
pub const DEAD_LETTERED: &str = "dead-letter move";
/// Sends that were answered with the message of an earlier one.
pub const DEDUPLICATED: &str = "deduplicated send";
/// Deletes by a handle that a newer receive had overtaken for certain.
pub const STALE_DELETE: &str = "stale delete";
/// Messages that nobody deleted and that were older than the retention at the end.
pub const EXPIRED: &str = "expiry";
/// Purges that were accepted.
pub const PURGED: &str = "purge";
/// Visibility changes that were accepted.
pub const CHANGED: &str = "visibility change";
/// Messages received while an earlier one of their group had been received before.
pub const ORDERED: &str = "ordered pair";
