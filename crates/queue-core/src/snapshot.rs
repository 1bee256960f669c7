//! The full state of a partition as bytes: taken in an instant, written at leisure, read back whole.
//!
//! Only what cannot be rebuilt is stored: headers, groups, queues, deduplication memory, counters of ids. Lists,
//! heaps and indexes are rebuilt on load, so no behaviour may depend on how they came about. Drawn in
//! `docs/formats/state.md`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{
    LeaseToken, LogIndex, MessageId, QueueId, QueueKey, Sequence, Slot, Timestamp, WallTime, limits,
};

use crate::agreement::check_level;
use crate::attempts::{Attempt, Attempts};
use crate::attributes::QueueAttributes;
use crate::codec::{DecodeError, Decoder, put_block, put_length, put_u32, put_u64, read_block, write_block};
use crate::codec::{handle, put_handle, repeat};
use crate::cow::{CowDeque, CowVec};
use crate::deduplication::{Accepted, Memory};
use crate::group::{Group, Groups};
use crate::header::{Delivery, Header, NO_GROUP};
use crate::history::{self, Histories, History};
use crate::partition::Origin;
use crate::queue::{Queue, Record, Settings};
use crate::slab::Slab;
use crate::stored_header;
use crate::task::{MoveTask, Moving, TaskStatus};
use crate::{Partition, PayloadId, RunningHash};

const MAGIC: &[u8; 8] = b"HFSTATE\x03";
const MAGIC_2: &[u8; 8] = b"HFSTATE\x02";
const MAGIC_1: &[u8; 8] = b"HFSTATE\x01";
/// Headers or groups in one block.
const BLOCK: usize = 512;

/// A state at one instant. It shares the chunks of the partition that it was taken from.
#[derive(Debug)]
pub struct PartitionSnapshot {
    root: Root,
    level: u32,
    running_hash: RunningHash,
    headers: CowVec<Header>,
    histories: CowVec<History>,
    free: CowVec<u32>,
    groups: CowVec<Group>,
    free_groups: CowVec<u32>,
    queues: Vec<(Record, CowDeque<Accepted>, CowDeque<Attempt>)>,
}

