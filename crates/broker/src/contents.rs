//! The column of contents beside the slab: where what clients sent lies on this node, by slot. Not part of the state,
//! not in its hash, never sent to another node. Drawn in `docs/formats/state.md`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

use journal::Place;
use queue_core::CowVec;
use types::Slot;

use crate::cache::Cache;

/// Where a content lies. Its length is in the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Location {
    place: Place,
    crc: u32,
}

impl Location {
    /// Of a slot that is free, or whose content is only in memory: no segment has the number 0.
    const NONE: Self = Self {
        place: Place {
            segment: 0,
            offset: 0,
        },
        crc: 0,
    };
}

/// The length of a content that is not there, in a snapshot that holds contents itself.
pub(crate) const ABSENT: u32 = u32::MAX;

/// A content as the owner has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// In memory.
    Memory(Arc<[u8]>),
    /// On the disk.
    Disk(Stored),
    /// Nowhere: the slot has none.
    Nowhere,
}

/// A content on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Where it begins.
    pub place: Place,
    /// Its length.
    pub bytes: u32,
    /// What its bytes must add up to.
    pub crc: u32,
}

impl Stored {
    /// Whether these are the bytes that were stored.
    pub fn fits(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.bytes as usize && crc32c::crc32c(bytes) == self.crc
    }
}

/// What a segment holds that is still needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) contents: u64,
    pub(crate) bytes: u64,
}

/// Contents by slot.
#[derive(Debug, Default)]
pub struct Contents {
    column: CowVec<Location>,
    cache: Cache,
    live: BTreeMap<u32, Live>,
}

impl Contents {
    /// Changes how much memory contents may take that also lie on the disk.
    pub(crate) fn set_cache_bytes(&mut self, bytes_max: usize) {
        self.cache.set_budget(bytes_max);
    }

    /// Puts the content of a slot in place. Without a place on the disk it stays in memory.
    pub(crate) fn set(&mut self, slot: Slot, content: Arc<[u8]>, place: Option<Place>) {
        let location = place.map_or(Location::NONE, |place| Location {
            place,
            crc: crc32c::crc32c(&content),
        });
        self.put(slot, location);
        self.count(location, content.len(), true);
        match place {
            Some(_) => self.cache.add(slot, content),
            None => self.cache.pin(slot, content),
        }
    }

    /// Says that the content of a slot lies at another place from now on.
    pub(crate) fn relocate(&mut self, slot: Slot, content: &[u8], place: Place) {
        let old = self.location(slot);
        self.count(old, content.len(), false);
        let location = Location {
            place,
            crc: crc32c::crc32c(content),
        };
        self.put(slot, location);
        self.count(location, content.len(), true);
        if old == Location::NONE {
            self.cache.remove(slot);
        }
    }

    /// Drops the content of a slot.
    pub(crate) fn clear(&mut self, slot: Slot, content_bytes: u32) {
        let old = self.location(slot);
        self.count(old, content_bytes as usize, false);
        self.put(slot, Location::NONE);
        self.cache.remove(slot);
    }

    /// Returns the content of a slot, which has so many bytes.
    pub fn get(&self, slot: Slot, content_bytes: u32) -> Held {
        if let Some(bytes) = self.cache.get(slot) {
            return Held::Memory(bytes.clone());
        }
        match self.stored(slot, content_bytes) {
            Some(stored) => Held::Disk(stored),
            None => Held::Nowhere,
        }
    }

    /// Returns where the content of a slot lies on the disk.
    pub(crate) fn stored(&self, slot: Slot, content_bytes: u32) -> Option<Stored> {
        let Location { place, crc } = self.location(slot);
        let stored = Stored {
            place,
            bytes: content_bytes,
            crc,
        };
        (place.segment != 0).then_some(stored)
    }

    /// Returns the segments that hold what is needed, in order.
    pub(crate) fn segments(&self) -> Vec<u32> {
        self.live.keys().copied().collect()
    }

    /// Returns what is still needed of a segment.
    pub(crate) fn live(&self, segment: u32) -> Live {
        self.live.get(&segment).copied().unwrap_or_default()
    }

    /// Returns the contents that are in memory only, in the order of their slots.
    pub(crate) fn pinned(&self) -> &BTreeMap<Slot, Arc<[u8]>> {
        self.cache.pinned()
    }

