//! How frames are protected: sealed with keys of this session and direction, checked by a checksum, or, within TLS,
//! not at all.
//!
//! The number of a frame is the nonce of its seal and is counted on both ends, so that a frame opens at one place of
//! one session only. Why AES-GCM: `docs/decisions/0005-how-frames-are-sealed.md`.

use bytes::{BufMut, Bytes, BytesMut};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use zeroize::Zeroizing;

use super::Lost;
use super::frame::{Frame, HEADER_BYTES, Kind, Received};
use super::limits::PIECE_BYTES_MAX;
use super::observer::Side;
use super::secret::Secret;

/// The most bytes that a frame adds to its piece.
const OVERHEAD_BYTES_MAX: usize = 64;

/// The bytes of a seal.
const SEAL_BYTES: usize = 16;

/// After this many frames of a direction its key is replaced by one derived from it, long before AES-GCM's limits.
const REKEY_FRAMES: u64 = 1 << 20;

pub(super) type Key = Zeroizing<[u8; 32]>;

/// What both ends can derive from the secret and the handshake.
pub(super) struct Derived {
    pub(super) proof_of_dialler: Key,
    pub(super) proof_of_acceptor: Key,
    frames_of_dialler: Key,
    frames_of_acceptor: Key,
}

impl Derived {
    /// Derives all keys of a session. The transcript covers both nonces, both ids, both clusters and both addresses.
    pub(super) fn new(secret: &Secret, transcript: &[u8; 32]) -> Self {
        let prk = Salt::new(HKDF_SHA256, transcript).extract(secret.expose());
        Self {
            proof_of_dialler: expand(&prk, b"holdfast link 1 proof of dialler"),
            proof_of_acceptor: expand(&prk, b"holdfast link 1 proof of acceptor"),
            frames_of_dialler: expand(&prk, b"holdfast link 1 frames of dialler"),
            frames_of_acceptor: expand(&prk, b"holdfast link 1 frames of acceptor"),
        }
    }
}

fn expand(prk: &Prk, label: &[u8]) -> Key {
    let mut key = Key::default();
    prk.expand(&[label], HKDF_SHA256)
        .and_then(|okm| okm.fill(key.as_mut()))
        .expect("32 bytes are within what HKDF gives");
    key
}

/// What protects the frames of a session.
pub(super) enum Protection {
    Tls,
    Secret(Derived),
    Insecure,
}

/// Protects the frames of one direction.
pub(super) struct Seal {
    mode: Mode,
    next: u64,
}

enum Mode {
    Aead {
        key: Box<LessSafeKey>,
        chain: Key,
        rekey_frames: u64,
    },
    Checksum {
        seed: u32,
    },
    Nothing,
}

/// Returns the seals for what this side sends and for what it receives.
pub(super) fn seals(protection: &Protection, transcript: &[u8; 32], side: Side) -> (Seal, Seal) {
    let seal_of = |sender: Side| {
        let mode = match protection {
            Protection::Tls => Mode::Nothing,
            Protection::Insecure => Mode::Checksum {
                seed: crc32c::crc32c_append(u32::from(sender == Side::Dialled), transcript),
            },
            Protection::Secret(derived) => Mode::aead(match sender {
                Side::Dialled => derived.frames_of_dialler.clone(),
                Side::Accepted => derived.frames_of_acceptor.clone(),
            }),
        };
        Seal { mode, next: 0 }
    };
    let (here, there) = match side {
        Side::Dialled => (Side::Dialled, Side::Accepted),
        Side::Accepted => (Side::Accepted, Side::Dialled),
    };
    (seal_of(here), seal_of(there))
}

impl Mode {
    fn aead(chain: Key) -> Self {
        Self::Aead {
            key: key_of(&chain),
            chain,
            rekey_frames: REKEY_FRAMES,
        }
    }
}

fn key_of(chain: &Key) -> Box<LessSafeKey> {
    let key = expand(
        &Prk::new_less_safe(HKDF_SHA256, chain.as_ref()),
        b"holdfast link 1 key",
    );
    let key = UnboundKey::new(&AES_256_GCM, key.as_ref()).expect("the key has the length of the cipher");
    Box::new(LessSafeKey::new(key))
}

