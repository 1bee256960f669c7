//! The head of a request: from the bytes that have come to a [`Head`] that borrows from them.

use std::mem::MaybeUninit;

use auth::{Header, Headers};
use http::StatusCode;
use sqs_api::Request;

use super::target::Target;

/// Longest head of a request, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most headers of a request.
const HEADERS_MAX: usize = 100;

/// How the body of a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// After so many bytes; none if the head says nothing of a body.
    Length(u64),
    /// With the last of its chunks.
    Chunked,
}

/// Why a head is refused. The connection cannot go on: where the next request begins is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// It is not HTTP, or two readers could understand it differently.
    Malformed,
    /// It is too long, or has too many headers.
    TooLarge,
    /// Its request line alone is too long.
    TargetTooLong,
}

impl HeadError {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
        }
    }
}

/// The head of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    method: &'a str,
    target: Target<'a>,
    headers: Vec<Header<'a>>,
    pub(crate) framing: Framing,
    /// Whether the client speaks HTTP/1.0, and so is answered.
    pub(crate) is_http_10: bool,
    /// Whether the client wants to send another request after this one.
    pub(crate) is_kept_alive: bool,
    /// Whether the client waits for a word before it sends the body.
    pub(crate) expects_continue: bool,
    /// Its bytes.
    pub(crate) len: usize,
}

impl<'a> Head<'a> {
    /// Reads the head at the beginning of `bytes`; `None` if it is not whole yet.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Option<Self>, HeadError> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut []);
        match parsed.parse_with_uninit_headers(bytes, &mut headers) {
            Ok(httparse::Status::Complete(len)) if len <= HEAD_BYTES_MAX => Self::of(&parsed, len).map(Some),
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => Ok(None),
            Ok(_) if bytes[..HEAD_BYTES_MAX].contains(&b'\n') => Err(HeadError::TooLarge),
            Ok(_) => Err(HeadError::TargetTooLong),
            Err(httparse::Error::TooManyHeaders) => Err(HeadError::TooLarge),
            Err(_) => Err(HeadError::Malformed),
        }
    }

    fn of(parsed: &httparse::Request<'_, 'a>, len: usize) -> Result<Self, HeadError> {
        let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
            return Err(HeadError::Malformed);
        };
        let target = Target::parse(target).ok_or(HeadError::Malformed)?;
        let is_http_10 = version == 0;
        let headers: Vec<_> = parsed
            .headers
            .iter()
            .map(|header| Header {
                name: header.name,
                value: header.value,
            })
            .collect();
        let connection = |option: &str| {
            let values = Headers(&headers).values("connection");
            values
                .flat_map(|value| value.split(|byte| *byte == b','))
                .any(|given| given.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
        };
        let expects_continue = Headers(&headers)
            .values("expect")
            .any(|value| value.eq_ignore_ascii_case(b"100-continue"));
        Ok(Self {
            method,
            target,
            framing: framing(Headers(&headers), is_http_10)?,
            is_http_10,
            is_kept_alive: !connection("close") && (!is_http_10 || connection("keep-alive")),
            expects_continue: !is_http_10 && expects_continue,
            len,
            headers,
        })
    }

    /// Returns what the API reads of it.
    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            method: self.method,
            path: self.target.path,
            query: self.target.query,
            authority: self.target.authority,
            headers: Headers(&self.headers),
        }
    }
}

/// Tells how the body ends. What a proxy in front could read otherwise is refused: it would take the body of one
/// request for the head of another.
fn framing(headers: Headers<'_>, is_http_10: bool) -> Result<Framing, HeadError> {
    let mut lengths = headers.values("content-length");
    let mut codings = headers.values("transfer-encoding");
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(Framing::Length(0)),
        (Some(length), None) => {
            let bytes = decimal(length)?;
            for other in lengths {
                if decimal(other)? != bytes {
                    return Err(HeadError::Malformed);
                }
            }
            Ok(Framing::Length(bytes))
        }
        (None, Some(coding))
            if !is_http_10 && codings.next().is_none() && coding.eq_ignore_ascii_case(b"chunked") =>
        {
            Ok(Framing::Chunked)
        }
        (_, Some(_)) => Err(HeadError::Malformed),
    }
}

