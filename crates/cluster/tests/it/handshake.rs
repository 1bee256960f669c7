//! Who is let in, and why others are not.

use std::time::Duration;

use cluster::link::{Cause, LinkError, Links, Reason, Request, Secret, Security, Side, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::memory::{From, Memory, Then, read_message};
use crate::node::{DISCOVER, ECHO, Event, Node, Setup, cluster, secret, setup, soon, with_secret};

/// Starts both, lets the first ask the second, and checks that both ends know the reason.
async fn refused(one: Setup, two: Setup, reason: Reason) {
    let network = Memory::new();
    let (one, two) = (one.start(&network).await, two.start(&network).await);
    refused_by(&one, &two, reason).await;
}

async fn refused_by(one: &Node, two: &Node, reason: Reason) {
    let answer = one.ask(two, DISCOVER, "").await;
    assert_eq!(answer, Err(LinkError::NotSent(Cause::Refused(reason))));
    one.seen.saw(Event::Refused(Side::Dialled, reason)).await;
    two.seen.saw(Event::Refused(Side::Accepted, reason)).await;
}

fn one() -> Setup {
    setup(1, "one:7901")
}

fn two() -> Setup {
    setup(2, "two:7901")
}

#[tokio::test(start_paused = true)]
async fn another_cluster_is_refused() {
    refused(
        one(),
        Setup {
            cluster: cluster(2),
            ..two()
        },
        Reason::OtherCluster,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_old_feature_level_is_refused_on_either_side() {
    let mut strict = two();
    strict.options.level_min = 2;
    strict.level = 2;
    refused(one(), strict.clone(), Reason::TooOld).await;
    refused(
        Setup {
            id: 3,
            advertise: "one:7901",
            ..strict
        },
        two(),
        Reason::TooOld,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_my_id_under_another_address_is_refused() {
    refused(one(), Setup { id: 1, ..two() }, Reason::DuplicateNode).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_reaches_itself_is_told_so() {
    let network = Memory::new();
    let one = one().start(&network).await;
    let target = Target::anyone("one:7901");
    let answer = one.links.call(&target, Request::new(DISCOVER, ""), soon()).await;
    assert_eq!(answer, Err(LinkError::NotSent(Cause::Refused(Reason::Myself))));
}

#[tokio::test(start_paused = true)]
async fn another_node_at_the_address_is_refused() {
    let network = Memory::new();
    let (one, three) = (
        one().start(&network).await,
        setup(3, "two:7901").start(&network).await,
    );
    let target = Target::node(cluster::link::NodeId::new(2).unwrap(), "two:7901");
    let answer = one.links.call(&target, Request::new(DISCOVER, ""), soon()).await;
    assert_eq!(answer, Err(LinkError::NotSent(Cause::Refused(Reason::OtherNode))));
    three
        .seen
        .saw(Event::Refused(Side::Accepted, Reason::OtherNode))
        .await;
    let anyone = Target::anyone("two:7901");
    assert_eq!(
        one.links
            .call(&anyone, Request::new(DISCOVER, "x"), soon())
            .await
            .unwrap(),
        "x"
    );
}

#[tokio::test(start_paused = true)]
async fn another_version_is_refused_by_either_side() {
    for (side, offset) in [(From::Dialler, 7), (From::Acceptor, 7)] {
        let network = Memory::new();
        network.set_middle(move |mut passing| {
            if passing.is_handshake && passing.index == 0 && passing.from == side {
                // The lowest version of a hello and the highest, or the version of a challenge.
                passing.bytes[offset] = 9;
                if side == From::Dialler {
                    passing.bytes[offset + 1] = 9;
                }
            }
            Then::Pass(passing.bytes)
        });
        let (one, two) = (one().start(&network).await, two().start(&network).await);
        refused_by(&one, &two, Reason::OtherVersion).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_secret_is_refused() {
    let mut wrong = two();
    wrong.options.security = with_secret(8);
    refused(one(), wrong, Reason::WrongSecret).await;
}

#[tokio::test(start_paused = true)]
async fn an_acceptor_that_does_not_know_the_secret_is_not_believed() {
    let network = Memory::new();
    network.set_middle(|mut passing| {
        if passing.from == From::Acceptor && passing.is_handshake && passing.index == 1 {
            passing.bytes[10] ^= 1;
        }
        Then::Pass(passing.bytes)
    });
    let (one, two) = (one().start(&network).await, two().start(&network).await);
    let answer = one.ask(&two, DISCOVER, "").await;
    assert_eq!(
        answer,
        Err(LinkError::NotSent(Cause::Refused(Reason::WrongSecret)))
    );
}

#[tokio::test(start_paused = true)]
async fn what_somebody_in_the_middle_changes_of_a_handshake_is_noticed() {
    // Addresses, ids, clusters, nonces and times: every byte of both first messages is tried.
    for (from, length) in [(From::Dialler, 95), (From::Acceptor, 86)] {
        for at in 0..length {
            let network = Memory::new();
            network.set_middle(move |mut passing| {
                if passing.from == from && passing.is_handshake && passing.index == 0 {
                    passing.bytes[at] ^= 1;
                }
                Then::Pass(passing.bytes)
            });
            let (one, two) = (one().start(&network).await, two().start(&network).await);
            let answer = one.ask(&two, DISCOVER, "").await;
            assert!(
                matches!(answer, Err(LinkError::NotSent(_))),
                "byte {at} of {from:?}: {answer:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_changed_without_a_gap() {
    let old = with_secret(7);
    let both = |current, previous| Security::Secret {
        current: secret(current),
        previous: Some(secret(previous)),
    };
    // Round 1: the new secret is known beside the old one. Round 2: it is the one. Round 3: the old one is gone.
    let rounds = [
        (old.clone(), both(7, 8)),
        (both(7, 8), old),
        (both(8, 7), both(7, 8)),
        (both(7, 8), both(8, 7)),
        (both(8, 7), with_secret(7)),
        (with_secret(7), both(8, 7)),
        (with_secret(8), both(8, 7)),
        (both(8, 7), with_secret(8)),
    ];
    for (ours, theirs) in rounds {
        let network = Memory::new();
        let (mut first, mut second) = (one(), two());
        first.options.security = ours;
        second.options.security = theirs;
        let (one, two) = (first.start(&network).await, second.start(&network).await);
        assert_eq!(one.ask(&two, ECHO, "x").await.unwrap(), "x");
    }
    let mut gone = one();
    gone.options.security = with_secret(7);
    let mut done = two();
    done.options.security = with_secret(8);
    refused(gone, done, Reason::WrongSecret).await;
}

#[tokio::test(start_paused = true)]
async fn nobody_falls_back_to_less_security() {
    let insecure = |mut setup: Setup| {
        setup.options.security = Security::Insecure;
        setup
    };
    refused(insecure(one()), two(), Reason::OtherSecurity).await;
    refused(one(), insecure(two()), Reason::OtherSecurity).await;
    // Somebody in the middle who tells each side that the other one is insecure.
    let network = Memory::new();
    network.set_middle(|mut passing| {
        if passing.is_handshake && passing.index == 0 {
            let at = if passing.from == From::Dialler { 9 } else { 8 };
            passing.bytes[at] = 0;
        }
        Then::Pass(passing.bytes)
    });
    let (one, two) = (one().start(&network).await, two().start(&network).await);
    refused_by(&one, &two, Reason::OtherSecurity).await;
}

#[tokio::test(start_paused = true)]
async fn short_secrets_are_told_apart_but_work() {
    let security = Security::Secret {
        current: Secret::new("short").unwrap(),
        previous: None,
    };
    let network = Memory::new();
    let (mut first, mut second) = (one(), two());
    first.options.security = security.clone();
    second.options.security = security;
    let (one, two) = (first.start(&network).await, second.start(&network).await);
    assert_eq!(one.ask(&two, ECHO, "x").await.unwrap(), "x");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_differs_is_reported_and_not_refused() {
    let network = Memory::new();
    let behind = Setup {
        wall_millis: 1_000_000 - 5_001,
        ..two()
    };
    let near = Setup {
        wall_millis: 1_000_000 - 5_000,
        ..setup(3, "three:7901")
    };
    let (one, two) = (one().start(&network).await, behind.start(&network).await);
    let three = near.start(&network).await;
    one.ask(&three, ECHO, "x").await.unwrap();
    assert_eq!(one.seen.events(), [Event::Connected(three.id, Side::Dialled)]);
    one.ask(&two, ECHO, "x").await.unwrap();
    one.seen.saw(Event::ClockDiffers(two.id, -5_001)).await;
    two.seen.saw(Event::ClockDiffers(one.id, 5_001)).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_has_only_so_many_connections() {
    let network = Memory::new();
    let mut narrow = two();
    narrow.options.limits.connections_per_peer_max = 1;
    let (first, two) = (one().start(&network).await, narrow.start(&network).await);
    first.ask(&two, ECHO, "x").await.unwrap();
    let mut again = one();
    // The same node at another place, as after a restart elsewhere.
    again.options.listen = "elsewhere:7901".to_owned();
    let again = again.start(&network).await;
    refused_by(&again, &two, Reason::TooManyConnections).await;
    first.links.forget(&two.target());
    two.seen
        .saw(Event::Lost(first.id, Side::Accepted, cluster::link::Lost::Closed))
        .await;
    assert_eq!(again.ask(&two, ECHO, "x").await.unwrap(), "x");
}

#[tokio::test(start_paused = true)]
async fn strangers_have_only_so_many_connections_and_so_much_time() {
    let network = Memory::new();
    let mut narrow = two();
    narrow.options.limits.unauthenticated_max = 2;
    let (one, two) = (one().start(&network).await, narrow.start(&network).await);
    let mut silent = [
        network.connect("two:7901").unwrap(),
        network.connect("two:7901").unwrap(),
    ];
    let mut third = network.connect("two:7901").unwrap();
    assert_eq!(third.read(&mut [0]).await.unwrap(), 0);
    // The first two are cut off in time, and make room.
    assert_eq!(silent[0].read(&mut [0]).await.unwrap(), 0);
    two.seen
        .saw(Event::Refused(Side::Accepted, Reason::TimedOut))
        .await;
    assert_eq!(silent[1].read(&mut [0]).await.unwrap(), 0);
    assert_eq!(one.ask(&two, ECHO, "x").await.unwrap(), "x");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_message_that_is_too_long_is_refused_before_it_is_read() {
    let network = Memory::new();
    let two = two().start(&network).await;
    let mut stranger = network.connect("two:7901").unwrap();
    let length = u16::to_le_bytes(4096);
    stranger
        .write_all(&[b"HFLK".as_slice(), &[1], &length].concat())
        .await
        .unwrap();
    assert!(read_message(&mut stranger).await.is_err());
    two.seen
        .saw(Event::Refused(Side::Accepted, Reason::Malformed))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_tls_dialler_of_a_node_without_tls_is_told_apart() {
    let network = Memory::new();
    let two = two().start(&network).await;
    let mut stranger = network.connect("two:7901").unwrap();
    stranger
        .write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc])
        .await
        .unwrap();
    two.seen
        .saw(Event::Refused(Side::Accepted, Reason::OtherSecurity))
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_at_the_start() {
    let refused = async |change: fn(&mut Setup), due: &str| {
        let mut setup = one();
        change(&mut setup);
        let error = setup.try_start_on(Memory::new()).await.err().unwrap();
        assert_eq!(error.to_string(), due);
    };
    refused(
        |setup| setup.advertise = String::leak("x".repeat(256)),
        "the advertised address is too long",
    )
    .await;
    let ping = |setup: &mut Setup| setup.options.timing.ping_after = Duration::from_secs(1);
    refused(ping, "dead_after leaves no time for a ping and its answer").await;
    let queued = |setup: &mut Setup| setup.options.limits.queued_bytes_max = 1000;
    refused(queued, "queued_bytes_max has no room for one body").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_shuts_down_refuses_whoever_comes() {
    let network = Memory::new();
    let (one, two) = (one().start(&network).await, two().start(&network).await);
    // The challenge is held back until the acceptor has begun to shut down.
    let links: Links = two.links.clone();
    network.set_middle(move |passing| {
        if passing.from == From::Dialler && passing.is_handshake && passing.index == 1 {
            let links = links.clone();
            let (sender, receiver) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .build()
                    .unwrap();
                runtime.block_on(links.shutdown(tokio::time::Instant::now() + Duration::from_secs(30)));
                sender.send(()).unwrap();
            });
            receiver.recv().unwrap();
        }
        Then::Pass(passing.bytes)
    });
    let answer = one.ask(&two, ECHO, "").await;
    assert!(matches!(answer, Err(LinkError::NotSent(_))), "{answer:?}");
}
