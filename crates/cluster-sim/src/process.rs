//! The process of a simulated node: its threads are tasks that are as slow as their disk, and its end is only its own.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use broker::{Process, Work};
use simulator::Random;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

/// How slow a disk is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Speed {
    /// The longest usual time of one piece of work, in microseconds.
    pub(crate) work_max: u64,
    /// Pieces in a thousand that take up to a second.
    pub(crate) stall_permille: u64,
}

/// A process that ends alone.
#[derive(Debug)]
pub(crate) struct SimProcess {
    runtime: Handle,
    random: Arc<Mutex<Random>>,
    speed: Speed,
    has_died: AtomicBool,
}

impl SimProcess {
    pub(crate) fn new(seed: u64, speed: Speed, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            random: Arc::new(Mutex::new(Random::new(seed))),
            speed,
            has_died: AtomicBool::new(false),
        })
    }

    /// Whether it has aborted.
    pub(crate) fn has_died(&self) -> bool {
        self.has_died.load(Ordering::Relaxed)
    }
}

fn draw(random: &Mutex<Random>, speed: Speed) -> Duration {
    let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
    let mut micros = random.below(speed.work_max + 1);
    if random.below(1_000) < speed.stall_permille {
        micros += random.below(1_000_000);
    }
    Duration::from_micros(micros)
}

/// Does a piece of the work each time it has something to do, and not at once.
async fn run(mut work: Work, random: Arc<Mutex<Random>>, speed: Speed) {
    loop {
        sleep_until(Instant::now() + draw(&random, speed)).await;
        if poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_ready())).await {
            return;
        }
        let mut has_waited = false;
        poll_fn(|_| match std::mem::replace(&mut has_waited, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

impl Process for SimProcess {
    fn spawn(&self, _: &str, work: Work) -> io::Result<()> {
        self.runtime
            .spawn(run(work, Arc::clone(&self.random), self.speed));
        Ok(())
    }

    fn abort(&self) -> ! {
        self.has_died.store(true, Ordering::Relaxed);
        // Ends the task; the run ends the rest before time goes on.
        std::panic::resume_unwind(Box::new("the process of a node has aborted"))
    }
}
