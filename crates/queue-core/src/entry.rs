//! The stored form of commands: a journal entry is one batch of them with its two times.
//!
//! ```text
//! entry    version u8 = 1 | at u64 | wall u64 | count u32 | command...
//! command  kind u8 | version u8 | fields by kind
//! ```
//!
//! Numbers are little-endian. A kind or version that is not known halts: it was written by a newer program. What
//! clients send most has a layout of its own; the rest is postcard of the fields. Golden files: `tests/fixtures`.

use std::sync::Arc;

use types::{LeaseToken, MessageId, QueueId, QueueKey, Sequence, Slot, Timestamp, WallTime};

use crate::agreement::check_level;
pub use crate::codec::DecodeError;
use crate::codec::{
    Decoder, postcard, put_block, put_length, put_optional_u32, put_postcard, put_u32, put_u64, repeat,
};
use crate::{AttributeChange, Command, Deduplication, EnqueueEntry, Handle};

const ENTRY_VERSION: u8 = 1;
const COUNT_AT: usize = 1 + 8 + 8;

mod kind {
    pub(super) const CREATE_QUEUE: u8 = 1;
    pub(super) const DELETE_QUEUE: u8 = 2;
    pub(super) const SET_QUEUE_ATTRIBUTES: u8 = 3;
    pub(super) const PURGE_QUEUE: u8 = 4;
    pub(super) const ENQUEUE: u8 = 5;
    pub(super) const RECEIVE: u8 = 6;
    pub(super) const DELETE: u8 = 7;
    pub(super) const CHANGE_VISIBILITY: u8 = 8;
    pub(super) const GIVE_BACK: u8 = 9;
    pub(super) const TICK: u8 = 10;
    pub(super) const ADD_SEAL_KEY: u8 = 11;
    pub(super) const TAG_QUEUE: u8 = 12;
    pub(super) const UNTAG_QUEUE: u8 = 13;
    pub(super) const START_MOVE_TASK: u8 = 14;
    pub(super) const CANCEL_MOVE_TASK: u8 = 15;
    pub(super) const SET_LIMITS: u8 = 16;
    pub(super) const WITHHOLD: u8 = 17;
    pub(super) const DISCARD: u8 = 18;
    pub(super) const RAISE_LEVEL: u8 = 19;
    pub(super) const COMPARE: u8 = 20;
    /// Never that of a real command.
    #[cfg(feature = "next-level")]
    pub(super) const OF_NEXT_LEVEL: u8 = 255;
}

const NO_DEDUPLICATION: u8 = 0;
const DEDUPLICATION_ID: u8 = 1;
const DEDUPLICATION_BODY: u8 = 2;

/// One batch of commands, read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The state clock of the batch.
    pub at: Timestamp,
    /// The wall clock of the batch.
    pub wall: WallTime,
    /// The commands in order.
    pub commands: Vec<Command>,
}

/// Writes one batch of commands into a buffer that the caller reuses.
#[derive(Debug)]
pub struct EntryEncoder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    count: u32,
    contents: Contents,
}

/// Where the contents of messages begin in an entry, in the order of their ordinals.
#[derive(Debug)]
struct Contents {
    /// Where the entry begins.
    start: usize,
    offsets: Vec<u32>,
}

impl Contents {
    fn note(&mut self, at: usize) {
        let offset = u32::try_from(at - self.start).expect("an entry is far shorter than 4 GiB");
        self.offsets.push(offset);
    }
}

impl<'a> EntryEncoder<'a> {
    /// Begins an entry at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>, at: Timestamp, wall: WallTime) -> Self {
        let start = out.len();
        out.push(ENTRY_VERSION);
        put_u64(out, at.as_millis());
        put_u64(out, wall.as_millis());
        put_u32(out, 0);
        let offsets = Vec::new();
        Self {
            out,
            start,
            count: 0,
            contents: Contents { start, offsets },
        }
    }

    /// Adds a command.
    pub fn push(&mut self, command: &Command) {
        encode(self.out, command, &mut self.contents);
        self.count += 1;
    }

    /// Returns the number of bytes so far.
    pub fn len(&self) -> usize {
        self.out.len() - self.start
    }

    /// Whether no command was added.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Ends the entry. Returns where in it the content of each enqueued message begins, in the order of their ordinals.
    pub fn finish(self) -> Vec<u32> {
        let at = self.start + COUNT_AT;
        self.out[at..at + 4].copy_from_slice(&self.count.to_le_bytes());
        self.contents.offsets
    }
}

