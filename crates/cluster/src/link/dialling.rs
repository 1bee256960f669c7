//! The link to one target: dialled when it is needed, kept while it is used, dialled again when it is lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker::Random;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::asker::{Asker, Phase};
use super::condition::Condition;
use super::frame::Goodbye;
use super::handshake::{self, Established, HandshakeError};
use super::hub::Hub;
use super::outbox::Outbox;
use super::{Cause, Reason, Security, Side, Target, Timing};

pub(super) struct Dialling {
    target: Target,
    used_at: Mutex<Instant>,
    state: Condition<State>,
    /// Somebody wants the link.
    wanted: Notify,
    /// The node was heard elsewhere, so that a dial may go well now.
    alive: Notify,
}

#[derive(Debug, Default, Clone)]
struct State {
    asker: Option<Arc<Asker>>,
    /// How many dials have begun, and the last one that failed.
    begun: u64,
    failed: u64,
    cause: Option<Cause>,
    is_forgotten: bool,
}

/// Why a connected link is no longer looked after.
enum Over {
    Unused,
    Forgotten,
    DialAgain,
    Pause,
}

impl Dialling {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            used_at: Mutex::new(Instant::now()),
            state: Condition::default(),
            wanted: Notify::new(),
            alive: Notify::new(),
        }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the connection, if there is one.
    pub(super) fn asker(&self) -> Option<Arc<Asker>> {
        self.state
            .look(|state| state.asker.clone())
            .filter(|asker| asker.is_open())
    }

    /// Waits for a connection, as long as the dial takes that is under way or is next.
    pub(super) async fn connection(&self, deadline: Instant) -> Result<Arc<Asker>, Cause> {
        *self.used_at() = Instant::now();
        // A dial that is under way may still help; one that failed before does not count.
        let awaited = self.state.look(
            |state| match state.begun > state.failed && state.asker.is_none() {
                true => state.begun,
                false => state.begun + 1,
            },
        );
        self.wanted.notify_one();
        let settled = self.state.wait(|state| {
            let open = state.asker.clone().filter(|asker| asker.is_open());
            match (open, &state.cause) {
                _ if state.is_forgotten => Some(Err(Cause::ShuttingDown)),
                (Some(asker), _) => Some(Ok(asker)),
                (None, Some(cause)) if state.failed >= awaited => Some(Err(cause.clone())),
                (None, _) => None,
            }
        });
        timeout_at(deadline, settled)
            .await
            .unwrap_or(Err(Cause::Deadline))
    }

    /// Ends the link: what is under way is answered, and nothing more is asked.
    pub(super) fn forget(&self) {
        self.retire(Goodbye::Done);
        self.state.change(|state| state.is_forgotten = true);
    }

    /// Ends the connection, if there is one; the link remains.
    pub(super) fn retire(&self, goodbye: Goodbye) {
        if let Some(asker) = self.asker() {
            asker.retire(goodbye);
        }
    }

    /// Says that the node was heard.
    pub(super) fn notice_alive(&self) {
        if self.state.look(|state| state.asker.is_none()) {
            self.alive.notify_one();
        }
    }

    /// Looks after the link until it is forgotten.
    pub(super) async fn run(self: Arc<Self>, hub: Arc<Hub>) {
        loop {
            tokio::select! {
                biased;
                () = self.forgotten() => return,
                () = self.wanted.notified() => {}
            }
            // What wanted it may have been served long ago.
            if self.used_at().elapsed() >= hub.options.timing.idle_after {
                continue;
            }
            self.keep(&hub).await;
            if self.state.look(|state| state.is_forgotten) {
                return;
            }
        }
    }

    async fn forgotten(&self) {
        self.state.wait(|state| state.is_forgotten.then_some(())).await;
    }

    /// Keeps the link connected while it is used.
    async fn keep(&self, hub: &Arc<Hub>) {
        let timing = &hub.options.timing;
        let mut backoff = Backoff::new(timing, &*hub.outside.random);
        loop {
            self.state.change(|state| state.begun += 1);
            let dialled = tokio::select! {
                biased;
                () = self.forgotten() => return,
                dialled = dial(hub, &self.target) => dialled,
            };
            match dialled {
                Ok(established) => {
                    backoff.reset();
                    match self.keep_connected(hub, established).await {
                        Over::Unused | Over::Forgotten => return,
                        Over::DialAgain => continue,
                        Over::Pause => {}
                    }
                }
                Err(cause) => {
                    // What is configured wrongly does not change in milliseconds.
                    let is_lasting =
                        matches!(cause, Cause::Refused(reason) if reason != Reason::ShuttingDown);
                    if is_lasting {
                        backoff.lengthen();
                    }
                    self.state.change(|state| {
                        state.failed = state.begun;
                        state.cause = Some(cause);
                    });
                }
            }
            if self.used_at().elapsed() >= timing.idle_after {
                return;
            }
            tokio::select! {
                biased;
                () = self.forgotten() => return,
                () = self.alive.notified() => {}
                () = sleep_until(Instant::now() + backoff.next()) => {}
            }
        }
    }

    /// Uses a connection until it is over.
    async fn keep_connected(&self, hub: &Arc<Hub>, established: Established) -> Over {
        let outbox = Arc::new(Outbox::default());
        let connection = hub.connect(established, outbox.clone(), Side::Dialled);
        let asker = Arc::new(Asker::new(
            connection.peer().clone(),
            outbox,
            hub.options.limits.clone(),
        ));
        let running = EndsWithTask(asker.clone());
        hub.spawn(async move {
            let lost = connection.run(|frame| running.0.receive(frame)).await;
            running.0.end(&lost);
        });
        self.state.change(|state| state.asker = Some(asker.clone()));
        if hub.has_joined(asker.peer()) {
            asker.retire(Goodbye::Renew);
        }
        let over = loop {
            let idle_at = self.idle_at(&asker, hub.options.timing.idle_after);
            tokio::select! {
                biased;
                phase = asker.over() => {
                    break match phase {
                        Phase::Retired(Goodbye::Renew) => Over::DialAgain,
                        Phase::Open | Phase::Retired(_) | Phase::Ended(_) => Over::Pause,
                    };
                }
                () = self.forgotten() => break Over::Forgotten,
                () = sleep_until(idle_at) => {
                    if self.idle_at(&asker, hub.options.timing.idle_after) <= Instant::now() {
                        asker.retire(Goodbye::Done);
                        break Over::Unused;
                    }
                }
            }
        };
        self.state.change(|state| {
            state.asker = None;
            // This dial went well: it is no longer under way, and nobody waits for its failure.
            state.failed = state.begun;
            state.cause = None;
        });
        over
    }

    fn idle_at(&self, asker: &Asker, idle_after: Duration) -> Instant {
        match asker.unused_since() {
            Some(unused) => unused.max(*self.used_at()) + idle_after,
            None => Instant::now() + idle_after,
        }
    }

    fn used_at(&self) -> MutexGuard<'_, Instant> {
        self.used_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the requests of a connection even if its task is stopped.
