//! What `--dev` accepts: everything, with the account that an access key id of twelve digits names.

use auth::{Mode, Verifier};

use crate::request::{Request, region};

#[test]
fn every_request_is_accepted_and_twelve_digits_are_an_account() {
    let verifier = Verifier::new(Mode::Dev, region(), []);
    let header = |authorization: &str| Request::new("POST", "/", &[("authorization", authorization)], "{}");
    let query = |query: &str| Request::new("GET", &format!("/?{query}"), &[], "");
    const NONE: &str = "000000000000";
    for (request, account, access_key_id) in [
        (Request::new("POST", "/", &[], "{}"), NONE, NONE),
        (header(""), NONE, NONE),
        (header("Basic dXNlcjpwYXNz"), NONE, NONE),
        (
            header("AWS4-HMAC-SHA256 Credential=test/20150830/x/y/z, Signature=0"),
            NONE,
            "test",
        ),
        (
            header("AWS4-HMAC-SHA256 Credential=111122223333/20150830"),
            "111122223333",
            "111122223333",
        ),
        (
            header("AWS4-HMAC-SHA256 Signature=0,Credential=111122223333"),
            "111122223333",
            "111122223333",
        ),
        (
            header("AWS4-HMAC-SHA256 Credential=1111222233334/a/b/c/d"),
            NONE,
            "1111222233334",
        ),
        (header("AWS4-HMAC-SHA256 Credential=/a/b/c/d"), NONE, NONE),
        (header("AWS4-HMAC-SHA256 Credential=a\tb/a/b/c/d"), NONE, NONE),
        (
            header(&format!("AWS4-HMAC-SHA256 Credential={}/a", "k".repeat(129))),
            NONE,
            NONE,
        ),
        (
            query("X-Amz-Credential=111122223333%2F20150830%2Fx"),
            "111122223333",
            "111122223333",
        ),
        (
            query("X-Amz-Credential=test/20150830/x&Action=ListQueues"),
            NONE,
            "test",
        ),
        (query("X-Amz-Credential=a&X-Amz-Credential=b"), NONE, NONE),
        (query("X-Amz-Credential=%ff"), NONE, NONE),
    ] {
        let principal = request.verify_with(&verifier, 0).unwrap().unwrap();
        assert_eq!(principal.tenant.to_string(), account, "{request:?}");
        assert_eq!(&*principal.access_key_id, access_key_id, "{request:?}");
    }
}
