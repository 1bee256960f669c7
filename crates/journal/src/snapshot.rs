//! Snapshot files: written beside, synced, read back, and only then given their name.
//!
//! Drawn in `docs/formats/snapshot.md`. What is in a snapshot is the owner's business.

mod reader;

use std::sync::Arc;

use types::LogIndex;
use xxhash_rust::xxh3::Xxh3;

pub(crate) use self::reader::{Reader, checked, layout, verify};
use crate::contract::{SnapshotReceipt, SnapshotSink};
use crate::disk::{Disk, File};
use crate::error::JournalError;
use crate::io::write_all_at;
use crate::log_id::LogId;
use crate::segment::{number_between, sync, sync_names, temporary};

const MAGIC: &[u8; 8] = b"HFSNAPSH";
/// A single node's.
const VERSION: u32 = 2;
/// Of a node of a cluster: it also names the position in the Raft log, and the membership there.
const VERSION_REPLICATED: u32 = 3;
/// Longest membership.
const MEMBERSHIP_BYTES_MAX: usize = 1 << 20;
/// Without the list of segments that the state needs contents from: it held all contents itself.
const VERSION_WITHOUT_SEGMENTS: u32 = 1;
const HEADER_BYTES: usize = 64;
const CHUNK_HEADER_BYTES: usize = 8;
const CHUNK_BYTES_MAX: usize = 256 << 10;
/// Length of the chunks that are written: small, as this runs beside the server and its memory is hardly given back.
const CHUNK_BYTES: usize = 64 << 10;
const TRAILER_BYTES: usize = 40;
/// Synced in steps, so that a commit's sync does not have to wait for a whole snapshot.
const SYNC_STEP_BYTES: u64 = 2 << 20;

/// Returns the name of the snapshot at an index.
pub(crate) fn name(index: u64) -> String {
    format!("snapshot-{index:020}.snap")
}

/// Returns the index of a snapshot with this name.
pub(crate) fn index_of(name: &str) -> Option<u64> {
    number_between(name, "snapshot-", ".snap")
}

/// What the snapshot of a node of a cluster stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RaftSnapshot {
    /// The last entry that it contains.
    pub id: LogId,
    /// The members of the cluster as of that entry, as the caller encodes them.
    pub membership: Vec<u8>,
}

/// What stands before the owner's content.
#[derive(Debug, Clone, Default)]
pub(crate) struct Header {
    pub(crate) index: LogIndex,
    /// The segments that hold contents which the state needs.
    pub(crate) segments: Vec<u32>,
    /// What the snapshot stands for in a cluster; none on a single node.
    pub(crate) raft: Option<RaftSnapshot>,
}

impl Header {
    pub(crate) fn local(index: LogIndex, segments: &[u32]) -> Self {
        Self {
            index,
            segments: segments.to_vec(),
            raft: None,
        }
    }

    pub(crate) fn replicated(raft: RaftSnapshot, segments: &[u32]) -> Self {
        Self {
            index: raft.id.index,
            segments: segments.to_vec(),
            raft: Some(raft),
        }
    }

    fn version(&self) -> u32 {
        match self.raft {
            None => VERSION,
            Some(_) => VERSION_REPLICATED,
        }
    }
}

/// A snapshot that is being written.
#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
    temporary: String,
    header: Header,
    log_position: u64,
    log_end: u64,
    /// Whether it is given its name when it is finished.
    is_named: bool,
    offset: u64,
    synced: u64,
    content_bytes: u64,
    /// The chunk that is being filled, with room for its header.
    chunk: Vec<u8>,
    hash: HashDebug,
    is_finished: bool,
}

struct HashDebug(Box<Xxh3>);

impl std::fmt::Debug for HashDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Xxh3")
    }
}