impl Entry {
    /// Reads an entry back.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_with_places(bytes).map(|(entry, _)| entry)
    }

    /// Reads an entry back, and where in it the content of each enqueued message begins, in the order of their ordinals.
    pub fn decode_with_places(bytes: &[u8]) -> Result<(Self, Vec<u32>), DecodeError> {
        let mut decoder = Decoder::new(bytes);
        let mut contents = Contents {
            start: 0,
            offsets: Vec::new(),
        };
        let version = decoder.u8()?;
        if version != ENTRY_VERSION {
            return Err(DecodeError::UnknownKind { kind: 0, version });
        }
        let at = Timestamp::from_millis(decoder.u64()?);
        let wall = WallTime::from_millis(decoder.u64()?);
        let count = decoder.count()?;
        // A damaged count must not ask for more memory than its bytes justify.
        let mut commands = Vec::with_capacity(count.min(256));
        for _ in 0..count {
            commands.push(decode(&mut decoder, bytes.len(), &mut contents)?);
        }
        decoder.finish()?;
        Ok((Self { at, wall, commands }, contents.offsets))
    }
}

fn encode(out: &mut Vec<u8>, command: &Command, contents: &mut Contents) {
    out.extend_from_slice(&[kind_of(command), 1]);
    match command {
        Command::CreateQueue {
            key,
            attributes,
            tags,
            deleted_name_wait_seconds,
        } => put_postcard(out, &(key, attributes, tags, deleted_name_wait_seconds)),
        Command::DeleteQueue { queue } => put_u64(out, queue.0),
        Command::SetQueueAttributes { queue, attributes } => put_postcard(out, &(queue, attributes)),
        Command::PurgeQueue {
            queue,
            purge_wait_seconds,
        } => {
            put_u64(out, queue.0);
            put_u32(out, *purge_wait_seconds);
        }
        Command::Enqueue { queue, entries } => {
            put_u64(out, queue.0);
            put_length(out, entries.len());
            for entry in entries {
                put_enqueue_entry(out, entry);
                contents.note(out.len() - entry.content.len());
            }
        }
        Command::Receive {
            queue,
            max,
            visibility_timeout_seconds,
            is_long_poll,
            attempt,
        } => {
            put_u64(out, queue.0);
            put_u32(out, *max);
            put_optional_u32(out, *visibility_timeout_seconds);
            out.extend([u8::from(*is_long_poll), u8::from(attempt.is_some())]);
            out.extend(attempt.iter().flatten());
        }
        Command::Delete { queue, handles }
        | Command::GiveBack { queue, handles }
        | Command::Withhold { queue, handles }
        | Command::Discard { queue, handles } => {
            put_handles(out, *queue, handles);
        }
        Command::ChangeVisibility { queue, entries } => {
            put_u64(out, queue.0);
            put_length(out, entries.len());
            for (handle, seconds) in entries {
                put_handle(out, handle);
                put_u32(out, *seconds);
            }
        }
        Command::TagQueue { queue, tags } => put_postcard(out, &(queue, tags)),
        Command::UntagQueue { queue, keys } => put_postcard(out, &(queue, keys)),
        Command::StartMoveTask {
            source,
            task,
            destination,
            rate,
        } => put_postcard(out, &(source, task, destination, rate)),
        Command::CancelMoveTask { source, task } => put_postcard(out, &(source, task)),
        Command::Tick | Command::Compare => {}
        #[cfg(feature = "next-level")]
        Command::OfNextLevel => {}
        Command::RaiseLevel { level } => put_u32(out, *level),
        Command::AddSealKey { key } => out.extend_from_slice(key),
        Command::SetLimits { in_flight_max } => put_u64(out, *in_flight_max),
    }
}