fn decimal(digits: &[u8]) -> Result<u64, HeadError> {
    if digits.is_empty() {
        return Err(HeadError::Malformed);
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
        let grown = number.checked_mul(10).zip(digit);
        grown
            .and_then(|(number, digit)| number.checked_add(digit))
            .ok_or(HeadError::Malformed)
    })
}

/// Takes away blank lines before a request: they are none of it.
pub(crate) fn skip_blank_lines(bytes: &mut Vec<u8>) {
    let mut blank = 0;
    while let Some(line) = [b"\r\n".as_slice(), b"\n"]
        .into_iter()
        .find(|line| bytes[blank..].starts_with(line))
    {
        blank += line.len();
    }
    bytes.drain(..blank);
}

/// Whether it is worth the time to parse bytes of which a beginning was parsed already: a head that comes byte by byte
/// must not be parsed as often.
pub(crate) fn may_be_whole(bytes: &[u8], looked_at: usize) -> bool {
    let new = bytes.get(looked_at..).unwrap_or_default();
    !new.is_empty() && (looked_at == 0 || new.contains(&b'\n') || bytes.len() >= HEAD_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(bytes: &[u8]) -> Head<'_> {
        Head::parse(bytes).unwrap().expect("a whole head")
    }

    #[test]
    fn a_head_is_read_as_it_came() {
        let text =
            b"POST /1/q?a=b HTTP/1.1\r\nHost: h\r\nX-A:  b c \r\nx-a:\r\nContent-Length: 2\r\n\r\n{}rest";
        let head = parse(text);
        let request = head.request();
        assert_eq!(
            (request.method, request.path, request.query),
            ("POST", "/1/q", Some("a=b"))
        );
        assert_eq!(
            request.headers.values("x-a").collect::<Vec<_>>(),
            [b"b c".as_slice(), b""]
        );
        assert_eq!((head.framing, head.len), (Framing::Length(2), text.len() - 6));
        // Not whole at any byte before its end.
        for end in 0..head.len {
            assert_eq!(Head::parse(&text[..end]), Ok(None), "{end}");
        }
    }

    #[test]
    fn a_connection_lives_on_by_version_and_wish() {
        let check = |version: &str, connection: &str, expected: bool| {
            let text = format!("GET / HTTP/{version}\r\n{connection}\r\n");
            assert_eq!(
                parse(text.as_bytes()).is_kept_alive,
                expected,
                "{version} {connection}"
            );
        };
        check("1.1", "", true);
        check("1.1", "connection: CLOSE\r\n", false);
        check("1.1", "connection: x\r\nconnection: te , close\r\n", false);
        check("1.1", "connection: keep-alive, close\r\n", false);
        check("1.0", "", false);
        check("1.0", "connection: Keep-Alive\r\n", true);
        check("1.0", "connection: keep-alive, close\r\n", false);
    }

    #[test]
    fn only_http_11_knows_how_to_wait_for_a_word() {
        let check = |version: &str, expect: &str, expected: bool| {
            let text = format!("POST / HTTP/{version}\r\nExpect: {expect}\r\n\r\n");
            assert_eq!(parse(text.as_bytes()).expects_continue, expected);
        };
        check("1.1", "100-Continue", true);
        check("1.1", "something", false);
        check("1.0", "100-continue", false);
    }

    #[test]
    fn what_is_malformed_or_ambiguous_is_refused() {
        let with = |headers: &str| format!("POST / HTTP/1.1\r\nhost: h\r\n{headers}\r\n\r\n");
        for headers in [
            "content-length: 1\r\ncontent-length: 2",
            "content-length: 1, 1",
            "content-length: +1",
            "content-length: -1",
            "content-length:",
            "content-length: 1 1",
            "content-length: 0x1",
            "content-length: 18446744073709551616",
            "content-length: 1\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked\r\ncontent-length: 1",
            "transfer-encoding: gzip",
            "transfer-encoding: gzip, chunked",
            "transfer-encoding: chunked, chunked",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked\r\ntransfer-encoding: identity",
            "transfer-encoding: xchunked",
            "transfer-encoding:",
            "folded: a\r\n b",
            " first: a",
            "space : a",
            "bare: a\rb",
            "nul: a\0b",
            "no colon",
            ": no name",
        ] {
            assert_eq!(
                Head::parse(with(headers).as_bytes()),
                Err(HeadError::Malformed),
                "{headers:?}"
            );
        }
        for text in [
            "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
            "GET\r\n\r\n",
            "GET /\r\n\r\n",
            "GET / HTTP/1.2\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "G(T / HTTP/1.1\r\n\r\n",
            "GET a HTTP/1.1\r\n\r\n",
            "\x16\x03\x01",
        ] {
            assert_eq!(
                Head::parse(text.as_bytes()),
                Err(HeadError::Malformed),
                "{text:?}"
            );
        }
        assert_eq!(
            Head::parse(b"GET /\xff HTTP/1.1\r\n\r\n"),
            Err(HeadError::Malformed)
        );
        // The same length twice says one thing.
        let twice = with("content-length: 7\r\ncontent-length: 7");
        assert_eq!(parse(twice.as_bytes()).framing, Framing::Length(7));
        assert_eq!(
            parse(with("Transfer-Encoding: Chunked").as_bytes()).framing,
            Framing::Chunked
        );
    }

    #[test]
    fn a_head_has_limits() {
        let headers = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
        assert_eq!(parse(headers(HEADERS_MAX).as_bytes()).headers.len(), HEADERS_MAX);
        assert_eq!(
            Head::parse(headers(HEADERS_MAX + 1).as_bytes()),
            Err(HeadError::TooLarge)
        );
        let long = |line: &str, end: &str| format!("{line}{}{end}", "x".repeat(HEAD_BYTES_MAX)).into_bytes();
        for end in ["", "\r\n\r\n"] {
            let header = long("GET / HTTP/1.1\r\na: ", end);
            assert_eq!(Head::parse(&header), Err(HeadError::TooLarge));
        }
        for end in ["", " HTTP/1.1\r\n\r\n"] {
            assert_eq!(Head::parse(&long("GET /", end)), Err(HeadError::TargetTooLong));
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_head(
            blank in "(\r\n|\n){0,3}",
            names in prop::collection::vec("[a-zA-Z-]{1,12}", 0..8),
            value in "[ -~]{0,20}",
            cuts in prop::collection::vec(1_usize..40, 1..60),
        ) {
            let headers: String = names.iter().map(|name| format!("x{name}: {value}\r\n")).collect();
            let text = format!("POST /a?b HTTP/1.1\r\n{headers}content-length: 3\r\n\r\nabc");
            let expected = parse(text.as_bytes());
            let stream = format!("{blank}{text}");
            let (mut bytes, mut looked_at, mut at) = (Vec::new(), 0, 0);
            let mut cuts = cuts.iter().cycle();
            loop {
                skip_blank_lines(&mut bytes);
                if may_be_whole(&bytes, looked_at) && let Some(head) = Head::parse(&bytes).unwrap() {
                    prop_assert_eq!(&head, &expected);
                    break;
                }
                // Once a whole head is there, it must have been found.
                prop_assert!(bytes.len() < expected.len);
                looked_at = bytes.len();
                let end = stream.len().min(at + cuts.next().unwrap());
                bytes.extend_from_slice(&stream.as_bytes()[at..end]);
                at = end;
            }
        }
    }

    #[test]
    fn a_head_that_comes_byte_by_byte_is_parsed_once_a_line() {
        let text = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(50));
        let parses = (1..=text.len()).filter(|end| may_be_whole(&text.as_bytes()[..*end], end - 1));
        assert_eq!(parses.count(), 1 + 52);
    }
}
