//! Each way in which a signature can be wrong, and what the client is told.

use auth::AuthError;
use sha2::{Digest, Sha256};

use crate::request::{Request, SIGNED_AT};
use crate::signer::Signer;

/// The variants without their texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Missing,
    Incomplete,
    UnknownKey,
    Mismatch,
    Expired,
}

fn refusal(result: Result<auth::Principal, AuthError>) -> Option<(Refusal, String)> {
    let error = result.err()?;
    let text = error.to_string();
    let refusal = match error {
        AuthError::MissingAuthenticationToken => Refusal::Missing,
        AuthError::IncompleteSignature(_) => Refusal::Incomplete,
        AuthError::InvalidClientTokenId => Refusal::UnknownKey,
        AuthError::SignatureDoesNotMatch(_) => Refusal::Mismatch,
        AuthError::RequestExpired(_) => Refusal::Expired,
    };
    Some((refusal, text))
}

#[track_caller]
fn check(request: &Request, expected: Refusal, text: &str) {
    check_at(request, SIGNED_AT, expected, text);
}

#[track_caller]
fn check_at(request: &Request, unix_seconds: u64, expected: Refusal, text: &str) {
    let (refusal, given) =
        refusal(request.verify_at(unix_seconds)).unwrap_or_else(|| panic!("accepted: {request:?}"));
    assert_eq!(refusal, expected, "{given}");
    assert!(given.contains(text), "{given:?} does not contain {text:?}");
}

fn signed() -> Request {
    signed_by(&Signer::default())
}

fn signed_by(signer: &Signer) -> Request {
    let mut request = Request::send_message();
    signer.sign(&mut request);
    request
}

fn presigned(expires: &str) -> Request {
    let mut request = Request::new(
        "GET",
        "/123456789012/q?Action=ReceiveMessage",
        &[("host", "localhost:4100")],
        "",
    );
    Signer::default().presign(&mut request, expires, "host");
    request
}

#[test]
fn without_changes_these_requests_verify() {
    signed().verify().unwrap();
    presigned("300").verify().unwrap();
}

#[test]
fn the_key_must_be_known_and_its_secret_right() {
    let secret = Signer {
        secret: "guess".to_owned(),
        ..Signer::default()
    };
    check(
        &signed_by(&secret),
        Refusal::Mismatch,
        "Check your AWS Secret Access Key",
    );
    let unknown = Signer {
        access_key_id: "AKIDUNKNOWN".to_owned(),
        ..Signer::default()
    };
    check(&signed_by(&unknown), Refusal::UnknownKey, "security token");
    // One tenant's secret does not sign for another's key.
    let crossed = Signer {
        access_key_id: "AKIDOTHER".to_owned(),
        ..Signer::default()
    };
    check(
        &signed_by(&crossed),
        Refusal::Mismatch,
        "Check your AWS Secret Access Key",
    );
}

#[test]
fn the_clock_may_be_fifteen_minutes_off() {
    const MINUTE: u64 = 60;
    let request = signed();
    for seconds in [0, 14 * MINUTE, 15 * MINUTE] {
        request.verify_at(SIGNED_AT + seconds).unwrap();
        request.verify_at(SIGNED_AT - seconds).unwrap();
        presigned("900").verify_at(SIGNED_AT - seconds).unwrap();
    }
    for seconds in [15 * MINUTE + 1, 3600, 86_400] {
        check_at(
            &request,
            SIGNED_AT + seconds,
            Refusal::Expired,
            "Signature expired: 20150830T123600Z is now earlier",
        );
        check_at(
            &request,
            SIGNED_AT - seconds,
            Refusal::Expired,
            "Signature not yet current: 20150830T123600Z",
        );
        check_at(
            &presigned("900"),
            SIGNED_AT - seconds,
            Refusal::Expired,
            "Signature not yet current",
        );
    }
    check_at(&request, 0, Refusal::Expired, "not yet current");
    check_at(&request, u64::MAX / 1000, Refusal::Expired, "expired");
}

#[test]
fn the_scope_must_be_that_of_the_server_and_the_date() {
    let scoped = |change: &dyn Fn(&mut Signer)| {
        let mut signer = Signer::default();
        change(&mut signer);
        signed_by(&signer)
    };
    for (request, text) in [
        (scoped(&|s| s.region = "eu-west-1".to_owned()), "not 'eu-west-1'"),
        (
            scoped(&|s| s.service = "sns".to_owned()),
            "correct service: 'sqs'",
        ),
        (
            scoped(&|s| s.terminator = "aws4".to_owned()),
            "terminator: 'aws4_request'",
        ),
        (
            scoped(&|s| s.scope_day = "20150829".to_owned()),
            "'20150829' != '20150830', from '20150830T123600Z'",
        ),
    ] {
        check(&request, Refusal::Mismatch, text);
    }
}