fn nonce_of(sequence: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&sequence.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

impl Seal {
    fn tag_bytes(&self) -> usize {
        match self.mode {
            Mode::Aead { .. } => SEAL_BYTES,
            Mode::Checksum { .. } => 4,
            Mode::Nothing => 0,
        }
    }

    /// Takes the next number, and the next key where one is due.
    fn advance(&mut self) -> u64 {
        let sequence = self.next;
        self.next += 1;
        if let Mode::Aead {
            key,
            chain,
            rekey_frames,
        } = &mut self.mode
            && sequence > 0
            && sequence.is_multiple_of(*rekey_frames)
        {
            let prk = Prk::new_less_safe(HKDF_SHA256, chain.as_ref());
            *chain = expand(&prk, b"holdfast link 1 next");
            *key = key_of(chain);
        }
        sequence
    }

    /// Appends the sealed frame.
    pub(super) fn seal(&mut self, frame: &Frame, out: &mut BytesMut) {
        let payload = frame.payload_bytes();
        let length =
            u32::try_from(HEADER_BYTES - 4 + payload + self.tag_bytes()).expect("a piece is at most 64 KiB");
        let sequence = self.advance();
        let start = out.len();
        out.reserve(4 + length as usize);
        out.put_u32_le(length);
        out.put_u32_le(low(sequence));
        out.put_u8(frame.kind.code());
        out.put_u8(frame.flags);
        out.put_u64_le(frame.call);
        out.put_slice(frame.head.as_slice());
        out.put_slice(&frame.piece);
        let (header, payload) = out[start..].split_at_mut(HEADER_BYTES);
        match &self.mode {
            Mode::Aead { key, .. } => {
                let tag = key
                    .seal_in_place_separate_tag(nonce_of(sequence), Aad::from(header), payload)
                    .expect("a piece is far below what the cipher takes");
                out.put_slice(tag.as_ref());
            }
            Mode::Checksum { seed } => {
                let sum = checksum(*seed, sequence, header, payload);
                out.put_u32_le(sum);
            }
            Mode::Nothing => {}
        }
    }

    /// Checks a length before anything of the frame is kept; returns it as a number of bytes.
    pub(super) fn check_length(&self, length: u32) -> Result<usize, Lost> {
        let bytes = usize::try_from(length).map_err(|_| Lost::Oversized(length))?;
        if bytes > PIECE_BYTES_MAX + OVERHEAD_BYTES_MAX {
            return Err(Lost::Oversized(length));
        }
        if bytes < HEADER_BYTES - 4 + self.tag_bytes() {
            return Err(Lost::Malformed("frame shorter than its header"));
        }
        Ok(bytes)
    }

    /// Opens a whole frame, its length included, whose length was checked.
    pub(super) fn open(&mut self, mut frame: BytesMut) -> Result<Received, Lost> {
        let tag_bytes = self.tag_bytes();
        let mut payload = frame.split_off(HEADER_BYTES);
        let header = &frame[..];
        let got = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let expected = low(self.next);
        if got != expected {
            return Err(Lost::OutOfSequence { expected, got });
        }
        let sequence = self.advance();
        let length = payload.len() - tag_bytes;
        match &self.mode {
            Mode::Aead { key, .. } => {
                key.open_in_place(nonce_of(sequence), Aad::from(header), &mut payload)
                    .map_err(|_| Lost::Forged(got))?;
            }
            Mode::Checksum { seed } => {
                let (payload, sum) = payload.split_at(length);
                if checksum(*seed, sequence, header, payload).to_le_bytes() != sum {
                    return Err(Lost::Forged(got));
                }
            }
            Mode::Nothing => {}
        }
        payload.truncate(length);
        Ok(Received {
            kind: Kind::from_code(header[8])?,
            flags: header[9],
            call: u64::from_le_bytes(header[10..HEADER_BYTES].try_into().expect("eight bytes")),
            payload: Bytes::from(payload),
        })
    }
}

fn low(sequence: u64) -> u32 {
    (sequence & u64::from(u32::MAX)) as u32
}

fn checksum(seed: u32, sequence: u64, header: &[u8], payload: &[u8]) -> u32 {
    let sum = crc32c::crc32c_append(seed, &sequence.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(sum, header), payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protections() -> Vec<Protection> {
        let secret = Secret::new([7; 32]).unwrap();
        vec![
            Protection::Tls,
            Protection::Insecure,
            Protection::Secret(Derived::new(&secret, &[1; 32])),
        ]
    }

    fn frame(call: u64) -> Frame {
        Frame {
            piece: Bytes::from_static(b"the piece"),
            ..Frame::control(Kind::Request, call, &[1, 2])
        }
    }

    fn sealed(seal: &mut Seal, call: u64) -> BytesMut {
        let mut out = BytesMut::new();
        seal.seal(&frame(call), &mut out);
        out
    }

    #[test]
    fn frames_open_in_order_across_new_keys() {
        for protection in protections() {
            let (mut sender, _) = seals(&protection, &[1; 32], Side::Dialled);
            let (_, mut receiver) = seals(&protection, &[1; 32], Side::Accepted);
            for seal in [&mut sender, &mut receiver] {
                if let Mode::Aead { rekey_frames, .. } = &mut seal.mode {
                    *rekey_frames = 3;
                }
            }
            for call in 0..10 {
                let bytes = sealed(&mut sender, call);
                let length = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                assert_eq!(sender.check_length(length), Ok(bytes.len() - 4));
                let opened = receiver.open(bytes).unwrap();
                assert_eq!(&opened.payload[..], b"\x01\x02the piece");
                assert_eq!((opened.kind, opened.call), (Kind::Request, call));
            }
        }
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        for protection in protections().into_iter().skip(1) {
            let bytes = sealed(&mut seals(&protection, &[1; 32], Side::Dialled).0, 5);
            for bit in 32..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                let mut receiver = seals(&protection, &[1; 32], Side::Accepted).1;
                assert!(receiver.open(changed).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_frame_of_another_direction_session_or_place_does_not_open() {
        for protection in protections().into_iter().skip(1) {
            let (mut dialler, mut to_dialler) = seals(&protection, &[1; 32], Side::Dialled);
            let first = sealed(&mut dialler, 1);
            let second = sealed(&mut dialler, 2);
            assert_eq!(to_dialler.open(first.clone()).unwrap_err(), Lost::Forged(0));
            let mut receiver = seals(&protection, &[1; 32], Side::Accepted).1;
            assert!(matches!(
                receiver.open(second),
                Err(Lost::OutOfSequence { expected: 0, got: 1 })
            ));
            receiver.open(first.clone()).unwrap();
            assert!(matches!(
                receiver.open(first.clone()),
                Err(Lost::OutOfSequence { expected: 1, got: 0 })
            ));
            let protection = match protection {
                Protection::Secret(_) => {
                    Protection::Secret(Derived::new(&Secret::new([7; 32]).unwrap(), &[2; 32]))
                }
                other @ (Protection::Tls | Protection::Insecure) => other,
            };
            let mut other_session = seals(&protection, &[2; 32], Side::Accepted).1;
            assert_eq!(other_session.open(first).unwrap_err(), Lost::Forged(0));
        }
    }
}
