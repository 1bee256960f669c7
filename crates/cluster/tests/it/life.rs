//! The life of a link: dialled when needed, noticed when dead, dialled again, and ended.

use std::time::Duration;

use cluster::link::{Cause, LinkError, Lost, Request, Side, Target};
use tokio::time::Instant;

use crate::memory::{Memory, Then};
use crate::node::{Doing, ECHO, Event, HANG, pair, setup, soon};

#[tokio::test(start_paused = true)]
async fn a_half_open_link_is_noticed_on_both_ends() {
    let network = Memory::new();
    // The first request passes in both directions, and then nothing does.
    network.set_middle(|passing| match (passing.is_handshake, passing.index) {
        (false, 1..) => Then::Swallow,
        _ => Then::Pass(passing.bytes),
    });
    let (one, two) = pair(&network).await;
    one.ask(&two, ECHO, "x").await.unwrap();
    let heard = Instant::now();
    assert_eq!(one.links.last_heard(two.id), Some(heard));
    let answer = one.ask(&two, ECHO, "").await;
    assert_eq!(answer, Err(LinkError::Unknown(Cause::Lost(Lost::Silent))));
    assert_eq!(Instant::now(), heard + Duration::from_secs(2));
    one.seen
        .saw(Event::Lost(two.id, Side::Dialled, Lost::Silent))
        .await;
    two.seen
        .saw(Event::Lost(one.id, Side::Accepted, Lost::Silent))
        .await;
    assert_eq!(one.links.last_heard(two.id), Some(heard));
}

