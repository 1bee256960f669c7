//! Clients in virtual time: their calls take a while, some are never answered, and some take effect late.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use history::{Call, Fault, History, Recorder, Reply, Ticket};
use simulator::Random;

use crate::planted::Bug;
use crate::server::Server;
use crate::setting::{LINE, NAMES, PURGED, SECOND, SOURCES, queues};

const CLIENTS: usize = 8;
const OPERATIONS: usize = 3_000;
const STRAGGLE: u64 = 5 * SECOND;
const MILLI: u64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client makes its next call.
    Next(usize),
    /// A call takes effect.
    Apply(usize),
    /// A client has its reply, or gives up.
    Return(usize),
    FailOver,
    Copy,
}

/// A call on its way.
struct Flight {
    client: usize,
    ticket: Ticket,
    call: Call,
    max: u32,
    reply: Option<Reply>,
    is_answered: bool,
}

#[derive(Default)]
struct Client {
    /// What it received and has not looked at yet, and what it kept for much later.
    held: Vec<(usize, String)>,
    old: Vec<(usize, String)>,
    /// The sends that it may repeat.
    sent: Vec<Call>,
    unanswered: Option<Call>,
}

struct World {
    server: Server,
    recorder: Recorder,
    random: Random,
    clients: Vec<Client>,
    flights: Vec<Flight>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    bodies: u64,
}

/// Plays one seed and returns what was seen.
pub(crate) fn play(seed: u64, bug: Option<Bug>) -> History {
    let mut world = World {
        server: Server::new(seed, bug),
        recorder: Recorder::default(),
        random: Random::new(seed),
        clients: (0..CLIENTS).map(|_| Client::default()).collect(),
        flights: Vec::new(),
        events: BinaryHeap::new(),
        order: 0,
        bodies: 0,
    };
    for client in 0..CLIENTS {
        world.at(SECOND, Event::Next(client));
    }
    for n in 1..8 {
        world.at(n * 9 * SECOND, Event::FailOver);
        world.at(n * 9 * SECOND - SECOND / 2, Event::Copy);
    }
    let mut now = 0;
    while let Some(Reverse((at, _, event))) = world.events.pop() {
        now = at;
        world.step(at, event);
    }
    let drained_from = now + STRAGGLE;
    world.drain(drained_from);
    let (operations, faults) = world.recorder.take();
    History {
        queues: queues(),
        operations,
        faults,
        drained_from_micros: Some(drained_from),
        straggle_micros: STRAGGLE,
        clock_error_micros: MILLI,
    }
}

