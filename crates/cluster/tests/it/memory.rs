//! A network in memory, with somebody in the middle who may change what passes.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cluster::link::{BoxFuture, BoxStream, Listener, Network, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::sync::{Notify, mpsc, watch};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// What each direction of a connection holds.
pub(crate) const PIPE_BYTES: usize = 64 << 10;

/// Where a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Dialler,
    Acceptor,
}

/// What somebody in the middle sees: one message of a handshake, or one frame.
#[derive(Debug, Clone)]
pub(crate) struct Passing {
    pub(crate) from: From,
    pub(crate) is_handshake: bool,
    /// How many came before it, of this direction and sort.
    pub(crate) index: usize,
    pub(crate) bytes: Vec<u8>,
}

/// What he does with it.
#[derive(Debug)]
pub(crate) enum Then {
    Pass(Vec<u8>),
    PassAndCut(Vec<u8>),
    /// It passes when the gate is opened, and what comes behind it too.
    Hold(Arc<Gate>, Vec<u8>),
    /// Nothing passes any more in this direction, and nothing says so.
    Swallow,
}

/// Holds what passes until it is opened.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    reached: Notify,
    opened: Notify,
}

impl Gate {
    /// Waits until something stands before it.
    pub(crate) async fn reached(&self) {
        self.reached.notified().await;
    }

    pub(crate) fn open(&self) {
        self.opened.notify_one();
    }
}

type Middle = Arc<dyn Fn(Passing) -> Then + Send + Sync>;

pub(crate) struct Memory {
    listeners: Mutex<BTreeMap<String, mpsc::UnboundedSender<(BoxStream, String)>>>,
    middle: Mutex<Option<Middle>>,
    /// The certificates of whoever is in the middle, if he has some that both ends trust.
    certificates: Mutex<Option<(TlsAcceptor, TlsConnector)>>,
    dials: watch::Sender<usize>,
    names: AtomicUsize,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

impl Memory {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            listeners: Mutex::default(),
            middle: Mutex::default(),
            certificates: Mutex::default(),
            dials: watch::Sender::new(0),
            names: AtomicUsize::new(0),
        })
    }

    /// Puts somebody in the middle of every connection dialled from now on.
    pub(crate) fn set_middle(&self, middle: impl Fn(Passing) -> Then + Send + Sync + 'static) {
        *self.middle.lock().unwrap() = Some(Arc::new(middle));
    }

    /// Lets whoever is in the middle look into TLS.
    pub(crate) fn set_certificates(&self, acceptor: TlsAcceptor, connector: TlsConnector) {
        *self.certificates.lock().unwrap() = Some((acceptor, connector));
    }

    pub(crate) fn clear_middle(&self) {
        *self.middle.lock().unwrap() = None;
    }

    pub(crate) fn dials(&self) -> watch::Receiver<usize> {
        self.dials.subscribe()
    }

    pub(crate) fn connect(&self, address: &str) -> io::Result<DuplexStream> {
        self.dials.send_modify(|dials| *dials += 1);
        let listeners = self.listeners.lock().unwrap();
        let listener = listeners.get(address).ok_or(io::ErrorKind::ConnectionRefused)?;
        let (here, there) = duplex(PIPE_BYTES);
        let there = match self.middle.lock().unwrap().clone() {
            None => there,
            Some(middle) => {
                let (there_too, acceptor) = duplex(PIPE_BYTES);
                let certificates = self.certificates.lock().unwrap().clone();
                let host = address
                    .rsplit_once(':')
                    .map_or(address, |(host, _)| host)
                    .to_owned();
                tokio::spawn(stand_between(there, there_too, middle, certificates, host));
                acceptor
            }
        };
        let name = format!("dialler {}", self.names.fetch_add(1, Ordering::Relaxed));
        listener
            .send((Box::new(there), name))
            .map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(here)
    }
}

impl Network for Memory {
    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(async move { Ok(Box::new(self.connect(address)?) as BoxStream) })
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.listeners.lock().unwrap().insert(address.to_owned(), sender);
        let address = address.to_owned();
        Box::pin(async move { Ok(Box::new(Queue { receiver, address }) as Box<dyn Listener>) })
    }
}

struct Queue {
    receiver: mpsc::UnboundedReceiver<(BoxStream, String)>,
    address: String,
}

impl Listener for Queue {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxStream, String)>> {
        Box::pin(async {
            self.receiver
                .recv()
                .await
                .ok_or_else(|| io::ErrorKind::BrokenPipe.into())
        })
    }

    fn local_address(&self) -> String {
        self.address.clone()
    }
}

/// Reads a message of a handshake, or a frame.
pub(crate) async fn read_message(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<(bool, Vec<u8>)> {
    let mut bytes = vec![0; 4];
    stream.read_exact(&mut bytes).await?;
    let is_handshake = bytes == b"HFLK";
    let rest = if is_handshake {
        bytes.resize(7, 0);
        stream.read_exact(&mut bytes[4..]).await?;
        usize::from(u16::from_le_bytes([bytes[5], bytes[6]]))
    } else {
        u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize
    };
    let header = bytes.len();
    bytes.resize(header + rest, 0);
    stream.read_exact(&mut bytes[header..]).await?;
    Ok((is_handshake, bytes))
}

async fn stand_between(
    dialler: DuplexStream,
    acceptor: DuplexStream,
    middle: Middle,
    certificates: Option<(TlsAcceptor, TlsConnector)>,
    host: String,
) {
    match certificates {
        None => pass_on(dialler, acceptor, middle).await,
        Some((accepting, dialling)) => {
            let name = ServerName::try_from(host).unwrap();
            let acceptor = dialling.connect(name, acceptor).await.unwrap();
            pass_on(accepting.accept(dialler).await.unwrap(), acceptor, middle).await;
        }
    }
}

async fn pass_on(dialler: impl Stream, acceptor: impl Stream, middle: Middle) {
    let (from_dialler, to_dialler) = split(dialler);
    let (from_acceptor, to_acceptor) = split(acceptor);
    tokio::join!(
        pump(From::Dialler, from_dialler, to_acceptor, middle.clone()),
        pump(From::Acceptor, from_acceptor, to_dialler, middle)
    );
}

async fn pump(
    from: From,
    mut read: impl AsyncRead + Unpin,
    mut write: impl AsyncWrite + Unpin,
    middle: Middle,
) {
    let mut counts = [0, 0];
    while let Ok((is_handshake, bytes)) = read_message(&mut read).await {
        let count = &mut counts[usize::from(is_handshake)];
        let index = *count;
        *count += 1;
        let passing = Passing {
            from,
            is_handshake,
            index,
            bytes,
        };
        let then = match middle(passing) {
            Then::Hold(gate, bytes) => {
                gate.reached.notify_one();
                gate.opened.notified().await;
                Then::Pass(bytes)
            }
            other @ (Then::Pass(_) | Then::PassAndCut(_) | Then::Swallow) => other,
        };
        match then {
            Then::Pass(bytes) | Then::Hold(_, bytes) => {
                if write.write_all(&bytes).await.is_err() || write.flush().await.is_err() {
                    return;
                }
            }
            Then::PassAndCut(bytes) => {
                drop(write.write_all(&bytes).await);
                break;
            }
            Then::Swallow => return drop(tokio::io::copy(&mut read, &mut tokio::io::sink()).await),
        }
    }
    drop(write.shutdown().await);
}