    /// Returns how much memory contents take that also lie on the disk.
    pub(crate) fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Takes a snapshot that shares memory with this column.
    pub fn snapshot(&self) -> ContentsSnapshot {
        ContentsSnapshot {
            column: self.column.clone(),
            pinned: self.cache.pinned().clone(),
        }
    }

    fn location(&self, slot: Slot) -> Location {
        let found = self.column.get(slot.0 as usize);
        found.copied().unwrap_or(Location::NONE)
    }

    fn put(&mut self, slot: Slot, location: Location) {
        let at = slot.0 as usize;
        while self.column.len() <= at {
            self.column.push(Location::NONE);
        }
        if let Some(found) = self.column.get_mut(at) {
            *found = location;
        }
    }

    /// Counts a content among those that its segment is needed for, or no longer.
    fn count(&mut self, location: Location, bytes: usize, is_added: bool) {
        let segment = location.place.segment;
        if segment == 0 {
            return;
        }
        let live = self.live.entry(segment).or_default();
        if is_added {
            live.contents += 1;
            live.bytes += bytes as u64;
            return;
        }
        live.contents -= 1;
        live.bytes -= bytes as u64;
        if live.contents == 0 {
            self.live.remove(&segment);
        }
    }
}

/// The column as it was at one moment.
#[derive(Debug, Clone)]
pub struct ContentsSnapshot {
    column: CowVec<Location>,
    pinned: BTreeMap<Slot, Arc<[u8]>>,
}

impl ContentsSnapshot {
    /// Returns the slots whose content lies in a segment, with where it begins and what it must add up to.
    pub(crate) fn slots_in(&self, segment: u32) -> impl Iterator<Item = (Slot, Place, u32)> {
        let slots = (0..).map(Slot).zip(self.column.iter());
        let here = slots.filter(move |(_, location)| location.place.segment == segment);
        here.map(|(slot, location)| (slot, location.place, location.crc))
    }

    /// Writes the column.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&length(self.column.len())?)?;
        for Location { place, crc } in self.column.iter() {
            out.write_all(&place.segment.to_le_bytes())?;
            out.write_all(&place.offset.to_le_bytes())?;
            out.write_all(&crc.to_le_bytes())?;
        }
        out.write_all(&length(self.pinned.len())?)?;
        for (slot, content) in &self.pinned {
            out.write_all(&slot.0.to_le_bytes())?;
            out.write_all(&length(content.len())?)?;
            out.write_all(content)?;
        }
        Ok(())
    }
}

pub(crate) fn length(length: usize) -> io::Result<[u8; 4]> {
    let length = u32::try_from(length).map_err(io::Error::other)?;
    Ok(length.to_le_bytes())
}

impl Contents {
    /// Reads what [`ContentsSnapshot::write`] wrote. `content_bytes` says how long the content of a slot is, if its
    /// message is there.
    pub(crate) fn read(
        input: &mut dyn Read,
        content_bytes: impl Fn(Slot) -> Option<u32>,
    ) -> io::Result<Self> {
        let mut contents = Self::default();
        for slot in 0..read_u32(input)? {
            let location = Location {
                place: Place {
                    segment: read_u32(input)?,
                    offset: read_u32(input)?,
                },
                crc: read_u32(input)?,
            };
            contents.column.push(location);
            if location != Location::NONE {
                let bytes =
                    content_bytes(Slot(slot)).ok_or_else(|| invalid("a content without a message"))?;
                contents.count(location, bytes as usize, true);
            }
        }
        for _ in 0..read_u32(input)? {
            let slot = Slot(read_u32(input)?);
            let bytes = read_u32(input)?;
            contents.read_pinned(input, slot, bytes)?;
        }
        Ok(contents)
    }

    /// Reads the contents of a snapshot of version 1, which holds all of them itself.
    pub(crate) fn read_version_1(input: &mut dyn Read) -> io::Result<Self> {
        let mut contents = Self::default();
        for slot in 0..read_u32(input)? {
            contents.column.push(Location::NONE);
            let bytes = read_u32(input)?;
            if bytes != ABSENT {
                contents.read_pinned(input, Slot(slot), bytes)?;
            }
        }
        Ok(contents)
    }

    fn read_pinned(&mut self, input: &mut dyn Read, slot: Slot, bytes: u32) -> io::Result<()> {
        let mut content = Vec::new();
        let read = input.take(u64::from(bytes)).read_to_end(&mut content)?;
        if read != bytes as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.cache.pin(slot, content.into());
        Ok(())
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn read_u32(input: &mut dyn Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}
