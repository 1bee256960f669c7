//! Recovery: a partition with its contents, rebuilt from what the journal kept. A snapshot is drawn in
//! `docs/formats/state.md`.

use std::io::{self, Read, Write};
use std::sync::Arc;

use journal::{Place, RaftSnapshot, Replay, ReplayError, RestoreSnapshot};
use queue_core::{Entry, Partition, PartitionSnapshot, entry_hash};
use types::{LogIndex, WallTime};

use crate::contents::{Contents, ContentsSnapshot};
use crate::copies::Copies;
use crate::progress::Progress;
use crate::written::Written;

/// A partition as it was when the last durable entry was applied.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The state.
    pub partition: Partition,
    /// What clients sent, by slot.
    pub contents: Contents,
    /// The last entry applied.
    pub index: LogIndex,
    /// The wall time of that entry; 0 if there is none.
    pub last_wall: WallTime,
    /// Hears how far it has come.
    pub(crate) progress: Arc<Progress>,
}

pub(crate) const MAGIC: &[u8; 7] = b"HFOWNER";
const VERSION: u8 = 2;
/// Holds all contents itself.
const VERSION_WITH_CONTENTS: u8 = 1;

/// Writes what a snapshot holds: the state, where the contents lie, and the wall time of the last entry.
pub fn write_snapshot(
    wall: WallTime,
    state: &PartitionSnapshot,
    contents: &ContentsSnapshot,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_state(wall, state, out)?;
    contents.write(out)
}

/// Writes what a snapshot holds before its contents.
pub(crate) fn write_state(wall: WallTime, state: &PartitionSnapshot, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&[VERSION])?;
    out.write_all(&wall.as_millis().to_le_bytes())?;
    state.write(out)
}

/// Returns what takes the stored state from a journal; read the result when the journal has given everything.
pub fn recover() -> Recovered {
    Recovered::default()
}

impl Recovered {
    /// Applies one stored entry, whose bytes lie at `place` on this node.
    pub fn apply(&mut self, index: LogIndex, bytes: &[u8], place: Option<Place>) -> Result<(), ReplayError> {
        let (entry, contents) = Entry::decode_with_places(bytes)?;
        let hash = entry_hash(bytes);
        let mut written = Written::begin(&mut self.partition, hash, (index, place), contents);
        for command in &entry.commands {
            let times = (entry.at, entry.wall);
            written.apply(&mut self.partition, &mut self.contents, times, command);
        }
        (self.index, self.last_wall) = (index, entry.wall);
        Ok(())
    }
}

/// Gives a partition the snapshot of a node of a cluster.
#[derive(Debug)]
pub struct Restoring<'a>(pub &'a mut Recovered);

impl RestoreSnapshot for Restoring<'_> {
    fn snapshot(&mut self, snapshot: &RaftSnapshot, content: &mut dyn Read) -> Result<(), ReplayError> {
        self.0.snapshot(snapshot.id.index, content)
    }

    fn progress(&mut self, bytes_done: u64, bytes_total: u64) {
        self.0.progress(bytes_done, bytes_total);
    }
}

impl Replay for Recovered {
    fn snapshot(&mut self, index: LogIndex, content: &mut dyn Read) -> Result<(), ReplayError> {
        let (mut magic, mut version, mut wall) = ([0; 7], [0], [0; 8]);
        content.read_exact(&mut magic)?;
        content.read_exact(&mut version)?;
        let [version] = version;
        if &magic != MAGIC || ![VERSION, VERSION_WITH_CONTENTS].contains(&version) {
            return Err("not the snapshot of an owner of a known version".into());
        }
        content.read_exact(&mut wall)?;
        let partition = Partition::restore(content)?;
        let contents = if version == VERSION_WITH_CONTENTS {
            Contents::read_version_1(content)?
        } else {
            Contents::read(content, |slot| partition.content_bytes(slot))?
        };
        if content.read(&mut [0])? != 0 {
            return Err("bytes behind the end of the snapshot".into());
        }
        *self = Self {
            partition,
            contents,
            index,
            last_wall: WallTime::from_millis(u64::from_le_bytes(wall)),
            progress: self.progress.clone(),
        };
        Ok(())
    }

    fn entry(&mut self, index: LogIndex, entry: &[u8], place: Option<Place>) -> Result<(), ReplayError> {
        self.apply(index, entry, place)
    }

    fn copies(&mut self, copies: &[u8], place: Place) -> Result<(), ReplayError> {
        let copies = Copies::decode(copies)?;
        copies.take(&self.partition, &mut self.contents, place);
        Ok(())
    }

    fn progress(&mut self, bytes_done: u64, bytes_total: u64) {
        self.progress.reached(bytes_done, bytes_total);
    }
}
