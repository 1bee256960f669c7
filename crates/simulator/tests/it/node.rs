//! A partition with the contents of its messages, as its owner keeps them: applied entry by entry, stored in snapshots.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use journal::{Place, Replay, ReplayError};
use queue_core::{Applied, Command, Context, Effect, Entry, Outcome, Partition};
use types::LogIndex;

/// One command of an entry, and what came of it.
pub(crate) type Step = (Context, Command, Applied);

#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) partition: Partition,
    /// The content of every slot that is in use.
    pub(crate) contents: BTreeMap<u32, Arc<[u8]>>,
    /// The last entry applied.
    pub(crate) index: u64,
    pub(crate) snapshots_read: u64,
    /// A planted bug: every entry is applied so many times after a start.
    pub(crate) replays_each: u64,
    /// A planted bug: milliseconds that a replay adds to the time of an entry.
    pub(crate) replay_adds_millis: u64,
}

impl Node {
    /// Applies the next entry.
    pub(crate) fn apply(&mut self, index: LogIndex, bytes: &[u8]) -> Vec<Step> {
        let entry = Entry::decode(bytes).expect("what was proposed can be decoded");
        self.index = index.0;
        self.apply_entry(index, entry)
    }

    fn apply_entry(&mut self, index: LogIndex, entry: Entry) -> Vec<Step> {
        let mut ordinal = 0;
        let mut steps = Vec::new();
        for command in entry.commands {
            let context = Context {
                at: entry.at,
                wall: entry.wall,
                index,
                ordinal,
            };
            let applied = self.partition.apply(context, &command);
            self.keep_contents(&command, &applied);
            if let Command::Enqueue { entries, .. } = &command {
                ordinal += u32::try_from(entries.len()).expect("an entry is small");
            }
            steps.push((context, command, applied));
        }
        steps
    }

    fn keep_contents(&mut self, command: &Command, applied: &Applied) {
        for effect in &applied.effects {
            match effect {
                Effect::Freed { slot, .. } => drop(self.contents.remove(&slot.0)),
                Effect::Available(_) | Effect::DeadLettered { .. } | Effect::QueueDeleted(_) => {}
            }
        }
        if let (Command::Enqueue { entries, .. }, Ok(Outcome::Enqueued(results))) =
            (command, &applied.outcome)
        {
            for (entry, result) in entries.iter().zip(results) {
                if let Some(slot) = result.as_ref().ok().and_then(|enqueued| enqueued.slot) {
                    self.contents.insert(slot.0, Arc::clone(&entry.content));
                }
            }
        }
    }

    /// Returns the bytes of a snapshot: the partition, then slot, length and content of every message.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.partition
            .snapshot()
            .write(&mut bytes)
            .expect("a vector takes every write");
        for (slot, content) in &self.contents {
            bytes.extend(slot.to_le_bytes());
            bytes.extend(
                u32::try_from(content.len())
                    .expect("contents are small")
                    .to_le_bytes(),
            );
            bytes.extend_from_slice(content);
        }
        bytes
    }

    /// Reads a snapshot back.
    pub(crate) fn from_bytes(content: &mut dyn Read) -> Result<Self, ReplayError> {
        let partition = Partition::restore(content)?;
        let mut rest = Vec::new();
        content.read_to_end(&mut rest)?;
        let mut contents = BTreeMap::new();
        let mut rest = rest.as_slice();
        while let Some((head, tail)) = rest.split_first_chunk::<8>() {
            let [slot, length] =
                [&head[..4], &head[4..]].map(|half| u32::from_le_bytes(half.try_into().unwrap()));
            let (content, tail) = tail.split_at(length as usize);
            contents.insert(slot, Arc::from(content));
            rest = tail;
        }
        Ok(Self {
            partition,
            contents,
            ..Self::default()
        })
    }
}

impl Replay for Node {
    fn snapshot(&mut self, index: LogIndex, content: &mut dyn Read) -> Result<(), ReplayError> {
        let read = Self::from_bytes(content)?;
        (self.partition, self.contents) = (read.partition, read.contents);
        self.index = index.0;
        self.snapshots_read += 1;
        Ok(())
    }

    fn entry(&mut self, index: LogIndex, bytes: &[u8], _place: Option<Place>) -> Result<(), ReplayError> {
        if index.0 != self.index + 1 {
            return Err(format!("entry {index} after {}", self.index).into());
        }
        let mut entry = Entry::decode(bytes)?;
        entry.at = entry
            .at
            .plus(std::time::Duration::from_millis(self.replay_adds_millis));
        self.index = index.0;
        for _ in 0..self.replays_each {
            self.apply_entry(index, entry.clone());
        }
        Ok(())
    }
}
