//! The canonical request: the one text that client and server must both arrive at.
//!
//! The rules are those of AWS for every service but S3: the path is normalised and encoded once more on top of its
//! encoding on the wire, query parameters are decoded, encoded anew and sorted, header values are trimmed and runs of
//! blanks folded. Everything is written into buffers that the caller reuses; nothing here allocates on its own account.

use std::borrow::Cow;
use std::ops::Range;

use percent_encoding::percent_decode;

use crate::Headers;
use crate::pieces::pieces;

/// The parameters of a query string, encoded as SigV4 wants them and sorted.
#[derive(Debug, Default)]
pub(crate) struct Query {
    text: Vec<u8>,
    parameters: Vec<Parameter>,
}

/// Where a parameter's name and value stand in the text.
#[derive(Debug, Clone)]
struct Parameter {
    name: Range<usize>,
    value: Range<usize>,
}

/// A query parameter that may be given once was given more often.
#[derive(Debug)]
pub(crate) struct GivenTwice;

impl Query {
    /// Takes in a query string as it came over the wire, in place of the one before.
    pub(crate) fn read(&mut self, query: Option<&str>) {
        self.text.clear();
        self.parameters.clear();
        let pairs = query
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = self.push(name);
            let value = self.push(value);
            self.parameters.push(Parameter { name, value });
        }
        let text = &self.text;
        let key = |parameter: &Parameter| (&text[parameter.name.clone()], &text[parameter.value.clone()]);
        self.parameters.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
    }

    fn push(&mut self, raw: &str) -> Range<usize> {
        let start = self.text.len();
        // A plus sign is a space, because that is how the API layer reads it. If it were signed as a literal plus,
        // one signature would cover two meanings.
        for (i, part) in raw.split('+').enumerate() {
            if i > 0 {
                self.text.extend_from_slice(b"%20");
            }
            percent_decode(part.as_bytes()).for_each(|byte| push_encoded(&mut self.text, byte));
        }
        start..self.text.len()
    }

    /// Returns the decoded value of a parameter whose name needs no encoding.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Cow<'_, str>>, GivenTwice> {
        let mut values = self
            .parameters
            .iter()
            .filter(|parameter| &self.text[parameter.name.clone()] == name.as_bytes())
            .map(|parameter| &self.text[parameter.value.clone()]);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(GivenTwice),
            (value, None) => Ok(value.map(|value| percent_decode(value).decode_utf8_lossy())),
        }
    }

    fn write(&self, out: &mut Vec<u8>, without: Option<&str>) {
        let mut is_first = true;
        for Parameter { name, value } in &self.parameters {
            let (name, value) = (&self.text[name.clone()], &self.text[value.clone()]);
            if without.is_some_and(|without| name == without.as_bytes()) {
                continue;
            }
            if !is_first {
                out.push(b'&');
            }
            is_first = false;
            out.extend_from_slice(name);
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }

    /// Gives back what an unusually long query took.
    pub(crate) fn shrink(&mut self, bytes_max: usize) {
        if self.text.capacity() > bytes_max {
            *self = Self::default();
        }
    }
}

/// A header that the signature covers is not in the request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AbsentHeader(pub(crate) String);

/// What a canonical request is made of.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a Query,
    /// A query parameter that is not part of what was signed: the signature itself.
    pub(crate) query_without: Option<&'a str>,
    pub(crate) headers: Headers<'a>,
    /// Header names, lower-case, sorted, each once, separated by semicolons.
    pub(crate) signed_headers: &'a str,
    pub(crate) body_hash: &'a [u8; 32],
}

/// Writes the canonical request.
pub(crate) fn write_request(out: &mut Vec<u8>, parts: &Parts<'_>) -> Result<(), AbsentHeader> {
    out.extend_from_slice(parts.method.as_bytes());
    out.push(b'\n');
    write_path(out, parts.path);
    out.push(b'\n');
    parts.query.write(out, parts.query_without);
    out.push(b'\n');
    for name in pieces(parts.signed_headers, b';') {
        write_header(out, parts.headers, name)?;
    }
    out.push(b'\n');
    out.extend_from_slice(parts.signed_headers.as_bytes());
    out.push(b'\n');
    write_hex(out, parts.body_hash);
    Ok(())
}

/// Writes the path without empty segments and dot segments, each remaining byte encoded on top of its encoding.
fn write_path(out: &mut Vec<u8>, path: &str) {
    let start = out.len();
    for segment in pieces(path, b'/') {
        match segment {
            "" | "." => {}
            ".." => {
                let last = out[start..].iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                out.truncate(start + last);
            }
            _ => {
                out.push(b'/');
                write_encoded(out, segment.as_bytes());
            }
        }
    }
    if out.len() == start || path.ends_with('/') {
        out.push(b'/');
    }
}

fn write_header(out: &mut Vec<u8>, headers: Headers<'_>, name: &str) -> Result<(), AbsentHeader> {
    let mut values = headers.values(name);
    let first = values.next().ok_or_else(|| AbsentHeader(name.to_owned()))?;
    out.extend_from_slice(name.as_bytes());
    out.push(b':');
    write_value(out, first);
    for value in values {
        out.push(b',');
        write_value(out, value);
    }
    out.push(b'\n');
    Ok(())
}

