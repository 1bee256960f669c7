//! A second verifier of SigV4, written for clarity on top of the second signer: strings, loops, no shared code.

use sha2::{Digest, Sha256};

use crate::request::{KEYS, REGION, Request};
use crate::signer::{Signer, canonical_request, decode, hex};

const SKEW_SECONDS: u64 = 15 * 60;
const WEEK_SECONDS: u64 = 7 * 24 * 60 * 60;

/// A signature as the request presents it.
#[derive(Debug)]
struct Presented {
    credential: String,
    signed_headers: String,
    signature: String,
    /// In the form `20150830T123600Z`.
    date: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// The header that gives the date.
    Header(&'static str),
    /// Seconds for which a presigned URL is good.
    Query(u64),
}

/// Whether the request is signed with a known key, covers what it must, and is neither too old nor too new.
pub(crate) fn accepts(request: &Request, unix_seconds: u64) -> bool {
    let Some(presented) = present(request) else {
        return false;
    };
    let is_signed = |name: &str| presented.signed_headers.split(';').any(|signed| signed == name);
    let is_covered = ["host", "x-amz-target", "x-amz-security-token"]
        .into_iter()
        .all(|name| match values(request, name).len() {
            0 => name != "host",
            1 => is_signed(name),
            _ => false,
        });
    let is_date_covered = match presented.place {
        Place::Header(name) => is_signed(name),
        Place::Query(_) => true,
    };
    let Some(signed_at) = seconds(&presented.date) else {
        return false;
    };
    let expires_at = match presented.place {
        Place::Header(_) => signed_at + SKEW_SECONDS,
        Place::Query(expires) => signed_at + expires,
    };
    is_covered
        && is_date_covered
        && unix_seconds + SKEW_SECONDS >= signed_at
        && unix_seconds <= expires_at
        && is_body_hash_right(request)
        && expected_signature(request).as_deref() == Some(&*presented.signature)
}

/// Returns the signature that would make the request right, if what it presents beside the signature can be right.
pub(crate) fn expected_signature(request: &Request) -> Option<String> {
    let presented = present(request)?;
    let names: Vec<&str> = presented.signed_headers.split(';').collect();
    let is_name = |name: &&str| !name.is_empty() && **name == name.to_ascii_lowercase();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let is_there = |name: &&str| !values(request, name).is_empty();
    if sorted != names || !names.iter().all(is_name) || !names.iter().all(is_there) {
        return None;
    }
    let credential: Vec<&str> = presented.credential.split('/').collect();
    let [access_key_id, day, region, service, terminator] = credential[..] else {
        return None;
    };
    let (_, secret, _) = KEYS.into_iter().find(|(id, ..)| *id == access_key_id)?;
    if (region, service, terminator) != (REGION, "sqs", "aws4_request")
        || presented.date.get(..8) != Some(day)
    {
        return None;
    }
    let signer = Signer {
        access_key_id: access_key_id.to_owned(),
        secret: secret.to_owned(),
        date: presented.date.clone(),
        scope_day: day.to_owned(),
        region: region.to_owned(),
        service: service.to_owned(),
        terminator: terminator.to_owned(),
    };
    Some(signer.signature(&canonical_request(request, &presented.signed_headers)))
}

fn present(request: &Request) -> Option<Presented> {
    let authorization = values(request, "authorization");
    let is_presigned = ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"]
        .iter()
        .any(|name| !parameters(request, name).is_empty());
    match (&authorization[..], is_presigned) {
        ([authorization], false) => in_header(request, str::from_utf8(authorization).ok()?),
        ([], true) => in_query(request),
        _ => None,
    }
}

fn in_header(request: &Request, authorization: &str) -> Option<Presented> {
    let fields = authorization.strip_prefix("AWS4-HMAC-SHA256 ")?;
    let fields: Vec<(&str, &str)> = fields
        .split(',')
        .map(|field| field.trim().split_once('='))
        .collect::<Option<_>>()?;
    if fields.len() != 3 {
        return None;
    }
    let field = |name: &str| {
        let (_, value) = fields.iter().find(|(given, _)| *given == name)?;
        Some((*value).to_owned())
    };
    let (name, date) = match (&values(request, "x-amz-date")[..], &values(request, "date")[..]) {
        ([date], _) => ("x-amz-date", str::from_utf8(date).ok()?.trim().to_owned()),
        ([], [date]) => ("date", basic(str::from_utf8(date).ok()?.trim())?),
        _ => return None,
    };
    Some(Presented {
        credential: field("Credential")?,
        signed_headers: field("SignedHeaders")?,
        signature: field("Signature")?,
        date,
        place: Place::Header(name),
    })
}

fn in_query(request: &Request) -> Option<Presented> {
    let single = |name: &str| match &parameters(request, name)[..] {
        [value] => String::from_utf8(value.clone()).ok(),
        _ => None,
    };
    let expires = single("X-Amz-Expires")?;
    if single("X-Amz-Algorithm")? != "AWS4-HMAC-SHA256" || !expires.bytes().all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let expires = expires.parse().ok()?;
    if !(1..=WEEK_SECONDS).contains(&expires) {
        return None;
    }
    Some(Presented {
        credential: single("X-Amz-Credential")?,
        signed_headers: single("X-Amz-SignedHeaders")?,
        signature: single("X-Amz-Signature")?,
        date: single("X-Amz-Date")?,
        place: Place::Query(expires),
    })
}

fn is_body_hash_right(request: &Request) -> bool {
    let hash = hex(&Sha256::digest(&request.body)).into_bytes();
    let in_header = values(request, "x-amz-content-sha256");
    let in_query = parameters(request, "X-Amz-Content-Sha256");
    in_header.len() <= 1
        && in_query.len() <= 1
        && [in_header, in_query]
            .concat()
            .iter()
            .all(|stated| stated.trim_ascii() == hash)
}

fn values(request: &Request, name: &str) -> Vec<Vec<u8>> {
    let given = request.headers.iter();
    given
        .filter(|(given, _)| given.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.clone())
        .collect()
}

fn parameters(request: &Request, name: &str) -> Vec<Vec<u8>> {
    let pairs = request.query.as_deref().unwrap_or_default().split('&');
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(given, _)| decode(given) == name.as_bytes())
        .map(|(_, value)| decode(value))
        .collect()
}

