//! Requests and replies as bytes, for the way from a node that was asked to the node that leads. Drawn in
//! `docs/formats/forward.md`.
//!
//! ```text
//! request  kind u8 | version u8 | fields by kind
//! reply    kind u8 | version u8 | fields by kind
//! ```
//!
//! Whatever is inside a node only (seal keys, limits, the end of polls) has no kind. Any bytes decode to a value or an
//! error, with no more memory than they justify.

mod refusal;
mod reply;
mod request;

pub use reply::{decode_reply, encode_reply};
pub use request::{decode_request, encode_request};

use std::time::Duration;

use queue_core::codec::{DecodeError, Decoder, put_u32, put_u64};

/// The version of every kind so far.
const VERSION: u8 = 1;

/// Reads the kind of what follows.
fn kind(decoder: &mut Decoder<'_>) -> Result<u8, DecodeError> {
    let [kind, version] = decoder.array()?;
    match version {
        VERSION => Ok(kind),
        _ => Err(DecodeError::UnknownKind { kind, version }),
    }
}

fn unknown(kind: u8) -> DecodeError {
    DecodeError::UnknownKind {
        kind,
        version: VERSION,
    }
}

/// Writes a value behind a boolean that says whether there is one.
fn put_optional<T>(out: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn optional<'a, T>(
    decoder: &mut Decoder<'a>,
    read: impl FnOnce(&mut Decoder<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    match decoder.bool()? {
        true => read(decoder).map(Some),
        false => Ok(None),
    }
}

fn put_duration(out: &mut Vec<u8>, duration: &Duration) {
    put_u64(out, duration.as_secs());
    put_u32(out, duration.subsec_nanos());
}

fn duration(decoder: &mut Decoder<'_>) -> Result<Duration, DecodeError> {
    let (seconds, nanos) = (decoder.u64()?, decoder.u32()?);
    match nanos {
        0..1_000_000_000 => Ok(Duration::new(seconds, nanos)),
        _ => Err(DecodeError::Invalid("duration")),
    }
}

/// Writes a number of things at most.
fn put_most(out: &mut Vec<u8>, most: usize) {
    put_u64(out, most as u64);
}

fn most(decoder: &mut Decoder<'_>) -> Result<usize, DecodeError> {
    Ok(usize::try_from(decoder.u64()?).unwrap_or(usize::MAX))
}
