//! Requests of each kind, one by one on one connection, with what each costs the server.

use std::time::Instant;

use anyhow::{Context, Result};

use super::backlog::body;
use super::client::Client;
use super::cores;
use super::report::median;
use super::server::Server;

const BODY_BYTES: usize = 100;
/// Walks over what is held in an order that has nothing to do with that of the receives; a prime.
const STRIDE: usize = 7_919;

/// Turns of a run: short ones, because a disk that others use changes its pace from second to second.
const TURNS: u32 = 4;

/// Values of `HOLDFAST_FSYNC`. Without the sync, which is most of what a single request costs, growth is seen better.
pub(super) const MODES: [&str; 2] = ["always", "off"];

/// The kinds of requests, in the order in which a round makes them.
pub(super) const KINDS: [&str; 4] = ["receive", "change visibility", "delete", "send"];

/// A queue, and the handles of what is in flight in it.
#[derive(Debug)]
pub(super) struct Operations<'a> {
    server: &'a Server,
    client: Client,
    queue: String,
    held: Vec<String>,
    place: usize,
    costs: [Costs; 4],
}

/// What one kind of request cost, one value a round.
#[derive(Clone, Debug, Default)]
struct Costs {
    cpu_us: Vec<f64>,
    p50_us: Vec<f64>,
}

impl<'a> Operations<'a> {
    pub(super) fn new(server: &'a Server, queue: String) -> Result<Self> {
        Ok(Self {
            server,
            client: Client::connect(&server.url)?,
            queue,
            held: Vec::new(),
            place: 0,
            costs: Default::default(),
        })
    }

    /// Receives until `count` messages are in flight.
    pub(super) fn hold(&mut self, count: u32) -> Result<()> {
        while self.held.len() < count as usize {
            let wanted = (count as usize - self.held.len()).min(10) as u32;
            let handles = self.client.receive(&self.queue, wanted)?;
            handles.first().context("nothing is left to receive")?;
            self.held.extend(handles);
        }
        Ok(())
    }

    /// Makes `count` requests of each kind, after which as much waits and is in flight as before.
    pub(super) fn round(&mut self, count: u32) -> Result<()> {
        self.measure(0, count, |this| {
            let handle = this.client.receive(&this.queue, 1)?.pop();
            this.held.push(handle.context("nothing was received")?);
            Ok(())
        })?;
        self.measure(1, count, |this| {
            let at = this.next_place();
            this.client.change_visibility(&this.queue, &this.held[at])
        })?;
        self.measure(2, count, |this| {
            let at = this.next_place();
            let handle = this.held.swap_remove(at);
            this.client.delete(&this.queue, &handle)
        })?;
        let message = body("", BODY_BYTES);
        self.measure(3, count, |this| this.client.send(&this.queue, &message))
    }

    /// Forgets what was measured so far.
    pub(super) fn reset(&mut self) {
        self.costs = Default::default();
    }

    /// Returns the median over the rounds of a kind's server CPU per request, and of its median latency, in
    /// microseconds.
    pub(super) fn cost(&self, kind: usize) -> (f64, f64) {
        let costs = &self.costs[kind];
        (median(costs.cpu_us.clone()), median(costs.p50_us.clone()))
    }

    fn measure(&mut self, kind: usize, count: u32, request: impl Fn(&mut Self) -> Result<()>) -> Result<()> {
        let before = self.server.cpu()?;
        let mut latencies = Vec::new();
        for _ in 0..count {
            let started = Instant::now();
            request(self)?;
            latencies.push(started.elapsed().as_secs_f64() * 1e6);
        }
        let cpu_us = self.server.cpu()?.micros_since(&before) / f64::from(count);
        self.costs[kind].cpu_us.push(cpu_us);
        self.costs[kind].p50_us.push(median(latencies));
        Ok(())
    }

    fn next_place(&mut self) -> usize {
        self.place = (self.place + STRIDE) % self.held.len();
        self.place
    }
}

/// Lets two take turns until each has made `count` requests of each kind in every one of `runs` runs, after a turn that
/// is not counted.
pub(super) fn alternate(pair: [&mut Operations<'_>; 2], runs: usize, count: u32) -> Result<()> {
    let [left, right] = pair;
    let turn = count / TURNS;
    cores::on_one(&[left.server.pid(), right.server.pid()], || {
        for operations in [&mut *left, &mut *right] {
            operations.round(turn)?;
            operations.reset();
        }
        for _ in 0..runs * TURNS as usize {
            left.round(turn)?;
            right.round(turn)?;
        }
        Ok(())
    })
}

/// Says so if the figures of two servers cannot be compared because the disk was slow for one of them at times.
pub(super) fn disturbance(pair: [&Server; 2]) -> Result<String> {
    let [left, right] = [pair[0].driver_changes()?, pair[1].driver_changes()?];
    if left + right == 0 {
        return Ok(String::new());
    }
    Ok(format!(
        "; slow disk: the commit driver changed {left} / {right} times"
    ))
}