impl World {
    fn at(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn step(&mut self, now: u64, event: Event) {
        match event {
            Event::Next(client) => {
                if self.recorder.len() < OPERATIONS {
                    self.start(now, client);
                }
            }
            Event::Apply(flight) => {
                let Flight { call, max, .. } = &self.flights[flight];
                let reply = self.server.execute(now, call, *max);
                self.flights[flight].reply = Some(reply);
            }
            Event::Return(flight) => self.finish(now, flight),
            Event::FailOver => {
                self.server.fail_over(now);
                let name = "failover".to_owned();
                self.recorder.fault(Fault {
                    name,
                    node: None,
                    began_micros: now,
                    ended_micros: now,
                });
            }
            Event::Copy => self.server.take_older(),
        }
    }

    fn start(&mut self, now: u64, client: usize) {
        let call = self.choose(client);
        let max = 1 + u32::try_from(self.random.below(4)).unwrap();
        let node = u32::try_from(self.random.below(3)).unwrap();
        let ticket = self
            .recorder
            .invoke(u32::try_from(client).unwrap(), node, now, call.clone());
        let is_answered = !self.random.percent(2);
        let flight = self.flights.len();
        self.flights.push(Flight {
            client,
            ticket,
            call,
            max,
            reply: None,
            is_answered,
        });
        let way = 100 + self.random.below(20 * MILLI);
        if is_answered {
            self.at(now + way, Event::Apply(flight));
            let back = 100 + self.random.below(20 * MILLI);
            self.at(now + way + back, Event::Return(flight));
        } else {
            match self.random.below(3) {
                0 => {}
                1 => self.at(now + way, Event::Apply(flight)),
                _ => {
                    let late = self.random.below(STRAGGLE - 30 * MILLI);
                    self.at(now + way + late, Event::Apply(flight));
                }
            }
            self.at(now + SECOND, Event::Return(flight));
        }
    }

    fn finish(&mut self, now: u64, flight: usize) {
        let Flight {
            client,
            ticket,
            call,
            reply,
            is_answered,
            ..
        } = &self.flights[flight];
        let (client, ticket, call) = (*client, *ticket, call.clone());
        let reply = reply.clone().filter(|_| *is_answered).unwrap_or(Reply::Unknown);
        self.recorder.complete(ticket, now, reply.clone());
        let state = &mut self.clients[client];
        match (&call, &reply) {
            (Call::Send { .. }, Reply::Unknown) => state.unanswered = Some(call),
            (Call::Send { .. }, _) => state.sent.push(call),
            (Call::Receive { queue, .. }, Reply::Received(deliveries)) => {
                state.held.extend(
                    deliveries
                        .iter()
                        .map(|delivery| (*queue, delivery.handle.clone())),
                );
            }
            _ => {}
        }
        let pause = self.random.below(300 * MILLI);
        self.at(now + pause, Event::Next(client));
    }

    fn choose(&mut self, client: usize) -> Call {
        if let Some(call) = self.clients[client].unanswered.take()
            && self.random.percent(70)
        {
            return call;
        }
        if self.random.percent(55)
            && let Some((queue, handle)) = self.clients[client].held.pop()
        {
            match self.random.below(100) {
                0..45 => return Call::Delete { queue, handle },
                45..60 => {
                    let visibility_micros = self.random.below(5) * SECOND;
                    self.clients[client].held.push((queue, handle.clone()));
                    return Call::ChangeVisibility {
                        queue,
                        handle,
                        visibility_micros,
                    };
                }
                60..85 => self.clients[client].old.push((queue, handle)),
                _ => {}
            }
        }
        match self.random.below(100) {
            0..38 => self.new_send(client),
            38..42 => self.repeated_send(client),
            42..90 => {
                let queue = usize::try_from(self.random.below(NAMES.len() as u64)).unwrap();
                let visibility_micros = (1 + self.random.below(4)) * SECOND;
                Call::Receive {
                    queue,
                    visibility_micros,
                }
            }
            90..91 => Call::Purge { queue: PURGED },
            _ => self.old_delete(client),
        }
    }

    fn new_send(&mut self, client: usize) -> Call {
        let queue = SOURCES[usize::try_from(self.random.below(SOURCES.len() as u64)).unwrap()];
        self.bodies += 1;
        let body = format!("body {} of client {client}", self.bodies);
        let is_fifo = queue >= LINE && NAMES[queue].ends_with(".fifo");
        Call::Send {
            queue,
            group: is_fifo.then(|| format!("group-{}", self.random.below(4))),
            deduplication: is_fifo.then(|| format!("key-{}", self.bodies)),
            body,
        }
    }

    /// Sends again what a FIFO queue should recognise.
    fn repeated_send(&mut self, client: usize) -> Call {
        let sent = &self.clients[client].sent;
        let recent = sent
            .iter()
            .rev()
            .find(|call| matches!(call, Call::Send { group: Some(_), .. }));
        let skip = usize::try_from(self.random.below(20)).unwrap();
        let older = sent
            .iter()
            .rev()
            .filter(|call| matches!(call, Call::Send { group: Some(_), .. }))
            .nth(skip);
        older.or(recent).cloned().unwrap_or_else(|| self.new_send(client))
    }

    fn old_delete(&mut self, client: usize) -> Call {
        let old = &mut self.clients[client].old;
        if old.is_empty() {
            return self.new_send(client);
        }
        let at = usize::try_from(self.random.below(old.len() as u64)).unwrap();
        let (queue, handle) = old.swap_remove(at);
        Call::Delete { queue, handle }
    }

    /// Empties every queue, those that others move to last.
    fn drain(&mut self, from: u64) {
        let mut now = from;
        for queue in [7, 0, 1, 3, 4, 6, 2, 5] {
            let mut empty = 0;
            while empty < 3 {
                let visibility_micros = 30 * SECOND;
                let reply = self.call(
                    &mut now,
                    Call::Receive {
                        queue,
                        visibility_micros,
                    },
                );
                let Reply::Received(deliveries) = reply else {
                    panic!("a drain was refused")
                };
                empty = if deliveries.is_empty() { empty + 1 } else { 0 };
                for delivery in deliveries {
                    let handle = delivery.handle;
                    self.call(&mut now, Call::Delete { queue, handle });
                }
                now += if empty > 0 { 5 * SECOND } else { 0 };
            }
        }
    }

    fn call(&mut self, now: &mut u64, call: Call) -> Reply {
        let ticket = self.recorder.invoke(99, 0, *now, call.clone());
        let reply = self.server.execute(*now + MILLI, &call, 10);
        *now += 2 * MILLI;
        self.recorder.complete(ticket, *now, reply.clone());
        *now += 1;
        reply
    }
}
