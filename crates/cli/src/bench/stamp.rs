//! What bench writes into a body, to know the message again and to see whether the body is the one that was sent.
//!
//! A body is a stamp of fixed width, then filler:
//!
//! ```text
//! run 8 | producer 4 | sequence 12 | group 6 | intended start 12 | check 8     hex digits, 50 together
//! ```

use std::time::Duration;

/// The width of a stamp.
pub(crate) const STAMP_BYTES: usize = 50;
const CHECKED_BYTES: usize = 42;

/// Identifies one message of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Differs between runs, so that messages of others are told apart.
    pub(crate) run: u32,
    /// The sender within the run.
    pub(crate) producer: u16,
    /// The place of the message among those of its sender, from 0.
    pub(crate) sequence: u64,
    /// The message group; 0 on a standard queue.
    pub(crate) group: u32,
    /// When the send was to start, since the start of the run.
    pub(crate) intended: Duration,
}

impl Stamp {
    fn text(&self) -> String {
        let mut text = format!(
            "{:08x}{:04x}{:012x}{:06x}{:012x}",
            self.run,
            self.producer,
            self.sequence,
            self.group,
            self.intended.as_micros()
        );
        let check = crc32c::crc32c(text.as_bytes());
        text += &format!("{check:08x}");
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let number = |from: usize, to: usize| u64::from_str_radix(text.get(from..to)?, 16).ok();
        let stamp = Self {
            run: number(0, 8)?.try_into().ok()?,
            producer: number(8, 12)?.try_into().ok()?,
            sequence: number(12, 24)?,
            group: number(24, 30)?.try_into().ok()?,
            intended: Duration::from_micros(number(30, 42)?),
        };
        let check = crc32c::crc32c(text.get(..CHECKED_BYTES)?.as_bytes());
        (number(CHECKED_BYTES, STAMP_BYTES)? == u64::from(check)).then_some(stamp)
    }

    /// Returns a deduplication id that no other message has.
    pub(crate) fn deduplication_id(&self) -> String {
        format!("{:08x}{:04x}{:012x}", self.run, self.producer, self.sequence)
    }
}

/// Makes and checks bodies of one size.
#[derive(Debug)]
pub(crate) struct Bodies {
    run: u32,
    size: usize,
    filler: String,
}

const PATTERN: &str = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ._";

impl Bodies {
    pub(crate) fn new(run: u32, size: usize) -> Self {
        Self {
            run,
            size,
            filler: PATTERN.repeat(size / PATTERN.len() + 2),
        }
    }

    pub(crate) fn write(&self, stamp: &Stamp) -> String {
        let mut body = String::with_capacity(self.size);
        body += &stamp.text();
        body += self.filler(stamp);
        body
    }

    /// Returns the stamp of a body that is, in every byte, one of this run.
    pub(crate) fn read(&self, body: &str) -> Option<Stamp> {
        let stamp = Stamp::parse(body)?;
        let is_ours = stamp.run == self.run && body.get(STAMP_BYTES..) == Some(self.filler(&stamp));
        is_ours.then_some(stamp)
    }

    /// Starts elsewhere for each message, so that a tail which came from another message shows.
    fn filler(&self, stamp: &Stamp) -> &str {
        let start = stamp.sequence as usize % PATTERN.len();
        &self.filler[start..start + self.size - STAMP_BYTES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        run: 0xfeed_beef,
        producer: 4_095,
        sequence: 70,
        group: 999_999,
        intended: Duration::from_micros(1_234_567),
    };

    #[test]
    fn bodies_have_their_size_and_are_read_back() {
        for size in [STAMP_BYTES, 51, 100, 4_096] {
            let bodies = Bodies::new(STAMP.run, size);
            let body = bodies.write(&STAMP);
            assert_eq!(body.len(), size);
            assert_eq!(bodies.read(&body), Some(STAMP));
        }
    }

    #[test]
    fn every_changed_byte_is_found() {
        let bodies = Bodies::new(STAMP.run, 120);
        let body = bodies.write(&STAMP);
        for at in 0..body.len() {
            for other in ["0", "a", "!"] {
                let mut wrong = body.clone();
                wrong.replace_range(at..=at, other);
                assert_eq!(bodies.read(&wrong).is_some(), wrong == body, "{other} at {at}");
            }
        }
        for wrong in [&body[..119], &format!("{body}x"), "", "hello", "äöü"] {
            assert_eq!(bodies.read(wrong), None, "{wrong}");
        }
        let next = Stamp {
            sequence: 71,
            ..STAMP
        };
        let swapped = format!("{}{}", &body[..STAMP_BYTES], &bodies.write(&next)[STAMP_BYTES..]);
        assert_eq!(bodies.read(&swapped), None);
        assert_eq!(Bodies::new(STAMP.run + 1, 120).read(&body), None);
    }
}
