//! Writes the log after a snapshot again, in one new segment, when the log before the snapshot's entry is damaged.

use types::LogIndex;

use crate::disk::Disk;
use crate::error::JournalError;
use crate::io::write_all_at;
use crate::layout::Layout;
use crate::log_id::LogId;
use crate::record::{
    self, Fields, HEADER_BYTES, Kind, Record, START_RECORD_BYTES, Start, number64, record_bytes,
};
use crate::scan::Scanner;
use crate::segment::{self, IDENTITY_BYTES, Segment, sync};

/// A record to write again.
#[derive(Debug, Clone, Copy)]
struct Found {
    segment: usize,
    offset: u64,
    bytes: u64,
}

/// Writes the entries behind `index` that follow each other without a gap into a new segment, with which the log begins
/// from now on. Returns the last index. The segment gets its name when it is whole, so either the old log is there or
/// the new one.
pub(crate) fn rebase(disk: &dyn Disk, index: u64, segments: &[Segment]) -> Result<u64, JournalError> {
    let records = records_behind(disk, index, segments)?;
    let highest = crate::directory::Directory::list(disk)?.segments.last().copied();
    let id = highest.unwrap_or(0) + 1;
    let records_bytes: u64 = records.iter().map(|found| found.bytes).sum();
    let bytes = IDENTITY_BYTES + START_RECORD_BYTES + records_bytes + record_bytes(0);
    segment::remove_temporary(disk, id)?;
    let new = Segment::make_unnamed(disk, id, bytes.next_multiple_of(IDENTITY_BYTES), None)?;
    let mut writer = Writer {
        disk,
        segment: &new,
        buffer: Vec::new(),
        end: IDENTITY_BYTES,
        chain: 0,
        index,
    };
    let start = Start {
        layout: Layout::Local,
        base: 0,
        chain_before: 0,
        before: LogId::local(LogIndex(index)),
        segment_id: id,
    };
    writer.chain = record::encode_start(&mut writer.buffer, &start, &[], new.generation, 0);
    writer.flush()?;
    for found in records {
        let mut scanner = Scanner::new(disk, &segments[found.segment]);
        if let Some(record) = scanner.record_at(found.offset)? {
            writer.append(record.known_kind(), record.index(), record.payload())?;
        }
    }
    writer.append(Kind::Seal, writer.index, &[])?;
    let last = writer.index;
    sync(disk, new.file.as_ref(), &new.name)?;
    new.give_name(disk)?;
    Ok(last)
}

struct Writer<'a> {
    disk: &'a dyn Disk,
    segment: &'a Segment,
    buffer: Vec<u8>,
    end: u64,
    chain: u64,
    index: u64,
}

impl Writer<'_> {
    fn append(&mut self, kind: Kind, index: u64, payload: &[u8]) -> Result<(), JournalError> {
        let fields = Fields {
            kind,
            generation: self.segment.generation,
            id: LogId::local(LogIndex(index)),
            // When the segment has its name, everything in it is durable.
            synced_to: self.end - IDENTITY_BYTES,
        };
        self.chain = record::encode(&mut self.buffer, &fields, [payload, &[]], self.chain);
        self.index = index;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), JournalError> {
        write_all_at(self.segment.file.as_ref(), &self.buffer, self.end).map_err(|partial| {
            JournalError::writing(self.disk.describe(&self.segment.name), partial.error)
        })?;
        self.end += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Finds the entry behind `index`, and what follows it in the chain. What lies before is in the snapshot.
fn records_behind(disk: &dyn Disk, index: u64, segments: &[Segment]) -> Result<Vec<Found>, JournalError> {
    for (at, segment) in segments.iter().enumerate() {
        let mut scanner = Scanner::new(disk, segment);
        for offset in scanner.traces(IDENTITY_BYTES)? {
            let Some(record) = scanner.record_at(offset)? else {
                continue;
            };
            if record.known_kind() == Kind::Entry && record.index() == index + 1 {
                return chain_from(disk, segments, at, offset);
            }
        }
    }
    Ok(Vec::new())
}

fn chain_from(
    disk: &dyn Disk,
    segments: &[Segment],
    first: usize,
    offset: u64,
) -> Result<Vec<Found>, JournalError> {
    let mut found = Vec::new();
    let mut last: Option<(u64, u64)> = None;
    let mut offset = offset;
    for (at, segment) in segments.iter().enumerate().skip(first) {
        let mut scanner = Scanner::new(disk, segment);
        while let Some(record) = scanner.record_at(offset)? {
            let is_next =
                last.is_none_or(|(index, chain)| record.counts(index, chain, offset == IDENTITY_BYTES));
            if !is_next {
                break;
            }
            last = Some((record.index(), record.chain()));
            let bytes = record.bytes_len();
            if matches!(record.known_kind(), Kind::Entry | Kind::Copies) {
                found.push(Found {
                    segment: at,
                    offset,
                    bytes,
                });
            }
            offset += bytes;
        }
        offset = IDENTITY_BYTES;
    }
    Ok(found)
}

/// Gives the index of every record in a file whose checksum holds, whatever it belongs to, and the entry if it is one.
pub(crate) fn scan_records(
    disk: &dyn Disk,
    name: &str,
    each: &mut dyn FnMut(u64, Option<&[u8]>),
) -> Result<(), JournalError> {
    const WINDOW_BYTES: usize = 1 << 20;
    let failed = |error| JournalError::failed("read", disk.describe(name), error);
    let file = disk.open(name).map_err(failed)?;
    let mut window = vec![0; WINDOW_BYTES];
    let mut at = IDENTITY_BYTES;
    loop {
        let read = file.read_at(&mut window, at).map_err(failed)?;
        if read < HEADER_BYTES {
            return Ok(());
        }
        let mut next = 0;
        while next + HEADER_BYTES <= read {
            let header = &window[next..next + HEADER_BYTES];
            let length = record::announced_bytes(header, number64(header, record::GENERATION_AT as usize));
            let mut passed = 8;
            if let Some(length) = length {
                let mut bytes = vec![0; length as usize];
                let whole = file.read_at(&mut bytes, at + next as u64).map_err(failed)?;
                let record = Record::check(&bytes).filter(|_| whole == bytes.len());
                if let Some(record) = record {
                    passed = bytes.len();
                    let is_entry = record.kind() == Ok(Kind::Entry);
                    each(record.index(), is_entry.then(|| record.payload()));
                }
            }
            next += passed;
        }
        at += next as u64;
    }
}
