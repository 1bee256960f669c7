//! The two loops of a connection: one reads and opens frames, the other seals and writes them.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Lost;
use super::frame::{Frame, Kind, Received};
use super::heard::Heard;
use super::limits::Timing;
use super::network::BoxStream;
use super::observer::{Observer, Side};
use super::outbox::{Filled, Outbox};
use super::seal::Seal;

/// How much is read at a time at most, and room for as much as is made.
const READ_BYTES: usize = 64 << 10;

/// Room below which more is made before reading.
const READ_BYTES_MIN: usize = 4 << 10;

/// A connection after its handshake.
pub(super) struct Wire {
    pub(super) stream: BoxStream,
    pub(super) sealing: Seal,
    pub(super) opening: Seal,
    pub(super) outbox: Arc<Outbox>,
    pub(super) timing: Timing,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) side: Side,
    /// When the node at the other end was last heard, here or on another connection.
    pub(super) heard: Arc<Heard>,
}

impl Wire {
    /// Runs until the connection ends; hands each frame over.
    pub(super) async fn run(self, mut receive: impl FnMut(Received) -> Result<(), Lost>) -> Lost {
        let (read, write) = split(self.stream);
        let heard_here = Heard::never();
        heard_here.now();
        let mut reader = Reader {
            read,
            buffer: BytesMut::with_capacity(READ_BYTES),
            opening: self.opening,
            observer: &*self.observer,
            heard: [&heard_here, &self.heard],
            dead_after: self.timing.dead_after,
        };
        let mut writer = Writer {
            write,
            sealing: self.sealing,
            observer: &*self.observer,
            outbox: &self.outbox,
            heard: &heard_here,
            ping_after: (self.side == Side::Dialled).then_some(self.timing.ping_after),
        };
        tokio::select! {
            biased;
            Err(lost) = reader.run(&mut receive) => return lost,
            written = writer.run() => {
                if let Err(error) = written {
                    return Lost::Io(error.to_string());
                }
            }
        }
        // Closing with something unread would make the kernel drop what the other end has not read yet.
        let closed = timeout_at(Instant::now() + self.timing.dead_after, reader.run(&mut receive)).await;
        match closed {
            Ok(Err(lost)) if lost != Lost::Closed => lost,
            Ok(Err(_)) | Err(_) => Lost::ClosedHere,
        }
    }
}

struct Reader<'a, R> {
    read: R,
    buffer: BytesMut,
    opening: Seal,
    observer: &'a dyn Observer,
    heard: [&'a Heard; 2],
    dead_after: Duration,
}

impl<R: AsyncRead + Unpin> Reader<'_, R> {
    async fn run(
        &mut self,
        receive: &mut impl FnMut(Received) -> Result<(), Lost>,
    ) -> Result<Infallible, Lost> {
        loop {
            let missing = self.take_frames(receive)?;
            if self.buffer.capacity() - self.buffer.len() < missing.max(READ_BYTES_MIN) {
                self.buffer.reserve(missing.max(READ_BYTES));
            }
            let deadline = Instant::now() + self.dead_after;
            match timeout_at(deadline, self.read.read_buf(&mut self.buffer)).await {
                Err(_) => return Err(Lost::Silent),
                Ok(Err(error)) => return Err(Lost::Io(error.to_string())),
                Ok(Ok(0)) if self.buffer.is_empty() => return Err(Lost::Closed),
                Ok(Ok(0)) => return Err(Lost::Truncated),
                Ok(Ok(_)) => self.heard.iter().for_each(|heard| heard.now()),
            }
        }
    }

    /// Hands over every whole frame; returns how many bytes are missing of the next.
    fn take_frames(&mut self, receive: &mut impl FnMut(Received) -> Result<(), Lost>) -> Result<usize, Lost> {
        let (mut frames, mut bytes) = (0, 0);
        let missing = loop {
            let Some(prefix) = self.buffer.first_chunk() else {
                break 4 - self.buffer.len();
            };
            let length = 4 + self.opening.check_length(u32::from_le_bytes(*prefix))?;
            if self.buffer.len() < length {
                break length - self.buffer.len();
            }
            let frame = self.buffer.split_to(length);
            frames += 1;
            bytes += length as u64;
            receive(self.opening.open(frame)?)?;
        };
        if frames > 0 {
            self.observer.received(frames, bytes);
        }
        Ok(missing)
    }
}

