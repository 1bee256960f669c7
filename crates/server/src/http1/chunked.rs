//! A body that comes in chunks (RFC 9112, section 7.1), decoded byte by byte.
//!
//! Extensions and trailers are skipped, and there can be only so many of them. Lines end with CR LF and nothing else:
//! what a lenient reader takes for the end of a line has been used to smuggle requests past proxies.

use super::HEAD_BYTES_MAX;

/// Why a body in chunks cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkedError {
    /// It is not what the RFC says.
    Malformed,
    /// It is longer than it may be.
    TooLarge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the digits of a chunk's size; whether there has been one.
    Size {
        has_digits: bool,
    },
    /// Between the size and the end of its line.
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    /// At the beginning of a line after the last chunk.
    TrailerStart,
    Trailer,
    TrailerLineFeed,
    EndLineFeed,
    Done,
}

/// Decodes one body.
#[derive(Debug)]
pub(crate) struct Chunked {
    state: State,
    /// The bytes of the chunk that have not come.
    chunk_bytes: u64,
    /// The bytes of extensions and trailers so far.
    skipped_bytes: usize,
    body: Vec<u8>,
    body_bytes_max: u64,
}

impl Chunked {
    /// Makes a decoder that takes bodies up to a length.
    pub(crate) fn new(body_bytes_max: u64) -> Self {
        Self {
            state: State::Size { has_digits: false },
            chunk_bytes: 0,
            skipped_bytes: 0,
            body: Vec::new(),
            body_bytes_max,
        }
    }