const fn kind_of(command: &Command) -> u8 {
    match command {
        Command::CreateQueue { .. } => kind::CREATE_QUEUE,
        Command::DeleteQueue { .. } => kind::DELETE_QUEUE,
        Command::SetQueueAttributes { .. } => kind::SET_QUEUE_ATTRIBUTES,
        Command::PurgeQueue { .. } => kind::PURGE_QUEUE,
        Command::Enqueue { .. } => kind::ENQUEUE,
        Command::Receive { .. } => kind::RECEIVE,
        Command::Delete { .. } => kind::DELETE,
        Command::ChangeVisibility { .. } => kind::CHANGE_VISIBILITY,
        Command::GiveBack { .. } => kind::GIVE_BACK,
        Command::Withhold { .. } => kind::WITHHOLD,
        Command::Discard { .. } => kind::DISCARD,
        Command::TagQueue { .. } => kind::TAG_QUEUE,
        Command::UntagQueue { .. } => kind::UNTAG_QUEUE,
        Command::StartMoveTask { .. } => kind::START_MOVE_TASK,
        Command::CancelMoveTask { .. } => kind::CANCEL_MOVE_TASK,
        Command::Tick => kind::TICK,
        Command::AddSealKey { .. } => kind::ADD_SEAL_KEY,
        Command::SetLimits { .. } => kind::SET_LIMITS,
        Command::RaiseLevel { .. } => kind::RAISE_LEVEL,
        Command::Compare => kind::COMPARE,
        #[cfg(feature = "next-level")]
        Command::OfNextLevel => kind::OF_NEXT_LEVEL,
    }
}

fn decode(
    decoder: &mut Decoder<'_>,
    entry_bytes: usize,
    contents: &mut Contents,
) -> Result<Command, DecodeError> {
    let [kind, version] = decoder.array()?;
    if version != 1 {
        return Err(DecodeError::UnknownKind { kind, version });
    }
    Ok(match kind {
        kind::CREATE_QUEUE => create_queue(decoder)?,
        kind::DELETE_QUEUE => Command::DeleteQueue {
            queue: QueueId(decoder.u64()?),
        },
        kind::SET_QUEUE_ATTRIBUTES => {
            let (queue, attributes) = postcard::<(QueueId, Vec<AttributeChange>)>(decoder)?;
            Command::SetQueueAttributes { queue, attributes }
        }
        kind::PURGE_QUEUE => Command::PurgeQueue {
            queue: QueueId(decoder.u64()?),
            purge_wait_seconds: decoder.u32()?,
        },
        kind::ENQUEUE => {
            let queue = QueueId(decoder.u64()?);
            let entries = repeat(decoder, |decoder| {
                let entry = enqueue_entry(decoder)?;
                contents.note(entry_bytes - decoder.rest().len() - entry.content.len());
                Ok(entry)
            })?;
            Command::Enqueue { queue, entries }
        }
        kind::RECEIVE => receive(decoder)?,
        kind::DELETE | kind::GIVE_BACK | kind::WITHHOLD | kind::DISCARD => by_handles(kind, decoder)?,
        kind::CHANGE_VISIBILITY => {
            let queue = QueueId(decoder.u64()?);
            let entries = repeat(decoder, |decoder| Ok((handle(decoder)?, decoder.u32()?)))?;
            Command::ChangeVisibility { queue, entries }
        }
        kind::TAG_QUEUE => {
            let (queue, tags) = postcard(decoder)?;
            Command::TagQueue { queue, tags }
        }
        kind::UNTAG_QUEUE => {
            let (queue, keys) = postcard(decoder)?;
            Command::UntagQueue { queue, keys }
        }
        kind::START_MOVE_TASK => start_move_task(decoder)?,
        kind::CANCEL_MOVE_TASK => {
            let (source, task) = postcard(decoder)?;
            Command::CancelMoveTask { source, task }
        }
        kind::TICK => Command::Tick,
        kind::COMPARE => Command::Compare,
        kind::RAISE_LEVEL => Command::RaiseLevel {
            level: check_level(decoder.u32()?)?,
        },
        #[cfg(feature = "next-level")]
        kind::OF_NEXT_LEVEL => Command::OfNextLevel,
        kind::SET_LIMITS => Command::SetLimits {
            in_flight_max: decoder.u64()?,
        },
        kind::ADD_SEAL_KEY => Command::AddSealKey {
            key: decoder.array()?,
        },
        _ => return Err(DecodeError::UnknownKind { kind, version }),
    })
}

