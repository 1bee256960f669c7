//! SigV4: whatever is presented, the verifier accepts nothing that the slow one refuses, and all that it signs.
//!
//! An input is a request as HTTP writes it. Where it says `{signature}`, the right signature of that request is put in,
//! so that inputs get past the signature to all the other rules.

use std::sync::LazyLock;

use auth::Verifier;

use crate::request::{DATE, Request, SIGNED_AT, verifier};
use crate::signer::Signer;
use crate::slow_verifier;

const PLACEHOLDER: &str = "{signature}";

static VERIFIER: LazyLock<Verifier> = LazyLock::new(verifier);

/// Checks the bytes as a signed request, and the same request signed by us.
pub fn signature(input: &[u8]) {
    let Some(mut request) = read(input) else {
        return;
    };
    fill_in(&mut request);
    check(&request);
    let ordinary = ordinary(request);
    for is_presigned in [false, true] {
        let mut request = ordinary.clone();
        if is_presigned {
            Signer::default().presign(&mut request, "300", "host");
        } else {
            Signer::default().sign(&mut request);
        }
        // `None` is what HTTP itself lets nobody send.
        let Some(is_accepted) = check(&request) else {
            continue;
        };
        assert!(is_accepted, "a signed request is refused: {request:?}");
        if let Some(changed) = change(request, input) {
            check(&changed);
        }
    }
}

/// Compares the two verifiers and returns what they say.
fn check(request: &Request) -> Option<bool> {
    let is_accepted = request.verify_with(&VERIFIER, SIGNED_AT)?.is_ok();
    assert!(
        !is_accepted || slow_verifier::accepts(request, SIGNED_AT),
        "accepted, but not signed: {request:?}"
    );
    Some(is_accepted)
}

fn read(input: &[u8]) -> Option<Request> {
    let end = input.windows(2).position(|two| two == b"\n\n");
    let (head, body) = match end {
        Some(end) => (&input[..end], &input[end + 2..]),
        None => (input, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let (method, target) = str::from_utf8(lines.next()?).ok()?.split_once(' ')?;
    let mut request = Request::new(method, target, &[], "");
    request.body = body.to_vec();
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = str::from_utf8(&line[..colon]).ok()?.to_owned();
        let value = &line[colon + 1..];
        request
            .headers
            .push((name, value.strip_prefix(b" ").unwrap_or(value).to_vec()));
    }
    Some(request)
}

/// Puts the right signature in, in the header or in the query.
fn fill_in(request: &mut Request) {
    let Some(signature) = slow_verifier::expected_signature(request) else {
        return;
    };
    if let Some(query) = &mut request.query {
        *query = query.replace(PLACEHOLDER, &signature);
    }
    for (_, value) in &mut request.headers {
        if let Ok(text) = str::from_utf8(value) {
            *value = text.replace(PLACEHOLDER, &signature).into_bytes();
        }
    }
}

/// Leaves out what has a meaning to a verifier, and adds what a client adds.
fn ordinary(mut request: Request) -> Request {
    request.headers.retain(|(name, _)| {
        let name = name.to_ascii_lowercase();
        name.starts_with("x-") && !name.starts_with("x-amz")
    });
    for (name, _) in &mut request.headers {
        name.make_ascii_lowercase();
    }
    // Any escape could spell a parameter that has a meaning.
    request.query = request
        .query
        .filter(|query| !query.contains('%') && !query.contains("X-Amz"));
    request.set_header("host", "localhost:4100");
    request.set_header("x-amz-date", DATE);
    request
}

/// Changes one bit somewhere in the path, the query, a header's value or the body.
fn change(mut request: Request, input: &[u8]) -> Option<Request> {
    // The input decides, in a way that a small change of it moves the bit.
    let seed = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let (bit, place, at) = (1 << (seed >> 61), (seed >> 32) % 8, (seed >> 8) & 0xff_ffff);
    let flip = |bytes: &mut [u8]| {
        let at = usize::try_from(at).ok()?.checked_rem(bytes.len())?;
        bytes[at] ^= bit;
        Some(())
    };
    let flip_text = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        flip(&mut bytes)?;
        String::from_utf8(bytes).ok()
    };
    match place {
        0 => request.path = flip_text(&request.path)?,
        1 | 2 => request.query = Some(flip_text(request.query.as_deref()?)?),
        3 => flip(&mut request.body)?,
        _ => {
            let count = request.headers.len();
            let header = usize::try_from(seed >> 4).ok()?.checked_rem(count)?;
            flip(&mut request.headers[header].1)?;
        }
    }
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_seed(input: &[u8], expected: bool) {
        let mut request = read(input).unwrap();
        fill_in(&mut request);
        assert!(request.verify_with(&VERIFIER, SIGNED_AT).is_some(), "{request:?}");
        assert_eq!(check(&request), Some(expected), "{request:?}");
    }

    #[test]
    fn the_seeds_get_past_the_signature() {
        check_seed(include_bytes!("../../../fuzz/corpus/signature/json"), true);
        check_seed(include_bytes!("../../../fuzz/corpus/signature/date"), true);
        check_seed(include_bytes!("../../../fuzz/corpus/signature/presigned"), true);
        check_seed(include_bytes!("../../../fuzz/corpus/signature/other"), true);
        // The action is not covered, however right the signature is.
        check_seed(include_bytes!("../../../fuzz/corpus/signature/uncovered"), false);
    }
}
