//! Whatever bytes come in, a node neither panics nor waits for more than its limits allow.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use cluster::link::Security;

use crate::memory::{From, Memory, Then};
use crate::node::{ECHO, Event, setup, soon};

/// Bytes that are more or less a handshake, more or less frames.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let any_bytes = || proptest::collection::vec(any::<u8>(), 0..300);
    let message = (0..7_u8, any_bytes()).prop_map(|(kind, payload)| {
        let length = u16::try_from(payload.len()).unwrap().to_le_bytes();
        [b"HFLK".as_slice(), &[kind], &length, &payload].concat()
    });
    prop_oneof![
        any_bytes(),
        message.clone(),
        (message, any_bytes()).prop_map(|(message, rest)| [message, rest].concat())
    ]
}

/// Frames as a peer that has proved itself could send them: the checksum is right, and the rest is anything.
fn payloads() -> impl Strategy<Value = Vec<(u8, u8, u64, Vec<u8>)>> {
    let payload = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        (0..400_u16, any::<u32>(), any::<u32>(), 0..20_usize).prop_map(|(kind, length, window, bytes)| {
            let length = length % 40;
            let head = [
                kind.to_le_bytes().as_slice(),
                &length.to_le_bytes(),
                &window.to_le_bytes(),
            ]
            .concat();
            [head, vec![0; bytes]].concat()
        }),
    ];
    proptest::collection::vec((0..10_u8, 0..16_u8, 0..4_u64, payload), 1..12)
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

proptest! {
    #[test]
    fn any_bytes_of_a_stranger_end_the_connection(bytes in bytes(), is_insecure in any::<bool>()) {
        runtime().block_on(async {
            let network = Memory::new();
            let mut setup = setup(1, "one:7901");
            if is_insecure {
                setup.options.security = Security::Insecure;
            }
            let _one = setup.start(&network).await;
            let mut stranger = network.connect("one:7901").unwrap();
            stranger.write_all(&bytes).await.unwrap();
            let mut answer = Vec::new();
            // Closed at once, or when the handshake takes too long.
            let read = tokio::time::timeout_at(soon(), stranger.read_to_end(&mut answer)).await;
            prop_assert!(read.is_ok());
            prop_assert!(answer.len() < 4096);
            Ok(())
        })?;
    }

    #[test]
    fn any_frames_of_a_peer_end_the_connection_or_are_served(frames in payloads()) {
        runtime().block_on(async {
            let network = Memory::new();
            // Frames without a seal, which somebody in the middle may replace by his own.
            let insecure = |id, address| {
                let mut setup = setup(id, address);
                setup.options.security = Security::Insecure;
                setup
            };
            let forged = std::sync::Mutex::new(Vec::new());
            network.set_middle(move |passing| {
                let mut hello = forged.lock().unwrap();
                match (passing.from, passing.is_handshake, passing.index) {
                    (_, true, 0) => hello.extend_from_slice(&passing.bytes),
                    (From::Dialler, false, 0) => {
                        let seed = checksum_seed(&hello);
                        let forged = frames.iter().enumerate();
                        let forged = forged.flat_map(|(index, frame)| forge(seed, index as u32, frame));
                        return Then::Pass(forged.collect());
                    }
                    _ => {}
                }
                Then::Pass(passing.bytes)
            });
            let (one, two) = (insecure(1, "one:7901").start(&network).await, insecure(2, "two:7901").start(&network).await);
            // It is answered by chance at most; what counts is that the node lives.
            drop(one.ask(&two, ECHO, "x").await);
            network.clear_middle();
            let three = insecure(3, "three:7901").start(&network).await;
            prop_assert_eq!(three.ask(&two, ECHO, "x").await.unwrap(), "x");
            let forged = |event: &Event| matches!(event, Event::Lost(_, _, cluster::link::Lost::Forged(0)));
            prop_assert!(!two.seen.events().iter().any(forged), "the frames were not let in");
            Ok(())
        })?;
    }
}

/// Both ends seed the checksums with the hash of what was said first.
fn checksum_seed(first_messages: &[u8]) -> u32 {
    let hash = ring::digest::digest(&ring::digest::SHA256, first_messages);
    crc32c::crc32c_append(1, hash.as_ref())
}

fn forge(seed: u32, sequence: u32, (kind, flags, call, payload): &(u8, u8, u64, Vec<u8>)) -> Vec<u8> {
    let length = u32::try_from(14 + payload.len() + 4).unwrap();
    let mut frame = [length.to_le_bytes(), sequence.to_le_bytes()].concat();
    frame.extend([*kind, *flags]);
    frame.extend(call.to_le_bytes());
    frame.extend(payload);
    let sum = crc32c::crc32c_append(seed, &u64::from(sequence).to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &frame);
    frame.extend(sum.to_le_bytes());
    frame
}
