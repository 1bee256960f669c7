//! Recovery: a partition with its contents, rebuilt from what the journal kept. A snapshot is drawn in
//! `docs/formats/state.md`.

use std::io::{self, Read, Write};

use journal::{Replay, ReplayError};
use queue_core::{Context, Entry, Partition, PartitionSnapshot};
use types::{LogIndex, WallTime};

use crate::contents::Contents;
use crate::owner;

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
}

const MAGIC: &[u8; 8] = b"HFOWNER\x01";

/// Writes what a snapshot holds: the state, the contents, and the wall time of the last entry that they contain.
pub fn write_snapshot(
    wall: WallTime,
    state: &PartitionSnapshot,
    contents: &Contents,
    out: &mut dyn Write,
) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&wall.as_millis().to_le_bytes())?;
    state.write(out)?;
    contents.write(out)
}

/// Returns what takes the stored state from a journal; read the result when the journal has given everything.
pub fn recover() -> Recovered {
    Recovered::default()
}

impl Recovered {
    /// Applies one stored entry.
    pub fn apply(&mut self, index: LogIndex, bytes: &[u8]) -> Result<(), ReplayError> {
        let entry = Entry::decode(bytes)?;
        let mut ordinal = 0;
        for command in &entry.commands {
            let context = Context {
                at: entry.at,
                wall: entry.wall,
                index,
                ordinal,
            };
            owner::apply(
                &mut self.partition,
                &mut self.contents,
                context,
                command,
                &mut ordinal,
            );
        }
        (self.index, self.last_wall) = (index, entry.wall);
        Ok(())
    }
}

impl Replay for Recovered {
    fn snapshot(&mut self, index: LogIndex, content: &mut dyn Read) -> Result<(), ReplayError> {
        let (mut magic, mut wall) = ([0; 8], [0; 8]);
        content.read_exact(&mut magic)?;
        if &magic != MAGIC {
            return Err("not the snapshot of an owner of a known version".into());
        }
        content.read_exact(&mut wall)?;
        let partition = Partition::restore(content)?;
        let contents = Contents::read(content)?;
        if content.read(&mut [0])? != 0 {
            return Err("bytes behind the end of the snapshot".into());
        }
        *self = Self {
            partition,
            contents,
            index,
            last_wall: WallTime::from_millis(u64::from_le_bytes(wall)),
        };
        Ok(())
    }

    fn entry(&mut self, index: LogIndex, entry: &[u8]) -> Result<(), ReplayError> {
        self.apply(index, entry)
    }
}
