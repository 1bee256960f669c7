//! Reads a segment: the record at a place, and traces of records anywhere after a place.
//!
//! A record found here has a checksum and a generation that hold; whether it fits the one before is decided in
//! `recovery`.

use crate::disk::Disk;
use crate::error::JournalError;
use crate::record::{self, GENERATION_AT, HEADER_BYTES, Record};
use crate::segment::Segment;

const WINDOW_BYTES: u64 = 1 << 20;

/// Reads through one segment in windows, so that memory stays bounded by the largest record.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    disk: &'a dyn Disk,
    segment: &'a Segment,
    window: Vec<u8>,
    window_at: u64,
}

/// What lies in a segment after a place.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Where the last trace of a record of this generation ends, valid or not.
    pub(crate) traces_end: Option<u64>,
    /// The valid record that knew most to be durable.
    pub(crate) claim: Option<Claim>,
}

/// A valid record's word that everything before a position was durable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) synced_to: u64,
    pub(crate) offset: u64,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, segment: &'a Segment) -> Self {
        Self {
            disk,
            segment,
            window: Vec::new(),
            window_at: 0,
        }
    }

    /// Returns the record at a place if its generation and checksum hold.
    pub(crate) fn record_at(&mut self, offset: u64) -> Result<Option<Record<'_>>, JournalError> {
        let generation = self.segment.generation;
        let (disk, segment) = (self.disk, self.segment);
        let Some(header) = self.bytes_at(offset, HEADER_BYTES as u64)? else {
            return Ok(None);
        };
        let Some(length) = record::announced_bytes(header, generation) else {
            return Ok(None);
        };
        let Some(record) = self.bytes_at(offset, length)?.and_then(Record::check) else {
            return Ok(None);
        };
        match record.kind() {
            Ok(_) => Ok(Some(record)),
            Err(what) => Err(JournalError::Unsupported {
                file: disk.describe(&segment.name),
                offset,
                what,
            }),
        }
    }

    /// Returns every place from `from` on where a record of this generation may begin, also behind damage.
    pub(crate) fn traces(&mut self, from: u64) -> Result<Vec<u64>, JournalError> {
        let word = self.segment.generation.to_le_bytes();
        let mut traces = Vec::new();
        let mut at = from + GENERATION_AT;
        while at < self.segment.bytes {
            let step = WINDOW_BYTES.min(self.segment.bytes - at);
            let Some(window) = self.bytes_at(at, step)? else {
                break;
            };
            let words = window.chunks_exact(8).enumerate();
            let here = words.filter(|(_, bytes)| *bytes == word);
            traces.extend(here.map(|(i, _)| at - GENERATION_AT + 8 * i as u64));
            at += step;
        }
        Ok(traces)
    }

    /// Looks for records at every place from `from` on, also behind damage.
    pub(crate) fn survey(&mut self, from: u64) -> Result<Survey, JournalError> {
        let word = self.segment.generation.to_le_bytes();
        let mut survey = Survey::default();
        let mut found = Vec::new();
        let mut at = from.next_multiple_of(8);
        while at < self.segment.bytes {
            let step = WINDOW_BYTES.min(self.segment.bytes - at);
            let Some(window) = self.bytes_at(at, step)? else {
                break;
            };
            let words = window.chunks_exact(8).enumerate();
            found.extend(
                words
                    .filter(|(_, bytes)| *bytes == word)
                    .map(|(i, _)| at + 8 * i as u64),
            );
            for trace in found.drain(..).filter(|trace| *trace >= from + GENERATION_AT) {
                survey.traces_end = Some(trace + 8);
                let offset = trace - GENERATION_AT;
                if let Some(record) = self.record_at(offset)? {
                    let synced_to = record.synced_to();
                    survey.traces_end = Some(offset + record.bytes_len());
                    if survey.claim.is_none_or(|claim| claim.synced_to < synced_to) {
                        survey.claim = Some(Claim { synced_to, offset });
                    }
                }
            }
            at += step;
        }
        Ok(survey)
    }

    /// Returns so many bytes at a place, or none if the file ends before.
    fn bytes_at(&mut self, offset: u64, length: u64) -> Result<Option<&[u8]>, JournalError> {
        let end = offset + length;
        if end > self.segment.bytes {
            return Ok(None);
        }
        if offset < self.window_at || end > self.window_at + self.window.len() as u64 {
            let wanted = length.max(WINDOW_BYTES).min(self.segment.bytes - offset);
            self.window.resize(wanted as usize, 0);
            self.window_at = offset;
            let read = self.segment.file.read_at(&mut self.window, offset);
            let read = read.map_err(|source| {
                JournalError::failed("read", self.disk.describe(&self.segment.name), source)
            })?;
            self.window.truncate(read);
            if (read as u64) < length {
                return Ok(None);
            }
        }
        let at = (offset - self.window_at) as usize;
        Ok(Some(&self.window[at..at + length as usize]))
    }
}
