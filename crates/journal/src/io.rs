//! Whole writes over a disk that may take only a part.

use std::io;

use crate::disk::File;

/// A write that was not taken as a whole.
#[derive(Debug)]
pub(crate) struct PartialWrite {
    /// How many bytes were taken.
    pub(crate) written: usize,
    /// Why not more.
    pub(crate) error: io::Error,
}

/// Writes all bytes at a place.
pub(crate) fn write_all_at(file: &dyn File, bytes: &[u8], offset: u64) -> Result<(), PartialWrite> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], offset + written as u64) {
            Ok(0) => {
                let error = io::ErrorKind::StorageFull.into();
                return Err(PartialWrite { written, error });
            }
            Ok(n) => written += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(PartialWrite { written, error }),
        }
    }
    Ok(())
}

/// Writes zeros from one place to another, in steps.
pub(crate) fn write_zeros(file: &dyn File, from: u64, to: u64) -> Result<(), PartialWrite> {
    const STEP: usize = 256 << 10;
    let zeros = vec![0; STEP.min(usize::try_from(to.saturating_sub(from)).unwrap_or(STEP))];
    let mut at = from;
    while at < to {
        let step = zeros.len().min(usize::try_from(to - at).unwrap_or(STEP));
        write_all_at(file, &zeros[..step], at)?;
        at += step as u64;
    }
    Ok(())
}
