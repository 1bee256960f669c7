//! Messages: what clients may put into one, its digests, its stored form, and how it is shown.

mod attributes;
mod characters;
mod digest;
mod draft;
mod group_id;
mod received;

pub(crate) use attributes::{AttributeInput, attributes_md5};
pub(crate) use digest::{HexDigest, UuidText};
pub(crate) use draft::{Draft, Sent, sequence_text};
pub(crate) use group_id::check_id;
pub(crate) use received::{Message, Wanted};
