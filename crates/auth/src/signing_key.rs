//! The key that signs: derived from secret, day, region and service, and kept ready to use.

use std::fmt;
use std::sync::{PoisonError, RwLock};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::Secret;

/// An HMAC that has already taken in its key: cloning it saves two of the four compressions of a short message.
pub(crate) type KeyedHmac = Hmac<Sha256>;

/// The days whose signing keys are kept for one access key. Within the allowed clock skew there are at most two;
/// the rest are for presigned URLs, which live for a week.
const CACHED_DAYS_MAX: usize = 4;

/// The signing keys of one access key for one region and service, by day.
pub(crate) struct SigningKeys {
    days: RwLock<Vec<([u8; 8], KeyedHmac)>>,
}

impl SigningKeys {
    pub(crate) const fn new() -> Self {
        Self {
            days: RwLock::new(Vec::new()),
        }
    }

    /// Returns the signing key of a day, deriving it if it is not at hand.
    pub(crate) fn of_day(&self, secret: &Secret, day: [u8; 8], region: &str, service: &str) -> KeyedHmac {
        // A panic while the lock is held cannot leave a half-written entry, so a poisoned lock is still good.
        let cached = self.days.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, key)) = cached.iter().find(|(cached_day, _)| *cached_day == day) {
            return key.clone();
        }
        drop(cached);
        let key = derive(secret, day, region, service);
        let mut days = self.days.write().unwrap_or_else(PoisonError::into_inner);
        keep(&mut days, day, &key);
        key
    }
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKeys(redacted)")
    }
}

/// Keeps the most recent days, so that presigned URLs of many old days cannot push today's key out.
fn keep(days: &mut Vec<([u8; 8], KeyedHmac)>, day: [u8; 8], key: &KeyedHmac) {
    if days.iter().any(|(cached_day, _)| *cached_day == day) {
        return;
    }
    days.push((day, key.clone()));
    // Today's key comes first and is found by the first comparison.
    days.sort_unstable_by_key(|(day, _)| std::cmp::Reverse(*day));
    days.truncate(CACHED_DAYS_MAX);
}

fn derive(secret: &Secret, day: [u8; 8], region: &str, service: &str) -> KeyedHmac {
    let mut first = Zeroizing::new(Vec::with_capacity(4 + secret.expose().len()));
    first.extend_from_slice(b"AWS4");
    first.extend_from_slice(secret.expose().as_bytes());
    let of_day = mac(keyed(&first), &day);
    let of_region = mac(keyed(&*of_day), region.as_bytes());
    let of_service = mac(keyed(&*of_region), service.as_bytes());
    let of_request = mac(keyed(&*of_service), b"aws4_request");
    keyed(&*of_request)
}

fn keyed(key: &[u8]) -> KeyedHmac {
    KeyedHmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

fn mac(mut keyed: KeyedHmac, message: &[u8]) -> Zeroizing<[u8; 32]> {
    keyed.update(message);
    Zeroizing::new(keyed.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_of_a_derived_key() {
        let secret = Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        let keys = SigningKeys::new();
        // The documentation prints the key itself; a MAC of a known text under it proves the same.
        let expected = keyed(&[
            0xc4, 0xaf, 0xb1, 0xcc, 0x57, 0x71, 0xd8, 0x71, 0x76, 0x3a, 0x39, 0x3e, 0x44, 0xb7, 0x03, 0x57,
            0x1b, 0x55, 0xcc, 0x28, 0x42, 0x4d, 0x1a, 0x5e, 0x86, 0xda, 0x6e, 0xd3, 0xc1, 0x54, 0xa4, 0xb9,
        ]);
        for _ in 0..2 {
            let key = keys.of_day(&secret, *b"20150830", "us-east-1", "iam");
            assert_eq!(*mac(key, b"text"), *mac(expected.clone(), b"text"));
        }
    }

    #[test]
    fn the_most_recent_days_stay() {
        let secret = Secret::new("secret");
        let keys = SigningKeys::new();
        for day in [
            b"20150830",
            b"20150801",
            b"20150802",
            b"20150803",
            b"20150804",
            b"20150829",
            b"20150701",
        ] {
            let key = keys.of_day(&secret, *day, "us-east-1", "sqs");
            assert_eq!(
                *mac(key, b""),
                *mac(derive(&secret, *day, "us-east-1", "sqs"), b"")
            );
        }
        let days: Vec<_> = keys.days.read().unwrap().iter().map(|(day, _)| *day).collect();
        assert_eq!(days, [*b"20150830", *b"20150829", *b"20150804", *b"20150803"]);
    }
}
