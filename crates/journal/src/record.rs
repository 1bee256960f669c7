//! One record of the segment log: 64 bytes of header, the payload, zeros up to a multiple of 8.
//!
//! Drawn in `docs/formats/segment.md`. This module knows bytes only; which record counts is decided in `scan` and
//! `recovery`.

use types::{LogIndex, NodeId, Term};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::layout::Layout;
use crate::log_id::LogId;

/// Largest entry that the segment log takes.
pub const ENTRY_BYTES_MAX: usize = 16 << 20;

/// Length of a record's header.
pub(crate) const HEADER_BYTES: usize = 64;
/// Length of the start record of a segment of a single node.
pub(crate) const START_RECORD_BYTES: u64 = record_bytes(START_PAYLOAD_BYTES);
/// What stands before the contents in a record of [`Kind::AppliedCopies`]: the applied index.
pub(crate) const APPLIED_BYTES: usize = 8;
/// Where in a header the generation stands. It is random, so it is also what a search looks for.
pub(crate) const GENERATION_AT: u64 = 24;

const START_PAYLOAD_BYTES: usize = 24;
const MAGIC: u32 = u32::from_le_bytes(*b"HFrc");
const VERSION: u8 = 1;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Carries an entry.
    Entry,
    /// Says only that everything before it is durable.
    Seal,
    /// The first of a segment: where the segment stands in the log.
    Start,
    /// Carries contents again that lie in an older segment.
    Copies,
    /// Carries an entry of a replicated log that is not the owner's.
    Raft,
    /// Says that no entry behind its index counts any more.
    Truncation,
    /// Carries what a node must remember beside its entries; the newest one counts.
    Mark,
    /// The first of a segment of a replicated log: as a start, and carries the mark.
    ReplicatedStart,
    /// Copies, and what was applied when they were written.
    AppliedCopies,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Entry),
            2 => Some(Self::Seal),
            3 => Some(Self::Start),
            4 => Some(Self::Copies),
            5 => Some(Self::Raft),
            6 => Some(Self::Truncation),
            7 => Some(Self::Mark),
            8 => Some(Self::ReplicatedStart),
            9 => Some(Self::AppliedCopies),
            _ => None,
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Self::Entry => 1,
            Self::Seal => 2,
            Self::Start => 3,
            Self::Copies => 4,
            Self::Raft => 5,
            Self::Truncation => 6,
            Self::Mark => 7,
            Self::ReplicatedStart => 8,
            Self::AppliedCopies => 9,
        }
    }
}

/// The fields of a header that the writer chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) kind: Kind,
    pub(crate) generation: u64,
    /// The entry's own; the last entry's for the other kinds.
    pub(crate) id: LogId,
    /// The log position before which everything was durable when this record was written.
    pub(crate) synced_to: u64,
}

/// What the start record says about its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// Whose log it is.
    pub(crate) layout: Layout,
    /// The log position of the start record itself.
    pub(crate) base: u64,
    /// The chain of the record before it, in the segment before; 0 where a log begins.
    pub(crate) chain_before: u64,
    /// The last entry before the segment.
    pub(crate) before: LogId,
    /// The segment that it belongs to.
    pub(crate) segment_id: u64,
}

/// Returns the length of a record with so many bytes of payload.
pub(crate) const fn record_bytes(payload: usize) -> u64 {
    (HEADER_BYTES + payload.next_multiple_of(8)) as u64
}

/// Returns the length of a segment's start record that carries a mark of so many bytes.
pub(crate) const fn start_bytes(mark: usize) -> u64 {
    record_bytes(START_PAYLOAD_BYTES + mark)
}

