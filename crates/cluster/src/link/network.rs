//! The network below the links, as a trait, so that a simulator can put another one there.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};

/// Bytes in order, both ways.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A stream of whatever network.
pub type BoxStream = Box<dyn Stream>;

/// A future of whatever network.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where streams come from.
pub trait Network: Debug + Send + Sync {
    /// Connects to `host:port`.
    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<BoxStream>>;

    /// Begins to accept connections at `host:port`.
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;
}

/// Accepts connections.
pub trait Listener: Send {
    /// Waits for the next connection; also says where it comes from.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxStream, String)>>;

    /// Returns where it listens, with the port that was chosen if port 0 was asked for.
    fn local_address(&self) -> String;
}

/// What a socket may hold unsent. A vote has to wait for what is in there, so it is not left to grow to megabytes.
const SEND_BUFFER_BYTES: u32 = 256 << 10;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 256;

/// TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Network for Tcp {
    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(async move {
            let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for address in lookup_host(address).await? {
                match socket_for(address)?.connect(address).await {
                    Ok(stream) => return prepared(stream),
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        })
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let address = lookup_host(address)
                .await?
                .next()
                .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))?;
            let socket = socket_for(address)?;
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            let listener = socket.listen(BACKLOG)?;
            let local = listener.local_addr()?.to_string();
            Ok(Box::new(Accepting { listener, local }) as Box<dyn Listener>)
        })
    }
}

/// An accepted socket inherits the buffer from the one that listens.
fn socket_for(address: std::net::SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    Ok(socket)
}

fn prepared(stream: TcpStream) -> io::Result<BoxStream> {
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

struct Accepting {
    listener: TcpListener,
    local: String,
}

impl Listener for Accepting {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxStream, String)>> {
        Box::pin(async move {
            let (stream, from) = self.listener.accept().await?;
            Ok((prepared(stream)?, from.to_string()))
        })
    }

    fn local_address(&self) -> String {
        self.local.clone()
    }
}
