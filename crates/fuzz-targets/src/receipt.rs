//! Receipt handles: only a text that was sealed opens, and no changed bit goes unnoticed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::Sealer;
use queue_core::Handle;
use types::{LeaseToken, QueueId, Sequence, Slot, TenantId};

const KEYS: [[u8; 32]; 2] = [[1; 32], [2; 32]];

/// Checks the bytes as the text of a handle, and as the fields of one that is sealed.
pub fn receipt_handle(input: &[u8]) {
    let sealer = Sealer::new(&KEYS);
    if let Ok(text) = str::from_utf8(input)
        && let Some(handle) = sealer.open(TenantId::DEV, text)
    {
        let is_sealed =
            (1..=KEYS.len()).any(|count| Sealer::new(&KEYS[..count]).seal(TenantId::DEV, &handle) == text);
        assert!(is_sealed, "{text} opens as {handle:?} and was never sealed");
    }
    if let Some((handle, rest)) = handle_of(input) {
        check_sealed(&sealer, &handle, rest);
    }
}

fn handle_of(input: &[u8]) -> Option<(Handle, &[u8])> {
    let (queue, rest) = input.split_first_chunk()?;
    let (slot, rest) = rest.split_first_chunk()?;
    let (sequence, rest) = rest.split_first_chunk()?;
    let (token, rest) = rest.split_first_chunk()?;
    let handle = Handle {
        queue: QueueId(u64::from_le_bytes(*queue)),
        slot: Slot(u32::from_le_bytes(*slot)),
        sequence: Sequence(u64::from_le_bytes(*sequence)),
        token: LeaseToken(u64::from_le_bytes(*token)),
    };
    Some((handle, rest))
}

/// Changes every bit of a handle, or the one that is chosen by what follows its fields.
fn check_sealed(sealer: &Sealer, handle: &Handle, chosen: &[u8]) {
    let text = sealer.seal(TenantId::DEV, handle);
    assert_eq!(sealer.open(TenantId::DEV, &text).as_ref(), Some(handle), "{text}");
    let bytes = URL_SAFE_NO_PAD.decode(&text).expect("a handle is base64");
    for bit in bits(bytes.len(), chosen) {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let changed = URL_SAFE_NO_PAD.encode(changed);
        assert_eq!(sealer.open(TenantId::DEV, &changed), None, "bit {bit} of {text}");
    }
    // Also bits of the text itself, where an encoding may have more than one spelling.
    for bit in bits(text.len(), chosen) {
        let mut changed = text.clone().into_bytes();
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Ok(changed) = String::from_utf8(changed) {
            assert_eq!(sealer.open(TenantId::DEV, &changed), None, "{changed} for {text}");
        }
    }
}

fn bits(bytes: usize, chosen: &[u8]) -> std::ops::Range<usize> {
    let count = bytes * 8;
    match chosen {
        [] => 0..count,
        [one] => usize::from(*one) % count..usize::from(*one) % count + 1,
        [high, low, ..] => {
            let bit = (usize::from(*high) << 8 | usize::from(*low)) % count;
            bit..bit + 1
        }
    }
}
