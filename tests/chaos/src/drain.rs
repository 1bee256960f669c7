//! The end of a run: everything that is left is received and deleted, through each node in turn.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::clients::{Client, LEASE_SECONDS_MAX, QUEUES};
use crate::{NODES, Shared};

/// Nothing came for longer than any lease: then nothing is left.
const QUIET: Duration = Duration::from_secs(2 * LEASE_SECONDS_MAX + 1);
/// Longest that it may take: a long run leaves many thousands, and each is deleted by itself.
const DRAIN_LIMIT: Duration = Duration::from_secs(900);
/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(20);
const LEASE_SECONDS: u64 = LEASE_SECONDS_MAX;

/// Empties all queues. Returns from when on they were.
pub(crate) fn drain(shared: &Shared, process: u32) -> Result<u64> {
    let (from, began) = (shared.now(), Instant::now());
    let mut client = Client::new(shared, process, 0);
    let mut heard = Instant::now();
    let mut node = 0;
    while heard.elapsed() < QUIET {
        ensure!(
            began.elapsed() < DRAIN_LIMIT,
            "messages kept coming for {:?}",
            began.elapsed()
        );
        node = (node + 1) % NODES;
        thread::sleep(PAUSE);
        for queue in 0..QUEUES.len() {
            loop {
                let received = client.receive(node, queue, LEASE_SECONDS, 0, 10);
                let is_empty = received.as_ref().is_some_and(Vec::is_empty);
                if is_empty {
                    break;
                }
                // Messages, or no answer: then nobody knows whether there are any.
                heard = Instant::now();
                let Some(handles) = received else { break };
                for handle in handles {
                    client.delete(queue, handle);
                }
            }
        }
    }
    Ok(from)
}
