//! HTTP/1.1 as the data port speaks it: heads, bodies, answers and the socket below them.
//!
//! `httparse` reads the head; what it leaves open and what lets two readers of the same bytes see different requests is
//! refused in `head`. `chunked` is a state machine over bytes. Neither knows sockets: any split of the bytes gives the
//! same requests. `socket` waits and writes, and `answer` says what is written. What a request means is not known here;
//! the order of these steps is in `exchange.rs`.

mod answer;
mod chunked;
mod date;
pub(crate) mod head;
mod socket;
mod target;

pub(crate) use answer::{Asked, Encoded, Next, bare, encode};
pub(crate) use chunked::{Chunked, ChunkedError};
use head::HEAD_BYTES_MAX;
pub(crate) use head::{Framing, Head};
pub(crate) use socket::{Came, Socket};
