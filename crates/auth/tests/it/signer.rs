//! A second implementation of SigV4, written for clarity: strings, sorting, no caching, no shared code.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::request::{ACCESS_KEY_ID, DATE, REGION, Request, SECRET};

/// What a client knows when it signs.
#[derive(Debug, Clone)]
pub(crate) struct Signer {
    pub(crate) access_key_id: String,
    pub(crate) secret: String,
    pub(crate) date: String,
    pub(crate) scope_day: String,
    pub(crate) region: String,
    pub(crate) service: String,
    pub(crate) terminator: String,
}

impl Default for Signer {
    fn default() -> Self {
        Self {
            access_key_id: ACCESS_KEY_ID.to_owned(),
            secret: SECRET.to_owned(),
            date: DATE.to_owned(),
            scope_day: DATE[..8].to_owned(),
            region: REGION.to_owned(),
            service: "sqs".to_owned(),
            terminator: "aws4_request".to_owned(),
        }
    }
}

impl Signer {
    fn scope(&self) -> String {
        [&*self.scope_day, &*self.region, &*self.service, &*self.terminator].join("/")
    }

    pub(crate) fn signature(&self, canonical_request: &[u8]) -> String {
        let text = format!(
            "AWS4-HMAC-SHA256\n{}\n{}\n{}",
            self.date,
            self.scope(),
            hex(&Sha256::digest(canonical_request))
        );
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [
            &self.scope_day,
            &self.region,
            &self.service,
            &self.terminator,
            &text,
        ] {
            let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
            mac.update(part.as_bytes());
            key = mac.finalize().into_bytes().to_vec();
        }
        hex(&key)
    }

    /// Signs in the header, covering the headers named (lower-case, sorted).
    pub(crate) fn sign_headers(&self, request: &mut Request, signed_headers: &str) {
        let signature = self.signature(&canonical_request(request, signed_headers));
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={signed_headers}, Signature={signature}",
            self.access_key_id,
            self.scope()
        );
        request.set_header("authorization", &authorization);
    }

    /// Signs in the header, covering all headers.
    pub(crate) fn sign(&self, request: &mut Request) {
        request.remove_header("authorization");
        let mut names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let signed_headers = names.join(";");
        self.sign_headers(request, &signed_headers);
    }

    /// Signs in the query.
    pub(crate) fn presign(&self, request: &mut Request, expires: &str, signed_headers: &str) {
        let mut query = request
            .query
            .take()
            .filter(|query| !query.is_empty())
            .map_or_else(String::new, |query| query + "&");
        let credential = encode(format!("{}/{}", self.access_key_id, self.scope()).as_bytes());
        query += &format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={}&X-Amz-Expires={expires}\
             &X-Amz-SignedHeaders={}",
            self.date,
            encode(signed_headers.as_bytes())
        );
        request.query = Some(query.clone());
        let signature = self.signature(&canonical_request(request, signed_headers));
        request.query = Some(format!("{query}&X-Amz-Signature={signature}"));
    }
}

/// Returns what a signature covers, the query parameter that holds it left out.
pub(crate) fn canonical_request(request: &Request, signed_headers: &str) -> Vec<u8> {
    let mut parts = vec![
        request.method.clone().into_bytes(),
        canonical_path(&request.path).into_bytes(),
        canonical_query(request.query.as_deref().unwrap_or_default()).into_bytes(),
    ];
    for name in signed_headers.split(';') {
        let values: Vec<Vec<u8>> = request
            .headers
            .iter()
            .filter(|(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| canonical_value(value))
            .collect();
        parts.push([name.as_bytes(), b":", &values.join(&b","[..])].concat());
    }
    parts.push(Vec::new());
    parts.push(signed_headers.as_bytes().to_vec());
    parts.push(hex(&Sha256::digest(&request.body)).into_bytes());
    parts.join(&b"\n"[..])
}

fn canonical_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path
        .split('/')
        .filter(|segment| !segment.is_empty() && *segment != ".")
    {
        if segment == ".." {
            segments.pop();
        } else {
            segments.push(segment);
        }
    }
    let encoded: Vec<String> = segments
        .iter()
        .map(|segment| encode(segment.as_bytes()))
        .collect();
    let end = if path.ends_with('/') && !encoded.is_empty() {
        "/"
    } else {
        ""
    };
    format!("/{}{end}", encoded.join("/"))
}

fn canonical_query(query: &str) -> String {
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (encode(&decode(name)), encode(&decode(value))))
        .filter(|(name, _)| name != "X-Amz-Signature")
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

fn canonical_value(value: &[u8]) -> Vec<u8> {
    let mut folded: Vec<u8> = Vec::new();
    for &byte in value {
        let byte = if byte == b'\t' { b' ' } else { byte };
        if byte != b' ' || folded.last() != Some(&b' ') {
            folded.push(byte);
        }
    }
    folded.trim_ascii().to_vec()
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|&byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

pub(crate) fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let escaped = text
            .get(at + 1..at + 3)
            .filter(|digits| bytes[at] == b'%' && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .map(|digits| u8::from_str_radix(digits, 16).unwrap());
        match (bytes[at], escaped) {
            (_, Some(byte)) => {
                decoded.push(byte);
                at += 2;
            }
            (b'+', None) => decoded.push(b' '),
            (byte, None) => decoded.push(byte),
        }
        at += 1;
    }
    decoded
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
