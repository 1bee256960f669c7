//! SigV4 in a header, at the price of two short hashes and the hash of the body.
//!
//! The signing key is derived once a day, and what precedes the body's hash in the canonical request is hashed once a
//! second and action: between two requests of a load only the body changes.

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderValue;
use sha2::{Digest, Sha256};

use super::{Action, Credentials, Endpoint};

type KeyedHmac = Hmac<Sha256>;

const SIGNED_HEADERS: &str = "content-type;host;x-amz-date;x-amz-target";
const SERVICE: &str = "sqs";
const SECONDS_PER_DAY: u64 = 86_400;

/// What a request must carry to be accepted.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) date: HeaderValue,
    pub(crate) authorization: HeaderValue,
}

/// Signs the requests of one connection.
pub(crate) struct Signer {
    credentials: Credentials,
    host: String,
    path: String,
    content_type: &'static str,
    second: Option<Second>,
}

/// What stays the same for the requests of one second.
struct Second {
    unix_seconds: u64,
    /// As in the header: `20150830T123600Z`.
    date: String,
    /// Day, region, service.
    scope: String,
    key: KeyedHmac,
    /// Hashes of canonical requests up to the body, by action.
    heads: Vec<(Action, Sha256)>,
}

impl Signer {
    pub(crate) fn new(credentials: Credentials, endpoint: &Endpoint, content_type: &'static str) -> Self {
        Self {
            credentials,
            host: String::from_utf8_lossy(endpoint.host.as_bytes()).into_owned(),
            path: endpoint.path.clone(),
            content_type,
            second: None,
        }
    }

    /// Signs a call.
    pub(crate) fn sign(&mut self, unix_seconds: u64, action: Action, body: &[u8]) -> Signature {
        let is_current = self
            .second
            .as_ref()
            .is_some_and(|second| second.unix_seconds == unix_seconds);
        let mut second = match self.second.take() {
            Some(second) if is_current => second,
            previous => self.second(unix_seconds, previous),
        };
        let mut request = self.head(&mut second, action);
        request.update(hex(&Sha256::digest(body)));

        let mut mac = second.key.clone();
        for part in ["AWS4-HMAC-SHA256\n", &second.date, "\n", &second.scope, "\n"] {
            mac.update(part.as_bytes());
        }
        mac.update(&hex(&request.finalize()));
        let signature = hex(&mac.finalize().into_bytes());
        let mut authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={SIGNED_HEADERS}, Signature=",
            self.credentials.access_key_id, second.scope
        )
        .into_bytes();
        authorization.extend_from_slice(&signature);
        let signature = Signature {
            date: header(second.date.as_bytes()),
            authorization: header(&authorization),
        };
        self.second = Some(second);
        signature
    }

    fn second(&self, unix_seconds: u64, previous: Option<Second>) -> Second {
        let date = date(unix_seconds);
        let day = &date[..8];
        let key = match previous {
            Some(second) if second.date.starts_with(day) => second.key,
            Some(_) | None => signing_key(&self.credentials, day, SERVICE),
        };
        Second {
            unix_seconds,
            scope: format!("{day}/{}/{SERVICE}/aws4_request", self.credentials.region),
            key,
            heads: Vec::new(),
            date,
        }
    }

    fn head(&self, second: &mut Second, action: Action) -> Sha256 {
        if let Some((_, head)) = second.heads.iter().find(|(of, _)| *of == action) {
            return head.clone();
        }
        let head = Sha256::new_with_prefix(format!(
            "POST\n{}\n\ncontent-type:{}\nhost:{}\nx-amz-date:{}\nx-amz-target:{}\n\n{SIGNED_HEADERS}\n",
            self.path,
            self.content_type,
            self.host,
            second.date,
            action.target()
        ));
        second.heads.push((action, head.clone()));
        head
    }
}

fn header(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(text).expect("credentials were checked to be printable")
}