#[test]
fn what_was_signed_must_be_what_came() {
    let changed = |change: &dyn Fn(&mut Request)| {
        let mut request = signed();
        change(&mut request);
        request
    };
    for request in [
        changed(&|r| r.body[10] ^= 1),
        changed(&|r| r.body.clear()),
        changed(&|r| r.method = "PUT".to_owned()),
        changed(&|r| r.path = "/123456789012/other".to_owned()),
        changed(&|r| r.query = Some("Action=PurgeQueue".to_owned())),
        changed(&|r| r.set_header("host", "localhost:4101")),
        changed(&|r| r.set_header("host", "localhost")),
        changed(&|r| r.set_header("x-amz-target", "AmazonSQS.DeleteQueue")),
        changed(&|r| {
            r.headers
                .push(("content-type".to_owned(), b"text/plain".to_vec()))
        }),
    ] {
        check(
            &request,
            Refusal::Mismatch,
            "does not match the signature you provided",
        );
    }
    check(
        &changed(&|r| r.remove_header("content-type")),
        Refusal::Mismatch,
        "'content-type' is not in the request",
    );
    check(
        &changed(&|r| r.remove_header("host")),
        Refusal::Mismatch,
        "'host' is not in the request",
    );
    for name in ["host", "x-amz-target", "x-amz-date", "authorization"] {
        let value = signed().header(name).to_owned();
        let twice = changed(&|r| r.headers.push((name.to_owned(), value.clone().into_bytes())));
        check(&twice, Refusal::Incomplete, &format!("'{name}' is given twice"));
    }
}

#[test]
fn blanks_around_and_runs_of_blanks_within_a_header_do_not_matter() {
    let mut request = signed();
    request.set_header("user-agent", "  Boto3/1.42 \t md/Botocore#1.44 ");
    request.verify().unwrap();
    request.set_header("user-agent", "Boto3/1.42md/Botocore#1.44");
    check(&request, Refusal::Mismatch, "does not match");
}

#[test]
fn what_decides_must_be_signed() {
    for (signed_headers, name) in [
        ("x-amz-date;x-amz-target", "host"),
        ("host;x-amz-target", "x-amz-date"),
        ("host;x-amz-date", "x-amz-target"),
    ] {
        let mut request = Request::send_message();
        Signer::default().sign_headers(&mut request, signed_headers);
        check(
            &request,
            Refusal::Mismatch,
            &format!("'{name}' must be a 'SignedHeader'"),
        );
    }
    let mut request = Request::send_message();
    Signer::default().sign(&mut request);
    request.set_header("x-amz-security-token", "left over");
    check(
        &request,
        Refusal::Mismatch,
        "'x-amz-security-token' must be a 'SignedHeader'",
    );

    let mut request = presigned("300");
    request.set_header("x-amz-target", "AmazonSQS.DeleteQueue");
    check(
        &request,
        Refusal::Mismatch,
        "'x-amz-target' must be a 'SignedHeader'",
    );

    // The PHP SDK never signs the content type.
    let mut request = Request::send_message();
    Signer::default().sign_headers(&mut request, "host;x-amz-date;x-amz-target");
    request.verify().unwrap();
}

#[test]
fn the_date_may_be_in_the_date_header_and_must_then_be_signed() {
    let mut request = Request::send_message();
    request.remove_header("x-amz-date");
    check(
        &signed_again(&request),
        Refusal::Incomplete,
        "either a 'X-Amz-Date' or a 'Date'",
    );
    for date in ["Sun, 30 Aug 2015 12:36:00 GMT", "20150830T123600Z"] {
        request.set_header("date", date);
        signed_again(&request).verify().unwrap();
        let mut unsigned = request.clone();
        Signer::default().sign_headers(&mut unsigned, "host;x-amz-target");
        check(&unsigned, Refusal::Mismatch, "'date' must be a 'SignedHeader'");
    }
    request.set_header("date", "yesterday");
    check(&signed_again(&request), Refusal::Incomplete, "Date must be");
    request.set_header("x-amz-date", "2015-08-30T12:36:00Z");
    check(&signed_again(&request), Refusal::Incomplete, "X-Amz-Date must be");
}

fn signed_again(request: &Request) -> Request {
    let mut request = request.clone();
    Signer::default().sign(&mut request);
    request
}

#[test]
fn a_stated_hash_of_the_body_must_be_right() {
    let mut request = Request::send_message();
    let right: String = Sha256::digest(&request.body)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    request.set_header("x-amz-content-sha256", &right);
    signed_again(&request).verify().unwrap();
    // It need not be signed, and must be right all the same.
    Signer::default().sign_headers(&mut request, "host;x-amz-date;x-amz-target");
    request.verify().unwrap();
    request.set_header("x-amz-content-sha256", &right.replace('a', "b"));
    check(&request, Refusal::Mismatch, "x-amz-content-sha256");
    for wrong in [
        right.to_uppercase().as_str(),
        "",
        "UNSIGNED-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ] {
        request.set_header("x-amz-content-sha256", wrong);
        check(&signed_again(&request), Refusal::Mismatch, "x-amz-content-sha256");
    }
    request.body.clear();
    signed_again(&request).verify().unwrap();

    let mut request = Request::new(
        "GET",
        "/?Action=ListQueues&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD",
        &[("host", "localhost:4100")],
        "",
    );
    Signer::default().presign(&mut request, "300", "host");
    check(&request, Refusal::Mismatch, "x-amz-content-sha256");
}

