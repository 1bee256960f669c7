//! Somebody in the middle of a session: whatever is changed ends the connection, with a reason.

use std::sync::{Arc, Mutex};

use cluster::link::{LinkError, Lost, Security, Side};

use crate::memory::{From, Memory, Passing, Then};
use crate::node::{ECHO, Event, Node, Setup, setup, with_secret};

fn securities() -> [Security; 2] {
    [with_secret(7), Security::Insecure]
}

async fn pair_with(network: &Arc<Memory>, security: &Security) -> (Node, Node) {
    let with = |mut setup: Setup| {
        setup.options.security = security.clone();
        setup
    };
    (
        with(setup(1, "one:7901")).start(network).await,
        with(setup(2, "two:7901")).start(network).await,
    )
}

/// Lets a few requests through and changes frames of the dialler; expects this end of the connection.
async fn dialler_tampered(change: impl Fn(Passing) -> Then + Send + Sync + Clone + 'static, due: Lost) {
    for security in securities() {
        let network = Memory::new();
        let change = change.clone();
        network.set_middle(move |passing| match (passing.from, passing.is_handshake) {
            (From::Dialler, false) => change(passing),
            _ => Then::Pass(passing.bytes),
        });
        let (one, two) = pair_with(&network, &security).await;
        assert_eq!(one.ask(&two, ECHO, "first").await.unwrap(), "first");
        let answer = one.ask(&two, ECHO, "second").await;
        assert!(matches!(answer, Err(LinkError::Unknown(_))), "{answer:?}");
        two.seen
            .saw(Event::Lost(one.id, Side::Accepted, due.clone()))
            .await;
        network.clear_middle();
        assert_eq!(one.ask(&two, ECHO, "again").await.unwrap(), "again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_frame() {
    let change = |mut passing: Passing| {
        if passing.index == 1 {
            // In the middle of the body.
            let at = passing.bytes.len() - 18;
            passing.bytes[at] ^= 1;
        }
        Then::Pass(passing.bytes)
    };
    dialler_tampered(change, Lost::Forged(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_kind() {
    let change = |mut passing: Passing| {
        if passing.index == 1 {
            passing.bytes[8] = 4;
        }
        Then::Pass(passing.bytes)
    };
    dialler_tampered(change, Lost::Forged(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_replayed_frame() {
    let first = Arc::new(Mutex::new(Vec::new()));
    let change = move |passing: Passing| {
        let mut first = first.lock().unwrap();
        match passing.index {
            0 => *first = passing.bytes.clone(),
            1 => return Then::Pass(first.clone()),
            _ => {}
        }
        Then::Pass(passing.bytes)
    };
    dialler_tampered(change, Lost::OutOfSequence { expected: 1, got: 0 }).await;
}

#[tokio::test(start_paused = true)]
async fn a_replayed_frame_with_the_number_that_is_due() {
    let first = Arc::new(Mutex::new(Vec::new()));
    let change = move |passing: Passing| {
        let mut first = first.lock().unwrap();
        match passing.index {
            0 => *first = passing.bytes.clone(),
            1 => {
                first[4..8].copy_from_slice(&1_u32.to_le_bytes());
                return Then::Pass(first.clone());
            }
            _ => {}
        }
        Then::Pass(passing.bytes)
    };
    dialler_tampered(change, Lost::Forged(1)).await;
}

#[tokio::test(start_paused = true)]
async fn reordered_frames() {
    let held = Arc::new(Mutex::new(None));
    let change = move |passing: Passing| {
        let mut held = held.lock().unwrap();
        match passing.index {
            // Held back until the ping that follows it.
            1 => {
                *held = Some(passing.bytes);
                Then::Pass(Vec::new())
            }
            2 => Then::Pass([passing.bytes, held.take().unwrap_or_default()].concat()),
            _ => Then::Pass(passing.bytes),
        }
    };
    dialler_tampered(change, Lost::OutOfSequence { expected: 1, got: 2 }).await;
}

#[tokio::test(start_paused = true)]
async fn a_truncated_frame() {
    let change = |passing: Passing| match passing.index {
        1 => Then::PassAndCut(passing.bytes[..passing.bytes.len() - 1].to_vec()),
        _ => Then::Pass(passing.bytes),
    };
    dialler_tampered(change, Lost::Truncated).await;
}

#[tokio::test(start_paused = true)]
async fn a_shortened_frame() {
    let change = |mut passing: Passing| {
        if passing.index == 1 {
            let length = u32::try_from(passing.bytes.len()).unwrap() - 5;
            passing.bytes.pop();
            passing.bytes[..4].copy_from_slice(&length.to_le_bytes());
        }
        Then::Pass(passing.bytes)
    };
    dialler_tampered(change, Lost::Forged(1)).await;
}

#[tokio::test(start_paused = true)]
async fn an_oversized_frame() {
    let change = |mut passing: Passing| {
        if passing.index == 1 {
            passing.bytes[..4].copy_from_slice(&(5_u32 << 20).to_le_bytes());
        }
        Then::Pass(passing.bytes)
    };
    dialler_tampered(change, Lost::Oversized(5 << 20)).await;
}

#[tokio::test(start_paused = true)]
async fn a_frame_of_another_session() {
    for security in securities() {
        let network = Memory::new();
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let frames = recorded.clone();
        network.set_middle(move |passing| {
            let mut frames = frames.lock().unwrap();
            if passing.from == From::Dialler && !passing.is_handshake && passing.index == 0 {
                if frames.is_empty() {
                    frames.clone_from(&passing.bytes);
                } else {
                    return Then::Pass(frames.clone());
                }
            }
            Then::Pass(passing.bytes)
        });
        let (one, two) = pair_with(&network, &security).await;
        assert_eq!(one.ask(&two, ECHO, "first").await.unwrap(), "first");
        one.links.forget(&two.target());
        let answer = one.ask(&two, ECHO, "second").await;
        assert!(matches!(answer, Err(LinkError::Unknown(_))), "{answer:?}");
        two.seen
            .saw(Event::Lost(one.id, Side::Accepted, Lost::Forged(0)))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_sent_back_to_its_sender() {
    for security in securities() {
        let network = Memory::new();
        let asked = Arc::new(Mutex::new(Vec::new()));
        network.set_middle(move |passing| {
            let mut asked = asked.lock().unwrap();
            match (passing.from, passing.is_handshake) {
                (From::Dialler, false) => asked.clone_from(&passing.bytes),
                (From::Acceptor, false) => return Then::Pass(asked.clone()),
                (From::Dialler | From::Acceptor, true) => {}
            }
            Then::Pass(passing.bytes)
        });
        let (one, two) = pair_with(&network, &security).await;
        assert!(one.ask(&two, ECHO, "x").await.is_err());
        one.seen
            .saw(Event::Lost(two.id, Side::Dialled, Lost::Forged(0)))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_answer() {
    for security in securities() {
        let network = Memory::new();
        network.set_middle(|mut passing| {
            if passing.from == From::Acceptor && !passing.is_handshake {
                let at = passing.bytes.len() - 18;
                passing.bytes[at] ^= 1;
            }
            Then::Pass(passing.bytes)
        });
        let (one, two) = pair_with(&network, &security).await;
        let answer = one.ask(&two, ECHO, "a body of some length").await;
        assert!(matches!(answer, Err(LinkError::Unknown(_))), "{answer:?}");
        one.seen
            .saw(Event::Lost(two.id, Side::Dialled, Lost::Forged(0)))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_session_replayed_to_the_acceptor() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let network = Memory::new();
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let bytes = recorded.clone();
    network.set_middle(move |passing| {
        if passing.from == From::Dialler {
            bytes.lock().unwrap().extend_from_slice(&passing.bytes);
        }
        Then::Pass(passing.bytes)
    });
    let (one, mut two) = pair_with(&network, &with_secret(7)).await;
    one.ask(&two, ECHO, "once").await.unwrap();
    while two.doings.try_recv().is_ok() {}
    network.clear_middle();
    let session = recorded.lock().unwrap().clone();
    let mut stranger = network.connect(&two.address).unwrap();
    stranger.write_all(&session).await.unwrap();
    drop(stranger.read_to_end(&mut Vec::new()).await);
    two.seen
        .saw(Event::Refused(Side::Accepted, cluster::link::Reason::WrongSecret))
        .await;
    assert!(two.doings.try_recv().is_err(), "a replayed request is served");
}
