//! The stored form of contents that are copied forward out of an old segment. Drawn in `docs/formats/copies.md`.
//!
//! A copy counts only for the message that it was made for: the slot must still hold the same content. So a copy that
//! is read again at a start changes nothing that happened since.

use journal::{Place, ReplayError};
use queue_core::{Partition, PayloadId};
use types::{LogIndex, Slot};

use crate::contents::Contents;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 4 + 8 + 4 + 4;

/// Contents with the messages they belong to.
#[derive(Debug, Default)]
pub(crate) struct Copies<'a> {
    copies: Vec<Copy<'a>>,
}

#[derive(Debug)]
struct Copy<'a> {
    slot: Slot,
    id: PayloadId,
    /// Where the content begins in the stored form.
    offset: u32,
    content: &'a [u8],
}

/// Begins the stored form of copies.
pub(crate) fn begin(out: &mut Vec<u8>) {
    out.clear();
    out.push(VERSION);
}

/// Adds a copy to the stored form.
pub(crate) fn push(out: &mut Vec<u8>, slot: Slot, id: PayloadId, content: &[u8]) {
    let length = u32::try_from(content.len()).expect("a content is far shorter than 4 GiB");
    out.extend_from_slice(&slot.0.to_le_bytes());
    out.extend_from_slice(&id.index.0.to_le_bytes());
    out.extend_from_slice(&id.ordinal.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(content);
}

impl<'a> Copies<'a> {
    /// Reads the stored form back.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, ReplayError> {
        let Some((&VERSION, mut rest)) = bytes.split_first() else {
            return Err("copies of a version that is not known".into());
        };
        let mut copies = Vec::new();
        while let Some((header, behind)) = rest.split_at_checked(HEADER_BYTES) {
            let number =
                |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            let index = u64::from(number(8)) << 32 | u64::from(number(4));
            let content = behind.split_at_checked(number(16) as usize);
            let (content, behind) = content.ok_or("a copy is cut short")?;
            copies.push(Copy {
                slot: Slot(number(0)),
                id: PayloadId {
                    index: LogIndex(index),
                    ordinal: number(12),
                },
                offset: u32::try_from(bytes.len() - behind.len() - content.len())?,
                content,
            });
            rest = behind;
        }
        match rest {
            [] => Ok(Self { copies }),
            [..] => Err("a copy is cut short".into()),
        }
    }

    /// Returns the slots of the contents, in their order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + Clone {
        self.copies.iter().map(|copy| copy.slot)
    }

    /// Says of each content that it lies here, whatever its message is. `place` is that of the stored form.
    pub(crate) fn put(&self, contents: &mut Contents, place: Place) {
        for copy in &self.copies {
            contents.relocate(copy.slot, copy.content, place.plus(copy.offset));
        }
    }

    /// Says of each content that is still needed that it lies here from now on. `place` is that of the stored form.
    pub(crate) fn take(&self, partition: &Partition, contents: &mut Contents, place: Place) {
        for copy in &self.copies {
            let is_needed = partition.payload(copy.slot).is_some_and(|payload| {
                payload.id == copy.id && payload.content_bytes as usize == copy.content.len()
            });
            if is_needed {
                contents.relocate(copy.slot, copy.content, place.plus(copy.offset));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_round_trip_and_a_cut_is_an_error() {
        let mut bytes = Vec::new();
        begin(&mut bytes);
        let id = |index, ordinal| PayloadId {
            index: LogIndex(index),
            ordinal,
        };
        push(&mut bytes, Slot(7), id(1 << 40, 3), b"content");
        push(&mut bytes, Slot(u32::MAX), id(2, 0), b"");
        let copies = Copies::decode(&bytes).unwrap().copies;
        let read: Vec<_> = copies
            .iter()
            .map(|copy| (copy.slot, copy.id, copy.content))
            .collect();
        assert_eq!(
            read,
            [
                (Slot(7), id(1 << 40, 3), &b"content"[..]),
                (Slot(u32::MAX), id(2, 0), b"")
            ]
        );
        assert_eq!(&bytes[copies[0].offset as usize..][..7], b"content");
        let whole = [1, bytes.len() - HEADER_BYTES, bytes.len()];
        for length in (0..bytes.len()).filter(|length| !whole.contains(length)) {
            assert!(Copies::decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        bytes[0] = 2;
        assert!(Copies::decode(&bytes).is_err());
    }
}
