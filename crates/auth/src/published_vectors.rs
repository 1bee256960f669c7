//! The examples that AWS publishes for SigV4 (`aws-sig-v4-test-suite`); botocore gives the same signatures.

use types::{Region, TenantId, WallTime};

use crate::{Header, Headers, Key, Mode, Secret, SignedRequest, Verifier};

/// 30 August 2015, 12:36:00 UTC.
const NOW: WallTime = WallTime::from_millis(1_440_938_160_000);

fn verifier() -> Verifier {
    let key = Key {
        tenant: TenantId::DEV,
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
    };
    let region: Region = "us-east-1".parse().unwrap();
    Verifier::for_service(Mode::Keys, region, "service", [key])
}

fn check(
    method: &str,
    target: &str,
    extra: &[(&str, &str)],
    body: &str,
    signed_headers: &str,
    signature: &str,
) {
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
         SignedHeaders={signed_headers}, Signature={signature}"
    );
    let fixed = [
        ("host", "example.amazonaws.com"),
        ("x-amz-date", "20150830T123600Z"),
        ("authorization", authorization.as_str()),
    ];
    let headers: Vec<_> = fixed
        .iter()
        .chain(extra)
        .map(|(name, value)| Header {
            name,
            value: value.as_bytes(),
        })
        .collect();
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let request = SignedRequest {
        method,
        path,
        query,
        headers: Headers(&headers),
        body: body.as_bytes(),
    };
    let principal = verifier().verify(&request, NOW);
    assert!(principal.is_ok(), "{method} {target} {extra:?}: {principal:?}");
}

#[test]
fn published_signatures_verify() {
    const PLAIN: &str = "host;x-amz-date";
    const VANILLA: &str = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
    const SLASHES: &str = "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84";
    for (target, signature) in [
        ("/", VANILLA),
        ("/?", VANILLA),
        ("//", VANILLA),
        ("/./", VANILLA),
        ("/example/..", VANILLA),
        ("/example1/example2/../..", VANILLA),
        ("//example//", SLASHES),
        (
            "/example space/",
            "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
        ),
        (
            "/example%20space/",
            "446b817944c553435b35e813c261ff4e161fff982d1bacdef1c87f6785dd1662",
        ),
        (
            "/\u{1234}",
            "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
        ),
        (
            "/%E1%88%B4",
            "697b34846207a3f72246f99d74ae1ee4fe54f44bb06730c58a0d339eb079596d",
        ),
        (
            "/?Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
    ] {
        check("GET", target, &[], "", PLAIN, signature);
    }
    let post = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b";
    check("POST", "/", &[], "", PLAIN, post);
}

#[test]
fn published_signatures_with_more_headers_verify() {
    check(
        "GET",
        "/",
        &[("my-header1", " value1"), ("my-header2", " \"a   b   c\" ")],
        "",
        "host;my-header1;my-header2;x-amz-date",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    );
    check(
        "POST",
        "/",
        &[("content-type", "application/x-www-form-urlencoded")],
        "Param1=value1",
        "content-type;host;x-amz-date",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    );
}
