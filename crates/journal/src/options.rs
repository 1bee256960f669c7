//! Sizes and promises of the local driver, already checked by whoever read them from the configuration.

use crate::segment::IDENTITY_BYTES;

const SEGMENT_BYTES_MIN: u64 = 2 * IDENTITY_BYTES;
/// A place in a segment has 32 bits, and a segment may be longer than usual by one entry.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// When an entry counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// After fdatasync.
    #[default]
    Always,
    /// When the system has taken the bytes: survives the end of the process, not a power cut.
    Off,
}

/// Sizes and promises of a [`LocalJournal`](crate::LocalJournal).
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Length of the very first segment, small so that a first start is quick.
    pub first_segment_bytes: u64,
    /// Length of every later segment.
    pub segment_bytes: u64,
    /// When an entry counts as durable.
    pub fsync: Fsync,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            first_segment_bytes: 1 << 20,
            segment_bytes: 64 << 20,
            fsync: Fsync::Always,
        }
    }
}

impl LocalOptions {
    /// Returns what verifying and repairing need: short segments, so that they can be made where there is little room.
    pub fn for_repair() -> Self {
        Self {
            segment_bytes: 4 << 20,
            ..Self::default()
        }
    }

    /// Returns sizes that a segment can have.
    pub(crate) fn rounded(mut self) -> Self {
        for bytes in [&mut self.first_segment_bytes, &mut self.segment_bytes] {
            *bytes = (*bytes)
                .clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
                .next_multiple_of(IDENTITY_BYTES);
        }
        self
    }
}
