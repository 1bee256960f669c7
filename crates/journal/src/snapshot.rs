//! Snapshot files: written beside, synced, read back, and only then given their name.
//!
//! Drawn in `docs/formats/snapshot.md`. What is in a snapshot is the owner's business.

use std::io::{self, Read};
use std::sync::Arc;

use types::LogIndex;
use xxhash_rust::xxh3::Xxh3;

use crate::contract::{SnapshotReceipt, SnapshotSink};
use crate::disk::{Disk, File};
use crate::error::{Corruption, JournalError};
use crate::io::write_all_at;
use crate::record::{number32, number64};
use crate::segment::{number_between, sync, sync_names, temporary};

const MAGIC: &[u8; 8] = b"HFSNAPSH";
const VERSION: u32 = 2;
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

/// A snapshot that is being written.
#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
    temporary: String,
    index: LogIndex,
    log_position: u64,
    segments: Vec<u32>,
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
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        index: LogIndex,
        log_position: u64,
        segments: &[u32],
    ) -> Result<Self, JournalError> {
        let temporary = temporary(&name(index.0));
        let file = disk
            .create(&temporary)
            .map_err(|error| JournalError::writing(disk.describe(&temporary), error))?;
        let mut writer = Self {
            disk,
            file,
            temporary,
            index,
            log_position,
            segments: segments.to_vec(),
            offset: 0,
            synced: 0,
            content_bytes: 0,
            chunk: empty_chunk(),
            hash: HashDebug(Box::default()),
            is_finished: false,
        };
        writer.append(&header(index.0))?;
        let count = u32::try_from(segments.len()).expect("segments have 32-bit numbers");
        writer.write(&count.to_le_bytes())?;
        for segment in segments {
            writer.write(&segment.to_le_bytes())?;
        }
        Ok(writer)
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
        verify(self.disk.as_ref(), &self.temporary, self.index.0)?;
        let name = name(self.index.0);
        self.disk.rename(&self.temporary, &name).map_err(|source| {
            JournalError::failed("rename a snapshot to", self.disk.describe(&name), source)
        })?;
        self.is_finished = true;
        sync_names(self.disk.as_ref())?;
        let segments = std::mem::take(&mut self.segments);
        Ok(SnapshotReceipt::new(
            self.index,
            self.offset,
            self.log_position,
            segments,
        ))
    }
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

fn header(index: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
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

/// Reads a whole snapshot and checks every byte of it.
pub(crate) fn verify(disk: &dyn Disk, name: &str, index: u64) -> Result<(), JournalError> {
    checked_segments(disk, name, index).map(drop)
}

/// Reads a whole snapshot, checks every byte of it, and returns the segments that it names.
pub(crate) fn checked_segments(disk: &dyn Disk, name: &str, index: u64) -> Result<Vec<u32>, JournalError> {
    let mut reader = Reader::open(disk, name, index)?;
    while reader.next_chunk()? {}
    Ok(reader.segments)
}

/// Reads the content of a snapshot, checking as it goes; the end is reported only if the whole file holds.
pub(crate) struct Reader<'a> {
    disk: &'a dyn Disk,
    name: &'a str,
    file: Arc<dyn File>,
    offset: u64,
    content_bytes: u64,
    hash: Box<Xxh3>,
    chunk: Vec<u8>,
    chunk_at: usize,
    is_done: bool,
    /// The segments that hold contents which the state needs.
    segments: Vec<u32>,
}

