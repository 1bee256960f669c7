//! A segment file: its name, its identity page, and how one is made.
//!
//! A segment gets its name only when its identity and all its pages are durable, so a file with a segment's name is
//! whole or damaged, never half made. Where the segment stands in the log is not known then; the start record says it.

use std::sync::Arc;

use crate::contract::Place;
use crate::disk::{Disk, File};
use crate::error::{Corruption, JournalError};
use crate::io::{PartialWrite, write_all_at, write_zeros};
use crate::record::{number32, number64};

/// Length of the identity page; the first record follows it.
pub(crate) const IDENTITY_BYTES: u64 = 4096;

const MAGIC: &[u8; 8] = b"HFSEGLOG";
const VERSION: u32 = 1;
const CRC_AT: usize = IDENTITY_BYTES as usize - 4;
const TEMPORARY_SUFFIX: &str = ".tmp";
/// New pages are synced in steps, so that a commit's sync never has to wait for a whole new segment.
const SYNC_STEP_BYTES: u64 = 2 << 20;

/// An open segment.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) id: u64,
    /// A random number, new at each use of the file: bytes of an earlier use can never count.
    pub(crate) generation: u64,
    /// The length of the file.
    pub(crate) bytes: u64,
    pub(crate) name: String,
    pub(crate) file: Arc<dyn File>,
}

/// Returns the name of a segment.
pub(crate) fn name(id: u64) -> String {
    format!("log-{id:020}.seg")
}

/// Returns the name of the segment of a [`Place`].
pub fn segment_name(segment: u32) -> String {
    name(u64::from(segment))
}

/// Returns the id of a segment with this name.
pub(crate) fn id_of(name: &str) -> Option<u64> {
    number_between(name, "log-", ".seg")
}

/// Returns the id as it stands in a [`Place`](crate::Place).
pub(crate) fn number(id: u64) -> u32 {
    u32::try_from(id).expect("segments with a higher id are neither opened nor made")
}

/// Returns the name of a file while it is being made.
pub(crate) fn temporary(name: &str) -> String {
    format!("{name}{TEMPORARY_SUFFIX}")
}

/// Whether a name is that of one of our files that was never finished.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.strip_suffix(TEMPORARY_SUFFIX)
        .is_some_and(|name| id_of(name).is_some() || number_between(name, "snapshot-", ".snap").is_some())
}

/// Returns the twenty digits between a prefix and a suffix.
pub(crate) fn number_between(name: &str, prefix: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    let valid = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    valid.then(|| digits.parse().ok()).flatten()
}

impl Segment {
    /// Returns the place of a byte of the file.
    pub(crate) fn place(&self, offset: u64) -> Place {
        Place {
            segment: number(self.id),
            offset: u32::try_from(offset).expect("a segment is shorter than 4 GiB"),
        }
    }

    /// Opens a segment and checks its identity.
    pub(crate) fn open(disk: &dyn Disk, id: u64) -> Result<Self, JournalError> {
        let name = name(id);
        let failed = |operation, source| JournalError::failed(operation, disk.describe(&name), source);
        let file = disk.open(&name).map_err(|error| failed("open", error))?;
        let length = file.len().map_err(|error| failed("read", error))?;
        let mut page = vec![0; IDENTITY_BYTES as usize];
        let read = file
            .read_at(&mut page, 0)
            .map_err(|error| failed("read", error))?;
        let damaged = |offset, reason: &str| Corruption {
            file: disk.describe(&name),
            offset,
            reason: reason.to_owned(),
        };
        if read < page.len() {
            return Err(damaged(read as u64, "the file ends inside its first page").into());
        }
        if &page[..8] != MAGIC || crc32c::crc32c(&page[..CRC_AT]) != number32(&page, CRC_AT) {
            return Err(damaged(0, "the checksum of the first page does not hold").into());
        }
        if number32(&page, 8) != VERSION {
            return Err(JournalError::Unsupported {
                file: disk.describe(&name),
                offset: 8,
                what: format!("a segment of format {}", number32(&page, 8)),
            });
        }
        if number64(&page, 16) != id {
            return Err(damaged(16, "the first page is that of another segment").into());
        }
        let bytes = number64(&page, 32);
        check_limits(disk, id, bytes)?;
        if bytes != length {
            let reason = format!("the file is {length} bytes long and was made {bytes} long");
            return Err(damaged(length.min(bytes), &reason).into());
        }
        Ok(Self {
            id,
            generation: number64(&page, 24),
            bytes,
            name,
            file,
        })
    }

    /// Makes a segment, of zeros or of a file that is no longer needed and has the right length.
    pub(crate) fn make(
        disk: &dyn Disk,
        id: u64,
        bytes: u64,
        recycle: Option<&str>,
    ) -> Result<Self, JournalError> {
        let made = Self::make_unnamed(disk, id, bytes, recycle)?;
        made.give_name(disk)?;
        Ok(made)
    }

