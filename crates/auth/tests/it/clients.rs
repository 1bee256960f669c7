//! Requests as botocore 1.44 signs them, with the key and the date of AWS's published examples.

use crate::request::{ACCESS_KEY_ID, Request, TENANT};

fn check(request: &Request) {
    let principal = request.verify().unwrap();
    assert_eq!(principal.tenant.to_string(), TENANT);
    assert_eq!(&*principal.access_key_id, ACCESS_KEY_ID);
}

fn authorization(signed_headers: &str, signature: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/sqs/aws4_request, \
         SignedHeaders={signed_headers}, Signature={signature}"
    )
}

#[test]
fn a_json_post_verifies() {
    check(&Request::new(
        "POST",
        "/",
        &[
            ("host", "localhost:4100"),
            ("x-amz-target", "AmazonSQS.SendMessage"),
            ("content-type", "application/x-amz-json-1.0"),
            ("user-agent", "Boto3/1.42 md/Botocore#1.44"),
            ("x-amzn-query-mode", "true"),
            ("x-amz-date", "20150830T123600Z"),
            ("content-length", "70"),
            (
                "authorization",
                &authorization(
                    "content-type;host;x-amz-date;x-amz-target;x-amzn-query-mode",
                    "1a4b15f2bbd56ff24ae15773722f9842c36501c60e82aebd0d6e8d210a0b7bf2",
                ),
            ),
        ],
        r#"{"QueueUrl":"http://localhost:4100/000000000000/q","MessageBody":"hi"}"#,
    ));
}

#[test]
fn a_session_token_that_is_signed_is_ignored() {
    check(&Request::new(
        "POST",
        "/000000000000/q",
        &[
            ("host", "localhost:4100"),
            ("x-amz-target", "AmazonSQS.SendMessage"),
            ("content-type", "application/x-amz-json-1.0"),
            ("x-amz-date", "20150830T123600Z"),
            ("x-amz-security-token", "FQoGZXIvYXdzE/session+token=="),
            (
                "authorization",
                &authorization(
                    "content-type;host;x-amz-date;x-amz-security-token;x-amz-target",
                    "2821c5800f976d06b41aeb6c41fe7ffa3e52837377312f46c2553f008758d24b",
                ),
            ),
        ],
        "{}",
    ));
}

#[test]
fn a_query_get_signed_in_the_header_verifies() {
    check(&Request::new(
        "GET",
        "/000000000000/q?Action=SendMessage&MessageBody=a%20b%2Bc%2F%C3%A4&Version=2012-11-05",
        &[
            ("host", "localhost:4100"),
            ("x-amz-date", "20150830T123600Z"),
            (
                "authorization",
                &authorization(
                    "host;x-amz-date",
                    "3a470fa07a30cd05939c6d33a91cba16f667243ae1c0481c3eaf3432cb19835d",
                ),
            ),
        ],
        "",
    ));
}

#[test]
fn presigned_urls_verify() {
    for target in [
        "/000000000000/q?Action=ReceiveMessage&AttributeName.1=All&X-Amz-Algorithm=AWS4-HMAC-SHA256\
         &X-Amz-Credential=AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fsqs%2Faws4_request&X-Amz-Date=20150830T123600Z\
         &X-Amz-Expires=300&X-Amz-SignedHeaders=host\
         &X-Amz-Signature=208f7582382a95d39052c3fc724d753d846d40b219ee7e3827721c757f0fe9e0",
        "/?Action=ListQueues&X-Amz-Algorithm=AWS4-HMAC-SHA256\
         &X-Amz-Credential=AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fsqs%2Faws4_request&X-Amz-Date=20150830T123600Z\
         &X-Amz-Expires=604800&X-Amz-SignedHeaders=host\
         &X-Amz-Security-Token=FQoGZXIvYXdzE%2Fsession%2Btoken%3D%3D\
         &X-Amz-Signature=90577b48c725b9b4a1a281f350c70f34b388e51913b62e6b189f08608c2addd9",
    ] {
        check(&Request::new("GET", target, &[("host", "localhost:4100")], ""));
    }
}