impl<'a> Reader<'a> {
    /// Opens a snapshot and checks its header.
    pub(crate) fn open(disk: &'a dyn Disk, name: &'a str, index: u64) -> Result<Self, JournalError> {
        let file = disk
            .open(name)
            .map_err(|source| JournalError::failed("open", disk.describe(name), source))?;
        let mut reader = Self {
            disk,
            name,
            file,
            offset: 0,
            content_bytes: 0,
            hash: Box::default(),
            chunk: Vec::new(),
            chunk_at: 0,
            is_done: false,
            segments: Vec::new(),
        };
        let mut header = [0; HEADER_BYTES];
        reader.read_exact_at(&mut header, 0)?;
        if &header[..8] != MAGIC || crc32c::crc32c(&header[..60]) != number32(&header, 60) {
            return Err(reader.damaged(0, "the checksum of the header does not hold"));
        }
        let version = number32(&header, 8);
        if ![VERSION, VERSION_WITHOUT_SEGMENTS].contains(&version) {
            return Err(JournalError::Unsupported {
                file: disk.describe(name),
                offset: 8,
                what: format!("a snapshot of format {version}"),
            });
        }
        if number64(&header, 16) != index {
            return Err(reader.damaged(16, "the header is that of another snapshot"));
        }
        reader.hash.update(&header);
        reader.offset = HEADER_BYTES as u64;
        if version != VERSION_WITHOUT_SEGMENTS {
            reader.read_segments()?;
        }
        Ok(reader)
    }

    fn read_segments(&mut self) -> Result<(), JournalError> {
        let count = self.read_number()?;
        for _ in 0..count {
            let segment = self.read_number()?;
            self.segments.push(segment);
        }
        Ok(())
    }

    fn read_number(&mut self) -> Result<u32, JournalError> {
        let mut bytes = [0; 4];
        for byte in &mut bytes {
            while self.chunk_at == self.chunk.len() {
                let at = self.offset;
                if !self.next_chunk()? {
                    return Err(self.damaged(at, "the list of segments is cut short"));
                }
            }
            *byte = self.chunk[self.chunk_at];
            self.chunk_at += 1;
        }
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads the next chunk; false at the end, when the whole file has been found good.
    fn next_chunk(&mut self) -> Result<bool, JournalError> {
        if self.is_done {
            return Ok(false);
        }
        let mut head = [0; CHUNK_HEADER_BYTES];
        self.read_exact_at(&mut head, self.offset)?;
        let length = number32(&head, 0);
        if length == 0 {
            return self.check_trailer().map(|()| false);
        }
        if length as usize > CHUNK_BYTES_MAX {
            return Err(self.damaged(self.offset, "a chunk is longer than any was written"));
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(length as usize, 0);
        self.read_exact_at(&mut chunk, self.offset + CHUNK_HEADER_BYTES as u64)?;
        if chunk_crc(length, &chunk) != number32(&head, 4) {
            return Err(self.damaged(self.offset, "the checksum of a chunk does not hold"));
        }
        self.hash.update(&head);
        self.hash.update(&chunk);
        self.chunk = chunk;
        self.chunk_at = 0;
        self.offset += CHUNK_HEADER_BYTES as u64 + u64::from(length);
        self.content_bytes += u64::from(length);
        Ok(true)
    }

    fn check_trailer(&mut self) -> Result<(), JournalError> {
        let mut found = [0; TRAILER_BYTES];
        self.read_exact_at(&mut found, self.offset)?;
        if found != trailer(self.content_bytes, self.offset, self.hash.digest128()) {
            return Err(self.damaged(self.offset, "the trailer does not agree with the content"));
        }
        let end = self.offset + TRAILER_BYTES as u64;
        if self.file.len().map_err(|source| self.unreadable(source))? != end {
            return Err(self.damaged(end, "the file goes on after its end"));
        }
        self.is_done = true;
        self.chunk.clear();
        self.chunk_at = 0;
        Ok(())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), JournalError> {
        let read = self
            .file
            .read_at(buffer, offset)
            .map_err(|source| self.unreadable(source))?;
        if read < buffer.len() {
            return Err(self.damaged(offset + read as u64, "the file ends too early"));
        }
        Ok(())
    }

    fn unreadable(&self, source: io::Error) -> JournalError {
        JournalError::failed("read", self.disk.describe(self.name), source)
    }

    fn damaged(&self, offset: u64, reason: &str) -> JournalError {
        JournalError::Corruption(Corruption {
            file: self.disk.describe(self.name),
            offset,
            reason: reason.to_owned(),
        })
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.chunk_at == self.chunk.len() && !self.next_chunk().map_err(io::Error::other)? {
            return Ok(0);
        }
        let rest = &self.chunk[self.chunk_at..];
        let taken = rest.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&rest[..taken]);
        self.chunk_at += taken;
        Ok(taken)
    }
}
