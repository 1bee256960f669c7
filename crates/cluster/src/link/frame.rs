//! What one frame says, and its bytes before they are sealed. The drawing is in `docs/formats/link.md`.

use bytes::{Buf, Bytes};

use super::Lost;

/// Length, sequence, kind, flags, call.
pub(super) const HEADER_BYTES: usize = 18;

/// The most bytes of what stands before the piece of a body.
const HEAD_BYTES_MAX: usize = 10;

/// The first frame of a body.
pub(super) const FIRST: u8 = 1;
/// The last frame of a body.
pub(super) const LAST: u8 = 2;
/// Votes and heartbeats: they, and their answers, go before others.
pub(super) const PRIORITY: u8 = 4;
/// A request that is answered by a stream.
pub(super) const STREAM: u8 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Response,
    Piece,
    Cancel,
    Credit,
    Ping,
    Pong,
    Goodbye,
}

impl Kind {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Request => 1,
            Self::Response => 2,
            Self::Piece => 3,
            Self::Cancel => 4,
            Self::Credit => 5,
            Self::Ping => 6,
            Self::Pong => 7,
            Self::Goodbye => 8,
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, Lost> {
        Ok(match code {
            1 => Self::Request,
            2 => Self::Response,
            3 => Self::Piece,
            4 => Self::Cancel,
            5 => Self::Credit,
            6 => Self::Ping,
            7 => Self::Pong,
            8 => Self::Goodbye,
            _ => return Err(Lost::Malformed("unknown kind of frame")),
        })
    }
}

/// The fields before a piece of a body.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    length: usize,
}

impl Head {
    pub(super) fn put(mut self, field: &[u8]) -> Self {
        self.bytes[self.length..self.length + field.len()].copy_from_slice(field);
        self.length += field.len();
        self
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A frame to be sent.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) call: u64,
    pub(super) head: Head,
    pub(super) piece: Bytes,
}

impl Frame {
    /// Makes a frame that is complete in itself.
    pub(super) fn control(kind: Kind, call: u64, field: &[u8]) -> Self {
        Self {
            kind,
            flags: FIRST | LAST,
            call,
            head: Head::default().put(field),
            piece: Bytes::new(),
        }
    }

    pub(super) fn payload_bytes(&self) -> usize {
        self.head.length + self.piece.len()
    }
}

/// A frame that was received and opened.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) call: u64,
    pub(super) payload: Bytes,
}

impl Received {
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn take_u8(&mut self) -> Result<u8, Lost> {
        self.payload.try_get_u8().map_err(|_| SHORT)
    }

    pub(super) fn take_u16(&mut self) -> Result<u16, Lost> {
        self.payload.try_get_u16_le().map_err(|_| SHORT)
    }

    pub(super) fn take_u32(&mut self) -> Result<u32, Lost> {
        self.payload.try_get_u32_le().map_err(|_| SHORT)
    }
}

const SHORT: Lost = Lost::Malformed("frame too short for its kind");

/// The end of a call, as it stands in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Done,
    UnknownKind,
    Busy,
    Failed,
    NotMember,
    ShuttingDown,
}

impl Status {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::UnknownKind => 1,
            Self::Busy => 2,
            Self::Failed => 3,
            Self::NotMember => 4,
            Self::ShuttingDown => 5,
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, Lost> {
        Ok(match code {
            0 => Self::Done,
            1 => Self::UnknownKind,
            2 => Self::Busy,
            3 => Self::Failed,
            4 => Self::NotMember,
            5 => Self::ShuttingDown,
            _ => return Err(Lost::Malformed("unknown status")),
        })
    }
}

/// Why an end says goodbye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goodbye {
    /// It needs the connection no longer.
    Done,
    /// Its node is about to stop.
    ShuttingDown,
    /// It has become a member of a cluster: connect again to talk as members.
    Renew,
}

impl Goodbye {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::ShuttingDown => 1,
            Self::Renew => 2,
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, Lost> {
        Ok(match code {
            0 => Self::Done,
            1 => Self::ShuttingDown,
            2 => Self::Renew,
            _ => return Err(Lost::Malformed("unknown goodbye")),
        })
    }
}

/// One body that comes in pieces. It grows by what came, never by what was announced.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    announced: usize,
    parts: Vec<u8>,
    begun: bool,
}

impl Assembly {
    /// Begins with a length that was announced and is within the limit.
    pub(super) fn begin(&mut self, length: u32, limit: usize) -> Result<(), Lost> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if self.begun {
            return Err(Lost::Malformed("body begun twice"));
        }
        if length > limit {
            return Err(Lost::Malformed("body over the limit"));
        }
        self.announced = length;
        self.begun = true;
        Ok(())
    }

    /// Adds a piece; returns the body if it was the last.
    pub(super) fn add(&mut self, piece: Bytes, is_last: bool) -> Result<Option<Bytes>, Lost> {
        if !self.begun {
            return Err(Lost::Malformed("piece of a body that has not begun"));
        }
        let length = self.parts.len() + piece.len();
        if length > self.announced || (is_last && length < self.announced) {
            return Err(Lost::Malformed("body of another length than announced"));
        }
        if !is_last {
            if piece.is_empty() {
                return Err(Lost::Malformed("empty piece"));
            }
            self.parts.extend_from_slice(&piece);
            return Ok(None);
        }
        self.begun = false;
        if self.parts.is_empty() {
            return Ok(Some(piece));
        }
        self.parts.extend_from_slice(&piece);
        Ok(Some(std::mem::take(&mut self.parts).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_comes_in_pieces_of_the_announced_length() {
        let mut body = Assembly::default();
        assert!(body.add(Bytes::from_static(b"x"), true).is_err());
        body.begin(5, 5).unwrap();
        assert_eq!(body.add(Bytes::from_static(b"abc"), false), Ok(None));
        assert_eq!(
            body.add(Bytes::from_static(b"de"), true),
            Ok(Some("abcde".into()))
        );
        body.begin(0, 5).unwrap();
        assert_eq!(body.add(Bytes::new(), true), Ok(Some(Bytes::new())));
    }

    #[test]
    fn a_body_takes_memory_for_what_came_and_not_for_what_was_announced() {
        let mut body = Assembly::default();
        body.begin(4 << 20, 4 << 20).unwrap();
        assert_eq!(body.add(Bytes::from_static(b"a"), false), Ok(None));
        assert!(body.parts.capacity() < 1024);
    }

    #[test]
    fn a_body_of_another_length_is_refused() {
        let begun = || {
            let mut body = Assembly::default();
            body.begin(3, 5).unwrap();
            body
        };
        assert!(Assembly::default().begin(6, 5).is_err());
        assert!(begun().begin(1, 5).is_err());
        assert!(begun().add(Bytes::from_static(b"ab"), true).is_err());
        assert!(begun().add(Bytes::from_static(b"abcd"), false).is_err());
        assert!(begun().add(Bytes::new(), false).is_err());
    }

    #[test]
    fn every_code_comes_back() {
        for code in 1..=8 {
            assert_eq!(Kind::from_code(code).unwrap().code(), code);
        }
        assert!(Kind::from_code(0).is_err() && Kind::from_code(9).is_err());
        for code in 0..=5 {
            assert_eq!(Status::from_code(code).unwrap().code(), code);
        }
        assert!(Status::from_code(6).is_err());
        for code in 0..=2 {
            assert_eq!(Goodbye::from_code(code).unwrap().code(), code);
        }
        assert!(Goodbye::from_code(3).is_err());
    }
}