#[test]
fn a_presigned_url_lives_as_long_as_it_says_and_a_week_at_most() {
    for (expires, lives) in [("1", 1), ("300", 300), ("604800", 604_800)] {
        presigned(expires).verify_at(SIGNED_AT + lives).unwrap();
        check_at(
            &presigned(expires),
            SIGNED_AT + lives + 1,
            Refusal::Expired,
            "Request has expired",
        );
    }
    for expires in ["0", "-1", "604801", "", "1.5", "+5", "99999999999999999999", "5s"] {
        check(
            &presigned(expires),
            Refusal::Incomplete,
            "X-Amz-Expires must be a number of seconds",
        );
    }
}

#[test]
fn a_presigned_url_needs_each_part_once() {
    let query = presigned("300").query.unwrap();
    for name in [
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-SignedHeaders",
        "X-Amz-Signature",
    ] {
        let mut request = presigned("300");
        let part = query.split('&').find(|part| part.starts_with(name)).unwrap();
        let without: Vec<&str> = query.split('&').filter(|other| *other != part).collect();
        request.query = Some(without.join("&"));
        check(&request, Refusal::Incomplete, &format!("must include '{name}'"));
        request.query = Some(format!("{query}&{part}"));
        check(&request, Refusal::Incomplete, &format!("'{name}' is given twice"));
        // An encoded letter makes it no other name.
        request.query = Some(format!("{query}&%58{}", &part[1..]));
        check(&request, Refusal::Incomplete, &format!("'{name}' is given twice"));
    }
    let mut request = presigned("300");
    request.query = Some(query.replace("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"));
    check(&request, Refusal::Incomplete, "X-Amz-Algorithm must be");
    request.query = Some(query.replace("20150830T123600Z", "now"));
    check(&request, Refusal::Incomplete, "X-Amz-Date must be");
}

#[test]
fn a_request_is_signed_in_one_place() {
    let mut request = Request::send_message();
    check(&request, Refusal::Missing, "missing Authentication Token");
    request.query = Some("Action=ListQueues&Signature=v2&SignatureVersion=2".to_owned());
    check(&request, Refusal::Missing, "missing Authentication Token");
    let mut request = presigned("300");
    request.set_header("authorization", signed().header("authorization"));
    check(&request, Refusal::Incomplete, "not in both");
}

#[test]
fn the_authorization_header_has_one_form() {
    let good = signed().header("authorization").to_owned();
    let fields = good.strip_prefix("AWS4-HMAC-SHA256 ").unwrap();
    let all = "content-type;host;user-agent;x-amz-date;x-amz-target";
    for (authorization, text) in [
        (String::new(), "requires the algorithm"),
        ("AWS4-HMAC-SHA256".to_owned(), "'name=value'"),
        ("AWS4-HMAC-SHA256 ".to_owned(), "'name=value'"),
        (format!("AWS4-HMAC-SHA512 {fields}"), "requires the algorithm"),
        (format!("aws4-hmac-sha256 {fields}"), "requires the algorithm"),
        ("Bearer secret".to_owned(), "requires the algorithm"),
        (good.replace("Credential=", "credential="), "'name=value'"),
        (format!("{good}, Extra=1"), "'name=value'"),
        (format!("{good},"), "'name=value'"),
        (
            format!("{good}, {}", fields.split(", ").next().unwrap()),
            "a field twice",
        ),
        (
            good.split(", ").take(2).collect::<Vec<_>>().join(", "),
            "requires 'Signature'",
        ),
        (good.replace("AKIDEXAMPLE/", ""), "exactly 5"),
        (good.replace("AKIDEXAMPLE/", "/"), "exactly 5"),
        (good.replace("AKIDEXAMPLE/", "a/AKIDEXAMPLE/"), "exactly 5"),
        (good.replace(all, ""), "SignedHeaders must be"),
        (
            good.replace(all, &all.replace("host", "Host")),
            "SignedHeaders must be",
        ),
        (
            good.replace(all, &format!("{all};x-amz-target")),
            "SignedHeaders must be",
        ),
        (good.replace(all, &format!("{all};")), "SignedHeaders must be"),
        (
            good.replace(all, "host;content-type;user-agent;x-amz-date;x-amz-target"),
            "SignedHeaders must be",
        ),
    ] {
        let mut request = signed();
        request.set_header("authorization", &authorization);
        check(&request, Refusal::Incomplete, text);
        let (_, told) = refusal(request.verify()).unwrap();
        assert!(
            !told.contains("secret") && !told.contains("AKIDEXAMPLE"),
            "{told}"
        );
    }
    // Old clients leave out the blanks.
    let mut request = signed();
    request.set_header("authorization", &good.replace(", ", ","));
    request.verify().unwrap();
    let signature = good.rsplit_once('=').unwrap().1;
    for wrong in [
        String::new(),
        signature.to_uppercase(),
        signature[1..].to_owned(),
        format!("{signature}0"),
    ] {
        request.set_header("authorization", &good.replace(signature, &wrong));
        check(&request, Refusal::Mismatch, "does not match");
    }
}