fn signing_key(credentials: &Credentials, day: &str, service: &str) -> KeyedHmac {
    let first = format!("AWS4{}", credentials.secret_access_key);
    let mut key = keyed(first.as_bytes());
    for part in [day, &credentials.region, service, "aws4_request"] {
        key.update(part.as_bytes());
        key = keyed(&key.finalize().into_bytes());
    }
    key
}

fn keyed(key: &[u8]) -> KeyedHmac {
    KeyedHmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS[usize::from(value & 15)];
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// Returns a time as SigV4 writes it, by the civil calendar from days since 1970 (years begin in March there, so that
/// the leap day is the last of its year).
fn date(unix_seconds: u64) -> String {
    let (days, second) = (
        unix_seconds / SECONDS_PER_DAY + 719_468,
        unix_seconds % SECONDS_PER_DAY,
    );
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!(
        "{year:04}{month:02}{day:02}T{hour:02}{minute:02}{:02}Z",
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(host: &str) -> Signer {
        let credentials = Credentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            region: "us-east-1".to_owned(),
        };
        let endpoint = format!("http://{host}").parse().unwrap();
        Signer::new(credentials, &endpoint, "application/x-amz-json-1.0")
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_seconds, expected) in [
            (0, "19700101T000000Z"),
            (1_440_938_160, "20150830T123600Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_800, "20000301T000000Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(date(unix_seconds), expected);
        }
    }

    /// The reference is written out the long way and hashes everything anew.
    #[test]
    fn what_is_cached_changes_nothing() {
        let mut one = signer("127.0.0.1:4100");
        for (unix_seconds, action, body) in [
            (1_440_938_160, Action::SendMessage, "{}"),
            (1_440_938_160, Action::SendMessage, "{\"a\":1}"),
            (1_440_938_160, Action::DeleteMessage, "{}"),
            (1_440_938_161, Action::SendMessage, "{}"),
            (1_440_979_200, Action::SendMessage, "{}"),
        ] {
            let signature = one.sign(unix_seconds, action, body.as_bytes());
            let date = date(unix_seconds);
            assert_eq!(signature.date, date.as_str());
            let request = format!(
                "POST\n/\n\ncontent-type:application/x-amz-json-1.0\nhost:127.0.0.1:4100\nx-amz-date:{date}\n\
                 x-amz-target:{}\n\n{SIGNED_HEADERS}\n{}",
                action.target(),
                String::from_utf8(hex(&Sha256::digest(body))).unwrap()
            );
            let to_sign = format!(
                "AWS4-HMAC-SHA256\n{date}\n{}/us-east-1/sqs/aws4_request\n{}",
                &date[..8],
                String::from_utf8(hex(&Sha256::digest(request))).unwrap()
            );
            let mut mac = signing_key(&one.credentials, &date[..8], SERVICE);
            mac.update(to_sign.as_bytes());
            let expected = String::from_utf8(hex(&mac.finalize().into_bytes())).unwrap();
            let authorization = signature.authorization.to_str().unwrap();
            assert!(
                authorization.ends_with(&format!("Signature={expected}")),
                "{authorization}"
            );
        }
    }

    #[test]
    fn the_published_example_of_a_derived_key() {
        let key = signing_key(&signer("example").credentials, "20150830", "iam");
        // The documentation prints the key itself; a MAC of a known text under it proves the same.
        let expected = keyed(&[
            0xc4, 0xaf, 0xb1, 0xcc, 0x57, 0x71, 0xd8, 0x71, 0x76, 0x3a, 0x39, 0x3e, 0x44, 0xb7, 0x03, 0x57,
            0x1b, 0x55, 0xcc, 0x28, 0x42, 0x4d, 0x1a, 0x5e, 0x86, 0xda, 0x6e, 0xd3, 0xc1, 0x54, 0xa4, 0xb9,
        ]);
        assert_eq!(key.finalize().into_bytes(), expected.finalize().into_bytes());
    }
}