/// Appends a record to a buffer and returns its chain. The payload is given in two parts.
pub(crate) fn encode(buffer: &mut Vec<u8>, fields: &Fields, payload: [&[u8]; 2], chain_before: u64) -> u64 {
    let at = buffer.len();
    let length = payload[0].len() + payload[1].len();
    buffer.reserve(HEADER_BYTES + length + 8);
    let length = u32::try_from(length).expect("an entry is at most ENTRY_BYTES_MAX long");
    buffer.extend_from_slice(&MAGIC.to_le_bytes());
    buffer.extend_from_slice(&[0; 12]);
    buffer.extend_from_slice(&[VERSION, fields.kind.to_byte(), 0, 0]);
    buffer.extend_from_slice(&length.to_le_bytes());
    for number in [
        fields.generation,
        fields.id.index.0,
        fields.id.term.0,
        fields.id.node.0,
        fields.synced_to,
    ] {
        buffer.extend_from_slice(&number.to_le_bytes());
    }
    buffer.extend_from_slice(payload[0]);
    buffer.extend_from_slice(payload[1]);
    buffer.resize(buffer.len().next_multiple_of(8), 0);
    let record = &mut buffer[at..];
    let chain = xxh3_64_with_seed(&record[16..], chain_before);
    record[8..16].copy_from_slice(&chain.to_le_bytes());
    let crc = crc32c::crc32c(&record[8..]);
    record[4..8].copy_from_slice(&crc.to_le_bytes());
    chain
}

/// Appends the start record of a segment and returns its chain. On a single node there is no mark.
pub(crate) fn encode_start(
    buffer: &mut Vec<u8>,
    start: &Start,
    mark: &[u8],
    generation: u64,
    synced_to: u64,
) -> u64 {
    let mut payload = [0; START_PAYLOAD_BYTES];
    payload[0..8].copy_from_slice(&start.base.to_le_bytes());
    payload[8..16].copy_from_slice(&start.chain_before.to_le_bytes());
    payload[16..24].copy_from_slice(&start.segment_id.to_le_bytes());
    let fields = Fields {
        kind: match start.layout {
            Layout::Local => Kind::Start,
            Layout::Replicated => Kind::ReplicatedStart,
        },
        generation,
        id: start.before,
        synced_to,
    };
    encode(buffer, &fields, [&payload, mark], start.chain_before)
}

/// Returns the length of the record that a header announces, if it can be one of this generation at all.
pub(crate) fn announced_bytes(header: &[u8], generation: u64) -> Option<u64> {
    let length = number32(header, 20) as usize;
    let fits = number32(header, 0) == MAGIC
        && number64(header, GENERATION_AT as usize) == generation
        && length <= ENTRY_BYTES_MAX;
    fits.then(|| record_bytes(length))
}

/// A record whose checksum holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// Takes the bytes of a whole record if their checksum holds.
    pub(crate) fn check(bytes: &'a [u8]) -> Option<Self> {
        (crc32c::crc32c(&bytes[8..]) == number32(bytes, 4)).then_some(Self { bytes })
    }

    /// Returns what the record is, or what about it is not known.
    pub(crate) fn kind(&self) -> Result<Kind, String> {
        let (version, kind, flags) = (self.bytes[16], self.bytes[17], &self.bytes[18..20]);
        if version != VERSION {
            return Err(format!("a record of format {version}"));
        }
        if flags != [0, 0] {
            return Err(format!("a record with flags {flags:?}"));
        }
        Kind::from_byte(kind).ok_or_else(|| format!("a record of kind {kind}"))
    }

    /// Returns what the record is. The scanner hands out records of known kinds only.
    pub(crate) fn known_kind(&self) -> Kind {
        self.kind().expect("the scanner returns known kinds only")
    }

    /// Whether the record is the next one after an entry and a chain.
    pub(crate) fn counts(&self, index: u64, chain: u64, is_first: bool) -> bool {
        let index_fits = match self.known_kind() {
            Kind::Entry | Kind::Raft => self.index() == index + 1,
            Kind::Seal | Kind::Copies | Kind::Mark | Kind::AppliedCopies => self.index() == index,
            Kind::Truncation => self.index() <= index,
            Kind::Start | Kind::ReplicatedStart => is_first,
        };
        index_fits && self.follows(chain)
    }

    pub(crate) fn bytes_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn index(&self) -> u64 {
        number64(self.bytes, 32)
    }

    /// Returns the entry's own id, or that of the last entry.
    pub(crate) fn id(&self) -> LogId {
        LogId {
            term: Term(number64(self.bytes, 40)),
            node: NodeId(number64(self.bytes, 48)),
            index: LogIndex(self.index()),
        }
    }

    pub(crate) fn synced_to(&self) -> u64 {
        number64(self.bytes, 56)
    }

    pub(crate) fn chain(&self) -> u64 {
        number64(self.bytes, 8)
    }

    /// Whether the record was written after the one with this chain.
    pub(crate) fn follows(&self, chain_before: u64) -> bool {
        xxh3_64_with_seed(&self.bytes[16..], chain_before) == self.chain()
    }

    pub(crate) fn payload(&self) -> &'a [u8] {
        let length = number32(self.bytes, 20) as usize;
        &self.bytes[HEADER_BYTES..HEADER_BYTES + length]
    }

    /// Returns what a start record says, if it is one and agrees with itself.
    pub(crate) fn start(&self) -> Option<Start> {
        let payload = self.payload();
        let (layout, is_whole) = match self.kind() {
            Ok(Kind::Start) => (Layout::Local, payload.len() == START_PAYLOAD_BYTES),
            Ok(Kind::ReplicatedStart) => (Layout::Replicated, payload.len() >= START_PAYLOAD_BYTES),
            Ok(
                Kind::Entry
                | Kind::Seal
                | Kind::Copies
                | Kind::Raft
                | Kind::Truncation
                | Kind::Mark
                | Kind::AppliedCopies,
            )
            | Err(_) => return None,
        };
        if !is_whole {
            return None;
        }
        let start = Start {
            layout,
            base: number64(payload, 0),
            chain_before: number64(payload, 8),
            before: self.id(),
            segment_id: number64(payload, 16),
        };
        self.follows(start.chain_before).then_some(start)
    }

    /// Returns the mark that a record of a replicated log carries.
    pub(crate) fn mark(&self) -> Option<&'a [u8]> {
        match self.known_kind() {
            Kind::Mark => Some(self.payload()),
            Kind::ReplicatedStart => self.payload().get(START_PAYLOAD_BYTES..),
            Kind::Entry
            | Kind::Seal
            | Kind::Start
            | Kind::Copies
            | Kind::Raft
            | Kind::Truncation
            | Kind::AppliedCopies => None,
        }
    }
}

