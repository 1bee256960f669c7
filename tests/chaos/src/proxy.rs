//! The network between the nodes: every link goes through here, and can be held, delayed and cut.
//!
//! A node advertises the address of its proxy. Who dials is found by the process that owns the other end of the socket, so
//! that one direction between two nodes can be held while all others pass.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::NODES;

/// How often a held direction is looked at again, and a connection that says nothing.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const IDLE: Duration = Duration::from_millis(200);

/// What is done to the links.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// Whether nothing passes from one node to another: `held[from][to]`.
    held: [[AtomicBool; NODES]; NODES],
    /// How much later everything arrives, in milliseconds.
    delay_millis: AtomicU64,
    /// Raised to cut every connection.
    cuts: AtomicU32,
    /// The process of each node.
    pids: [AtomicU32; NODES],
}

impl Network {
    /// Begins to pass connections on that are made to `listen` to the node at `target`.
    pub(crate) fn proxy(self: &Arc<Self>, node: usize, listen: SocketAddr, target: SocketAddr) -> Result<()> {
        let listener = TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
        let network = Arc::clone(self);
        thread::Builder::new()
            .name(format!("proxy-{node}"))
            .spawn(move || {
                for accepted in listener.incoming() {
                    let Ok(dialler) = accepted else { continue };
                    let network = Arc::clone(&network);
                    thread::spawn(move || network.pass(node, &dialler, target));
                }
            })?;
        Ok(())
    }

    /// Says which process a node is now.
    pub(crate) fn set_pid(&self, node: usize, pid: u32) {
        self.pids[node].store(pid, Ordering::Release);
    }

    /// Holds everything that one node sends to another, or lets it pass again.
    pub(crate) fn hold(&self, from: usize, to: usize, held: bool) {
        self.held[from][to].store(held, Ordering::Release);
    }

    /// Cuts a node off from all others, in both directions, or connects it again.
    pub(crate) fn isolate(&self, node: usize, held: bool) {
        for other in (0..NODES).filter(|other| *other != node) {
            self.hold(node, other, held);
            self.hold(other, node, held);
        }
    }

    /// Makes everything arrive later.
    pub(crate) fn delay(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.delay_millis.store(millis, Ordering::Release);
    }

    /// Cuts every connection once; they may be made anew.
    pub(crate) fn cut_all(&self) {
        self.cuts.fetch_add(1, Ordering::AcqRel);
    }

    /// Lets everything pass.
    pub(crate) fn heal(&self) {
        self.delay(Duration::ZERO);
        self.held
            .iter()
            .flatten()
            .for_each(|held| held.store(false, Ordering::Release));
    }

    fn pass(&self, to: usize, dialler: &TcpStream, target: SocketAddr) {
        // Neither end is there any more, or the node does not listen: the dialler sees a connection that ends.
        let Some(from) = dialler.peer_addr().ok().and_then(|peer| self.owner(peer)) else {
            return;
        };
        let Ok(acceptor) = TcpStream::connect(target) else {
            return;
        };
        let began = self.cuts.load(Ordering::Acquire);
        thread::scope(|scope| {
            scope.spawn(|| self.pump(dialler, &acceptor, (from, to), began));
            self.pump(&acceptor, dialler, (to, from), began);
        });
    }

    /// Passes one direction on until an end is gone or everything is cut.
    fn pump(&self, mut source: &TcpStream, mut sink: &TcpStream, (from, to): (usize, usize), began: u32) {
        let mut buffer = vec![0; 64 << 10];
        let is_cut = || self.cuts.load(Ordering::Acquire) != began;
        // Without the limit a cut would wait for the next byte.
        if source.set_read_timeout(Some(IDLE)).is_ok() && sink.set_nodelay(true).is_ok() {
            while !is_cut() {
                let read = match source.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                        continue;
                    }
                    Err(_) => break,
                };
                thread::sleep(Duration::from_millis(self.delay_millis.load(Ordering::Acquire)));
                while self.held[from][to].load(Ordering::Acquire) && !is_cut() {
                    thread::sleep(LOOK_AGAIN);
                }
                if is_cut() || sink.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
        }
        for stream in [source, sink] {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns the node whose process has the socket with this address.
    fn owner(&self, socket: SocketAddr) -> Option<usize> {
        let table = fs::read_to_string("/proc/net/tcp").ok()?;
        let inode = table.lines().skip(1).find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (_, port) = fields.get(1)?.split_once(':')?;
            let is_it = u16::from_str_radix(port, 16).ok()? == socket.port()
                && fields.get(1)?.starts_with(&hex(socket)?);
            is_it.then(|| fields.get(9).map(|inode| format!("socket:[{inode}]")))?
        })?;
        (0..NODES).find(|node| {
            let pid = self.pids[*node].load(Ordering::Acquire);
            let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
                return false;
            };
            let links = open
                .flatten()
                .filter_map(|entry| fs::read_link(entry.path()).ok());
            links.into_iter().any(|link| link.as_os_str() == inode.as_str())
        })
    }
}

/// Returns an address as `/proc/net/tcp` writes it.
fn hex(socket: SocketAddr) -> Option<String> {
    match socket {
        SocketAddr::V4(address) => Some(format!("{:08X}", u32::from_le_bytes(address.ip().octets()))),
        SocketAddr::V6(_) => None,
    }
}

/// Where clients reach the nodes; none while a node is away.
pub(crate) type Directory = Mutex<[Option<SocketAddr>; NODES]>;
