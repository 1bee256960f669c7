//! Streams: order, completeness, back-pressure, cancelling, and how they share a connection with others.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use cluster::link::{Cause, LinkError, Lost, Pieces, Request};

use crate::memory::{From, Memory, PIPE_BYTES, Then};
use crate::node::{Doing, ECHO, FAIL, HANG, Node, PIECES, pair, soon};

async fn pieces(one: &Node, two: &Node, length: u32, count: u32) -> Pieces {
    let body = [length.to_le_bytes(), count.to_le_bytes()].concat();
    one.links
        .stream(&two.target(), Request::new(PIECES, body), soon())
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn pieces_come_whole_in_order_and_to_their_end() {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    for (length, count) in [
        (0, 100_000),
        (1, 1000),
        (65_536, 300),
        (1 << 20, 40),
        (4 << 20, 5),
        (10, 0),
    ] {
        let mut stream = pieces(&one, &two, length, count).await;
        for number in 0..count {
            let piece = stream.next().await.unwrap().unwrap();
            assert_eq!(piece.len(), length as usize);
            assert!(piece.iter().all(|byte| *byte == number as u8));
        }
        assert_eq!(stream.next().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_what_the_handler_says() {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    let ask = async |kind| {
        let mut stream = one
            .links
            .stream(&two.target(), Request::new(kind, ""), soon())
            .await
            .unwrap();
        stream.next().await
    };
    let failed = LinkError::Unknown(Cause::Failed("no luck".to_owned()));
    assert_eq!(ask(FAIL).await, Some(Err(failed)));
    assert_eq!(ask(999).await, Some(Err(LinkError::NotSent(Cause::UnknownKind))));
    let mut too_large = pieces(&one, &two, 5 << 20, 1).await;
    let error = too_large.next().await.unwrap().unwrap_err();
    assert!(matches!(error, LinkError::Unknown(Cause::Failed(_))), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_takes_stops_at_its_window() {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    let mut stream = pieces(&one, &two, 1 << 20, 64).await;
    // Whatever can happen without a piece being taken has happened before time moves.
    tokio::time::advance(Duration::from_millis(1)).await;
    one.ask(&two, ECHO, "others go on").await.unwrap();
    // The window is 4 MiB and 64 KiB, and each piece costs a little more than its length.
    assert_eq!(two.sent_bytes.load(Ordering::SeqCst), 4 << 20);
    assert!(one.seen.received_bytes.load(Ordering::SeqCst) < 5 << 20);
    for _ in 0..64 {
        assert_eq!(stream.next().await.unwrap().unwrap().len(), 1 << 20);
        let sent = two.sent_bytes.load(Ordering::SeqCst);
        assert!(sent <= 64 << 20);
    }
    assert_eq!(stream.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn more_streams_than_their_windows_have_room_for_are_busy() {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    let mut open = Vec::new();
    // 64 MiB for windows of 4 MiB and 64 KiB.
    for _ in 0..15 {
        let mut stream = pieces(&one, &two, 1000, 1_000_000).await;
        stream.next().await.unwrap().unwrap();
        open.push(stream);
    }
    let busy = Some(Err(LinkError::NotSent(Cause::Busy)));
    assert_eq!(pieces(&one, &two, 1, 1).await.next().await, busy);
    open.pop();
    assert!(pieces(&one, &two, 1, 1).await.next().await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn dropping_a_stream_drops_its_handler() {
    let network = Memory::new();
    let (one, mut two) = pair(&network).await;
    let mut stream = pieces(&one, &two, 1000, 1_000_000).await;
    stream.next().await.unwrap().unwrap();
    drop(stream);
    two.did(|doing| *doing == Doing::Dropped).await;
    assert!(two.sent_bytes.load(Ordering::SeqCst) < 20 << 20);
    one.ask(&two, ECHO, "alive").await.unwrap();
    assert_eq!(*network.dials().borrow(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_link_ends_a_stream_with_an_error() {
    let network = Memory::new();
    network.set_middle(
        |passing| match (passing.from, passing.is_handshake, passing.index) {
            (From::Acceptor, false, 20) => Then::PassAndCut(Vec::new()),
            _ => Then::Pass(passing.bytes),
        },
    );
    let (one, mut two) = pair(&network).await;
    let mut stream = pieces(&one, &two, 65_536, 1000).await;
    let mut last = stream.next().await;
    while matches!(last, Some(Ok(_))) {
        last = stream.next().await;
    }
    assert_eq!(last, Some(Err(LinkError::Unknown(Cause::Lost(Lost::Closed)))));
    two.did(|doing| *doing == Doing::Dropped).await;
}

/// Asks, and returns how many bytes came to `watched` until the answer did.
///
/// In a task of its own, since the task of the test has its turn only now and then.
async fn vote(one: &Node, two: &Node, watched: &Node, has_priority: bool) -> u64 {
    let (links, target, seen) = (one.links.clone(), two.target(), watched.seen.clone());
    let asking = tokio::spawn(async move {
        let before = seen.received_bytes.load(Ordering::SeqCst);
        let mut request = Request::new(ECHO, "vote");
        request.has_priority = has_priority;
        links.call(&target, request, soon()).await.unwrap();
        seen.received_bytes.load(Ordering::SeqCst) - before
    });
    asking.await.unwrap()
}

/// Answers how much of the stream had come when the answer came.
async fn passes(has_priority: bool) -> u64 {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    let mut stream = pieces(&one, &two, 1 << 20, 64).await;
    stream.next().await.unwrap().unwrap();
    let taking = async {
        let mut count = 1;
        while let Some(piece) = stream.next().await {
            piece.unwrap();
            count += 1;
        }
        assert_eq!(count, 64);
    };
    let asking = vote(&one, &two, &one, has_priority);
    let ((), came) = tokio::join!(taking, asking);
    came
}

#[tokio::test(start_paused = true)]
async fn a_vote_passes_a_stream_of_64_mib() {
    // What had left the outbox: one write, and what the pipe holds, both ways.
    let came = passes(true).await;
    assert!(came <= 4 * PIPE_BYTES as u64, "{came}");
    // Without priority it waits its turn, which is no long way either.
    let came = passes(false).await;
    assert!(came <= 6 * PIPE_BYTES as u64, "{came}");
}

#[tokio::test(start_paused = true)]
async fn a_vote_passes_large_requests_of_the_same_end() {
    let network = Memory::new();
    let (one, mut two) = pair(&network).await;
    let target = two.target();
    one.ask(&two, ECHO, "connects").await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let (links, target) = (one.links.clone(), target.clone());
        let request = Request::new(HANG, Bytes::from(vec![0; 4 << 20]));
        calls.spawn(async move { links.call(&target, request, soon()).await });
    }
    tokio::task::yield_now().await;
    let came = vote(&one, &two, &two, true).await;
    assert!(came <= 4 * PIPE_BYTES as u64, "{came}");
    for _ in 0..12 {
        two.did(|doing| matches!(doing, Doing::Started(HANG, _))).await;
    }
}