fn write_value(out: &mut Vec<u8>, bytes: &[u8]) {
    // Most values have no blank, and finding that out is cheaper than looking at each byte.
    if !bytes.contains(&b' ') && !bytes.contains(&b'\t') {
        return out.extend_from_slice(bytes);
    }
    let mut words = bytes
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty());
    if let Some(first) = words.next() {
        out.extend_from_slice(first);
    }
    for word in words {
        out.push(b' ');
        out.extend_from_slice(word);
    }
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn write_encoded(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.iter().all(|byte| is_unreserved(*byte)) {
        return out.extend_from_slice(bytes);
    }
    bytes.iter().for_each(|byte| push_encoded(out, *byte));
}

fn push_encoded(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    if is_unreserved(byte) {
        out.push(byte);
    } else {
        out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

/// Writes a hash in lower-case hexadecimal.
pub(crate) fn write_hex(out: &mut Vec<u8>, bytes: &[u8; 32]) {
    out.extend_from_slice(&to_hex(bytes));
}

/// Returns a hash in lower-case hexadecimal.
pub(crate) fn to_hex(bytes: &[u8; 32]) -> [u8; 64] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 64];
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
    }
    text
}

/// Reads a hash in lower-case hexadecimal. Upper case is refused: a signature has one spelling.
pub(crate) fn parse_hex(text: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text: &[u8; 64] = text.try_into().ok()?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.as_chunks::<2>().0) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Header;

    fn path(raw: &str) -> String {
        // What stands before the path must not be touched by its dot segments.
        let mut out = b"a/b\n".to_vec();
        write_path(&mut out, raw);
        String::from_utf8(out)
            .unwrap()
            .strip_prefix("a/b\n")
            .unwrap()
            .to_owned()
    }

    #[test]
    fn paths_are_normalised_and_encoded_again() {
        for (raw, expected) in [
            ("", "/"),
            ("/", "/"),
            ("//", "/"),
            ("/.", "/"),
            ("/..", "/"),
            ("/../../..", "/"),
            ("/a/..", "/"),
            ("/a/../", "/"),
            ("/a/b/../..", "/"),
            ("/a/./b", "/a/b"),
            ("//a//b//", "/a/b/"),
            ("/a/", "/a/"),
            ("/000000000000/my-queue_1.fifo", "/000000000000/my-queue_1.fifo"),
            ("/a%20b", "/a%2520b"),
            ("/a b", "/a%20b"),
            ("/%2e%2e/a", "/%252e%252e/a"),
            ("/-._~", "/-._~"),
            ("/ä", "/%C3%A4"),
            ("/a...b", "/a...b"),
        ] {
            assert_eq!(path(raw), expected, "{raw:?}");
        }
    }

    fn query(raw: &str, without: Option<&str>) -> String {
        let mut query = Query::default();
        query.read(Some("left=over"));
        query.read(Some(raw));
        let mut out = Vec::new();
        query.write(&mut out, without);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn query_parameters_are_sorted_as_encoded_and_keep_their_duplicates() {
        for (raw, expected) in [
            ("", ""),
            ("b=2&a=1", "a=1&b=2"),
            ("a=2&a=1&a=10", "a=1&a=10&a=2"),
            ("a", "a="),
            ("a&&b=", "a=&b="),
            ("=v", "=v"),
            ("a=b=c", "a=b%3Dc"),
            ("a=x%2fy", "a=x%2Fy"),
            ("a=1+1&b=1%2B1", "a=1%201&b=1%2B1"),
            ("a=%", "a=%25"),
            ("a=%4", "a=%254"),
            ("a=%zz", "a=%25zz"),
            ("a=%ff", "a=%FF"),
            ("%41=1&B=2", "A=1&B=2"),
            ("a=1&A=2&_=3&~=4", "A=2&_=3&a=1&~=4"),
            ("X-Amz-Signature=s&a=1", "a=1"),
            ("a=1&X-Amz-Signature=s&Z=2", "Z=2&a=1"),
        ] {
            assert_eq!(query(raw, Some("X-Amz-Signature")), expected, "{raw:?}");
        }
        assert_eq!(query("=v&X-Amz-Signature=s", None), "=v&X-Amz-Signature=s");
    }

    #[test]
    fn a_parameter_is_found_decoded_and_once() {
        let mut query = Query::default();
        query.read(Some("X-Amz-Credential=a%2Fb&t=1&t=2&u%6e=%ff"));
        assert_eq!(query.find("X-Amz-Credential").unwrap().as_deref(), Some("a/b"));
        assert_eq!(query.find("un").unwrap().as_deref(), Some("\u{fffd}"));
        assert!(query.find("none").unwrap().is_none());
        assert!(query.find("t").is_err());
    }

    #[test]
    fn header_values_are_trimmed_folded_and_joined() {
        let headers = [" a  b\t c ", "", "\td"].map(|value| Header {
            name: "X-H",
            value: value.as_bytes(),
        });
        let headers = Headers(&headers);
        let mut out = Vec::new();
        write_header(&mut out, headers, "x-h").unwrap();
        assert_eq!(out, b"x-h:a b c,,d\n");
        assert_eq!(
            write_header(&mut out, headers, "x-none"),
            Err(AbsentHeader("x-none".to_owned()))
        );
    }

    #[test]
    fn hexadecimal_has_one_spelling() {
        let bytes: [u8; 32] = std::array::from_fn(|i| (i * 37) as u8);
        let mut text = Vec::new();
        write_hex(&mut text, &bytes);
        assert_eq!(parse_hex(&text), Some(bytes));
        assert_eq!(parse_hex(&text.to_ascii_uppercase()), None);
        assert_eq!(parse_hex(&text[1..]), None);
        text[5] = b'g';
        assert_eq!(parse_hex(&text), None);
    }
}