struct EndsWithTask(Arc<Asker>);

impl Drop for EndsWithTask {
    fn drop(&mut self) {
        self.0.end(&super::Lost::ClosedHere);
    }
}

/// Dials a target, with the previous secret if the current one is refused.
async fn dial(hub: &Arc<Hub>, target: &Target) -> Result<Established, Cause> {
    let (secret, previous) = match &hub.options.security {
        Security::Secret { current, previous } => (Some(current), previous.as_ref()),
        Security::Tls(_) | Security::Insecure => (None, None),
    };
    let deadline = Instant::now() + hub.options.timing.handshake_max;
    let attempt = async |secret| {
        let dialled = timeout_at(deadline, async {
            let stream = hub.outside.network.dial(&target.address).await?;
            handshake::dial(&hub.own(), &hub.options.security, secret, target, stream).await
        });
        dialled
            .await
            .unwrap_or(Err(HandshakeError::Here(Reason::TimedOut)))
    };
    let mut dialled = attempt(secret).await;
    if let (Err(HandshakeError::ByPeer(Reason::WrongSecret)), Some(previous)) = (&dialled, previous) {
        tracing::info!(
            address = target.address,
            "the current secret is refused; trying the previous one"
        );
        dialled = attempt(Some(previous)).await;
    }
    dialled.map_err(|error| {
        hub.report_refused(Side::Dialled, &target.address, &error);
        match error.reason() {
            // Whoever is only slow or far away refuses nothing.
            None | Some(Reason::TimedOut) => Cause::Unreachable(error.to_string()),
            Some(reason) => Cause::Refused(reason),
        }
    })
}

/// Pauses that grow, each with some chance in it, so that nodes do not dial in step.
struct Backoff<'a> {
    timing: &'a Timing,
    random: &'a dyn Random,
    pause: Duration,
}

impl<'a> Backoff<'a> {
    fn new(timing: &'a Timing, random: &'a dyn Random) -> Self {
        let pause = timing.backoff_min;
        Self {
            timing,
            random,
            pause,
        }
    }

    fn reset(&mut self) {
        self.pause = self.timing.backoff_min;
    }

    fn lengthen(&mut self) {
        self.pause = self.timing.backoff_max;
    }

    /// Returns a pause between a half and the whole of what it has grown to.
    fn next(&mut self) -> Duration {
        let mut bytes = [0; 4];
        self.random.fill(&mut bytes);
        let half = self.pause / 2;
        let pause = half + half.mul_f64(f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX));
        self.pause = (self.pause * 2).min(self.timing.backoff_max);
        pause
    }
}

#[cfg(test)]
mod tests {
    use broker::SeededRandom;

    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        let (timing, random) = (Timing::default(), SeededRandom::new(1));
        let mut backoff = Backoff::new(&timing, &random);
        let mut whole = timing.backoff_min;
        for _ in 0..10 {
            let pause = backoff.next();
            assert!(pause >= whole / 2 && pause <= whole, "{pause:?} of {whole:?}");
            whole = (whole * 2).min(timing.backoff_max);
        }
        backoff.reset();
        assert!(backoff.next() <= timing.backoff_min);
    }
}