/// Reads a command that names messages by their handles.
fn by_handles(kind: u8, decoder: &mut Decoder<'_>) -> Result<Command, DecodeError> {
    let queue = QueueId(decoder.u64()?);
    let handles = repeat(decoder, handle)?;
    Ok(match kind {
        kind::DELETE => Command::Delete { queue, handles },
        kind::GIVE_BACK => Command::GiveBack { queue, handles },
        kind::WITHHOLD => Command::Withhold { queue, handles },
        _ => Command::Discard { queue, handles },
    })
}

fn create_queue(decoder: &mut Decoder<'_>) -> Result<Command, DecodeError> {
    type Fields = (QueueKey, Vec<AttributeChange>, Vec<(Box<str>, Box<str>)>, u32);
    let (key, attributes, tags, deleted_name_wait_seconds) = postcard::<Fields>(decoder)?;
    Ok(Command::CreateQueue {
        key,
        attributes,
        tags,
        deleted_name_wait_seconds,
    })
}

fn receive(decoder: &mut Decoder<'_>) -> Result<Command, DecodeError> {
    Ok(Command::Receive {
        queue: QueueId(decoder.u64()?),
        max: decoder.u32()?,
        visibility_timeout_seconds: decoder.optional_u32()?,
        is_long_poll: decoder.bool()?,
        attempt: if decoder.bool()? {
            Some(decoder.array()?)
        } else {
            None
        },
    })
}

fn start_move_task(decoder: &mut Decoder<'_>) -> Result<Command, DecodeError> {
    let (source, task, destination, rate) = postcard(decoder)?;
    Ok(Command::StartMoveTask {
        source,
        task,
        destination,
        rate,
    })
}

/// Writes a message to add.
pub fn put_enqueue_entry(out: &mut Vec<u8>, entry: &EnqueueEntry) {
    out.extend_from_slice(entry.message_id.as_bytes());
    put_u32(out, entry.size_bytes);
    put_optional_u32(out, entry.delay_seconds);
    out.push(u8::from(entry.group.is_some()));
    entry
        .group
        .iter()
        .for_each(|group| put_block(out, group.as_bytes()));
    match &entry.deduplication {
        None => out.push(NO_DEDUPLICATION),
        Some(Deduplication::Id(id)) => {
            out.push(DEDUPLICATION_ID);
            put_block(out, id.as_bytes());
        }
        Some(Deduplication::BodyHash(hash)) => {
            out.push(DEDUPLICATION_BODY);
            out.extend_from_slice(hash);
        }
    }
    put_block(out, &entry.content);
}

/// Reads a message to add.
pub fn enqueue_entry(decoder: &mut Decoder<'_>) -> Result<EnqueueEntry, DecodeError> {
    Ok(EnqueueEntry {
        message_id: MessageId::from_bytes(decoder.array()?),
        size_bytes: decoder.u32()?,
        delay_seconds: decoder.optional_u32()?,
        group: if decoder.bool()? {
            Some(decoder.text()?.into())
        } else {
            None
        },
        deduplication: match decoder.u8()? {
            NO_DEDUPLICATION => None,
            DEDUPLICATION_ID => Some(Deduplication::Id(decoder.text()?.into())),
            DEDUPLICATION_BODY => Some(Deduplication::BodyHash(decoder.array()?)),
            _ => return Err(DecodeError::Invalid("kind of deduplication")),
        },
        // The last field, so that its place follows from the end of the entry.
        content: Arc::from(decoder.block()?),
    })
}

fn put_handles(out: &mut Vec<u8>, queue: QueueId, handles: &[Handle]) {
    put_u64(out, queue.0);
    put_length(out, handles.len());
    handles.iter().for_each(|handle| put_handle(out, handle));
}

/// Writes what a receipt handle says.
pub fn put_handle(out: &mut Vec<u8>, handle: &Handle) {
    put_u64(out, handle.queue.0);
    put_u32(out, handle.slot.0);
    put_u64(out, handle.sequence.0);
    put_u64(out, handle.token.0);
}

/// Reads what a receipt handle says.
pub fn handle(decoder: &mut Decoder<'_>) -> Result<Handle, DecodeError> {
    Ok(Handle {
        queue: QueueId(decoder.u64()?),
        slot: Slot(decoder.u32()?),
        sequence: Sequence(decoder.u64()?),
        token: LeaseToken(decoder.u64()?),
    })
}
