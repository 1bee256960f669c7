//! Random faults under a seed: what callers are told is true, and a seed gives the same run again.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::{Random, SeededRandom};
use cluster::link::{LinkError, Request};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::garbage::runtime;
use crate::memory::{Memory, Then};
use crate::node::{Event, REMEMBER, pair, soon};

const SEEDS: u64 = 40;
const CALLS: u64 = 120;

fn below(random: &dyn Random, limit: u64) -> u64 {
    let mut bytes = [0; 8];
    random.fill(&mut bytes);
    u64::from_le_bytes(bytes) % limit
}

/// What a caller was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Done,
    NotSent,
    Unknown,
}

#[derive(Debug, PartialEq, Eq)]
struct Run {
    told: BTreeMap<u64, Told>,
    remembered: Vec<u64>,
    events: [Vec<Event>; 2],
    took: Duration,
}

async fn run(seed: u64) -> Run {
    let began = Instant::now();
    let network = Memory::new();
    let faults = SeededRandom::new(seed);
    network.set_middle(move |mut passing| match below(&faults, 60) {
        0 => Then::PassAndCut(Vec::new()),
        1 => Then::PassAndCut(passing.bytes),
        2 => Then::Swallow,
        3 => {
            let at = below(&faults, passing.bytes.len() as u64) as usize;
            // Not the length: that only makes the connection wait.
            passing.bytes[at.max(4)] ^= 1 << below(&faults, 8);
            Then::Pass(passing.bytes)
        }
        _ => Then::Pass(passing.bytes),
    });
    let (one, two) = pair(&network).await;
    let random = SeededRandom::new(seed + 1);
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        let length = [8, 100, 70_000, 1 << 20][below(&random, 4) as usize];
        let mut body = vec![number as u8; length];
        body[..8].copy_from_slice(&number.to_le_bytes());
        let mut request = Request::new(REMEMBER, body.clone());
        request.has_priority = below(&random, 4) == 0;
        let begins = Instant::now() + Duration::from_millis(below(&random, 20_000));
        let deadline = begins + Duration::from_millis(below(&random, 3_000));
        let (links, target) = (one.links.clone(), two.target());
        calls.spawn(async move {
            drop(tokio::time::timeout_at(begins, std::future::pending::<()>()).await);
            let told = match links.call(&target, request, deadline).await {
                Ok(answer) => {
                    assert_eq!(answer, body);
                    Told::Done
                }
                Err(LinkError::NotSent(_)) => Told::NotSent,
                Err(LinkError::Unknown(_)) => Told::Unknown,
            };
            (number, told)
        });
    }
    let told = calls.join_all().await.into_iter().collect();
    two.links.shutdown(soon()).await;
    one.links.shutdown(soon()).await;
    let remembered = two.remembered.lock().unwrap().clone();
    let events = [one.seen.events(), two.seen.events()];
    Run {
        told,
        remembered,
        events,
        took: began.elapsed(),
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_is_told_is_true() {
    let mut seen = [0; 3];
    for seed in 0..SEEDS {
        let run = run(seed).await;
        for number in 0..CALLS {
            let times = run
                .remembered
                .iter()
                .filter(|remembered| **remembered == number)
                .count();
            let told = run.told[&number];
            let is_true = match told {
                Told::Done => times == 1,
                Told::NotSent => times == 0,
                Told::Unknown => times <= 1,
            };
            assert!(
                is_true,
                "seed {seed}: {number} was {told:?} and carried out {times} times"
            );
            seen[told as usize] += 1;
        }
    }
    // Each of the three was really tried.
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..4 {
        // Each with a runtime of its own: timers have milliseconds, counted from its start.
        let [first, second] = [runtime().block_on(run(seed)), runtime().block_on(run(seed))];
        assert_eq!(first, second);
    }
}
