//! The queues of the test.

use history::{DeadLetters, Queue};

pub(crate) const SECOND: u64 = 1_000_000;
pub(crate) const PLAIN: usize = 0;
pub(crate) const WORK: usize = 1;
pub(crate) const DEAD: usize = 2;
pub(crate) const LINE: usize = 3;
pub(crate) const JOBS: usize = 4;
pub(crate) const DEAD_LINE: usize = 5;
pub(crate) const PURGED: usize = 6;
pub(crate) const SHORT: usize = 7;
/// Those that clients send to.
pub(crate) const SOURCES: [usize; 6] = [PLAIN, WORK, LINE, JOBS, PURGED, SHORT];
pub(crate) const NAMES: [&str; 8] = [
    "plain",
    "work",
    "dead",
    "line.fifo",
    "jobs.fifo",
    "dead.fifo",
    "purged",
    "short",
];
pub(crate) const MAX_RECEIVE_COUNT: u32 = 2;
pub(crate) const SHORT_RETENTION_SECONDS: u32 = 40;

pub(crate) fn queues() -> Vec<Queue> {
    let queue = |(at, name): (usize, &&str)| Queue {
        name: (*name).to_owned(),
        retention_micros: if at == SHORT {
            u64::from(SHORT_RETENTION_SECONDS) * SECOND
        } else {
            345_600 * SECOND
        },
        deduplication_micros: if name.ends_with(".fifo") { 300 * SECOND } else { 0 },
        dead_letters: dead_letters(at).map(|queue| DeadLetters {
            queue,
            max_receive_count: MAX_RECEIVE_COUNT,
        }),
    };
    NAMES.iter().enumerate().map(queue).collect()
}

pub(crate) fn dead_letters(queue: usize) -> Option<usize> {
    match queue {
        WORK => Some(DEAD),
        JOBS => Some(DEAD_LINE),
        _ => None,
    }
}
