//! Recovery: a partition with its contents, rebuilt from what the journal kept.

use std::io::Read;

use journal::{Replay, ReplayError};
use queue_core::{Context, Entry, Partition};
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
        let mut wall = [0; 8];
        content.read_exact(&mut wall)?;
        self.last_wall = WallTime::from_millis(u64::from_le_bytes(wall));
        self.partition = Partition::restore(content)?;
        self.contents = Contents::read(content)?;
        self.index = index;
        Ok(())
    }

    fn entry(&mut self, index: LogIndex, entry: &[u8]) -> Result<(), ReplayError> {
        self.apply(index, entry)
    }
}
