//! Any signed request verifies; a request with any bit changed that the signature covers does not.

use auth::Verifier;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::request::{DATE, Request, SIGNED_AT, verifier};
use crate::signer::{Signer, canonical_request, encode};
use crate::slow_verifier;

#[derive(Debug, Clone, Copy)]
enum Signed {
    InHeader,
    InQuery,
}

fn request() -> impl Strategy<Value = Request> {
    let method = prop_oneof![Just("POST"), Just("GET")];
    let path = prop_oneof![
        Just("/".to_owned()),
        Just("/123456789012/orders.fifo".to_owned()),
        "(/[a-zA-Z0-9_.~%+ -]{0,6}){1,5}/?",
    ];
    let query = prop_oneof![
        2 => Just(None),
        1 => "([A-Za-z.0-9%+ -]{0,6}(=[A-Za-z0-9%+/=:_-]{0,8})?&?){0,4}".prop_map(Some),
        1 => prop::collection::vec(any::<(String, String)>(), 0..4).prop_map(|pairs| {
            let pairs = pairs.iter().map(|(name, value)| {
                format!("{}={}", encode(name.as_bytes()), encode(value.as_bytes()))
            });
            Some(pairs.collect::<Vec<_>>().join("&"))
        }),
    ];
    let extra = prop::collection::vec(("x-[a-c]", "[ -~\t]{0,20}"), 0..4);
    let body = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..300),
        Just(br#"{"QueueUrl":"http://localhost:4100/123456789012/q","MessageBody":"hi"}"#.to_vec()),
    ];
    (method, path, query, extra, body).prop_map(|(method, path, query, extra, body)| {
        let mut request = Request::new(method, &path, &[("host", "localhost:4100")], "");
        request.query = query;
        request.body = body;
        for (name, value) in extra {
            request.headers.push((name, value.into_bytes()));
        }
        request
    })
}

fn sign(request: &mut Request, signed: Signed) {
    let signer = Signer::default();
    match signed {
        Signed::InHeader => {
            request.set_header("x-amz-date", DATE);
            request.set_header("x-amz-target", "AmazonSQS.SendMessage");
            signer.sign(request);
        }
        Signed::InQuery => signer.presign(request, "300", "host"),
    }
}

fn signed_request() -> impl Strategy<Value = (Request, Signed)> {
    let signed = prop_oneof![Just(Signed::InHeader), Just(Signed::InQuery)];
    (request(), signed).prop_map(|(mut request, signed)| {
        sign(&mut request, signed);
        (request, signed)
    })
}

/// Which part of a request a bit is changed in.
#[derive(Debug, Clone, Copy)]
enum Part {
    Method,
    Path,
    Query,
    HeaderName,
    HeaderValue,
    Body,
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        1 => Just(Part::Method),
        2 => Just(Part::Path),
        4 => Just(Part::Query),
        1 => Just(Part::HeaderName),
        6 => Just(Part::HeaderValue),
        1 => Just(Part::Body),
    ]
}

/// Flips a bit; `None` if there is none there, or what comes out could not have come over HTTP.
fn flip(request: &Request, part: Part, at: &Index, bit: u8) -> Option<Request> {
    let mut request = request.clone();
    let flip_text = |text: &mut String| {
        let mut bytes = text.clone().into_bytes();
        let at = (!bytes.is_empty()).then(|| at.index(bytes.len()))?;
        bytes[at] ^= 1 << bit;
        *text = String::from_utf8(bytes).ok()?;
        Some(())
    };
    let flip_bytes = |bytes: &mut Vec<u8>| {
        let at = (!bytes.is_empty()).then(|| at.index(bytes.len()))?;
        bytes[at] ^= 1 << bit;
        Some(())
    };
    match part {
        Part::Method => flip_text(&mut request.method)?,
        Part::Path => flip_text(&mut request.path)?,
        Part::Query => flip_text(request.query.as_mut()?)?,
        Part::Body => flip_bytes(&mut request.body)?,
        Part::HeaderName => {
            let i = at.index(request.headers.len());
            flip_text(&mut request.headers[i].0)?;
        }
        Part::HeaderValue => {
            // Every byte of every value is as likely as another.
            let bytes: usize = request.headers.iter().map(|(_, value)| value.len()).sum();
            let mut at = at.index(bytes);
            let (_, value) = request.headers.iter_mut().find(|(_, value)| {
                let is_here = at < value.len();
                at -= if is_here { 0 } else { value.len() };
                is_here
            })?;
            value[at] ^= 1 << bit;
        }
    }
    Some(request)
}

