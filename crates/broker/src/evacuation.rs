//! Reads what is still needed of an old segment, a piece at a time, so that it can be written again at the end of the
//! log. Runs on a thread of its own.

use std::sync::Arc;

use journal::File;
use queue_core::{PartitionSnapshot, PayloadId};
use tracing::error;
use types::Slot;

use crate::contents::{ContentsSnapshot, Stored};

/// Bytes of contents that are read and written at a time: more would hold up a commit.
const PIECE_BYTES: usize = 256 << 10;

/// A segment that is being emptied.
#[derive(Debug)]
pub(crate) struct Evacuation {
    segment: u32,
    file: Arc<dyn File>,
    /// What is left, the last first.
    left: Vec<(Slot, PayloadId, Stored)>,
    damaged: u64,
}

/// A content that was read.
#[derive(Debug)]
pub(crate) struct ReadContent {
    pub(crate) slot: Slot,
    pub(crate) id: PayloadId,
    pub(crate) bytes: Vec<u8>,
}

/// What one piece of work came to.
#[derive(Debug)]
pub(crate) enum ReadContents {
    /// Some contents, and perhaps there are more.
    Some {
        evacuation: Evacuation,
        contents: Vec<ReadContent>,
    },
    /// There is nothing more; so many contents could not be read.
    End { segment: u32, damaged: u64 },
}

impl Evacuation {
    /// Finds what the segment holds. `state` and `contents` are of the same moment.
    pub(crate) fn begin(
        segment: u32,
        file: Arc<dyn File>,
        state: &PartitionSnapshot,
        contents: &ContentsSnapshot,
    ) -> Self {
        let mut left: Vec<_> = contents
            .slots_in(segment)
            .filter_map(|(slot, place, crc)| {
                let (id, bytes) = state.content(slot)?;
                Some((slot, id, Stored { place, bytes, crc }))
            })
            .collect();
        left.sort_unstable_by_key(|(_, _, stored)| std::cmp::Reverse(stored.place));
        Self {
            segment,
            file,
            left,
            damaged: 0,
        }
    }

    pub(crate) fn segment(&self) -> u32 {
        self.segment
    }

    /// Reads the next contents.
    pub(crate) fn read(mut self) -> ReadContents {
        let (mut contents, mut piece_bytes) = (Vec::new(), 0);
        while piece_bytes < PIECE_BYTES
            && let Some((slot, id, stored)) = self.left.pop()
        {
            let mut bytes = vec![0; stored.bytes as usize];
            match self.file.read_at(&mut bytes, u64::from(stored.place.offset)) {
                Ok(read) if read == bytes.len() && stored.fits(&bytes) => {
                    piece_bytes += bytes.len();
                    contents.push(ReadContent { slot, id, bytes });
                }
                Ok(_) => self.report(stored, "the bytes there are not those that were stored"),
                Err(failure) => self.report(stored, &failure.to_string()),
            }
        }
        if contents.is_empty() {
            return ReadContents::End {
                segment: self.segment,
                damaged: self.damaged,
            };
        }
        ReadContents::Some {
            evacuation: self,
            contents,
        }
    }

    fn report(&mut self, stored: Stored, reason: &str) {
        self.damaged += 1;
        error!(
            segment = stored.place.segment,
            offset = stored.place.offset,
            bytes = stored.bytes,
            reason,
            "a content is damaged: its segment is kept"
        );
    }
}
