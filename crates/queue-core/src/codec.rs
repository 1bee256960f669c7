//! Little-endian numbers and length-prefixed blocks: what entries and snapshots are written with, and what nodes tell
//! each other.

use std::io::{self, Read, Write};

pub use crate::entry::{enqueue_entry, handle, put_enqueue_entry, put_handle};

/// Bytes that do not decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the value does.
    #[error("the bytes are cut short")]
    Short,
    /// The bytes go on behind the value.
    #[error("{0} bytes behind the end")]
    Trailing(usize),
    /// A kind or version that this program does not know: written by a newer one. Never skipped.
    #[error("unknown kind {kind} version {version}: written by a newer version")]
    UnknownKind {
        /// The kind of command or section.
        kind: u8,
        /// Its version.
        version: u8,
    },
    /// A feature level that this program does not understand: the cluster was upgraded beyond it.
    #[error("feature level {level}: this version understands {max} at most", max = crate::LEVEL)]
    Level {
        /// The level of the cluster.
        level: u32,
    },
    /// A value outside its range.
    #[error("not a valid {0}")]
    Invalid(&'static str),
}

/// Reads values off the front of a byte slice.
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads so many bytes.
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads a fixed number of bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Reads a byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads a number.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a number.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a byte that is 0 or 1.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Invalid("boolean")),
        }
    }

    /// Reads a number, if the boolean before it says that there is one.
    pub fn optional_u32(&mut self) -> Result<Option<u32>, DecodeError> {
        if self.bool()? {
            self.u32().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Reads a number of elements of which each takes at least one byte, so that no length can ask for more memory
    /// than the bytes justify.
    pub fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.u32()? as usize;
        if count > self.rest.len() {
            Err(DecodeError::Short)
        } else {
            Ok(count)
        }
    }

    /// Reads a block behind its length.
    pub fn block(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.u32()? as usize;
        self.bytes(length)
    }

    /// Reads a block that is UTF-8.
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.block()?).map_err(|_| DecodeError::Invalid("text"))
    }

    /// Returns what is not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Says whether everything was read.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::Trailing(self.rest.len()))
        }
    }
}

/// Writes a number.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a number.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a number behind a boolean that says whether there is one.
pub fn put_optional_u32(out: &mut Vec<u8>, value: Option<u32>) {
    out.push(u8::from(value.is_some()));
    value.into_iter().for_each(|value| put_u32(out, value));
}

/// Writes a length or count.
pub fn put_length(out: &mut Vec<u8>, length: usize) {
    put_u32(
        out,
        u32::try_from(length).expect("entries and snapshot sections are bounded below 4 GiB"),
    );
}

/// Writes a block behind its length.
pub fn put_block(out: &mut Vec<u8>, block: &[u8]) {
    put_length(out, block.len());
    out.extend_from_slice(block);
}

/// Writes a value in postcard, as a block. For what is rare: fields cannot be added to it.
pub fn put_postcard<T: serde::Serialize>(out: &mut Vec<u8>, value: &T) {
    let bytes = ::postcard::to_allocvec(value).expect("plain values always encode");
    put_block(out, &bytes);
}

/// Reads what [`put_postcard`] wrote.
pub fn postcard<T: serde::de::DeserializeOwned>(decoder: &mut Decoder<'_>) -> Result<T, DecodeError> {
    ::postcard::from_bytes(decoder.block()?).map_err(|_| DecodeError::Invalid("command"))
}

/// Reads a count, and so many values.
pub fn repeat<T>(
    decoder: &mut Decoder<'_>,
    mut one: impl FnMut(&mut Decoder<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = decoder.count()?;
    (0..count).map(|_| one(decoder)).collect()
}

/// Writes a length-prefixed block to a stream.
pub(crate) fn write_block(out: &mut dyn Write, block: &[u8]) -> io::Result<()> {
    let length = u32::try_from(block.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(block)
}

/// Reads a length-prefixed block from a stream, without trusting the length for an allocation.
pub(crate) fn read_block(input: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    let mut block = Vec::new();
    let read = input.take(u64::from(length)).read_to_end(&mut block)?;
    if read == length as usize {
        Ok(block)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
