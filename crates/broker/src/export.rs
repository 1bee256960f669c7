//! A stored snapshot as another node can take it: with every content in it, as where a content lies is a node's own affair.

use std::io::{self, Read, Write};
use std::sync::Arc;

use journal::{File, Replay, ReplayError};
use types::{LogIndex, Slot};

use crate::contents::{ABSENT, Held, length};
use crate::replay::{MAGIC, VERSION_WITH_CONTENTS, recover};

/// Reads a snapshot of this node and writes it once more with all contents in it, which are read from the segments that
/// it names. An error if one of them is not as it was stored: another node would never notice.
pub fn export_snapshot(
    content: &mut dyn Read,
    segment: &dyn Fn(u32) -> Option<Arc<dyn File>>,
    out: &mut dyn Write,
) -> Result<(), ReplayError> {
    let mut recovered = recover();
    recovered.snapshot(LogIndex(0), content)?;
    out.write_all(MAGIC)?;
    out.write_all(&[VERSION_WITH_CONTENTS])?;
    out.write_all(&recovered.last_wall.as_millis().to_le_bytes())?;
    recovered.partition.snapshot().write(out)?;
    let slots = recovered.partition.slots();
    out.write_all(&length(slots)?)?;
    for slot in (0..slots).map(|slot| Slot(slot as u32)) {
        let bytes = recovered.partition.content_bytes(slot);
        let held = bytes.map_or(Held::Nowhere, |bytes| recovered.contents.get(slot, bytes));
        match held {
            Held::Nowhere => out.write_all(&ABSENT.to_le_bytes())?,
            Held::Memory(content) => write_content(&content, out)?,
            Held::Disk(stored) => {
                let file =
                    segment(stored.place.segment).ok_or("a segment that the snapshot names has gone")?;
                let mut content = vec![0; stored.bytes as usize];
                let read = file.read_at(&mut content, u64::from(stored.place.offset))?;
                if read != content.len() || !stored.fits(&content) {
                    return Err(
                        format!("the content of slot {} is damaged at {:?}", slot.0, stored.place).into(),
                    );
                }
                write_content(&content, out)?;
            }
        }
    }
    Ok(())
}

fn write_content(content: &[u8], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&length(content.len())?)?;
    out.write_all(content)
}