/// What the signature of a request covers, and the signature with its credential.
fn covered(request: &Request, signed: Signed) -> (Vec<u8>, Vec<String>) {
    let signed_headers: Vec<&str> = request
        .headers
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| !name.eq_ignore_ascii_case("authorization"))
        .collect();
    match signed {
        Signed::InHeader => {
            let mut signed_headers: Vec<String> = signed_headers
                .iter()
                .map(|name| name.to_ascii_lowercase())
                .collect();
            signed_headers.sort();
            signed_headers.dedup();
            let authorization = request
                .headers
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case("authorization"))
                .map(|(_, value)| String::from_utf8_lossy(value).trim().to_owned())
                .collect();
            (
                canonical_request(request, &signed_headers.join(";")),
                authorization,
            )
        }
        Signed::InQuery => {
            let signatures = request.query.as_deref().unwrap_or_default().split('&');
            let signatures = signatures
                .filter(|part| part.starts_with("X-Amz-Signature="))
                .map(str::to_owned)
                .collect();
            (canonical_request(request, "host"), signatures)
        }
    }
}

fn verified(request: &Request, verifier: &Verifier) -> Option<bool> {
    Some(request.verify_with(verifier, SIGNED_AT)?.is_ok())
}

/// Changed bits in the test run; `HOLDFAST_MUTATIONS` asks for another number.
const MUTATIONS: u64 = 24_000;
/// Changes tried of one request before the next is signed.
const MUTATIONS_OF_ONE: usize = 16;

fn mutations() -> u64 {
    match std::env::var("HOLDFAST_MUTATIONS") {
        Ok(count) => count.parse().expect("HOLDFAST_MUTATIONS is a number"),
        Err(_) => MUTATIONS,
    }
}

/// What came of changes.
#[derive(Debug, Default)]
struct Tally {
    refused: u64,
    /// Changes of nothing that is signed: they must be accepted.
    harmless: u64,
}

/// Changes bits of signed requests until `count` were refused; any other verdict fails the test.
fn change_bits(count: u64) -> Tally {
    let mut tally = Tally::default();
    let mut runner = TestRunner::default();
    let requests = signed_request();
    let changes = prop::collection::vec((part(), any::<Index>(), 0..8_u8), MUTATIONS_OF_ONE);
    let verifier = verifier();
    while tally.refused < count {
        let (original, signed) = requests.new_tree(&mut runner).unwrap().current();
        let before = covered(&original, signed);
        for (part, at, bit) in changes.new_tree(&mut runner).unwrap().current() {
            let Some(request) = flip(&original, part, &at, bit) else {
                continue;
            };
            let Some(is_accepted) = verified(&request, &verifier) else {
                continue;
            };
            let is_same = covered(&request, signed) == before;
            assert_eq!(is_accepted, is_same, "{part:?}\n{original:?}\n{request:?}");
            assert_eq!(
                is_accepted,
                slow_verifier::accepts(&request, SIGNED_AT),
                "{part:?}\n{request:?}"
            );
            tally.refused += u64::from(!is_accepted);
            tally.harmless += u64::from(is_accepted);
        }
    }
    tally
}

#[test]
fn a_changed_bit_is_refused_unless_it_changes_nothing_that_is_signed() {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let share = mutations().div_ceil(threads);
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| scope.spawn(move || change_bits(share)))
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let refused: u64 = tallies.iter().map(|tally| tally.refused).sum();
    let harmless: u64 = tallies.iter().map(|tally| tally.harmless).sum();
    println!("{refused} changed bits refused, none accepted; {harmless} changed nothing that is signed");
    assert!(refused >= mutations());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_signed_request_verifies((request, _) in signed_request()) {
        prop_assert_eq!(verified(&request, &verifier()), Some(true), "{:?}", request);
    }

    #[test]
    fn no_bytes_make_it_panic(
        authorization in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "AWS4-HMAC-SHA256 ((Credential|SignedHeaders|Signature)=[a-z0-9/;, =]{0,40},? ?){0,4}"
                .prop_map(String::into_bytes),
        ],
        query in prop_oneof![
            any::<String>(),
            "(X-Amz-(Algorithm|Credential|Date|Expires|SignedHeaders|Signature)=[A-Z0-9%/;+&=-]{0,20}&?){0,7}",
        ],
        path in any::<String>(),
        date in "[0-9TZ]{14,17}",
        seconds in 0..u64::MAX / 1000,
    ) {
        let mut request = Request::send_message();
        request.set_header("x-amz-date", &date);
        request.path = path;
        request.query = Some(query);
        prop_assert_ne!(verified(&request, &verifier()), Some(true));
        request.headers.push(("authorization".to_owned(), authorization));
        if let Some(result) = request.verify_with(&verifier(), seconds) {
            prop_assert!(result.is_err());
        }
    }
}