#[tokio::test(start_paused = true)]
async fn an_acceptor_notices_a_dialler_that_went_without_a_word() {
    let network = Memory::new();
    network.set_middle(
        |passing| match (passing.is_handshake, passing.index, passing.from) {
            (false, 1.., crate::memory::From::Dialler) => Then::Swallow,
            _ => Then::Pass(passing.bytes),
        },
    );
    let (one, mut two) = pair(&network).await;
    let target = two.target();
    let mut call = Box::pin(one.links.call(&target, Request::new(HANG, ""), soon()));
    tokio::select! {
        _ = &mut call => {}
        () = two.did(|doing| *doing == Doing::Dropped) => {}
    }
    two.seen
        .saw(Event::Lost(one.id, Side::Accepted, Lost::Silent))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_link_without_requests_stays_alive_by_pings_and_ends_when_unused() {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    one.ask(&two, ECHO, "x").await.unwrap();
    one.ask(&two, ECHO, "x").await.unwrap();
    let began = Instant::now();
    tokio::time::timeout_at(began + Duration::from_secs(59), std::future::pending::<()>())
        .await
        .unwrap_err();
    assert!(one.links.peers()[0].is_connected());
    assert!(one.links.last_heard(two.id).unwrap() > began + Duration::from_secs(57));
    two.seen
        .saw(Event::Lost(one.id, Side::Accepted, Lost::Closed))
        .await;
    one.seen
        .saw(Event::Lost(two.id, Side::Dialled, Lost::ClosedHere))
        .await;
    assert_eq!(Instant::now(), began + Duration::from_secs(60));
    assert!(!one.links.peers()[0].is_connected());
    // Nothing asks, so nothing dials.
    let later = began + Duration::from_secs(600);
    tokio::time::timeout_at(later, std::future::pending::<()>())
        .await
        .unwrap_err();
    assert_eq!(*network.dials().borrow(), 1);
    one.ask(&two, ECHO, "x").await.unwrap();
    assert_eq!(*network.dials().borrow(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_for_an_answer_keeps_the_link() {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    let deadline = Instant::now() + Duration::from_secs(300);
    let answer = one
        .links
        .call(&two.target(), Request::new(HANG, ""), deadline)
        .await;
    assert_eq!(answer, Err(LinkError::Unknown(Cause::Deadline)));
    assert_eq!(*network.dials().borrow(), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_there_fails_at_once_and_is_dialled_again_ever_more_slowly() {
    let network = Memory::new();
    let one = setup(1, "one:7901").start(&network).await;
    let target = Target::anyone("two:7901");
    let began = Instant::now();
    let answer = one.links.call(&target, Request::new(ECHO, ""), soon()).await;
    assert!(
        matches!(answer, Err(LinkError::NotSent(Cause::Unreachable(_)))),
        "{answer:?}"
    );
    assert_eq!(Instant::now(), began);
    let mut dials = network.dials();
    let mut at = began;
    let mut pauses = Vec::new();
    for due in 2..12 {
        dials.wait_for(|dials| *dials >= due).await.unwrap();
        pauses.push(at.elapsed());
        at = Instant::now();
    }
    assert!(
        pauses[0] >= Duration::from_millis(25) && pauses[0] <= Duration::from_millis(51),
        "{pauses:?}"
    );
    assert!(
        pauses[9] >= Duration::from_secs(1) && pauses[9] <= Duration::from_millis(2001),
        "{pauses:?}"
    );
    // A request that comes in a pause waits for the next dial.
    let two = setup(2, "two:7901").start(&network).await;
    assert_eq!(
        one.links
            .call(&target, Request::new(ECHO, "x"), soon())
            .await
            .unwrap(),
        "x"
    );
    assert_eq!(one.links.peers()[0].node, Some(two.id));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_for_a_link() {
    let network = Memory::new();
    network.set_middle(|_| Then::Swallow);
    let (one, two) = pair(&network).await;
    let deadline = Instant::now() + Duration::from_millis(300);
    let answer = one
        .links
        .call(&two.target(), Request::new(ECHO, ""), deadline)
        .await;
    assert_eq!(answer, Err(LinkError::NotSent(Cause::Deadline)));
    assert_eq!(Instant::now(), deadline);
    // The handshake itself may take two seconds.
    let answer = one.ask(&two, ECHO, "").await;
    assert!(
        matches!(answer, Err(LinkError::NotSent(Cause::Unreachable(_)))),
        "{answer:?}"
    );
    assert_eq!(Instant::now(), deadline + Duration::from_millis(1700));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_heard_again_is_dialled_at_once() {
    let network = Memory::new();
    let one = setup(1, "one:7901").start(&network).await;
    let two_there = Target::node(cluster::link::NodeId::new(2).unwrap(), "two:7901");
    let mut dials = network.dials();
    drop(one.links.call(&two_there, Request::new(ECHO, ""), soon()).await);
    // Until the pauses are long.
    dials.wait_for(|dials| *dials >= 10).await.unwrap();
    let two = setup(2, "two:7901").start(&network).await;
    let began = Instant::now();
    two.ask(&one, ECHO, "I am back").await.unwrap();
    assert_eq!(one.ask(&two, ECHO, "x").await.unwrap(), "x");
    assert_eq!(Instant::now(), began);
}

#[tokio::test(start_paused = true)]
async fn a_lost_link_is_dialled_again() {
    let network = Memory::new();
    network.set_middle(|passing| match (passing.is_handshake, passing.index) {
        (false, 2) => Then::PassAndCut(Vec::new()),
        _ => Then::Pass(passing.bytes),
    });
    let (one, two) = pair(&network).await;
    one.ask(&two, ECHO, "x").await.unwrap();
    network.clear_middle();
    let mut dials = network.dials();
    dials.wait_for(|dials| *dials >= 2).await.unwrap();
    assert_eq!(one.ask(&two, ECHO, "x").await.unwrap(), "x");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_answers_what_was_accepted_and_takes_no_more() {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    let large = vec![7; 4 << 20];
    let target = two.target();
    let mut call = Box::pin(one.links.call(&target, Request::new(ECHO, large.clone()), soon()));
    let mut doings = two.doings;
    tokio::select! {
        _ = &mut call => panic!("it cannot be answered before it is served"),
        doing = doings.recv() => assert!(matches!(doing, Some(Doing::Started(ECHO, _)))),
    }
    let began = Instant::now();
    let (answer, ()) = tokio::join!(call, two.links.shutdown(soon()));
    assert_eq!(answer.unwrap(), large);
    assert_eq!(Instant::now(), began);
    let request = Request::new(ECHO, "");
    assert_eq!(
        two.links.call(&one.target(), request.clone(), soon()).await,
        Err(LinkError::NotSent(Cause::ShuttingDown))
    );
    let answer = one.links.call(&target, request, soon()).await;
    assert!(matches!(answer, Err(LinkError::NotSent(_))), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_at_its_deadline_and_drops_what_is_not_done() {
    let network = Memory::new();
    let (one, mut two) = pair(&network).await;
    let target = two.target();
    let mut call = Box::pin(one.links.call(&target, Request::new(HANG, ""), soon()));
    tokio::select! {
        _ = &mut call => panic!("it is never answered"),
        () = two.did(|doing| matches!(doing, Doing::Started(HANG, _))) => {}
    }
    let deadline = Instant::now() + Duration::from_secs(3);
    let (answer, ()) = tokio::join!(call, two.links.shutdown(deadline));
    assert!(
        matches!(answer, Err(LinkError::Unknown(Cause::Lost(_)))),
        "{answer:?}"
    );
    assert_eq!(Instant::now(), deadline);
    two.did(|doing| *doing == Doing::Dropped).await;
}

#[tokio::test(start_paused = true)]
async fn forgetting_a_target_closes_its_link_after_what_is_under_way() {
    let network = Memory::new();
    let (one, mut two) = pair(&network).await;
    let target = two.target();
    let body = vec![1; 1 << 20];
    let mut call = Box::pin(one.links.call(&target, Request::new(ECHO, body.clone()), soon()));
    tokio::select! {
        _ = &mut call => panic!("it cannot be answered before it is served"),
        () = two.did(|doing| matches!(doing, Doing::Started(ECHO, _))) => {}
    }
    one.links.forget(&target);
    assert_eq!(call.await.unwrap(), body);
    two.seen
        .saw(Event::Lost(one.id, Side::Accepted, Lost::Closed))
        .await;
    assert!(one.links.peers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_links_ends_everything() {
    let network = Memory::new();
    let (one, two) = pair(&network).await;
    one.ask(&two, ECHO, "x").await.unwrap();
    two.ask(&one, ECHO, "x").await.unwrap();
    let id = one.id;
    drop(one.links);
    two.seen.saw(Event::Lost(id, Side::Accepted, Lost::Closed)).await;
    two.seen.saw(Event::Lost(id, Side::Dialled, Lost::Closed)).await;
}
