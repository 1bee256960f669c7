//! The course of a run, from the queue to the last message.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use super::load::{Load, Shared};
use super::queue::{self, Queue, VISIBILITY_SECONDS};
use super::receiver::Receiver;
use super::report::Report;
use super::scenario::Scenario;
use super::sender::Sender;
use super::target::Target;
use crate::failure::{Failure, Kind};

/// How long a server may not answer before the run ends.
const UNREACHABLE: Duration = Duration::from_secs(5);
/// How many calls in a row may fail before the run ends.
const FAILURES_IN_A_ROW_MAX: u64 = 1_000;
/// How long nothing may be received, while there is something to receive, before receivers give up.
const STALL: Duration = Duration::from_secs(30);
/// How long is looked for missing messages without finding one: what was in flight has come back by then.
const PATIENCE: Duration = Duration::from_secs(VISIBILITY_SECONDS as u64 + 15);
/// How often the state of a run is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long a queue may take to be deleted after a run that ended early.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With everything received.
    Complete,
    /// By a signal.
    Interrupted,
    /// Because the server did not answer, with the latest error.
    Unreachable(String),
    /// Because no call succeeded, with the latest error.
    GaveUp(String),
}

/// Runs a scenario. Progress is told on the standard error stream.
pub(crate) fn run(
    scenario: Scenario,
    target: &Target,
    is_talkative: bool,
) -> Result<(Report, Ended), Failure> {
    let no_start = |error: io::Error| {
        let what = "cannot start the client";
        Failure::new(
            Kind::Failed,
            what,
            error.to_string(),
            "look at the limits of this machine",
        )
    };
    let runtime = runtime(&scenario).map_err(no_start)?;
    let run = getrandom::u32().map_err(|error| no_start(io::Error::other(error)))?;
    let result = runtime.block_on(async {
        let mut interrupted = std::pin::pin!(interrupted().map_err(no_start)?);
        let mut client = target.client();
        let opening = async {
            let durability = queue::durability(&mut client).await;
            let queue = Queue::open(&mut client, target, run, scenario.fifo).await?;
            Ok((durability, queue))
        };
        let (durability, queue) = tokio::select! {
            opened = opening => opened?,
            () = &mut interrupted => return Err(Report::interrupted()),
        };
        let load = Arc::new(Load::new(scenario, target.clone(), queue, run));
        let ended = tokio::select! {
            () = perform(&load, is_talkative) => Ended::Complete,
            ended = watch(&load) => ended,
            () = &mut interrupted => Ended::Interrupted,
        };
        load.end();
        load.close_window();
        close(&load).await;
        Ok((Report::new(&load, durability, &ended), ended))
    });
    // Tasks of a run that ended early are not waited for.
    runtime.shutdown_background();
    result
}

fn runtime(scenario: &Scenario) -> io::Result<Runtime> {
    let mut builder = if scenario.threads == 1 {
        Builder::new_current_thread()
    } else {
        Builder::new_multi_thread()
    };
    builder
        .worker_threads(usize::from(scenario.threads))
        .enable_all()
        .build()
}

/// Returns what waits for Ctrl-C, or for the signal by which an init system ends a process.
fn interrupted() -> io::Result<impl Future<Output = ()>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Everything that is done while the server answers.
async fn perform(load: &Shared, is_talkative: bool) {
    let say = |text: &str| {
        if is_talkative {
            eprintln!("{text}");
        }
    };
    if load.scenario.backlog() > 0 {
        say("sending the backlog ...");
        fill(load).await;
    }
    say("measuring ...");
    measure(load).await;
    say("receiving and checking the rest ...");
    drain(load).await;
}

/// Sends the backlog.
async fn fill(load: &Shared) {
    let left = Arc::new(AtomicU64::new(load.scenario.backlog()));
    let mut senders = JoinSet::new();
    for place in 0..load.untimed_connections() {
        senders.spawn(fill_from(
            Sender::untimed(Arc::clone(load), place),
            Arc::clone(&left),
            Arc::clone(load),
        ));
    }
    join(&mut senders).await;
}

async fn fill_from(mut sender: Sender, left: Arc<AtomicU64>, load: Shared) {
    let batch = u64::from(load.scenario.untimed_batch());
    loop {
        let take = |left: u64| Some(left - left.min(batch));
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let count = before.unwrap_or_default().min(batch);
        if count == 0 {
            return;
        }
        let sent = sender.send(count, Instant::now()).await;
        left.fetch_add(count - sent, Ordering::Relaxed);
    }
}