/// Returns the basic form of a `Date` header, which may also be in the form of HTTP.
fn basic(text: &str) -> Option<String> {
    if seconds(text).is_some() {
        return Some(text.to_owned());
    }
    let time = httpdate::parse_http_date(text).ok()?;
    let mut rest = time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    let (mut year, mut month) = (1970, 1);
    while rest >= 86_400 * days(year, month) {
        rest -= 86_400 * days(year, month);
        (year, month) = if month == 12 {
            (year + 1, 1)
        } else {
            (year, month + 1)
        };
    }
    Some(format!(
        "{year:04}{month:02}{:02}T{:02}{:02}{:02}Z",
        rest / 86_400 + 1,
        rest / 3600 % 24,
        rest / 60 % 60,
        rest % 60
    ))
}

/// Returns the seconds since 1970 of a date in the basic form.
fn seconds(text: &str) -> Option<u64> {
    let form: String = text
        .chars()
        .map(|character| {
            if character.is_ascii_digit() {
                '0'
            } else {
                character
            }
        })
        .collect();
    if form != "00000000T000000Z" {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<u64>().unwrap();
    let (year, month, day) = (number(0, 4), number(4, 6), number(6, 8));
    let (hour, minute, second) = (number(9, 11), number(11, 13), number(13, 15));
    let is_date = year >= 1970 && (1..=12).contains(&month) && day >= 1 && day <= days(year, month);
    if !is_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let months = (1970..year)
        .flat_map(|year| (1..=12).map(move |month| (year, month)))
        .chain((1..month).map(|month| (year, month)));
    let whole: u64 = months.map(|(year, month)| days(year, month)).sum();
    Some((((whole + day - 1) * 24 + hour) * 60 + minute) * 60 + second)
}

fn days(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(400) || (year.is_multiple_of(4) && !year.is_multiple_of(100)) => 29,
        2 => 28,
        _ => 31,
    }
}

#[test]
fn it_accepts_what_the_second_signer_signs_and_nothing_else() {
    use crate::request::{DATE, SIGNED_AT};
    assert_eq!(seconds(DATE), Some(SIGNED_AT));
    assert_eq!(basic("Sun, 30 Aug 2015 12:36:00 GMT").as_deref(), Some(DATE));
    let mut request = Request::send_message();
    assert!(!accepts(&request, SIGNED_AT));
    Signer::default().sign(&mut request);
    assert!(accepts(&request, SIGNED_AT + SKEW_SECONDS) && accepts(&request, SIGNED_AT - SKEW_SECONDS));
    assert!(!accepts(&request, SIGNED_AT + SKEW_SECONDS + 1));
    assert!(!accepts(&request, SIGNED_AT - SKEW_SECONDS - 1));
    request.body.push(b' ');
    assert!(!accepts(&request, SIGNED_AT));
    let mut request = Request::new("GET", "/?Action=ListQueues", &[("host", "h")], "");
    Signer::default().presign(&mut request, "60", "host");
    assert!(accepts(&request, SIGNED_AT + 60) && !accepts(&request, SIGNED_AT + 61));
}
