//! What a long poll that waits holds of the memory.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use super::Bench;
use super::bar::Bar;
use super::client::{Client, authority, request};
use super::report::Report;
use super::server::{Server, Settings};
use super::start::settled_bytes;

const POLLS: u32 = 15_000;
const POLL_SECONDS: u32 = 20;
/// Clients come from this address and those that follow it.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const ADDRESSES: u32 = 10;
/// Fewer than a listener keeps for the server, which is 128 by default; a further one waits a second.
const ACCEPTED_AT_ONCE: u32 = 100;
/// Files that either side may have open, beside the connections.
const SPARE_FILES: u64 = 1_000;
const OPEN: &str = "holdfast_connections_open";
const PARKED: &str = "holdfast_long_polls_parked";
const NAME: &str = "resident memory of an idle long poll, 15,000 of them from 10 addresses (--dev)";
const BAR: Bar = Bar::bound(20.0, "KiB");

/// Parks 15,000 receives and weighs them.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    if let Err(error) = allow_files(u64::from(POLLS) + SPARE_FILES) {
        report.missing(NAME, &format!("{error:#}"), &BAR);
        return Ok(());
    }
    let settings = Settings::dev().with("HOLDFAST_CONNECTIONS_MAX", POLLS + 100);
    let server = bench.server(settings)?;
    let queue = Client::connect(&server.url)?.create_queue("polls")?;
    let before = settled_bytes(&server)?;
    let mut connections = open(&server)?;
    park(&server, &queue, &mut connections)?;
    let grown = server.resident_bytes()?.saturating_sub(before) as f64;
    let each = grown / f64::from(POLLS) / 1024.0;
    report.bar(
        NAME,
        format!("{each:.1} KiB; {:.0} MB in all", grown / 1e6),
        each,
        &BAR,
    );
    Ok(())
}

/// Raises the number of files that this process, and what it starts from now on, may have open.
fn allow_files(wanted: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let is_enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= wanted);
    if is_enough(limit.current) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum.map(|maximum| maximum.max(wanted)),
    };
    setrlimit(Resource::Nofile, raised).with_context(|| format!("cannot have {wanted} files open"))
}

/// Opens the connections, no more at once than wait for the server to accept them.
fn open(server: &Server) -> Result<Vec<TcpStream>> {
    let to: SocketAddrV4 = authority(&server.url)?.parse()?;
    let mut connections = Vec::new();
    for number in 1..=POLLS {
        let from = Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + number % ADDRESSES);
        let connection =
            connect_from(from, to).with_context(|| format!("cannot open connection {number}"))?;
        connections.push(connection);
        if number % ACCEPTED_AT_ONCE == 0 {
            wait_for(server, OPEN, number)?;
        }
    }
    Ok(connections)
}

fn park(server: &Server, queue: &str, connections: &mut [TcpStream]) -> Result<()> {
    let input = json!({ "QueueUrl": queue, "WaitTimeSeconds": POLL_SECONDS });
    let request = request("ReceiveMessage", &input)?;
    for connection in connections {
        connection.write_all(&request)?;
    }
    wait_for(server, PARKED, POLLS)
}

/// Connects from an address of the client's choice, which std has no call for.
fn connect_from(from: Ipv4Addr, to: SocketAddrV4) -> Result<TcpStream> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    bind(&socket, &SocketAddrV4::new(from, 0))?;
    connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

/// Waits until a gauge has reached `count`.
fn wait_for(server: &Server, gauge: &str, count: u32) -> Result<()> {
    let started = Instant::now();
    loop {
        let value = server.metrics()?.sum(gauge)?;
        if value >= f64::from(count) {
            return Ok(());
        }
        // After that the first polls end, and there will not be more.
        ensure!(
            started.elapsed() < Duration::from_secs(u64::from(POLL_SECONDS)),
            "{gauge} is {value} and not {count}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}
