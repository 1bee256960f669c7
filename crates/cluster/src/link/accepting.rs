//! Connections that others dialled.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::handshake::{self, Established, HandshakeError};
use super::hub::{Accepted, Hub};
use super::network::{BoxStream, Listener};
use super::outbox::Outbox;
use super::served::Served;
use super::{NodeId, Reason, Side};

/// How long to wait when no connection can be accepted, as when there are no file descriptors left.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Accepts until the links end.
pub(super) async fn run(hub: Arc<Hub>, mut listener: Box<dyn Listener>) {
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep_until(Instant::now() + PAUSE_AFTER_FAILURE).await;
                continue;
            }
        };
        match Unauthenticated::new(&hub) {
            Some(counted) => {
                hub.spawn(serve(hub.clone(), stream, from, counted));
            }
            None => tracing::warn!(from, "too many connections that have not proved themselves"),
        }
    }
}

async fn serve(hub: Arc<Hub>, stream: BoxStream, from: String, counted: Unauthenticated) {
    let limit = hub.options.timing.handshake_max;
    let met = timeout(limit, meet(&hub, stream)).await;
    drop(counted);
    let (established, place) = match met.unwrap_or(Err(HandshakeError::Here(Reason::TimedOut))) {
        Ok(met) => met,
        Err(error) => return hub.report_refused(Side::Accepted, &from, &error),
    };
    for dialling in hub.state().dialled.values() {
        if dialling.target().node == Some(established.peer.node) {
            dialling.notice_alive();
        }
    }
    let outbox = Arc::new(Outbox::default());
    let connection = hub.connect(established, outbox.clone(), Side::Accepted);
    let (peer, limits) = (connection.peer().clone(), hub.options.limits.clone());
    let served = Arc::new(Served::new(peer, outbox, limits, hub.handler.clone()));
    let served = EndsWithTask(served);
    place.fill(&served.0);
    connection.run(|frame| served.0.receive(frame)).await;
}

async fn meet(hub: &Arc<Hub>, stream: BoxStream) -> Result<(Established, Place), HandshakeError> {
    let own = hub.own();
    let greeted = handshake::greet(&own, &hub.options.security, stream).await?;
    match Place::new(hub, greeted.peer(&own).node) {
        Ok(place) => Ok((greeted.accept(&own).await?, place)),
        Err(reason) => Err(greeted.refuse(reason).await),
    }
}

/// Ends the requests of a connection even if its task is stopped.
struct EndsWithTask(Arc<Served>);

impl Drop for EndsWithTask {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Counts a connection whose handshake is not done.
struct Unauthenticated(Arc<Hub>);

impl Unauthenticated {
    fn new(hub: &Arc<Hub>) -> Option<Self> {
        let mut state = hub.state();
        let has_room = state.unauthenticated < hub.options.limits.unauthenticated_max;
        state.unauthenticated += usize::from(has_room);
        has_room.then(|| Self(hub.clone()))
    }
}

impl Drop for Unauthenticated {
    fn drop(&mut self) {
        self.0.state().unauthenticated -= 1;
    }
}

/// A place among the connections that a peer may have.
struct Place {
    hub: Arc<Hub>,
    number: u64,
}

impl Place {
    fn new(hub: &Arc<Hub>, node: NodeId) -> Result<Self, Reason> {
        let mut state = hub.state();
        if state.is_shutting_down {
            return Err(Reason::ShuttingDown);
        }
        let of_node = state
            .accepted
            .values()
            .filter(|accepted| accepted.node == node)
            .count();
        if of_node >= hub.options.limits.connections_per_peer_max {
            return Err(Reason::TooManyConnections);
        }
        let number = state.next_accepted;
        state.next_accepted += 1;
        state.accepted.insert(number, Accepted { node, served: None });
        Ok(Self {
            hub: hub.clone(),
            number,
        })
    }

    /// Says who is served there, and what has happened since the handshake began.
    fn fill(&self, served: &Arc<Served>) {
        let mut state = self.hub.state();
        if let Some(accepted) = state.accepted.get_mut(&self.number) {
            accepted.served = Some(served.clone());
        }
        if state.is_shutting_down {
            served.drain();
        } else if state.has_joined(served.peer()) {
            served.say_goodbye(super::frame::Goodbye::Renew);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.hub.state().accepted.remove(&self.number);
    }
}
