//! Reads snapshot files, and checks every byte of them.

use std::io::{self, Read};
use std::sync::Arc;

use types::{LogIndex, NodeId, Term};
use xxhash_rust::xxh3::Xxh3;

use crate::disk::{Disk, File};
use crate::error::{Corruption, JournalError};
use crate::layout::Layout;
use crate::log_id::LogId;
use crate::record::{number32, number64};
use crate::snapshot::{
    CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES, HEADER_BYTES, Header, MAGIC, MEMBERSHIP_BYTES_MAX, RaftSnapshot,
    TRAILER_BYTES, VERSION, VERSION_REPLICATED, VERSION_WITHOUT_SEGMENTS, chunk_crc, name, trailer,
};

/// Reads a whole snapshot and checks every byte of it.
pub(crate) fn verify(disk: &dyn Disk, name: &str, index: u64) -> Result<(), JournalError> {
    checked(disk, name, index).map(drop)
}

/// Reads a whole snapshot, checks every byte of it, and returns what stands before its content.
pub(crate) fn checked(disk: &dyn Disk, name: &str, index: u64) -> Result<Header, JournalError> {
    let mut reader = Reader::open(disk, name, index)?;
    while reader.next_chunk()? {}
    Ok(reader.header)
}

/// Returns whose snapshot it is; none if that cannot be read.
pub(crate) fn layout(disk: &dyn Disk, index: u64) -> Result<Option<Layout>, JournalError> {
    match Reader::open(disk, &name(index), index) {
        Ok(Reader { header, .. }) => Ok(Some(match header.raft {
            None => Layout::Local,
            Some(_) => Layout::Replicated,
        })),
        Err(JournalError::Corruption(_)) => Ok(None),
        Err(error) => Err(error),
    }
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
    header: Header,
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
            header: Header {
                index: LogIndex(index),
                ..Header::default()
            },
        };
        let mut header = [0; HEADER_BYTES];
        reader.read_exact_at(&mut header, 0)?;
        if &header[..8] != MAGIC || crc32c::crc32c(&header[..60]) != number32(&header, 60) {
            return Err(reader.damaged(0, "the checksum of the header does not hold"));
        }
        let version = number32(&header, 8);
        if ![VERSION, VERSION_WITHOUT_SEGMENTS, VERSION_REPLICATED].contains(&version) {
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
        if version == VERSION_REPLICATED {
            reader.read_raft()?;
        }
        Ok(reader)
    }

    /// Returns what the snapshot stands for in a cluster.
    pub(crate) fn raft(&self) -> Option<&RaftSnapshot> {
        self.header.raft.as_ref()
    }

    fn read_segments(&mut self) -> Result<(), JournalError> {
        let count = self.read_array().map(u32::from_le_bytes)?;
        for _ in 0..count {
            let segment = self.read_array().map(u32::from_le_bytes)?;
            self.header.segments.push(segment);
        }
        Ok(())
    }

    fn read_raft(&mut self) -> Result<(), JournalError> {
        let term = self.read_array().map(u64::from_le_bytes)?;
        let node = self.read_array().map(u64::from_le_bytes)?;
        let length = self.read_array().map(u32::from_le_bytes)?;
        if length as usize > MEMBERSHIP_BYTES_MAX {
            return Err(self.damaged(self.offset, "the membership is longer than any was written"));
        }
        let mut membership = vec![0; length as usize];
        self.read_preface(&mut membership)?;
        let id = LogId {
            term: Term(term),
            node: NodeId(node),
            index: self.header.index,
        };
        self.header.raft = Some(RaftSnapshot { id, membership });
        Ok(())
    }

    fn read_array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], JournalError> {
        let mut bytes = [0; BYTES];
        self.read_preface(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads what stands before the owner's content.
    fn read_preface(&mut self, mut bytes: &mut [u8]) -> Result<(), JournalError> {
        while !bytes.is_empty() {
            if self.chunk_at == self.chunk.len() {
                let at = self.offset;
                if !self.next_chunk()? {
                    return Err(self.damaged(at, "what stands before the content is cut short"));
                }
            }
            let taken = self.take(bytes);
            bytes = &mut bytes[taken..];
        }
        Ok(())
    }

    fn take(&mut self, bytes: &mut [u8]) -> usize {
        let rest = &self.chunk[self.chunk_at..];
        let taken = rest.len().min(bytes.len());
        bytes[..taken].copy_from_slice(&rest[..taken]);
        self.chunk_at += taken;
        taken
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
        Ok(self.take(buffer))
    }
}
