//! Requests and their answers.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use cluster::link::{Cause, LateAnswer, LinkError, Lost, Request, Side};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::memory::{From, Gate, Memory, Then};
use crate::node::{DISCOVER, Doing, ECHO, Event, FAIL, HANG, Node, PANIC, cluster, pair, setup, soon};

#[tokio::test(start_paused = true)]
async fn bodies_of_every_length_come_back() {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    for length in [0, 1, 65_535, 65_536, 65_537, 200_000, 4 << 20] {
        let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        assert_eq!(one.ask(&two, ECHO, body.clone()).await.unwrap(), body);
    }
    assert_eq!(two.ask(&one, ECHO, "back").await.unwrap(), "back");
    assert_eq!(*network.dials().borrow(), 2);
}

#[tokio::test(start_paused = true)]
async fn many_requests_share_a_connection_and_an_unanswered_one_holds_up_none() {
    let network = Memory::new();
    let (one, mut two) = pair(&network).await;
    let target = two.target();
    let mut hanging = Box::pin(one.links.call(&target, Request::new(HANG, ""), soon()));
    tokio::select! {
        _ = &mut hanging => panic!("it is never answered"),
        () = two.did(|doing| matches!(doing, Doing::Started(HANG, _))) => {}
    }
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..200_u32 {
        let (links, target) = (one.links.clone(), target.clone());
        let body = number.to_le_bytes().repeat(1 + number as usize * 100);
        calls.spawn(async move {
            (
                links
                    .call(&target, Request::new(ECHO, body.clone()), soon())
                    .await,
                body,
            )
        });
    }
    while let Some(call) = calls.join_next().await {
        let (answer, body) = call.unwrap();
        assert_eq!(answer.unwrap(), body);
    }
    assert_eq!(*network.dials().borrow(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_other_end_says_instead_of_an_answer() {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    let not_sent = |cause| Err(LinkError::NotSent(cause));
    assert_eq!(one.ask(&two, 999, "").await, not_sent(Cause::UnknownKind));
    let failed = Cause::Failed("no luck".to_owned());
    assert_eq!(one.ask(&two, FAIL, "").await, Err(LinkError::Unknown(failed)));
    let panicked = Cause::Failed("the handler did not finish".to_owned());
    assert_eq!(one.ask(&two, PANIC, "").await, Err(LinkError::Unknown(panicked)));
    assert_eq!(
        one.ask(&two, ECHO, vec![0; 5 << 20]).await,
        not_sent(Cause::TooLarge)
    );
    assert_eq!(one.ask(&two, ECHO, "still there").await.unwrap(), "still there");
}

#[tokio::test(start_paused = true)]
async fn more_than_the_limits_allow_is_busy() {
    let network = Memory::new();
    let mut second = setup(2, "two:7901");
    second.options.limits.calls_max = 1;
    let (one, mut two) = (
        setup(1, "one:7901").start(&network).await,
        second.start(&network).await,
    );
    let target = two.target();
    let mut hanging = Box::pin(one.links.call(&target, Request::new(HANG, ""), soon()));
    tokio::select! {
        _ = &mut hanging => panic!("it is never answered"),
        () = two.did(|doing| matches!(doing, Doing::Started(HANG, _))) => {}
    }
    assert_eq!(
        one.ask(&two, ECHO, "").await,
        Err(LinkError::NotSent(Cause::Busy))
    );
    let target = one.target();
    let _hanging = two
        .links
        .stream(&target, Request::new(HANG, ""), soon())
        .await
        .unwrap();
    assert_eq!(
        two.ask(&one, ECHO, "").await,
        Err(LinkError::NotSent(Cause::Busy))
    );
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_drops_the_handler_on_the_other_side() {
    let network = Memory::new();
    let (one, mut two) = pair(&network).await;
    let target = two.target();
    let mut call = Box::pin(one.links.call(&target, Request::new(HANG, ""), soon()));
    tokio::select! {
        _ = &mut call => panic!("it is never answered"),
        () = two.did(|doing| matches!(doing, Doing::Started(HANG, _))) => {}
    }
    drop(call);
    two.did(|doing| *doing == Doing::Dropped).await;
    assert_eq!(one.ask(&two, ECHO, "alive").await.unwrap(), "alive");
    assert_eq!(*network.dials().borrow(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_cancels_and_says_that_the_outcome_is_unknown() {
    let network = Memory::new();
    let (one, mut two) = pair(&network).await;
    let deadline = Instant::now() + Duration::from_millis(700);
    let answer = one
        .links
        .call(&two.target(), Request::new(HANG, ""), deadline)
        .await;
    assert_eq!(answer, Err(LinkError::Unknown(Cause::Deadline)));
    assert_eq!(Instant::now(), deadline);
    two.did(|doing| *doing == Doing::Dropped).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_link_ends_its_calls_and_drops_their_handlers() {
    let network = Memory::new();
    // The dialler's second frame ends the connection: it asks, and then it cancels or pings.
    network.set_middle(
        |passing| match (passing.from, passing.is_handshake, passing.index) {
            (From::Dialler, false, 1) => Then::PassAndCut(Vec::new()),
            _ => Then::Pass(passing.bytes),
        },
    );
    let (one, mut two) = pair(&network).await;
    let answer = one.ask(&two, HANG, "").await;
    assert!(
        matches!(answer, Err(LinkError::Unknown(Cause::Lost(_)))),
        "{answer:?}"
    );
    two.did(|doing| *doing == Doing::Dropped).await;
    one.seen
        .saw(Event::Lost(two.id, Side::Dialled, Lost::Closed))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_end_was_never_written_was_surely_not_sent() {
    let network = Memory::new();
    network.set_middle(
        |passing| match (passing.from, passing.is_handshake, passing.index) {
            // The body has 64 frames, and the pipes hold fewer.
            (From::Dialler, false, 3) => Then::PassAndCut(Vec::new()),
            _ => Then::Pass(passing.bytes),
        },
    );
    let (one, mut two) = pair(&network).await;
    let answer = one.ask(&two, ECHO, vec![0; 4 << 20]).await;
    assert!(
        matches!(answer, Err(LinkError::NotSent(Cause::Lost(_)))),
        "{answer:?}"
    );
    assert!(two.doings.try_recv().is_err(), "half a request is served");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_before_it_is_written_is_not_sent() {
    let network = Memory::new();
    let (one, mut two) = pair(&network).await;
    one.ask(&two, ECHO, "connects").await.unwrap();
    two.did(|doing| matches!(doing, Doing::Started(ECHO, _))).await;
    let target = two.target();
    let mut call = Box::pin(one.links.call(&target, Request::new(HANG, ""), soon()));
    // Polled once: it waits to be written, and nothing else has run.
    assert!(
        call.as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    drop(call);
    one.ask(&two, ECHO, "after").await.unwrap();
    two.did(|doing| match doing {
        Doing::Started(kind, _) => {
            assert_eq!(*kind, ECHO);
            true
        }
        Doing::Dropped => false,
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_in_the_middle_of_its_body_is_not_served() {
    let network = Memory::new();
    let (one, mut two) = pair(&network).await;
    one.ask(&two, ECHO, "connects").await.unwrap();
    two.did(|doing| matches!(doing, Doing::Started(ECHO, _))).await;
    let before = two.seen.received_bytes.load(Ordering::SeqCst);
    let target = two.target();
    let call = one
        .links
        .call(&target, Request::new(HANG, vec![0; 4 << 20]), soon());
    let some_came = async {
        while two.seen.received_bytes.load(Ordering::SeqCst) == before {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = call => panic!("it is never answered"),
        () = some_came => {}
    }
    one.ask(&two, ECHO, "after").await.unwrap();
    two.did(|doing| {
        assert!(!matches!(doing, Doing::Started(HANG, _)));
        matches!(doing, Doing::Started(ECHO, _))
    })
    .await;
    assert!(two.seen.received_bytes.load(Ordering::SeqCst) - before < 4 << 20);
    assert_eq!(*network.dials().borrow(), 1);
}

/// Who hears late answers, and what is heard.
fn late() -> (LateAnswer, mpsc::UnboundedReceiver<Bytes>) {
    let (sender, heard) = mpsc::unbounded_channel();
    let hear = move |answer| sender.send(answer).expect("the test listens");
    (LateAnswer::new(hear), heard)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_on_its_way_when_its_call_is_dropped_is_heard_whole_and_once() {
    // At its first frame, and in its middle: what waits to be written is not taken back.
    for (length, held_frame) in [(3, 0), (1 << 20, 2)] {
        let network = Memory::new();
        let gate = Arc::new(Gate::default());
        let before = gate.clone();
        network.set_middle(
            move |passing| match (passing.from, passing.is_handshake, passing.index) {
                (From::Acceptor, false, index) if index == held_frame => {
                    Then::Hold(before.clone(), passing.bytes)
                }
                _ => Then::Pass(passing.bytes),
            },
        );
        let (one, two) = pair(&network).await;
        let (target, (late, mut heard)) = (two.target(), late());
        let body = vec![7; length];
        let mut call =
            Box::pin(
                one.links
                    .call_or_late(&target, Request::new(ECHO, body.clone()), soon(), late),
            );
        tokio::select! {
            _ = &mut call => panic!("the answer is held"),
            () = gate.reached() => {}
        }
        drop(call);
        gate.open();
        assert_eq!(heard.recv().await.unwrap(), body);
        assert_eq!(one.ask(&two, ECHO, "after").await.unwrap(), "after");
        assert!(heard.try_recv().is_err());
    }
}

/// Polls a call once, and waits until something of its answer has come, without anybody looking at it.
async fn begun<F: Future>(one: &Node, call: F) -> std::pin::Pin<Box<F>> {
    let before = one.seen.received_bytes.load(Ordering::SeqCst);
    let mut call = Box::pin(call);
    let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    while one.seen.received_bytes.load(Ordering::SeqCst) == before {
        tokio::task::yield_now().await;
    }
    call
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_has_come_and_was_not_taken_is_heard_when_its_call_is_dropped() {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    one.ask(&two, ECHO, "connects").await.unwrap();
    let (target, (late, mut heard)) = (two.target(), late());
    let request = || Request::new(ECHO, "x");
    drop(
        begun(
            &one,
            one.links.call_or_late(&target, request(), soon(), late.clone()),
        )
        .await,
    );
    assert_eq!(heard.try_recv().unwrap(), "x");
    // One that is taken is not late.
    let call = begun(&one, one.links.call_or_late(&target, request(), soon(), late)).await;
    assert_eq!(call.await.unwrap(), "x");
    assert!(heard.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn outside_of_a_cluster_only_discovery_is_served_until_it_is_joined() {
    let network = Memory::new();
    let mut fresh = setup(1, "one:7901");
    fresh.cluster = None;
    let (one, two) = (
        fresh.start(&network).await,
        setup(2, "two:7901").start(&network).await,
    );
    assert_eq!(one.ask(&two, DISCOVER, "who").await.unwrap(), "who");
    assert_eq!(
        one.ask(&two, ECHO, "").await,
        Err(LinkError::NotSent(Cause::NotMember))
    );
    assert_eq!(
        two.ask(&one, ECHO, "").await,
        Err(LinkError::NotSent(Cause::NotMember))
    );
    one.links.set_cluster(cluster(1).unwrap());
    assert_eq!(one.ask(&two, ECHO, "member").await.unwrap(), "member");
    // The other end dials anew because it is told to.
    two.seen
        .saw(Event::Lost(one.id, Side::Dialled, Lost::ClosedHere))
        .await;
    assert_eq!(two.ask(&one, ECHO, "member").await.unwrap(), "member");
}
