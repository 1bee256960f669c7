//! An entry that is durable, applied command by command: by the owner, and by a start that reads it again.

use journal::Place;
use queue_core::{Applied, Command, Context, Effect, Outcome, Partition};
use types::{LogIndex, Timestamp, WallTime};

use crate::contents::Contents;

/// An entry that is durable: applies its commands, and keeps the column of contents in step.
#[derive(Debug)]
pub(crate) struct Written {
    index: LogIndex,
    place: Option<Place>,
    /// Where in the entry each content begins.
    contents: Vec<u32>,
    /// Contents of the commands before.
    ordinal: u32,
}

impl Written {
    /// Begins an entry of this hash.
    pub(crate) fn begin(
        partition: &mut Partition,
        entry_hash: u64,
        (index, place): (LogIndex, Option<Place>),
        contents: Vec<u32>,
    ) -> Self {
        partition.begin_entry(entry_hash);
        Self {
            index,
            place,
            contents,
            ordinal: 0,
        }
    }

    pub(crate) fn apply(
        &mut self,
        partition: &mut Partition,
        contents: &mut Contents,
        (at, wall): (Timestamp, WallTime),
        command: &Command,
    ) -> Applied {
        let context = Context {
            at,
            wall,
            index: self.index,
            ordinal: self.ordinal,
        };
        let applied = partition.apply(context, command);
        // First what the effects say: a slot that this command freed may be the one that it filled.
        for effect in &applied.effects {
            match effect {
                Effect::Freed { slot, content_bytes } => contents.clear(*slot, *content_bytes),
                Effect::Available(_) | Effect::DeadLettered { .. } | Effect::QueueDeleted(_) => {}
            }
        }
        let Command::Enqueue { entries, .. } = command else {
            return applied;
        };
        if let Ok(Outcome::Enqueued(results)) = &applied.outcome {
            for ((entry, result), ordinal) in entries.iter().zip(results).zip(self.ordinal..) {
                if let Some(slot) = result.as_ref().ok().and_then(|enqueued| enqueued.slot) {
                    contents.set(slot, entry.content.clone(), self.place_of(ordinal));
                }
            }
        }
        self.ordinal += u32::try_from(entries.len()).unwrap_or(u32::MAX);
        applied
    }

    fn place_of(&self, ordinal: u32) -> Option<Place> {
        let offset = self.contents.get(ordinal as usize);
        self.place.zip(offset).map(|(place, offset)| place.plus(*offset))
    }
}
