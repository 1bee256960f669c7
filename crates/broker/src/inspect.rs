//! Looks through a stopped data directory: the log and, if asked, the state and every content. Changes nothing.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use journal::{Corruption, Discarding, Disk, File, Journal, JournalError, Layout, Verification};
use queue_core::{Handle, Queue};
use types::{LeaseToken, QueueKey, Slot};

use crate::contents::{Held, Stored};
use crate::replay::{Recovered, Restoring, recover};

/// What a data directory holds.
#[derive(Debug)]
pub struct Inspection {
    /// The log and the snapshots.
    pub log: Verification,
    /// The state; none if it was not asked for, or if a start would be refused.
    pub state: Option<StateInspection>,
}

/// What the state holds.
#[derive(Debug)]
pub struct StateInspection {
    /// Queues.
    pub queues: u64,
    /// Messages in them.
    pub messages: u64,
    /// Contents whose checksum holds.
    pub contents: u64,
    /// Bytes of them.
    pub content_bytes: u64,
    /// Messages whose content is lost: by queue.
    pub lost: BTreeMap<QueueKey, Vec<Corruption>>,
    /// What the state contradicts itself in.
    pub contradiction: Option<String>,
}

impl Inspection {
    /// Whether everything is as it was written.
    pub fn is_whole(&self) -> bool {
        let is_sound = |state: &StateInspection| state.lost.is_empty() && state.contradiction.is_none();
        self.log.damage.is_empty() && self.state.as_ref().is_none_or(is_sound)
    }
}

/// A message whose content cannot be read.
#[derive(Debug)]
pub(crate) struct Lost {
    /// Names the message; no lease.
    pub(crate) handle: Handle,
    /// The segment that should hold it.
    pub(crate) segment: Option<u32>,
    pub(crate) damage: Corruption,
}

/// What reading all contents found.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) contents: u64,
    pub(crate) bytes: u64,
    pub(crate) lost: Vec<Lost>,
}

/// Inspects a data directory whose lock the caller holds; `is_deep` replays the state and reads every content.
pub fn inspect(disk: Arc<dyn Disk>, is_deep: bool) -> Result<Inspection, JournalError> {
    if Layout::of(&*disk)? == Some(Layout::Replicated) {
        return inspect_node(disk, is_deep);
    }
    if !is_deep {
        let (log, _) = journal::verify(disk, &mut Discarding)?;
        return Ok(Inspection { log, state: None });
    }
    let mut recovered = recover();
    let (log, journal) = journal::verify(disk.clone(), &mut recovered)?;
    let state = match journal {
        Some(journal) => Some(inspect_state(&*disk, &recovered, &|segment| {
            journal.segment(segment)
        })?),
        None => None,
    };
    Ok(Inspection { log, state })
}

/// Inspects the directory of a node of a cluster. Its state is that of its snapshot: what is behind it may not be committed.
fn inspect_node(disk: Arc<dyn Disk>, is_deep: bool) -> Result<Inspection, JournalError> {
    let mut recovered = recover();
    let (log, opened) = journal::verify_replicated(disk.clone(), &mut Restoring(&mut recovered))?;
    let state = match opened.filter(|_| is_deep) {
        Some(opened) => {
            let reader = opened.reader();
            Some(inspect_state(&*disk, &recovered, &|segment| {
                reader.file(segment)
            })?)
        }
        None => None,
    };
    Ok(Inspection { log, state })
}

/// Finds a segment by its number.
pub(crate) type Segments<'a> = &'a dyn Fn(u32) -> Option<Arc<dyn File>>;

fn inspect_state(
    disk: &dyn Disk,
    recovered: &Recovered,
    segments: Segments<'_>,
) -> Result<StateInspection, JournalError> {
    let read = read_contents(disk, recovered, segments)?;
    let mut lost: BTreeMap<QueueKey, Vec<Corruption>> = BTreeMap::new();
    for Lost { handle, damage, .. } in read.lost {
        if let Some(queue) = recovered.partition.queue(handle.queue) {
            lost.entry(queue.key().clone()).or_default().push(damage);
        }
    }
    let checked = catch_unwind(AssertUnwindSafe(|| recovered.partition.check_invariants()));
    let contradiction = checked.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let literal = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or(literal).unwrap_or_default()
    });
    Ok(StateInspection {
        queues: recovered.partition.queue_count() as u64,
        messages: messages(recovered),
        contents: read.contents,
        content_bytes: read.bytes,
        lost,
        contradiction,
    })
}

/// Returns the number of messages in all queues.
pub(crate) fn messages(recovered: &Recovered) -> u64 {
    let total = |queue: &Queue| queue.counters().total();
    recovered.partition.queues().map(total).sum()
}

/// Reads the content of every message.
pub(crate) fn read_contents(
    disk: &dyn Disk,
    recovered: &Recovered,
    segments: Segments<'_>,
) -> Result<Read, JournalError> {
    let mut found = Read::default();
    for slot in slots(recovered) {
        let Some(payload) = recovered.partition.payload(slot) else {
            continue;
        };
        let stored = recovered.contents.stored(slot, payload.content_bytes);
        let problem = match stored {
            Some(stored) => read_stored(disk, segments, stored)?.err(),
            None => match recovered.contents.get(slot, payload.content_bytes) {
                Held::Memory(_) => None,
                Held::Disk(_) | Held::Nowhere => Some("it is nowhere"),
            },
        };
        let Some(reason) = problem else {
            found.contents += 1;
            found.bytes += u64::from(payload.content_bytes);
            continue;
        };
        let (file, offset) = stored.map_or_else(
            || (disk.describe(""), 0),
            |stored| {
                let name = journal::segment_name(stored.place.segment);
                (disk.describe(&name), u64::from(stored.place.offset))
            },
        );
        found.lost.push(Lost {
            handle: Handle {
                queue: payload.queue,
                slot,
                sequence: payload.sequence,
                token: LeaseToken(0),
            },
            segment: stored.map(|stored| stored.place.segment),
            damage: Corruption {
                file,
                offset,
                reason: format!("the content of a message: {reason}"),
            },
        });
    }
    Ok(found)
}

/// Returns all slots, free ones included.
pub(crate) fn slots(recovered: &Recovered) -> impl Iterator<Item = Slot> + use<> {
    let count = u32::try_from(recovered.partition.slots()).expect("slots are 32 bits");
    (0..count).map(Slot)
}

/// Reads one content; says what is wrong if it is not what was stored.
pub(crate) fn read_stored(
    disk: &dyn Disk,
    segments: Segments<'_>,
    stored: Stored,
) -> Result<Result<Vec<u8>, &'static str>, JournalError> {
    let Some(file) = segments(stored.place.segment) else {
        return Ok(Err("its segment is not there"));
    };
    let mut bytes = vec![0; stored.bytes as usize];
    let read = file
        .read_at(&mut bytes, u64::from(stored.place.offset))
        .map_err(|source| JournalError::Io {
            operation: "read",
            file: disk.describe(&journal::segment_name(stored.place.segment)),
            source,
        })?;
    bytes.truncate(read);
    Ok(match stored.fits(&bytes) {
        true => Ok(bytes),
        false => Err("the bytes there are not those that were stored"),
    })
}