    /// The same, but leaves it under its temporary name.
    pub(crate) fn make_unnamed(
        disk: &dyn Disk,
        id: u64,
        bytes: u64,
        recycle: Option<&str>,
    ) -> Result<Self, JournalError> {
        check_limits(disk, id, bytes)?;
        let name = name(id);
        let temporary = temporary(&name);
        let failed = |operation, source| JournalError::failed(operation, disk.describe(&temporary), source);
        let unwritten =
            |partial: PartialWrite| JournalError::writing(disk.describe(&temporary), partial.error);
        let generation = disk
            .nonce()
            .map_err(|error| failed("draw a generation for", error))?;
        let file = match recycle {
            Some(old) => {
                disk.rename(old, &temporary)
                    .map_err(|error| failed("rename a segment to", error))?;
                // The old name must be gone for good before the content changes, or a power cut could leave a
                // segment under its old name with the identity of the new one.
                sync_names(disk)?;
                let file = disk.open(&temporary).map_err(|error| failed("open", error))?;
                fill_pages(file.as_ref(), bytes).map_err(|error| failed("read", error))?;
                file
            }
            None => {
                let file = disk.create(&temporary).map_err(|error| failed("create", error))?;
                let mut at = 0;
                while at < bytes {
                    let to = bytes.min(at + SYNC_STEP_BYTES);
                    write_zeros(file.as_ref(), at, to).map_err(unwritten)?;
                    sync(disk, file.as_ref(), &temporary)?;
                    at = to;
                }
                file
            }
        };
        write_all_at(file.as_ref(), &identity(id, generation, bytes), 0).map_err(unwritten)?;
        sync(disk, file.as_ref(), &temporary)?;
        Ok(Self {
            id,
            generation,
            bytes,
            name,
            file,
        })
    }

    /// Gives a segment its name for good.
    pub(crate) fn give_name(&self, disk: &dyn Disk) -> Result<(), JournalError> {
        let temporary = temporary(&self.name);
        disk.rename(&temporary, &self.name)
            .map_err(|error| JournalError::failed("rename", disk.describe(&temporary), error))?;
        sync_names(disk)
    }

    /// Writes the identity page of a segment again.
    pub(crate) fn mend(disk: &dyn Disk, id: u64, generation: u64, bytes: u64) -> Result<(), JournalError> {
        check_limits(disk, id, bytes)?;
        let name = name(id);
        let file = disk
            .open(&name)
            .map_err(|error| JournalError::failed("open", disk.describe(&name), error))?;
        write_all_at(file.as_ref(), &identity(id, generation, bytes), 0)
            .map_err(|partial| JournalError::writing(disk.describe(&name), partial.error))?;
        sync(disk, file.as_ref(), &name)
    }
}

/// Removes what an earlier attempt to make a segment left.
pub(crate) fn remove_temporary(disk: &dyn Disk, id: u64) -> Result<(), JournalError> {
    let temporary = temporary(&name(id));
    match disk.remove(&temporary) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(JournalError::failed("remove", disk.describe(&temporary), error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Refuses segments in which a [`Place`] would not find its way.
fn check_limits(disk: &dyn Disk, id: u64, bytes: u64) -> Result<(), JournalError> {
    if u32::try_from(id).is_ok() && u32::try_from(bytes).is_ok() {
        return Ok(());
    }
    Err(JournalError::Unsupported {
        file: disk.describe(&name(id)),
        offset: 16,
        what: format!("segment {id} of {bytes} bytes"),
    })
}

/// Syncs a file; a failure is one that the process must not survive.
pub(crate) fn sync(disk: &dyn Disk, file: &dyn File, name: &str) -> Result<(), JournalError> {
    file.sync_data().map_err(|source| JournalError::SyncFailed {
        file: disk.describe(name),
        source,
    })
}

/// Syncs the directory; a failure is one that the process must not survive.
pub(crate) fn sync_names(disk: &dyn Disk) -> Result<(), JournalError> {
    disk.sync_dir().map_err(|source| JournalError::SyncFailed {
        file: disk.describe(""),
        source,
    })
}

fn identity(id: u64, generation: u64, bytes: u64) -> Vec<u8> {
    let mut page = vec![0; IDENTITY_BYTES as usize];
    page[..8].copy_from_slice(MAGIC);
    page[8..12].copy_from_slice(&VERSION.to_le_bytes());
    page[16..24].copy_from_slice(&id.to_le_bytes());
    page[24..32].copy_from_slice(&generation.to_le_bytes());
    page[32..40].copy_from_slice(&bytes.to_le_bytes());
    let crc = crc32c::crc32c(&page[..CRC_AT]);
    page[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    page
}

/// Brings a file into the page cache: a write to a part of a page that is not there reads it first.
fn fill_pages(file: &dyn File, bytes: u64) -> std::io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    let mut at = 0;
    while at < bytes {
        match file.read_at(&mut buffer, at)? {
            0 => break,
            read => at += read as u64,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_taken() {
        assert_eq!(id_of(&name(42)), Some(42));
        assert_eq!(id_of(&name(u64::MAX)), Some(u64::MAX));
        for wrong in [
            "log-1.seg",
            "log-000000000000000000x1.seg",
            "lock",
            "log-99999999999999999999.seg",
        ] {
            assert_eq!(id_of(wrong), None, "{wrong}");
        }
        assert!(is_temporary(&temporary(&name(1))));
        assert!(!is_temporary("endpoints.json.tmp"));
    }
}
