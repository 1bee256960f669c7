//! A request that a test owns, changes, signs and has verified.

use auth::{AuthError, Header, Headers, Key, Mode, Principal, Secret, SignedRequest, Verifier};
use http::{HeaderName, HeaderValue};
use types::{Region, WallTime};

pub(crate) const ACCESS_KEY_ID: &str = "AKIDEXAMPLE";
pub(crate) const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
pub(crate) const REGION: &str = "us-east-1";
pub(crate) const TENANT: &str = "123456789012";
/// The keys that the verifier knows: id, secret and account.
pub(crate) const KEYS: [(&str, &str, &str); 2] = [
    (ACCESS_KEY_ID, SECRET, TENANT),
    ("AKIDOTHER", "other secret", "210987654321"),
];
/// 30 August 2015, 12:36:00 UTC.
pub(crate) const SIGNED_AT: u64 = 1_440_938_160;
pub(crate) const DATE: &str = "20150830T123600Z";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Self {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query,
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
                .collect(),
            body: body.as_bytes().to_vec(),
        }
    }

    /// A SendMessage as the SDKs make it, not signed yet.
    pub(crate) fn send_message() -> Self {
        Self::new(
            "POST",
            "/",
            &[
                ("host", "localhost:4100"),
                ("content-type", "application/x-amz-json-1.0"),
                ("x-amz-target", "AmazonSQS.SendMessage"),
                ("x-amz-date", DATE),
                ("user-agent", "Boto3/1.42  md/Botocore#1.44"),
            ],
            r#"{"QueueUrl":"http://localhost:4100/123456789012/q","MessageBody":"hi"}"#,
        )
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let (_, value) = self.headers.iter().find(|(given, _)| given == name).unwrap();
        str::from_utf8(value).unwrap()
    }

    pub(crate) fn set_header(&mut self, name: &str, value: &str) {
        self.remove_header(name);
        self.headers.push((name.to_owned(), value.as_bytes().to_vec()));
    }

    pub(crate) fn remove_header(&mut self, name: &str) {
        self.headers.retain(|(given, _)| given != name);
    }

    /// Verifies the request; `None` if HTTP itself does not let such a request through.
    pub(crate) fn verify_with(
        &self,
        verifier: &Verifier,
        unix_seconds: u64,
    ) -> Option<Result<Principal, AuthError>> {
        let mut headers = Vec::new();
        for (name, value) in &self.headers {
            HeaderName::from_bytes(name.as_bytes()).ok()?;
            HeaderValue::from_bytes(value).ok()?;
            headers.push(Header { name, value });
        }
        let request = SignedRequest {
            method: &self.method,
            path: &self.path,
            query: self.query.as_deref(),
            headers: Headers(&headers),
            body: &self.body,
        };
        Some(verifier.verify(&request, WallTime::from_millis(unix_seconds * 1000)))
    }

    pub(crate) fn verify_at(&self, unix_seconds: u64) -> Result<Principal, AuthError> {
        self.verify_with(&verifier(), unix_seconds).expect("valid HTTP")
    }

    pub(crate) fn verify(&self) -> Result<Principal, AuthError> {
        self.verify_at(SIGNED_AT)
    }
}

pub(crate) fn verifier() -> Verifier {
    let keys = KEYS.map(|(access_key_id, secret, tenant)| Key {
        tenant: tenant.parse().unwrap(),
        access_key_id: access_key_id.to_owned(),
        secret: Secret::new(secret),
    });
    Verifier::new(Mode::Keys, region(), keys)
}

pub(crate) fn region() -> Region {
    REGION.parse().unwrap()
}
