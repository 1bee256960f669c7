//! The column of contents beside the slab: what clients sent, by slot. Node-local and not part of the state.

use std::io::{self, Read, Write};
use std::sync::Arc;

use queue_core::CowVec;
use types::{MessageId, Slot};

/// Contents by slot. A clone shares them, for a snapshot.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    column: CowVec<Option<Arc<[u8]>>>,
}

const ABSENT: u32 = u32::MAX;

impl Contents {
    /// Puts the content of a slot in place.
    pub(crate) fn set(&mut self, slot: Slot, content: Arc<[u8]>) {
        let at = slot.0 as usize;
        while self.column.len() <= at {
            self.column.push(None);
        }
        if let Some(place) = self.column.get_mut(at) {
            *place = Some(content);
        }
    }

    /// Gives the message of a slot a new id.
    pub(crate) fn rename(&mut self, slot: Slot, message_id: MessageId) {
        let renamed = self
            .get(slot)
            .map(|content| queue_core::content::with_message_id(content, message_id));
        // One that cannot be read is left as it is: it is found, named and left out when it is received.
        if let Some(Ok(content)) = renamed {
            self.set(slot, content);
        }
    }

    /// Drops the content of a slot.
    pub(crate) fn clear(&mut self, slot: Slot) {
        if let Some(place) = self.column.get_mut(slot.0 as usize) {
            *place = None;
        }
    }

    /// Returns the content of a slot.
    pub fn get(&self, slot: Slot) -> Option<&Arc<[u8]>> {
        self.column.get(slot.0 as usize)?.as_ref()
    }

    /// Writes the contents of all slots: for each a length and bytes.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let count = u32::try_from(self.column.len()).map_err(io::Error::other)?;
        out.write_all(&count.to_le_bytes())?;
        for content in self.column.iter() {
            match content {
                None => out.write_all(&ABSENT.to_le_bytes())?,
                Some(content) => {
                    let length = u32::try_from(content.len()).map_err(io::Error::other)?;
                    out.write_all(&length.to_le_bytes())?;
                    out.write_all(content)?;
                }
            }
        }
        Ok(())
    }

    /// Reads what [`Contents::write`] wrote.
    pub(crate) fn read(input: &mut dyn Read) -> io::Result<Self> {
        let mut column = CowVec::default();
        for _ in 0..read_u32(input)? {
            let length = read_u32(input)?;
            if length == ABSENT {
                column.push(None);
                continue;
            }
            let mut content = Vec::new();
            let read = (&mut *input).take(u64::from(length)).read_to_end(&mut content)?;
            if read != length as usize {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            column.push(Some(content.into()));
        }
        Ok(Self { column })
    }
}

fn read_u32(input: &mut dyn Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}
