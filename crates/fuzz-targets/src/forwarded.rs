//! What nodes tell each other: no bytes panic, and what can be read is written back as the same.

use broker::{decode_reply, decode_request, encode_reply, encode_request};

/// Checks the bytes as a request that another node has sent on, and as the reply to one.
pub fn forwarded(input: &[u8]) {
    if let Ok(request) = decode_request(input) {
        assert_eq!(decode_request(&encode_request(&request)), Ok(request));
    }
    if let Ok(reply) = decode_reply(input) {
        assert_eq!(decode_reply(&encode_reply(&reply)), Ok(reply));
    }
}