    /// Whether the whole body has come.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns what was decoded.
    pub(crate) fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// Decodes more bytes, and returns how many of them belong to the body: all, unless it ends among them.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Result<usize, ChunkedError> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            at += if self.state == State::Data {
                self.take_data(&bytes[at..])?
            } else {
                self.state = self.after(bytes[at])?;
                1
            };
        }
        Ok(at)
    }

    fn take_data(&mut self, bytes: &[u8]) -> Result<usize, ChunkedError> {
        let taken = usize::try_from(self.chunk_bytes).map_or(bytes.len(), |rest| rest.min(bytes.len()));
        self.body.extend_from_slice(&bytes[..taken]);
        self.chunk_bytes -= taken as u64;
        if self.chunk_bytes == 0 {
            self.state = State::DataReturn;
        }
        Ok(taken)
    }

    fn after(&mut self, byte: u8) -> Result<State, ChunkedError> {
        match (self.state, byte) {
            (State::Size { .. }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.add_digit(byte),
            (State::Size { has_digits: true }, b';' | b' ' | b'\t') => Ok(State::Extension),
            (State::Size { has_digits: true } | State::Extension, b'\r') => Ok(State::SizeLineFeed),
            (State::SizeLineFeed, b'\n') => self.begin_chunk(),
            (State::DataReturn, b'\r') => Ok(State::DataLineFeed),
            (State::DataLineFeed, b'\n') => Ok(State::Size { has_digits: false }),
            (State::TrailerStart, b'\r') => Ok(State::EndLineFeed),
            (State::Trailer, b'\r') => Ok(State::TrailerLineFeed),
            (State::TrailerLineFeed, b'\n') => Ok(State::TrailerStart),
            (State::EndLineFeed, b'\n') => Ok(State::Done),
            (State::Extension | State::TrailerStart | State::Trailer, _) => self.skip(byte),
            _ => Err(ChunkedError::Malformed),
        }
    }

    fn add_digit(&mut self, byte: u8) -> Result<State, ChunkedError> {
        let digit = char::from(byte).to_digit(16).map(u64::from);
        let grown = self.chunk_bytes.checked_mul(16).zip(digit);
        let (number, digit) = grown.ok_or(ChunkedError::Malformed)?;
        self.chunk_bytes = number + digit;
        Ok(State::Size { has_digits: true })
    }

    fn begin_chunk(&self) -> Result<State, ChunkedError> {
        let has_room = self
            .chunk_bytes
            .checked_add(self.body.len() as u64)
            .is_some_and(|bytes| bytes <= self.body_bytes_max);
        match self.chunk_bytes {
            0 => Ok(State::TrailerStart),
            _ if has_room => Ok(State::Data),
            _ => Err(ChunkedError::TooLarge),
        }
    }

    fn skip(&mut self, byte: u8) -> Result<State, ChunkedError> {
        self.skipped_bytes += 1;
        if byte == b'\n' || self.skipped_bytes > HEAD_BYTES_MAX {
            return Err(ChunkedError::Malformed);
        }
        let is_extension = self.state == State::Extension;
        Ok(if is_extension {
            State::Extension
        } else {
            State::Trailer
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: u64 = 100;

    fn decode(bytes: &[u8]) -> Result<(Vec<u8>, usize), ChunkedError> {
        let mut chunked = Chunked::new(MAX);
        let used = chunked.decode(bytes)?;
        assert!(chunked.is_done(), "{bytes:?} is not whole");
        Ok((chunked.into_body(), used))
    }

    #[test]
    fn a_body_is_put_together() {
        let check = |text: &str, body: &str, rest: usize| {
            let decoded = decode(text.as_bytes());
            assert_eq!(
                decoded,
                Ok((body.as_bytes().to_vec(), text.len() - rest)),
                "{text:?}"
            );
        };
        check("0\r\n\r\n", "", 0);
        check("2\r\n{}\r\n0\r\n\r\nGET", "{}", 3);
        check("1\r\na\r\n00A\r\n0123456789\r\n000\r\n\r\n", "a0123456789", 0);
        check("2;a=\"b\"\r\n\r\n\r\n0 ;x\r\nT: v\r\nU:\r\n\r\n\r\n", "\r\n", 2);
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for text in [
            "\r\n",
            ";a\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1\n",
            "1\ra",
            "1;a\n",
            "1\r\nab",
            "1\r\na\n",
            "1\r\na\rb",
            "0\r\n\n",
            "0\r\nT: v\n",
            "0\r\nT: v\rx",
            "0\r\n\rx",
            "10000000000000000\r\n",
        ] {
            assert_eq!(decode(text.as_bytes()), Err(ChunkedError::Malformed), "{text:?}");
        }
        for start in ["1;", "0\r\nT: "] {
            let text = format!("{start}{}", "x".repeat(HEAD_BYTES_MAX + 1));
            assert_eq!(decode(text.as_bytes()), Err(ChunkedError::Malformed));
        }
    }

    #[test]
    fn a_body_has_a_limit() {
        let fits = format!("60\r\n{}\r\n4\r\nabcd\r\n0\r\n\r\n", "x".repeat(96));
        assert_eq!(decode(fits.as_bytes()).unwrap().0.len() as u64, MAX);
        for text in [
            format!("60\r\n{}\r\n5\r\n", "x".repeat(96)),
            "65\r\n".to_owned(),
            "ffffffffffffffff\r\n".to_owned(),
        ] {
            assert_eq!(decode(text.as_bytes()), Err(ChunkedError::TooLarge), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_body(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..5),
            cuts in prop::collection::vec(1_usize..9, 1..60),
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend(format!("{:x};e\r\n", chunk.len()).into_bytes());
                text.extend(chunk);
                text.extend(b"\r\n");
            }
            text.extend(b"0\r\nT: v\r\n\r\n");
            let mut chunked = Chunked::new(MAX);
            let (mut at, mut cuts) = (0, cuts.iter().cycle());
            while at < text.len() {
                let end = text.len().min(at + cuts.next().unwrap());
                prop_assert!(!chunked.is_done());
                prop_assert_eq!(chunked.decode(&text[at..end]), Ok(end - at));
                at = end;
            }
            prop_assert!(chunked.is_done());
            prop_assert_eq!(chunked.into_body(), chunks.concat());
        }
    }
}
