//! How much resident memory a waiting message takes, in the state and in the contents.
//!
//! `cargo run -p broker --example resident [MESSAGES]` sends messages of 100 bytes into a partition as the
//! owner does, and prints what the process grew by. The journal's and the server's own buffers are not part of it.

use std::sync::Arc;
use std::time::Duration;

use broker::{Input, Limits, Now, Owner, Request, Turn, recover};
use journal::Place;
use queue_core::{Content, EnqueueEntry};
use types::{LogIndex, MessageId, QueueKey, TenantId, WallTime};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BODY_BYTES: usize = 100;
const BATCH: u64 = 64;
const NOW: Now = Now {
    monotonic: Duration::ZERO,
    wall: WallTime::from_millis(1_700_000_000_000),
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let messages: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |text| text.parse())?;
    let content: Arc<[u8]> = content().into();
    println!(
        "{messages} waiting messages of {BODY_BYTES} bytes, {} as stored",
        content.len()
    );
    // All share one content: what is left is the state and the column.
    let (shared, _kept) = fill(messages, || content.clone())?;
    let (own, _kept_too) = fill(messages, || content.to_vec().into())?;
    println!("state and column: {shared} bytes a message");
    println!("content: {} bytes a message", own - shared);
    println!("together: {own} bytes a message");
    Ok(())
}

/// Fills a queue; returns by how many bytes a message the process grew, and what it grew by.
fn fill(
    messages: u64,
    mut content: impl FnMut() -> Arc<[u8]>,
) -> Result<(u64, Owner<()>), Box<dyn std::error::Error>> {
    let before = resident()?;
    let mut owner = Owner::new(recover(), Limits::RELAXED, NOW);
    let key = QueueKey {
        tenant: TenantId::DEV,
        name: "q".parse()?,
    };
    let create = Request::CreateQueue {
        key: key.clone(),
        attributes: Vec::new(),
        tags: Vec::new(),
    };
    let (mut entry, mut turn, mut index) = (Vec::new(), Turn::default(), LogIndex(0));
    let mut play = |requests: &mut dyn Iterator<Item = Request>| {
        let mut inputs: Vec<_> = requests.map(|request| Input { request, reply: None }).collect();
        if owner.step(NOW, &mut inputs, &mut entry, &mut turn) {
            index = index.next();
            // Wherever it lies: what is counted is what is kept in memory of it.
            let place = Place {
                segment: 1,
                offset: 4096,
            };
            owner.commit(index, Some(place), NOW, &mut turn);
        }
    };
    play(&mut std::iter::once(create));
    for _ in 0..messages.div_ceil(BATCH) {
        play(&mut (0..BATCH).map(|_| send(&key, content())));
    }
    let grown = resident()?.saturating_sub(before);
    Ok((grown / messages, owner))
}

fn send(key: &QueueKey, content: Arc<[u8]>) -> Request {
    let entry = EnqueueEntry {
        message_id: MessageId::from_random([7; 16]),
        content,
        size_bytes: 100,
        delay_seconds: None,
        group: None,
        deduplication: None,
    };
    Request::Enqueue {
        key: key.clone(),
        entries: vec![entry],
    }
}

/// Returns a message as the SQS API stores it.
fn content() -> Vec<u8> {
    let body = "x".repeat(BODY_BYTES);
    let content = Content {
        message_id: MessageId::from_random([7; 16]),
        body_md5: [9; 16],
        sender: "000000000000",
        group: None,
        deduplication_id: None,
        trace_header: None,
        attributes: Vec::new(),
        body: &body,
    };
    content.encode()
}

fn resident() -> Result<u64, Box<dyn std::error::Error>> {
    let process = std::process::id().to_string();
    let ps = std::process::Command::new("ps")
        .args(["-o", "rss=", "-p", &process])
        .output()?;
    let kilobytes: u64 = String::from_utf8(ps.stdout)?.trim().parse()?;
    Ok(kilobytes * 1_024)
}