/// Bytes that are not a snapshot, or one that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The snapshot cannot be read.
    #[error("cannot read the snapshot")]
    Io(#[from] io::Error),
    /// The bytes are not a snapshot of a known version, or do not fit together.
    #[error("not a snapshot of a known version: {0}")]
    Decode(#[from] DecodeError),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Root {
    clock: Timestamp,
    in_flight_max: Option<u64>,
    last_queue: QueueId,
    last_token: LeaseToken,
    last_ticket: i64,
    first_ticket: i64,
    garbage: u64,
    reclaim_cursor: u32,
    seal_keys: Vec<[u8; 32]>,
    deleted_names: Vec<(Timestamp, QueueKey)>,
    origins: Vec<(QueueId, QueueKey, u64)>,
    tasks: Vec<(u64, MoveTask)>,
    last_task: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredQueue {
    id: QueueId,
    key: QueueKey,
    attributes: QueueAttributes,
    tags: BTreeMap<Box<str>, Box<str>>,
    created: WallTime,
    modified: WallTime,
    next_sequence: Sequence,
    floor: Sequence,
    generation: u32,
    purged_at: Option<Timestamp>,
    is_fair: bool,
    takes: u8,
    moving: Option<Moving>,
}

impl Partition {
    /// Takes a snapshot: a copy of tables, not of messages.
    pub fn snapshot(&self) -> PartitionSnapshot {
        let origins = self
            .origins
            .iter()
            .map(|(id, origin)| (*id, origin.key.clone(), origin.messages));
        PartitionSnapshot {
            root: Root {
                clock: self.clock,
                in_flight_max: self.in_flight_max,
                last_queue: self.last_queue,
                last_token: self.last_token,
                last_ticket: self.last_ticket,
                first_ticket: self.first_ticket,
                garbage: self.garbage,
                reclaim_cursor: self.reclaim_cursor,
                seal_keys: self.seal_keys.clone(),
                deleted_names: self
                    .deleted_names
                    .iter()
                    .map(|(key, at)| (*at, key.clone()))
                    .collect(),
                origins: origins.collect(),
                tasks: self
                    .tasks
                    .iter()
                    .map(|((_, number), task)| (*number, task.clone()))
                    .collect(),
                last_task: self.last_task,
            },
            level: self.level,
            running_hash: self.running_hash,
            headers: self.slab.headers.clone(),
            histories: self.slab.histories.records.clone(),
            free: self.slab.free.clone(),
            groups: self.groups.groups.clone(),
            free_groups: self.groups.free.clone(),
            queues: self
                .queues
                .values()
                .map(|queue| {
                    (
                        queue.record.clone(),
                        queue.deduplication.ring.clone(),
                        queue.attempts.ring.clone(),
                    )
                })
                .collect(),
        }
    }

    /// Returns a hash of the whole state: equal on every node that applied the same commands.
    pub fn state_hash(&self) -> u64 {
        self.snapshot().hash()
    }

    /// Reads a snapshot back and rebuilds what is not in it.
    pub fn restore(input: &mut dyn Read) -> Result<Self, RestoreError> {
        let mut magic = [0; 8];
        input.read_exact(&mut magic)?;
        let header = match &magic {
            MAGIC | MAGIC_2 => stored_header::read,
            MAGIC_1 => stored_header::read_1,
            _ => return Err(DecodeError::Invalid("snapshot header").into()),
        };
        let root: Root = postcard(&read_block(input)?)?;
        let (level, running_hash) = match &magic {
            MAGIC => agreement(&read_block(input)?)?,
            _ => Default::default(),
        };
        let mut histories = Histories::default();
        let headers = read_vec(input, |decoder| header(decoder, &mut histories))?;
        let free = read_vec(input, |decoder| decoder.u32())?;
        let groups = read_vec(input, group)?;
        let free_groups = read_vec(input, |decoder| decoder.u32())?;
        let count = Decoder::new(&read_block(input)?).u32()?;
        let mut queues = BTreeMap::new();
        for _ in 0..count {
            let stored: StoredQueue = postcard(&read_block(input)?)?;
            let mut queue = Queue::new(stored.into());
            queue.in_flight_max = root.in_flight_max.unwrap_or(limits::IN_FLIGHT_MAX);
            queue.deduplication = Memory::restore(read_vec(input, accepted)?.iter().copied());
            queue.attempts = Attempts::restore(read_vec(input, attempt)?.iter().cloned());
            queues.insert(queue.id(), queue);
        }
        let partition = Self {
            clock: root.clock,
            in_flight_max: root.in_flight_max,
            slab: Slab::restore(headers, histories, free),
            groups: Groups::restore(groups, free_groups),
            names: queues
                .iter()
                .map(|(id, queue)| (queue.key().clone(), *id))
                .collect(),
            queues,
            deleted_names: root
                .deleted_names
                .iter()
                .map(|(at, key)| (key.clone(), *at))
                .collect(),
            deleted_order: in_order(root.deleted_names).into(),
            origins: root
                .origins
                .into_iter()
                .map(|(id, key, messages)| (id, Origin { key, messages }))
                .collect(),
            garbage: root.garbage,
            reclaim_cursor: root.reclaim_cursor,
            last_queue: root.last_queue,
            last_token: root.last_token,
            last_ticket: root.last_ticket,
            first_ticket: root.first_ticket,
            seal_keys: root.seal_keys,
            level,
            running_hash,
            running: running(&root.tasks).collect(),
            tasks: root
                .tasks
                .into_iter()
                .map(|(number, task)| ((task.source, number), task))
                .collect(),
            last_task: root.last_task,
            ..Self::default()
        };
        partition.rebuild()
    }

    /// Enters every message into the lists of its queue.
    fn rebuild(mut self) -> Result<Self, RestoreError> {
        let mut live: Vec<(Sequence, Slot)> = Vec::new();
        for at in 0..self.slab.len() {
            let slot = Slot(u32::try_from(at).map_err(|_| DecodeError::Invalid("slab"))?);
            let header = self.slab.header(slot);
            if !header.is_free() {
                let group = self.groups.groups.get(header.group as usize);
                let fits = if header.group == NO_GROUP {
                    self.queue(header.queue).is_none_or(|queue| !queue.is_fifo())
                } else {
                    group.is_some_and(|group| group.queue == header.queue)
                };
                if !fits {
                    return Err(DecodeError::Invalid("message group").into());
                }
                if self.is_live(slot) {
                    live.push((header.sequence, slot));
                }
            }
        }
        live.sort_unstable();
        for (_, slot) in &live {
            self.relist(*slot);
        }
        // Ages in order, so that only messages that came with an age are late again.
        let mut ages: Vec<_> = live
            .iter()
            .map(|(_, slot)| (self.slab.header(*slot).age_from, *slot))
            .collect();
        ages.sort_by_key(|(age_from, slot)| (*age_from, self.slab.header(*slot).sequence));
        for (age_from, slot) in ages {
            let (id, sequence) = (self.slab.header(slot).queue, self.slab.header(slot).sequence);
            let queue = self.queues.get_mut(&id).expect("a live message has a queue");
            queue.push_age(&self.slab, age_from, sequence, slot);
        }
        let ids: Vec<_> = self.queues.keys().copied().collect();
        for id in ids {
            self.schedule_expiry(id);
            self.list_source(id);
        }
        let emptied = |queue: &&Queue| queue.record.moving.is_some();
        let fits = |(_, source): &(Timestamp, QueueId)| {
            let moving = self.queue(*source).and_then(|queue| queue.record.moving);
            moving.is_some_and(|moving| self.tasks.contains_key(&(*source, moving.task)))
        };
        if self.queues.values().filter(emptied).count() != self.running.len()
            || !self.running.iter().all(fits)
        {
            return Err(DecodeError::Invalid("move task").into());
        }
        self.relist_groups();
        Ok(self)
    }

    fn relist(&mut self, slot: Slot) {
        let header = *self.slab.header(slot);
        let queue = self
            .queues
            .get_mut(&header.queue)
            .expect("a live message has a queue");
        *queue.counters.of(header.delivery) += 1;
        if queue.is_fifo() {
            self.groups.append(&mut self.slab, header.group, slot);
        } else {
            if header.delivery == Delivery::Available {
                queue.line.push_fresh(header.sequence, slot);
            }
            if header.group != NO_GROUP {
                self.fair_enter(slot, &header);
            }
        }
        if header.delivery != Delivery::Available {
            self.hidden += 1;
            let visible_at = self.slab.history(slot).visible_at;
            self.schedule(slot, visible_at);
        }
    }

    fn relist_groups(&mut self) {
        for at in 0..self.groups.groups.len() {
            let index = u32::try_from(at).expect("group indexes are 32 bits");
            let group = self.groups.get(index);
            let (ticket, generation) = (group.ticket, group.generation);
            if ticket != 0
                && let Some(queue) = self.queues.get_mut(&group.queue)
                && queue.is_fifo()
                && queue.record.generation == generation
            {
                queue.ready.insert(ticket, index);
            }
        }
    }
}

/// Returns when running tasks have something to do.
fn running(tasks: &[(u64, MoveTask)]) -> impl Iterator<Item = (Timestamp, QueueId)> {
    let running = tasks
        .iter()
        .filter(|(_, task)| task.status == TaskStatus::Running);
    running.map(|(_, task)| (task.next_at, task.source))
}

/// Reads the block that nodes agree by.
fn agreement(block: &[u8]) -> Result<(u32, RunningHash), DecodeError> {
    let mut decoder = Decoder::new(block);
    let level = check_level(decoder.u32()?)?;
    let since = LogIndex(decoder.u64()?);
    let hash = decoder.u64()?;
    decoder.finish()?;
    Ok((level, RunningHash { since, hash }))
}

impl PartitionSnapshot {
    /// Returns the hash of the whole state, as [`Partition::state_hash`] does.
    pub fn hash(&self) -> u64 {
        let mut hash = HashWriter(xxhash_rust::xxh3::Xxh3::new());
        self.write(&mut hash).expect("hashing cannot fail");
        hash.0.digest()
    }

    /// Returns the content that a slot is kept for and its length; `None` if the slot is free.
    pub fn content(&self, slot: Slot) -> Option<(PayloadId, u32)> {
        let header = self.headers.get(slot.0 as usize)?;
        (!header.is_free()).then(|| (header.payload(), header.content_bytes))
    }

    /// Writes the snapshot.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        write_block(out, &to_postcard(&self.root))?;
        let mut agreement = Vec::new();
        put_u32(&mut agreement, self.level);
        put_u64(&mut agreement, self.running_hash.since.0);
        put_u64(&mut agreement, self.running_hash.hash);
        write_block(out, &agreement)?;
        write_vec(out, &self.headers, |out, header| {
            stored_header::put(out, header, history::read(&self.histories, header.history));
        })?;
        write_vec(out, &self.free, |out, slot| put_u32(out, *slot))?;
        write_vec(out, &self.groups, put_group)?;
        write_vec(out, &self.free_groups, |out, index| put_u32(out, *index))?;
        let count = u32::try_from(self.queues.len()).map_err(io::Error::other)?;
        write_block(out, &count.to_le_bytes())?;
        for (record, ring, attempts) in &self.queues {
            write_block(out, &to_postcard(&StoredQueue::from(record)))?;
            write_all(out, ring.len(), ring.iter(), put_accepted)?;
            write_all(out, attempts.len(), attempts.iter(), put_attempt)?;
        }
        Ok(())
    }

    /// Returns the number of slots: how many contents the owner has to store beside the state.
    pub fn slots(&self) -> usize {
        self.headers.len()
    }
}

impl From<&Record> for StoredQueue {
    fn from(record: &Record) -> Self {
        let settings = Settings::clone(&record.settings);
        Self {
            id: record.id,
            key: settings.key,
            attributes: settings.attributes,
            tags: settings.tags,
            created: settings.created,
            modified: settings.modified,
            next_sequence: record.next_sequence,
            floor: record.floor,
            generation: record.generation,
            purged_at: record.purged_at,
            is_fair: record.is_fair,
            takes: record.takes,
            moving: record.moving,
        }
    }
}

impl From<StoredQueue> for Record {
    fn from(stored: StoredQueue) -> Self {
        Self {
            id: stored.id,
            settings: Arc::new(Settings {
                key: stored.key,
                attributes: stored.attributes,
                tags: stored.tags,
                created: stored.created,
                modified: stored.modified,
            }),
            next_sequence: stored.next_sequence,
            floor: stored.floor,
            generation: stored.generation,
            purged_at: stored.purged_at,
            is_fair: stored.is_fair,
            takes: stored.takes,
            moving: stored.moving,
        }
    }
}

struct HashWriter(xxhash_rust::xxh3::Xxh3);

impl Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn in_order(mut names: Vec<(Timestamp, QueueKey)>) -> Vec<(Timestamp, QueueKey)> {
    names.sort();
    names
}

fn write_vec<T: Clone>(
    out: &mut dyn Write,
    values: &CowVec<T>,
    put: impl Fn(&mut Vec<u8>, &T),
) -> io::Result<()> {
    write_all(out, values.len(), values.iter(), put)
}

/// Writes a count, then the values in blocks of a bounded size.
fn write_all<'a, T: 'a>(
    out: &mut dyn Write,
    count: usize,
    values: impl Iterator<Item = &'a T>,
    put: impl Fn(&mut Vec<u8>, &T),
) -> io::Result<()> {
    write_block(out, &(count as u64).to_le_bytes())?;
    // With room for a block of headers from the start: what a growing one leaves behind is hardly given back.
    let mut block = Vec::with_capacity(64 << 10);
    let mut in_block = 0;
    for value in values {
        put(&mut block, value);
        in_block += 1;
        if in_block == BLOCK {
            write_block(out, &block)?;
            block.clear();
            in_block = 0;
        }
    }
    if in_block > 0 {
        write_block(out, &block)
    } else {
        Ok(())
    }
}

fn read_vec<T: Clone>(
    input: &mut dyn Read,
    mut one: impl FnMut(&mut Decoder<'_>) -> Result<T, DecodeError>,
) -> Result<CowVec<T>, RestoreError> {
    let count = Decoder::new(&read_block(input)?).u64()?;
    let mut values = CowVec::default();
    while (values.len() as u64) < count {
        let block = read_block(input)?;
        let mut decoder = Decoder::new(&block);
        while !decoder.rest().is_empty() {
            values.push(one(&mut decoder)?);
        }
        if block.is_empty() || values.len() as u64 > count {
            return Err(DecodeError::Invalid("block").into());
        }
    }
    Ok(values)
}

fn to_postcard<T: Serialize>(value: &T) -> Vec<u8> {
    ::postcard::to_allocvec(value).expect("plain values always encode")
}

fn postcard<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    ::postcard::from_bytes(bytes).map_err(|_| DecodeError::Invalid("section"))
}

fn put_group(out: &mut Vec<u8>, group: &Group) {
    put_u64(out, group.queue.0);
    put_u32(out, group.generation);
    put_u64(out, group.ticket.cast_unsigned());
    put_u32(out, group.messages);
    put_block(out, group.name.as_bytes());
}

fn group(decoder: &mut Decoder<'_>) -> Result<Group, DecodeError> {
    Ok(Group {
        queue: QueueId(decoder.u64()?),
        generation: decoder.u32()?,
        ticket: decoder.u64()?.cast_signed(),
        messages: decoder.u32()?,
        name: decoder.text()?.into(),
    })
}

fn put_accepted(out: &mut Vec<u8>, accepted: &Accepted) {
    out.extend_from_slice(&accepted.key);
    put_u64(out, accepted.at.as_millis());
    out.extend_from_slice(accepted.message_id.as_bytes());
    put_u64(out, accepted.sequence.0);
}

fn accepted(decoder: &mut Decoder<'_>) -> Result<Accepted, DecodeError> {
    Ok(Accepted {
        key: decoder.array()?,
        at: Timestamp::from_millis(decoder.u64()?),
        message_id: MessageId::from_bytes(decoder.array()?),
        sequence: Sequence(decoder.u64()?),
    })
}

fn put_attempt(out: &mut Vec<u8>, attempt: &Attempt) {
    out.extend_from_slice(&attempt.key);
    put_u64(out, attempt.at.as_millis());
    put_u64(out, attempt.visible_at.as_millis());
    put_length(out, attempt.handles.len());
    attempt.handles.iter().for_each(|handle| put_handle(out, handle));
}

fn attempt(decoder: &mut Decoder<'_>) -> Result<Attempt, DecodeError> {
    Ok(Attempt {
        key: decoder.array()?,
        at: Timestamp::from_millis(decoder.u64()?),
        visible_at: Timestamp::from_millis(decoder.u64()?),
        handles: repeat(decoder, handle)?,
    })
}