struct Writer<'a, W> {
    write: W,
    sealing: Seal,
    observer: &'a dyn Observer,
    outbox: &'a Outbox,
    heard: &'a Heard,
    ping_after: Option<Duration>,
}

impl<W: AsyncWrite + Unpin> Writer<'_, W> {
    async fn run(&mut self) -> io::Result<()> {
        let mut frames = Vec::new();
        let mut buffer = BytesMut::new();
        let mut written_at = Instant::now();
        let mut pinged_at = written_at;
        loop {
            let ping_at = self.ping_at(written_at, pinged_at);
            // Also while much is written: the other end has nothing else to answer until it is complete.
            if ping_at.is_some_and(|at| at <= Instant::now()) {
                pinged_at = Instant::now();
                self.outbox.push_control(Frame::control(Kind::Ping, 0, &[]));
            }
            match self.outbox.fill(&mut frames) {
                Filled::Frames => {
                    self.write(&mut frames, &mut buffer).await?;
                    written_at = Instant::now();
                    continue;
                }
                Filled::Nothing => {}
                Filled::Ended => return self.write.shutdown().await,
            }
            let until_ping = async {
                match ping_at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.outbox.ready() => {}
                () = until_ping => {}
            }
        }
    }

    /// When silence in one of the two directions will have lasted too long.
    fn ping_at(&self, written_at: Instant, pinged_at: Instant) -> Option<Instant> {
        let heard_at = self.heard.last().unwrap_or(written_at);
        Some(written_at.min(heard_at).max(pinged_at) + self.ping_after?)
    }

    /// Seals the frames and writes them all at once.
    async fn write(&mut self, frames: &mut Vec<Frame>, buffer: &mut BytesMut) -> io::Result<()> {
        for frame in frames.iter() {
            self.sealing.seal(frame, buffer);
        }
        self.observer.sent(frames.len() as u64, buffer.len() as u64);
        frames.clear();
        self.write.write_all(buffer).await?;
        buffer.clear();
        self.write.flush().await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::limits::PIECE_BYTES_MAX;
    use super::super::observer::NoObserver;
    use super::super::seal::{Derived, Protection, seals};
    use super::super::secret::Secret;
    use super::*;

    fn protection(number: u8) -> Protection {
        match number {
            0 => Protection::Tls,
            1 => Protection::Insecure,
            _ => Protection::Secret(Derived::new(&Secret::new([1; 32]).unwrap(), &[2; 32])),
        }
    }

    /// A frame's length is rarely right by chance, so some are.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let any_bytes = || proptest::collection::vec(any::<u8>(), 0..200);
        let framed = (any_bytes(), any::<u32>()).prop_map(|(bytes, length)| {
            let length = if length % 4 == 0 {
                length
            } else {
                u32::try_from(bytes.len()).unwrap()
            };
            [length.to_le_bytes().as_slice(), &bytes].concat()
        });
        let pieces = prop_oneof![any_bytes(), framed];
        proptest::collection::vec(pieces, 0..20).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_bytes_end_a_connection_within_its_memory(bytes in pieces(), number in 0..3_u8) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let heard = Heard::never();
                let mut reader = Reader {
                    read: bytes.as_slice(),
                    buffer: BytesMut::with_capacity(READ_BYTES),
                    opening: seals(&protection(number), &[2; 32], Side::Accepted).1,
                    observer: &NoObserver,
                    heard: [&heard, &heard],
                    dead_after: Duration::from_secs(2),
                };
                prop_assert!(reader.run(&mut |_| Ok(())).await.is_err());
                prop_assert!(reader.buffer.capacity() <= 2 * READ_BYTES + PIECE_BYTES_MAX);
                Ok(())
            })?;
        }
    }
}