impl Writer {
    /// Begins a snapshot that stands for the log up to a position, when the log ends at another one.
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        header: Header,
        log_position: u64,
        log_end: u64,
    ) -> Result<Self, JournalError> {
        let temporary = temporary(&name(header.index.0));
        let file = disk
            .create(&temporary)
            .map_err(|error| JournalError::writing(disk.describe(&temporary), error))?;
        let mut writer = Self {
            disk,
            file,
            temporary,
            log_position,
            log_end,
            is_named: true,
            offset: 0,
            synced: 0,
            content_bytes: 0,
            chunk: empty_chunk(),
            hash: HashDebug(Box::default()),
            is_finished: false,
            header,
        };
        writer.append(&file_header(writer.header.version(), writer.header.index.0))?;
        let preface = writer.preface();
        writer.write(&preface)?;
        Ok(writer)
    }

    /// Leaves the snapshot under its temporary name when it is finished; [`give_name`] makes it count.
    pub(crate) fn unnamed(mut self) -> Self {
        self.is_named = false;
        self
    }

    fn preface(&self) -> Vec<u8> {
        let Header { segments, raft, .. } = &self.header;
        let count = u32::try_from(segments.len()).expect("segments have 32-bit numbers");
        let mut preface = count.to_le_bytes().to_vec();
        preface.extend(segments.iter().flat_map(|segment| segment.to_le_bytes()));
        if let Some(RaftSnapshot { id, membership }) = raft {
            preface.extend_from_slice(&id.term.0.to_le_bytes());
            preface.extend_from_slice(&id.node.0.to_le_bytes());
            let length = u32::try_from(membership.len()).expect("checked when the snapshot began");
            preface.extend_from_slice(&length.to_le_bytes());
            preface.extend_from_slice(membership);
        }
        preface
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        write_all_at(self.file.as_ref(), bytes, self.offset)
            .map_err(|partial| JournalError::writing(self.disk.describe(&self.temporary), partial.error))?;
        self.hash.0.update(bytes);
        self.offset += bytes.len() as u64;
        if self.offset - self.synced >= SYNC_STEP_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        sync(self.disk.as_ref(), self.file.as_ref(), &self.temporary)?;
        self.synced = self.offset;
        Ok(())
    }

    fn append_chunk(&mut self) -> Result<(), JournalError> {
        let mut chunk = std::mem::take(&mut self.chunk);
        let length = chunk.len() - CHUNK_HEADER_BYTES;
        if length > 0 {
            let length32 = u32::try_from(length).expect("a chunk is at most CHUNK_BYTES_MAX long");
            chunk[..4].copy_from_slice(&length32.to_le_bytes());
            let crc = chunk_crc(length32, &chunk[CHUNK_HEADER_BYTES..]);
            chunk[4..8].copy_from_slice(&crc.to_le_bytes());
            self.append(&chunk)?;
            self.content_bytes += length as u64;
        }
        chunk.truncate(CHUNK_HEADER_BYTES);
        self.chunk = chunk;
        Ok(())
    }
}

impl SnapshotSink for Writer {
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), JournalError> {
        while !bytes.is_empty() {
            let room = CHUNK_HEADER_BYTES + CHUNK_BYTES - self.chunk.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            if self.chunk.len() == CHUNK_HEADER_BYTES + CHUNK_BYTES {
                self.append_chunk()?;
            }
            bytes = later;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<SnapshotReceipt, JournalError> {
        self.append_chunk()?;
        let trailer = trailer(self.content_bytes, self.offset, self.hash.0.digest128());
        self.append(&trailer)?;
        self.sync()?;
        // Verified before it gets its name, so that a file with a snapshot's name was whole once.
        verify(self.disk.as_ref(), &self.temporary, self.header.index.0)?;
        if self.is_named {
            give_name(self.disk.as_ref(), self.header.index.0)?;
        }
        self.is_finished = true;
        let header = std::mem::take(&mut self.header);
        let receipt = SnapshotReceipt::new(header.index, self.offset, self.log_position, header.segments);
        Ok(receipt
            .begun_at(self.log_end)
            .of_cluster(header.raft, self.is_named))
    }
}

/// Gives a finished snapshot its name, for good.
pub(crate) fn give_name(disk: &dyn Disk, index: u64) -> Result<(), JournalError> {
    let name = name(index);
    disk.rename(&temporary(&name), &name)
        .map_err(|source| JournalError::failed("rename a snapshot to", disk.describe(&name), source))?;
    sync_names(disk)
}

/// Refuses a membership that a snapshot cannot name.
pub(crate) fn check_membership(membership: &[u8]) -> Result<(), JournalError> {
    if membership.len() > MEMBERSHIP_BYTES_MAX {
        return Err(JournalError::TooLarge {
            bytes: membership.len() as u64,
            bytes_max: MEMBERSHIP_BYTES_MAX as u64,
        });
    }
    Ok(())
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_finished {
            // Best effort: whatever stays is removed at the next start, and nobody is here to be told.
            let _ = self.disk.remove(&self.temporary);
        }
    }
}

fn empty_chunk() -> Vec<u8> {
    let mut chunk = Vec::with_capacity(CHUNK_HEADER_BYTES + CHUNK_BYTES);
    chunk.resize(CHUNK_HEADER_BYTES, 0);
    chunk
}

fn file_header(version: u32, index: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&version.to_le_bytes());
    header[16..24].copy_from_slice(&index.to_le_bytes());
    let crc = crc32c::crc32c(&header[..60]);
    header[60..].copy_from_slice(&crc.to_le_bytes());
    header
}

fn trailer(content_bytes: u64, offset: u64, hash: u128) -> [u8; TRAILER_BYTES] {
    let mut trailer = [0; TRAILER_BYTES];
    trailer[8..16].copy_from_slice(&content_bytes.to_le_bytes());
    trailer[16..24].copy_from_slice(&(offset + TRAILER_BYTES as u64).to_le_bytes());
    trailer[24..40].copy_from_slice(&hash.to_le_bytes());
    let crc = crc32c::crc32c(&trailer[8..]);
    trailer[4..8].copy_from_slice(&crc.to_le_bytes());
    trailer
}

fn chunk_crc(length: u32, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length.to_le_bytes()), payload)
}
