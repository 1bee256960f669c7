//! The bytes of an answer.

use http::StatusCode;

use super::date;

/// A body up to so long is written together with its head from one buffer; a longer one is not copied.
const COPIED_BODY_BYTES_MAX: usize = 16 * 1024;
/// Room for a head with the headers that are usual here.
const HEAD_BYTES: usize = 320;

/// What becomes of the connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It takes another request.
    KeepAlive,
    /// It is closed.
    Close,
}

/// An answer to be written: its head, and what of its body is not in the same buffer.
#[derive(Debug)]
pub(crate) struct Encoded<'a> {
    pub(crate) start: Vec<u8>,
    pub(crate) rest: &'a [u8],
}

/// What an answer has to know of its request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// Whether the client speaks HTTP/1.0.
    pub(crate) is_http_10: bool,
    /// Whether the client asked for the head alone.
    pub(crate) is_head: bool,
}

/// Writes the head of an answer, and the body after it where that is short.
pub(crate) fn encode<'a, 'h>(
    asked: Asked,
    status: StatusCode,
    headers: impl Iterator<Item = (&'static str, &'h str)>,
    body: &'a [u8],
    next: Next,
) -> Encoded<'a> {
    let sent = if asked.is_head { &[] } else { body };
    let (copied, rest) = match sent.len() {
        ..=COPIED_BODY_BYTES_MAX => (sent, &[] as &[u8]),
        _ => (&[] as &[u8], sent),
    };
    let mut start = Vec::with_capacity(HEAD_BYTES + copied.len());
    start.extend_from_slice(if asked.is_http_10 {
        b"HTTP/1.0 "
    } else {
        b"HTTP/1.1 "
    });
    start.extend_from_slice(status.as_str().as_bytes());
    start.push(b' ');
    start.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    start.extend_from_slice(b"\r\n");
    for (name, value) in headers {
        push_header(&mut start, name, value.as_bytes());
    }
    match (next, asked.is_http_10) {
        (Next::Close, false) => push_header(&mut start, "connection", b"close"),
        (Next::KeepAlive, true) => push_header(&mut start, "connection", b"keep-alive"),
        // What the version means by itself.
        (Next::Close, true) | (Next::KeepAlive, false) => {}
    }
    push_header(&mut start, "content-length", body.len().to_string().as_bytes());
    push_header(&mut start, "date", &date::now());
    start.extend_from_slice(b"\r\n");
    start.extend_from_slice(copied);
    Encoded { start, rest }
}

/// Returns the answer to what is not a request: a status, and the end of the connection.
pub(crate) fn bare(status: StatusCode) -> Encoded<'static> {
    let asked = Asked {
        is_http_10: false,
        is_head: false,
    };
    encode(asked, status, std::iter::empty(), &[], Next::Close)
}

fn push_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an answer without its date.
    fn encoded(is_http_10: bool, is_head: bool, body: &[u8], next: Next) -> (String, usize) {
        let asked = Asked { is_http_10, is_head };
        let headers = [("content-type", "text/xml"), ("allow", "GET, POST")];
        let encoded = encode(asked, StatusCode::OK, headers.into_iter(), body, next);
        let text = String::from_utf8(encoded.start).unwrap();
        let (before, rest) = text.split_once("date: ").unwrap();
        let (date, after) = rest.split_once("\r\n").unwrap();
        assert!(date.ends_with(" GMT"), "{date}");
        (format!("{before}{after}"), encoded.rest.len())
    }

    #[test]
    fn an_answer_has_one_form() {
        let common = "200 OK\r\ncontent-type: text/xml\r\nallow: GET, POST\r\n";
        let check = |is_http_10, next, expected: &str| {
            assert_eq!(encoded(is_http_10, false, b"hi", next), (expected.to_owned(), 0));
        };
        check(
            false,
            Next::KeepAlive,
            &format!("HTTP/1.1 {common}content-length: 2\r\n\r\nhi"),
        );
        check(
            false,
            Next::Close,
            &format!("HTTP/1.1 {common}connection: close\r\ncontent-length: 2\r\n\r\nhi"),
        );
        check(
            true,
            Next::KeepAlive,
            &format!("HTTP/1.0 {common}connection: keep-alive\r\ncontent-length: 2\r\n\r\nhi"),
        );
        check(
            true,
            Next::Close,
            &format!("HTTP/1.0 {common}content-length: 2\r\n\r\nhi"),
        );
    }

    #[test]
    fn the_answer_to_a_head_request_tells_the_length_of_the_body_it_leaves_out() {
        let (text, rest) = encoded(false, true, b"hi", Next::KeepAlive);
        assert!(text.ends_with("content-length: 2\r\n\r\n"), "{text}");
        assert_eq!(rest, 0);
    }

    #[test]
    fn a_long_body_is_not_copied() {
        for (len, rest) in [
            (COPIED_BODY_BYTES_MAX, 0),
            (COPIED_BODY_BYTES_MAX + 1, COPIED_BODY_BYTES_MAX + 1),
        ] {
            let body = vec![b'x'; len];
            assert_eq!(encoded(false, false, &body, Next::KeepAlive).1, rest);
        }
    }
}
