//! Receipt handles on the wire: sealed, so that only what this partition handed out is accepted.
//!
//! ```text
//! version u8 = 1 | key u8 | queue u64 | slot u32 | sequence u64 | token u64 | HMAC-SHA256-128
//! ```
//!
//! in base64url without padding. The tenant is part of what is sealed and not of the text, so a handle is useless to
//! another tenant. The keys are in the partition's state: every node opens every handle.

use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use queue_core::Handle;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use types::{LeaseToken, QueueId, Sequence, Slot, TenantId};

const VERSION: u8 = 1;
const PLAIN: usize = 1 + 1 + 8 + 4 + 8 + 8;
const SEALED: usize = PLAIN + 16;

/// Seals and opens receipt handles.
#[derive(Clone)]
pub struct Sealer {
    /// Keyed once; each use is a clone.
    keys: Vec<Hmac<Sha256>>,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("keys", &self.keys.len()).finish()
    }
}

impl Sealer {
    /// Takes the seal keys of a partition, the one in use last.
    pub fn new(keys: &[[u8; 32]]) -> Self {
        let keyed = |key: &[u8; 32]| Hmac::new_from_slice(key).expect("HMAC takes a key of any length");
        Self {
            keys: keys.iter().map(keyed).collect(),
        }
    }

    /// Returns the text of a receipt handle.
    pub fn seal(&self, tenant: TenantId, handle: &Handle) -> String {
        let last = self.keys.len().saturating_sub(1);
        let mut bytes = [0; SEALED];
        bytes[0] = VERSION;
        bytes[1] = u8::try_from(last).unwrap_or(u8::MAX);
        bytes[2..10].copy_from_slice(&handle.queue.0.to_le_bytes());
        bytes[10..14].copy_from_slice(&handle.slot.0.to_le_bytes());
        bytes[14..22].copy_from_slice(&handle.sequence.0.to_le_bytes());
        bytes[22..30].copy_from_slice(&handle.token.0.to_le_bytes());
        if let Some(seal) = self.seal_of(usize::from(bytes[1]), tenant, &bytes[..PLAIN]) {
            bytes[PLAIN..].copy_from_slice(&seal);
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns what a receipt handle says, or `None` if this tenant was never given it.
    pub fn open(&self, tenant: TenantId, text: &str) -> Option<Handle> {
        let mut bytes = [0; SEALED];
        if URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()? != SEALED || bytes[0] != VERSION {
            return None;
        }
        let (plain, seal) = bytes.split_first_chunk::<PLAIN>()?;
        let expected = self.seal_of(usize::from(plain[1]), tenant, plain)?;
        if !bool::from(expected.ct_eq(seal)) {
            return None;
        }
        Some(Handle {
            queue: QueueId(u64::from_le_bytes(*plain[2..].first_chunk()?)),
            slot: Slot(u32::from_le_bytes(*plain[10..].first_chunk()?)),
            sequence: Sequence(u64::from_le_bytes(*plain[14..].first_chunk()?)),
            token: LeaseToken(u64::from_le_bytes(*plain[22..].first_chunk()?)),
        })
    }

    fn seal_of(&self, key: usize, tenant: TenantId, plain: &[u8]) -> Option<[u8; 16]> {
        let mut mac = self.keys.get(key)?.clone();
        mac.update(plain);
        mac.update(&tenant.as_u64().to_le_bytes());
        mac.finalize().into_bytes().first_chunk().copied()
    }
}

/// The seals of the partition where the reactors use them. The commit thread changes them when a key was added.
#[derive(Debug, Default)]
pub(crate) struct Seals {
    sealer: RwLock<Option<Arc<Sealer>>>,
}

impl Seals {
    /// Takes the keys of the partition.
    pub(crate) fn set(&self, keys: &[[u8; 32]]) {
        let sealer = (!keys.is_empty()).then(|| Arc::new(Sealer::new(keys)));
        *self.sealer.write().unwrap_or_else(PoisonError::into_inner) = sealer;
    }

    /// Returns what seals; none while the partition has no key.
    pub(crate) fn get(&self) -> Option<Arc<Sealer>> {
        let sealer = self.sealer.read().unwrap_or_else(PoisonError::into_inner);
        sealer.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> Handle {
        Handle {
            queue: QueueId(3),
            slot: Slot(9),
            sequence: Sequence(77),
            token: LeaseToken(1 << 40),
        }
    }

    fn tenant(text: &str) -> TenantId {
        text.parse().unwrap()
    }

    #[test]
    fn a_handle_opens_for_its_tenant_alone() {
        let sealer = Sealer::new(&[[1; 32]]);
        let text = sealer.seal(tenant("000000000001"), &handle());
        assert_eq!(sealer.open(tenant("000000000001"), &text), Some(handle()));
        assert_eq!(sealer.open(tenant("000000000002"), &text), None);
        assert_eq!(Sealer::new(&[[2; 32]]).open(tenant("000000000001"), &text), None);
    }

    #[test]
    fn a_handle_of_an_older_key_still_opens() {
        let old = Sealer::new(&[[1; 32]]).seal(TenantId::DEV, &handle());
        let sealer = Sealer::new(&[[1; 32], [2; 32]]);
        assert_eq!(sealer.open(TenantId::DEV, &old), Some(handle()));
        assert_ne!(sealer.seal(TenantId::DEV, &handle()), old);
    }

    #[test]
    fn a_flip_of_any_bit_is_noticed_and_no_text_panics() {
        let sealer = Sealer::new(&[[1; 32]]);
        let text = sealer.seal(TenantId::DEV, &handle());
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                sealer.open(TenantId::DEV, &URL_SAFE_NO_PAD.encode(changed)),
                None,
                "bit {bit}"
            );
        }
        for wrong in ["", "x", "not a handle", &text[1..], &format!("{text}A"), "ü"] {
            assert_eq!(sealer.open(TenantId::DEV, wrong), None, "{wrong:?}");
        }
    }
}
