//! Fills one queue, so that what stands in it can be weighed or worked on.

use std::thread;

use anyhow::{Result, ensure};

use super::client::Client;

const SENDERS: u32 = 8;
const BATCH: u32 = 10;

/// Makes a queue, sends `messages` messages of `body_bytes` bytes to it, and returns its URL.
pub(super) fn fill(url: &str, name: &str, messages: u32, body_bytes: usize) -> Result<String> {
    let queue = Client::connect(url)?.create_queue(name)?;
    add(url, &queue, messages, body_bytes)?;
    Ok(queue)
}

/// Sends `messages` messages, a multiple of ten, to a queue.
pub(super) fn add(url: &str, queue: &str, messages: u32, body_bytes: usize) -> Result<()> {
    ensure!(
        messages.is_multiple_of(BATCH),
        "{messages} messages are no whole batches"
    );
    thread::scope(|scope| {
        let share = |sender: u32| (sender..messages / BATCH).step_by(SENDERS as usize);
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| scope.spawn(move || send(url, queue, share(sender), body_bytes)))
            .collect();
        for sender in senders {
            sender.join().expect("a sender does not panic")?;
        }
        Ok(())
    })
}

fn send(url: &str, queue: &str, batches: impl Iterator<Item = u32>, body_bytes: usize) -> Result<()> {
    let mut client = Client::connect(url)?;
    for batch in batches {
        let bodies: Vec<String> = (0..BATCH)
            .map(|entry| body(&format!("{batch}-{entry}-"), body_bytes))
            .collect();
        client.send_batch(queue, bodies.iter().map(String::as_str))?;
    }
    Ok(())
}

/// Returns a body of `bytes` bytes that begins with `start`.
pub(super) fn body(start: &str, bytes: usize) -> String {
    let mut body = String::with_capacity(bytes);
    body.push_str(start);
    body.extend(std::iter::repeat_n('x', bytes.saturating_sub(start.len())));
    body
}
