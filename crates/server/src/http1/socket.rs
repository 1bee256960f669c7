//! The socket of a connection: waits for bytes, notices a client that goes, and writes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::HEAD_BYTES_MAX;
use super::answer::Encoded;
use crate::connection::{Connection, Order};

/// Most bytes of one read.
const READ_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    /// What a read goes into first, so that a connection holds as many bytes as have come, and none while it is idle.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES_MAX]);
}

/// What came of waiting for the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// So many bytes, at least one.
    Bytes(usize),
    /// The client sends no more.
    End,
    /// The time to send it is over.
    Overdue,
}

/// The socket of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    tcp: TcpStream,
    connection: Connection,
    /// What came after the end of the request that is worked on: the beginning of the next.
    early: Vec<u8>,
}

impl Socket {
    pub(crate) fn new(tcp: TcpStream, connection: Connection) -> Self {
        Self {
            tcp,
            connection,
            early: Vec::new(),
        }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Keeps bytes for the next request.
    pub(crate) fn keep(&mut self, early: &[u8]) {
        self.early.extend_from_slice(early);
    }

    /// Takes the bytes that are there of the next request.
    pub(crate) fn begin_head(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.early)
    }

    /// Waits for more bytes of a head. There are none if the client sends no more, or if a server that stops has none
    /// to wait for.
    pub(crate) async fn read_head(&mut self, head: &mut Vec<u8>) -> io::Result<usize> {
        let bytes = poll_fn(|context| {
            let polled = poll_read(&mut self.tcp, context, head, READ_BYTES_MAX);
            if polled.is_pending() && head.is_empty() && self.connection.order() >= Order::Finish {
                return Poll::Ready(Ok(0));
            }
            polled
        })
        .await?;
        if bytes > 0 {
            self.connection.bytes_came();
        }
        Ok(bytes)
    }

    /// Waits for more bytes of a body, at most so many.
    pub(crate) async fn read_body(&mut self, body: &mut Vec<u8>, bytes_max: usize) -> io::Result<Came> {
        poll_fn(
            |context| match poll_read(&mut self.tcp, context, body, bytes_max) {
                Poll::Pending if self.connection.is_body_overdue() => Poll::Ready(Ok(Came::Overdue)),
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(0)) => Poll::Ready(Ok(Came::End)),
                Poll::Ready(read) => Poll::Ready(read.map(Came::Bytes)),
            },
        )
        .await
    }

    /// Ends when the client has gone. Until then, what it sends is kept for the next request, as much as a head may
    /// have.
    pub(crate) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let room = HEAD_BYTES_MAX.saturating_sub(self.early.len());
            if room == 0 {
                return Poll::Pending;
            }
            match ready!(poll_read(&mut self.tcp, context, &mut self.early, room)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
    }

    /// Writes an answer. The kernel has taken all of it when this succeeds, and not before.
    pub(crate) async fn write(&mut self, answer: &Encoded<'_>) -> io::Result<()> {
        let mut slices = [IoSlice::new(&answer.start), IoSlice::new(answer.rest)];
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        poll_fn(|context| {
            while !left.is_empty() {
                let tcp = Pin::new(&mut self.tcp);
                let polled = match &*left {
                    // Cheaper than a list of one.
                    [only] => tcp.poll_write(context, only),
                    several => tcp.poll_write_vectored(context, several),
                };
                let Poll::Ready(written) = polled else {
                    self.connection.waits_for_client();
                    return Poll::Pending;
                };
                match written? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    bytes => IoSlice::advance_slices(&mut left, bytes),
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// The answer has left: a next request may come, or has begun to.
    pub(crate) fn end_request(&self) {
        self.connection.end_request(!self.early.is_empty());
    }

    /// Tells the client that nothing more will come.
    pub(crate) async fn shut_down(&mut self) -> io::Result<()> {
        poll_fn(|context| Pin::new(&mut self.tcp).poll_shutdown(context)).await
    }
}

/// Reads what is there, at most so many bytes; none at the end of the stream.
fn poll_read(
    tcp: &mut TcpStream,
    context: &mut Context<'_>,
    into: &mut Vec<u8>,
    bytes_max: usize,
) -> Poll<io::Result<usize>> {
    READ.with_borrow_mut(|room| {
        let bytes_max = bytes_max.min(room.len());
        let mut read = ReadBuf::new(&mut room[..bytes_max]);
        ready!(Pin::new(tcp).poll_read(context, &mut read))?;
        into.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    })
}
