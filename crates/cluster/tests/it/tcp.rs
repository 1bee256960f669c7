//! Over real sockets, and TLS.

use std::sync::Arc;

use cluster::link::{Cause, LinkError, Reason, Request, Security, Side, Target, Tcp, Tls, TlsError};

use crate::authority::Authority;
use crate::node::{DISCOVER, ECHO, Event, Node, PIECES, Setup, setup, soon, with_secret};

async fn start(id: u64, security: Security) -> Node {
    let mut setup: Setup = setup(id, "127.0.0.1:0");
    setup.options.security = security;
    // Port 0 is not what others dial, but it must differ from node to node.
    setup.advertise = String::leak(format!("node-{id}:7901"));
    setup.start_on(Arc::new(Tcp)).await
}

async fn refused(one: Security, two: Security, by_dialler: Reason, by_acceptor: Option<Reason>) {
    let (one, two) = (start(1, one).await, start(2, two).await);
    let answer = one.ask(&two, DISCOVER, "").await;
    assert_eq!(answer, Err(LinkError::NotSent(Cause::Refused(by_dialler))));
    one.seen.saw(Event::Refused(Side::Dialled, by_dialler)).await;
    if let Some(reason) = by_acceptor {
        two.seen.saw(Event::Refused(Side::Accepted, reason)).await;
    }
}

#[tokio::test]
async fn requests_and_streams_over_each_security() {
    let authority = Authority::new();
    let tls = || authority.security(&["127.0.0.1"], None);
    for (first, second) in [
        (tls(), tls()),
        (with_secret(7), with_secret(7)),
        (Security::Insecure, Security::Insecure),
    ] {
        let (one, two) = (start(1, first).await, start(2, second).await);
        for length in [0, 1000, 4 << 20] {
            let body = vec![5; length];
            assert_eq!(one.ask(&two, ECHO, body.clone()).await.unwrap(), body);
        }
        let body = [(1_u32 << 20).to_le_bytes(), 64_u32.to_le_bytes()].concat();
        let request = Request::new(PIECES, body);
        let mut stream = one.links.stream(&two.target(), request, soon()).await.unwrap();
        let mut count = 0;
        while let Some(piece) = stream.next().await {
            assert_eq!(piece.unwrap().len(), 1 << 20);
            count += 1;
        }
        assert_eq!(count, 64);
        two.links.shutdown(soon()).await;
        one.links.shutdown(soon()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_ask_and_give_up_at_once() {
    let (one, two) = (start(1, with_secret(7)).await, start(2, with_secret(7)).await);
    one.ask(&two, ECHO, "connects").await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8_usize {
        let (links, target) = (one.links.clone(), two.target());
        tasks.spawn(async move {
            for number in 0..150 {
                let length = [0, 100, 70_000, 300_000][(task + number) % 4];
                let body = vec![number as u8; length];
                let call = links.call(&target, Request::new(ECHO, body.clone()), soon());
                if number % 3 == 0 {
                    // Given up as soon as it is begun.
                    drop(tokio::time::timeout_at(tokio::time::Instant::now(), call).await);
                } else {
                    assert_eq!(call.await.unwrap(), body);
                }
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let lost = |event: &Event| matches!(event, Event::Lost(..));
    assert!(!one.seen.events().iter().any(lost), "{:?}", one.seen.events());
    two.links.shutdown(soon()).await;
}

#[tokio::test]
async fn a_name_is_looked_up() {
    let (one, two) = (start(1, with_secret(7)).await, start(2, with_secret(7)).await);
    let port = two.address.rsplit_once(':').unwrap().1;
    let target = Target::anyone(format!("localhost:{port}"));
    assert_eq!(
        one.links
            .call(&target, Request::new(ECHO, "x"), soon())
            .await
            .unwrap(),
        "x"
    );
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let security = ours.security(&["127.0.0.1"], None);
    refused(
        security,
        theirs.security(&["127.0.0.1"], None),
        Reason::Tls,
        Some(Reason::Tls),
    )
    .await;
}

#[tokio::test]
async fn a_dialler_with_a_certificate_of_another_authority_is_refused() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (certificate, key) = theirs.issue(&["127.0.0.1"]);
    let trusting = Tls::from_pem(
        ours.pem().as_bytes(),
        certificate.as_bytes(),
        key.as_bytes(),
        None,
    )
    .unwrap();
    let (one, two) = (
        start(1, Security::Tls(trusting)).await,
        start(2, ours.security(&["127.0.0.1"], None)).await,
    );
    let answer = one.ask(&two, DISCOVER, "").await;
    assert!(matches!(answer, Err(LinkError::NotSent(_))), "{answer:?}");
    two.seen.saw(Event::Refused(Side::Accepted, Reason::Tls)).await;
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused_unless_one_name_is_agreed_on() {
    let authority = Authority::new();
    let elsewhere = || authority.security(&["elsewhere"], None);
    refused(elsewhere(), elsewhere(), Reason::Tls, Some(Reason::Tls)).await;
    let agreed = || authority.security(&["holdfast"], Some("holdfast"));
    let (one, two) = (start(1, agreed()).await, start(2, agreed()).await);
    assert_eq!(one.ask(&two, ECHO, "x").await.unwrap(), "x");
}

#[tokio::test]
async fn a_tls_node_dialled_in_plain_refuses_and_the_reverse() {
    let authority = Authority::new();
    let tls = || authority.security(&["127.0.0.1"], None);
    let other = Reason::OtherSecurity;
    for plain in [with_secret(7), Security::Insecure] {
        refused(plain.clone(), tls(), other, Some(other)).await;
        refused(tls(), plain, Reason::Tls, Some(other)).await;
    }
}

#[test]
fn certificates_that_cannot_be_used_are_told_apart() {
    let authority = Authority::new();
    let ca = authority.pem();
    let (certificate, key) = authority.issue(&["a"]);
    let (_, other_key) = authority.issue(&["a"]);
    let load = |ca: &str, certificate: &str, key: &str, name: Option<&str>| {
        Tls::from_pem(ca.as_bytes(), certificate.as_bytes(), key.as_bytes(), name)
    };
    assert!(load(&ca, &certificate, &key, None).is_ok());
    assert!(matches!(
        load("", &certificate, &key, None),
        Err(TlsError::Missing("CA certificate"))
    ));
    assert!(matches!(
        load(&ca, &key, &key, None),
        Err(TlsError::Missing("certificate"))
    ));
    assert!(matches!(
        load(&ca, &certificate, &certificate, None),
        Err(TlsError::Pem { what: "key", .. })
    ));
    assert!(matches!(
        load(&ca, &certificate, &other_key, None),
        Err(TlsError::Unusable(_))
    ));
    assert!(matches!(
        load(&ca, &certificate, &key, Some("no name")),
        Err(TlsError::Unusable(_))
    ));
    let printed = format!("{:?}", load(&ca, &certificate, &key, None).unwrap());
    assert!(!printed.contains("PRIVATE"), "{printed}");
}
