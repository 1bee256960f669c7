//! A stored snapshot as another node can take it: the state, then the contents of its messages in the order of their slots.
//! Where a content lies is a node's own affair. Drawn in `docs/formats/sync.md`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use journal::{File, Place, Replay, ReplayError};
use queue_core::PayloadId;
use types::{LogIndex, Slot};

use crate::contents::{Contents, Held, Stored};
use crate::copies;
use crate::replay::{recover, write_state};

/// A state that is sent to other nodes, with what its contents are read from. As long as it lives, no segment of it is used
/// for anything else.
#[derive(Debug)]
pub struct Export {
    state: Bytes,
    /// The messages with contents, by slot.
    messages: Vec<Message>,
    contents: Contents,
    segments: BTreeMap<u32, Arc<dyn File>>,
}

#[derive(Debug)]
struct Message {
    slot: Slot,
    id: PayloadId,
    bytes: u32,
}

/// Some contents, in their order.
#[derive(Debug)]
pub struct ExportedContents {
    /// In the stored form of copies.
    pub copies: Vec<u8>,
    /// The slot to go on with.
    pub next: u64,
}

/// A content that cannot be read as it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the content of slot {slot} is damaged in segment {}, at offset {}", place.segment, place.offset)]
pub struct DamagedContent {
    /// Whose it is.
    pub slot: u32,
    /// Where it lies.
    pub place: Place,
}

impl Export {
    /// Reads a snapshot of this node and takes hold of the segments that it names. An error if one has gone.
    pub fn read(
        content: &mut dyn std::io::Read,
        segment: &dyn Fn(u32) -> Option<Arc<dyn File>>,
    ) -> Result<Self, ReplayError> {
        let mut recovered = recover();
        recovered.snapshot(LogIndex(0), content)?;
        let (partition, contents) = (recovered.partition, recovered.contents);
        let hold = |id: u32| {
            let file = segment(id).ok_or("a segment that the snapshot names has gone")?;
            Ok::<_, ReplayError>((id, file))
        };
        let segments = contents
            .segments()
            .into_iter()
            .map(hold)
            .collect::<Result<_, _>>()?;
        let snapshot = partition.snapshot();
        let mut state = Vec::new();
        write_state(recovered.last_wall, &snapshot, &mut state)?;
        let slots = (0..u32::try_from(snapshot.slots())?).map(Slot);
        let with_content = slots.filter_map(|slot| {
            let (id, bytes) = snapshot.content(slot)?;
            let is_there = contents.get(slot, bytes) != Held::Nowhere;
            is_there.then_some(Message { slot, id, bytes })
        });
        Ok(Self {
            state: state.into(),
            messages: with_content.collect(),
            contents,
            segments,
        })
    }

    /// Returns the state, without contents.
    pub fn state(&self) -> &Bytes {
        &self.state
    }

    /// Returns how many contents there are.
    pub fn count(&self) -> u64 {
        self.messages.len() as u64
    }

    /// Reads contents from a slot on: at least one, and not many more bytes than asked for. None behind the last.
    pub fn contents(&self, from: u64, bytes_max: usize) -> Result<Option<ExportedContents>, DamagedContent> {
        let first = self
            .messages
            .partition_point(|message| u64::from(message.slot.0) < from);
        let mut next = None;
        let mut copies = Vec::new();
        copies::begin(&mut copies);
        for message in &self.messages[first..] {
            if copies.len() >= bytes_max {
                break;
            }
            copies::push(&mut copies, message.slot, message.id, &self.content(message)?);
            next = Some(u64::from(message.slot.0) + 1);
        }
        Ok(next.map(|next| ExportedContents { copies, next }))
    }

    fn content(&self, message: &Message) -> Result<Arc<[u8]>, DamagedContent> {
        let stored = match self.contents.get(message.slot, message.bytes) {
            Held::Memory(content) => return Ok(content),
            Held::Disk(stored) => stored,
            Held::Nowhere => unreachable!("only messages with contents are listed"),
        };
        let damaged = || DamagedContent {
            slot: message.slot.0,
            place: stored.place,
        };
        self.read_stored(stored).ok_or_else(damaged)
    }

    fn read_stored(&self, stored: Stored) -> Option<Arc<[u8]>> {
        let file = self.segments.get(&stored.place.segment)?;
        let mut content = vec![0; stored.bytes as usize];
        let read = file.read_at(&mut content, u64::from(stored.place.offset)).ok()?;
        (read == content.len() && stored.fits(&content)).then(|| content.into())
    }
}
