//! A session of each security, byte for byte as it always was. `docs/formats/link.md` tells how to read it.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::link::{Lost, Request, Security, Side};
use tokio::time::Instant;

use crate::authority::Authority;
use crate::memory::{From, Memory, Then};
use crate::node::{DISCOVER, ECHO, Event, FAIL, HANG, PIECES, setup, soon, with_secret};

/// Plays a session in which every kind of frame occurs, and returns what each side sent, a message a line.
async fn session(network: Arc<Memory>, security: Security) -> String {
    let sent = Arc::new(Mutex::new([String::new(), String::new()]));
    let recorded = sent.clone();
    network.set_middle(move |passing| {
        let mut recorded = recorded.lock().unwrap();
        let side = &mut recorded[usize::from(passing.from == From::Acceptor)];
        for byte in &passing.bytes {
            write!(side, "{byte:02x}").unwrap();
        }
        side.push('\n');
        Then::Pass(passing.bytes)
    });
    let [mut first, mut second] = [setup(1, "one:7901"), setup(2, "two:7901")];
    for setup in [&mut first, &mut second] {
        setup.options.security = security.clone();
        setup.options.limits.stream_window_bytes = 1000;
    }
    let (one, two) = (first.start(&network).await, second.start(&network).await);
    assert_eq!(one.ask(&two, ECHO, "a body").await.unwrap(), "a body");
    let vote = Request::new(DISCOVER, "a vote").with_priority();
    one.links.call(&two.target(), vote, soon()).await.unwrap();
    one.ask(&two, FAIL, "").await.unwrap_err();
    let body = [20_u32.to_le_bytes(), 2_u32.to_le_bytes()].concat();
    let mut pieces = one
        .links
        .stream(&two.target(), Request::new(PIECES, body), soon())
        .await
        .unwrap();
    while let Some(piece) = pieces.next().await {
        assert_eq!(piece.unwrap().len(), 20);
    }
    drop(pieces);
    // Long enough for a ping, and cancelled then.
    let deadline = Instant::now() + Duration::from_millis(700);
    one.links
        .call(&two.target(), Request::new(HANG, ""), deadline)
        .await
        .unwrap_err();
    one.links.forget(&two.target());
    two.seen
        .saw(Event::Lost(one.id, Side::Accepted, Lost::Closed))
        .await;
    let [dialler, acceptor] = &*sent.lock().unwrap();
    format!("dialler\n{dialler}acceptor\n{acceptor}")
}

/// Compares with a fixture. With `UPDATE_FIXTURES=1` one that does not exist yet is written.
fn compare(name: &str, session: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    if std::env::var_os("UPDATE_FIXTURES").is_some() && !path.exists() {
        fs::write(&path, session).unwrap();
    }
    assert_eq!(session, fs::read_to_string(&path).unwrap(), "\n{session}");
}

#[tokio::test(start_paused = true)]
async fn with_a_secret() {
    compare(
        "link-v1-secret.txt",
        &session(Memory::new(), with_secret(7)).await,
    );
}

#[tokio::test(start_paused = true)]
async fn insecure() {
    compare(
        "link-v1-insecure.txt",
        &session(Memory::new(), Security::Insecure).await,
    );
}

#[tokio::test(start_paused = true)]
async fn within_tls() {
    let authority = Authority::new();
    let network = Memory::new();
    let (acceptor, connector) = authority.both_ends(&["one", "two"]);
    network.set_certificates(acceptor, connector);
    let security = authority.security(&["one", "two"], None);
    compare("link-v1-tls.txt", &session(network, security).await);
}