pub(crate) fn number32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn number64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(kind: Kind) -> Fields {
        Fields {
            kind,
            generation: 0x1122_3344_5566_7788,
            id: LogId {
                term: Term(3),
                node: NodeId(2),
                index: LogIndex(7),
            },
            synced_to: 4096,
        }
    }

    #[test]
    fn every_length_round_trips_and_is_a_multiple_of_eight() {
        for length in [0, 1, 7, 8, 9, 4095, 70_000] {
            let payload: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let mut buffer = Vec::new();
            let chain = encode(
                &mut buffer,
                &fields(Kind::Entry),
                [&payload[..payload.len() / 3], &payload[payload.len() / 3..]],
                99,
            );
            assert_eq!(buffer.len() as u64, record_bytes(length));
            assert_eq!(
                announced_bytes(&buffer, 0x1122_3344_5566_7788),
                Some(record_bytes(length))
            );
            let record = Record::check(&buffer).unwrap();
            assert_eq!(record.kind(), Ok(Kind::Entry));
            assert_eq!(record.payload(), payload);
            assert_eq!(
                (record.index(), record.synced_to(), record.chain()),
                (7, 4096, chain)
            );
            assert!(record.follows(99) && !record.follows(98));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut buffer = Vec::new();
        encode(&mut buffer, &fields(Kind::Entry), [b"thirteen", b" byte"], 0);
        for bit in 0..buffer.len() * 8 {
            buffer[bit / 8] ^= 1 << (bit % 8);
            let announced = announced_bytes(&buffer, 0x1122_3344_5566_7788);
            let counts = announced == Some(buffer.len() as u64) && Record::check(&buffer).is_some();
            assert!(!counts, "bit {bit}");
            buffer[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn unknown_versions_kinds_and_flags_are_named() {
        for (at, value, expected) in [
            (16, 2, "a record of format 2"),
            (17, 10, "a record of kind 10"),
            (18, 1, "a record with flags [1, 0]"),
        ] {
            let mut buffer = Vec::new();
            encode(&mut buffer, &fields(Kind::Seal), [b"", b""], 0);
            buffer[at] = value;
            let crc = crc32c::crc32c(&buffer[8..]);
            buffer[4..8].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Record::check(&buffer).unwrap().kind(), Err(expected.to_owned()));
        }
    }
}