/// Measures, until everything of the measurement was received or nothing more comes.
async fn measure(load: &Shared) {
    let (mut senders, mut receivers) = (JoinSet::new(), JoinSet::new());
    let opened = load.open_window();
    for place in 0..load.scenario.senders() {
        senders.spawn(Sender::measured(Arc::clone(load), place).run());
    }
    for _ in 0..load.scenario.receivers() {
        receivers.spawn(Receiver::new(Arc::clone(load)).run());
    }
    if let Some(pace) = &load.pace {
        pace.begin(opened);
    }
    let work = async {
        if load.scenario.senders() > 0 {
            join(&mut senders).await;
            load.close_window();
            load.all_sent();
            // The last message may have been received before its send was answered.
            if load.ledger().missing() == 0 {
                load.end();
            }
        }
        join(&mut receivers).await;
        load.close_window();
        load.end();
    };
    tokio::join!(work, limit(load, opened));
}

/// Stops the measurement when its time is over, and ends it when nothing comes any more.
async fn limit(load: &Shared, opened: Instant) {
    let deadline = async {
        match load.scenario.duration() {
            Some(duration) => sleep_until((opened + duration).into()).await,
            None => std::future::pending().await,
        }
        load.stop();
        std::future::pending::<()>().await;
    };
    let stalled = async {
        if load.scenario.receivers() == 0 {
            std::future::pending::<()>().await;
        }
        wait_for_standstill(STALL, || load.ledger().received()).await;
        load.end();
    };
    tokio::select! {
        () = deadline => {}
        () = stalled => {}
        () = load.over() => {}
    }
}

/// Waits until a number has not changed for so long.
async fn wait_for_standstill(limit: Duration, number: impl Fn() -> u64) {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut since) = (number(), Instant::now());
    loop {
        ticks.tick().await;
        let now = number();
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() >= limit {
            return;
        }
    }
}

/// Receives whatever is left, until nothing is missing or the server has nothing more.
async fn drain(load: &Shared) {
    let (mut found_at, mut found) = (Instant::now(), load.ledger().received());
    let mut looker = Receiver::new(Arc::clone(load));
    let mut looks_at_nothing = 0;
    loop {
        let mut receivers = JoinSet::new();
        for _ in 0..load.untimed_connections() {
            receivers.spawn(Receiver::new(Arc::clone(load)).drain());
        }
        join(&mut receivers).await;
        if load.ledger().missing() == 0 {
            return;
        }
        looks_at_nothing = match looker.messages_left().await {
            Some(0) => looks_at_nothing + 1,
            Some(_) | None => 0,
        };
        let received = load.ledger().received();
        if received > found {
            (found_at, found) = (Instant::now(), received);
        }
        // Twice, because what the server counts may be older than what it answered.
        if looks_at_nothing >= 2 || found_at.elapsed() > PATIENCE {
            return;
        }
        looker.receive_untimed(1).await;
    }
}

/// Waits for all tasks. A panic in one is a panic here.
async fn join(tasks: &mut JoinSet<()>) {
    while let Some(joined) = tasks.join_next().await {
        if let Err(error) = joined
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

/// Waits until the server does not answer any more, or refuses everything.
async fn watch(load: &Load) -> Ended {
    let mut ticks = interval(LOOK);
    loop {
        ticks.tick().await;
        let failures = load.health.failures_in_a_row();
        if failures == 0 {
            continue;
        }
        let silence = load
            .since_origin(Instant::now())
            .saturating_sub(load.health.answered_at());
        if silence > UNREACHABLE {
            return Ended::Unreachable(load.health.latest());
        }
        if failures > FAILURES_IN_A_ROW_MAX {
            return Ended::GaveUp(load.health.latest());
        }
    }
}

/// Deletes the queue of the run. A user who has to do that by hand is told its name.
async fn close(load: &Load) {
    let mut client = load.target.client();
    let problem = match timeout(CLOSE_LIMIT, load.queue.close(&mut client)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(elapsed) => elapsed.to_string(),
    };
    eprintln!(
        "warning: the queue {} of this run is still there: {problem}",
        load.queue.name
    );
}
