//! Little-endian numbers and length-prefixed blocks: what entries and snapshots are written with.

use std::io::{self, Read, Write};

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
    /// A value outside its range.
    #[error("not a valid {0}")]
    Invalid(&'static str),
}

/// Reads values off the front of a byte slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Invalid("boolean")),
        }
    }

    pub(crate) fn optional_u32(&mut self) -> Result<Option<u32>, DecodeError> {
        if self.bool()? {
            self.u32().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Reads a number of elements of which each takes at least one byte, so that no length can ask for more memory
    /// than the bytes justify.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.u32()? as usize;
        if count > self.rest.len() {
            Err(DecodeError::Short)
        } else {
            Ok(count)
        }
    }

    pub(crate) fn block(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.u32()? as usize;
        self.bytes(length)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.block()?).map_err(|_| DecodeError::Invalid("text"))
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::Trailing(self.rest.len()))
        }
    }
}

pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_optional_u32(out: &mut Vec<u8>, value: Option<u32>) {
    out.push(u8::from(value.is_some()));
    value.into_iter().for_each(|value| put_u32(out, value));
}

pub(crate) fn put_length(out: &mut Vec<u8>, length: usize) {
    put_u32(
        out,
        u32::try_from(length).expect("entries and snapshot sections are bounded below 4 GiB"),
    );
}

pub(crate) fn put_block(out: &mut Vec<u8>, block: &[u8]) {
    put_length(out, block.len());
    out.extend_from_slice(block);
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
