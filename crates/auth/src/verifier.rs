//! The verifier: from a raw request to the principal who signed it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use hmac::Mac;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use types::{Region, TenantId, WallTime};

use crate::canonical::{self, AbsentHeader, Parts, Query};
use crate::pieces::pieces;
use crate::presented::{self, ALGORITHM, Credential, Place, Presented, SIGNATURE_PARAMETER, TERMINATOR};
use crate::sign_date::SignDate;
use crate::signing_key::SigningKeys;
use crate::{AuthError, Headers, Key, Secret};

/// The header that every signature must cover.
const HOST: &str = "host";
/// How far a signature's date may be from the server's clock, in either direction.
const SKEW_SECONDS_MAX: u64 = 15 * 60;
/// The service that signatures must be scoped to.
const SERVICE: &str = "sqs";
/// Longest access key id that becomes a sender id without having been verified.
const CLAIMED_KEY_ID_BYTES_MAX: usize = 128;
/// What a thread keeps of its scratch memory between two requests.
const SCRATCH_BYTES_MAX: usize = 64 * 1024;

/// Which requests are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Every request, signed or not; an access key id of twelve digits names the account.
    Dev,
    /// Requests signed with a known key.
    Keys,
}

/// A request as it came over the wire.
#[derive(Debug, Clone, Copy)]
pub struct SignedRequest<'a> {
    /// The method, such as `POST`.
    pub method: &'a str,
    /// The path, neither decoded nor normalised.
    pub path: &'a str,
    /// What follows the question mark, not decoded.
    pub query: Option<&'a str>,
    /// All headers.
    pub headers: Headers<'a>,
    /// The whole body.
    pub body: &'a [u8],
}

/// Who signed a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The account that the request acts for.
    pub tenant: TenantId,
    /// The key that it was signed with; messages carry it as their sender id.
    pub access_key_id: Arc<str>,
}

/// Tells who signed a request. One is shared by all threads.
#[derive(Debug)]
pub struct Verifier {
    mode: Mode,
    region: Region,
    service: &'static str,
    keys: HashMap<Arc<str>, KnownKey>,
    dev_principal: Principal,
}

#[derive(Debug)]
struct KnownKey {
    principal: Principal,
    secret: Secret,
    signing_keys: SigningKeys,
}

/// Memory that a thread reuses from request to request.
#[derive(Debug, Default)]
struct Scratch {
    query: Query,
    text: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Verifier {
    /// Makes a verifier for a server's region and keys.
    ///
    /// # Panics
    ///
    /// If two keys have the same access key id: `config` refuses such a file.
    pub fn new(mode: Mode, region: Region, keys: impl IntoIterator<Item = Key>) -> Self {
        Self::for_service(mode, region, SERVICE, keys)
    }

    pub(crate) fn for_service(
        mode: Mode,
        region: Region,
        service: &'static str,
        keys: impl IntoIterator<Item = Key>,
    ) -> Self {
        let mut known = HashMap::new();
        for key in keys {
            let access_key_id: Arc<str> = key.access_key_id.into();
            let value = KnownKey {
                principal: Principal {
                    tenant: key.tenant,
                    access_key_id: Arc::clone(&access_key_id),
                },
                secret: key.secret,
                signing_keys: SigningKeys::new(),
            };
            let twin = known.insert(access_key_id, value);
            assert!(twin.is_none(), "two keys have the same access key id");
        }
        Self {
            mode,
            region,
            service,
            keys: known,
            dev_principal: Principal {
                tenant: TenantId::DEV,
                access_key_id: TenantId::DEV.to_string().into(),
            },
        }
    }

    /// Returns who signed the request, or why it is not accepted at this time.
    ///
    /// A session token must be covered by the signature, and is otherwise ignored: the keys of this server have none,
    /// and a token left over in a client's environment gives it nothing that its key does not.
    pub fn verify(&self, request: &SignedRequest<'_>, now: WallTime) -> Result<Principal, AuthError> {
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.query.read(request.query);
            let verified = match self.mode {
                Mode::Dev => Ok(self.claimed(request.headers, &scratch.query)),
                Mode::Keys => self.verify_signature(request, now, scratch),
            };
            scratch.query.shrink(SCRATCH_BYTES_MAX);
            scratch.text.clear();
            scratch.text.shrink_to(SCRATCH_BYTES_MAX);
            verified
        })
    }

    /// Returns the principal that a request claims to be signed by.
    fn claimed(&self, headers: Headers<'_>, query: &Query) -> Principal {
        let is_printable = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic());
        match presented::claimed_access_key_id(headers, query) {
            Some(id) if id.len() <= CLAIMED_KEY_ID_BYTES_MAX && is_printable(&id) => Principal {
                tenant: id.parse().unwrap_or(TenantId::DEV),
                access_key_id: id.into(),
            },
            _ => self.dev_principal.clone(),
        }
    }

    fn verify_signature(
        &self,
        request: &SignedRequest<'_>,
        now: WallTime,
        scratch: &mut Scratch,
    ) -> Result<Principal, AuthError> {
        let Scratch { query, text } = scratch;
        let presented = Presented::find(request.headers, query)?;
        let credential = Credential::parse(&presented.credential)?;
        self.check_scope(&credential, &presented.date)?;
        check_time(&presented, now)?;
        let key = self
            .keys
            .get(credential.access_key_id)
            .ok_or(AuthError::InvalidClientTokenId)?;
        check_coverage(&presented, request.headers)?;
        let body_hash: [u8; 32] = Sha256::digest(request.body).into();
        check_body_hash(&body_hash, request.headers, query)?;

        text.clear();
        let parts = Parts {
            method: request.method,
            path: request.path,
            query,
            query_without: match presented.place {
                Place::Header { .. } => None,
                Place::Query { .. } => Some(SIGNATURE_PARAMETER),
            },
            headers: request.headers,
            signed_headers: &presented.signed_headers,
            body_hash: &body_hash,
        };
        canonical::write_request(text, &parts).map_err(|AbsentHeader(name)| {
            AuthError::SignatureDoesNotMatch(format!("The signed header '{name}' is not in the request."))
        })?;
        let request_hash: [u8; 32] = Sha256::digest(&*text).into();
        text.clear();
        self.write_string_to_sign(text, &presented.date, &request_hash);

        let mut hmac = key.signing_keys.of_day(
            &key.secret,
            presented.date.day(),
            self.region.as_str(),
            self.service,
        );
        hmac.update(text);
        let expected: [u8; 32] = hmac.finalize().into_bytes().into();
        let expected = canonical::to_hex(&expected);
        if expected.ct_eq(presented.signature.as_bytes()).into() {
            Ok(key.principal.clone())
        } else {
            Err(mismatch())
        }
    }

    fn check_scope(&self, credential: &Credential<'_>, date: &SignDate) -> Result<(), AuthError> {
        let text = if credential.region != self.region.as_str() {
            format!(
                "Credential should be scoped to a valid region, not '{}'. The region of this server is '{}'.",
                credential.region, self.region
            )
        } else if credential.service != self.service {
            format!(
                "Credential should be scoped to correct service: '{}'.",
                self.service
            )
        } else if credential.terminator != TERMINATOR {
            format!("Credential should be scoped with a valid terminator: '{TERMINATOR}'.")
        } else if credential.day.as_bytes() != date.day() {
            format!(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: \
                 '{}' != '{}', from '{}'.",
                credential.day,
                &date.as_str()[..8],
                date.as_str()
            )
        } else {
            return Ok(());
        };
        Err(AuthError::SignatureDoesNotMatch(text))
    }

    fn write_string_to_sign(&self, out: &mut Vec<u8>, date: &SignDate, request_hash: &[u8; 32]) {
        out.extend_from_slice(ALGORITHM.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(date.as_str().as_bytes());
        out.push(b'\n');
        out.extend_from_slice(&date.day());
        for part in [self.region.as_str(), self.service, TERMINATOR] {
            out.push(b'/');
            out.extend_from_slice(part.as_bytes());
        }
        out.push(b'\n');
        canonical::write_hex(out, request_hash);
    }
}

/// Checks that the server's clock is within the time for which the signature is good.
fn check_time(presented: &Presented<'_>, now: WallTime) -> Result<(), AuthError> {
    let signed_at = presented.date.unix_seconds();
    let now_seconds = now.as_seconds();
    let text_of = |seconds| {
        SignDate::from_unix_seconds(seconds).map_or_else(String::new, |date| date.as_str().to_owned())
    };
    if signed_at > now_seconds + SKEW_SECONDS_MAX {
        return Err(AuthError::RequestExpired(format!(
            "Signature not yet current: {} is still later than {} ({} + 15 min.)",
            presented.date.as_str(),
            text_of(now_seconds + SKEW_SECONDS_MAX),
            text_of(now_seconds)
        )));
    }
    match presented.place {
        Place::Header { .. } if now_seconds > signed_at + SKEW_SECONDS_MAX => {
            Err(AuthError::RequestExpired(format!(
                "Signature expired: {} is now earlier than {} ({} - 15 min.)",
                presented.date.as_str(),
                text_of(now_seconds - SKEW_SECONDS_MAX),
                text_of(now_seconds)
            )))
        }
        Place::Query { expires_seconds } if now_seconds > signed_at + u64::from(expires_seconds) => {
            Err(AuthError::RequestExpired(format!(
                "Request has expired: it was signed at {} for {expires_seconds} s, and it is {} now.",
                presented.date.as_str(),
                text_of(now_seconds)
            )))
        }
        Place::Header { .. } | Place::Query { .. } => Ok(()),
    }
}

/// Checks that the signature covers every header that decides what the request does, to whom and when.
fn check_coverage(presented: &Presented<'_>, headers: Headers<'_>) -> Result<(), AuthError> {
    let is_signed = |name: &str| pieces(&presented.signed_headers, b';').any(|signed| signed == name);
    for name in [HOST, "x-amz-target", "x-amz-security-token"] {
        let is_present = presented::single_header(headers, name)?.is_some();
        if (is_present || name == HOST) && !is_signed(name) {
            return Err(unsigned(name));
        }
    }
    match presented.place {
        Place::Header { date_header } if !is_signed(date_header) => Err(unsigned(date_header)),
        // The date of a presigned URL is in the query, which is signed as a whole.
        Place::Header { .. } | Place::Query { .. } => Ok(()),
    }
}

/// Checks the hash of the body that a client may state. SQS has neither unsigned nor streamed bodies.
fn check_body_hash(body_hash: &[u8; 32], headers: Headers<'_>, query: &Query) -> Result<(), AuthError> {
    let in_header = presented::single_header(headers, "x-amz-content-sha256")?;
    let in_query = query.find("X-Amz-Content-Sha256").map_err(|_| {
        AuthError::IncompleteSignature(
            "The query parameter 'X-Amz-Content-Sha256' is given twice.".to_owned(),
        )
    })?;
    for stated in [in_header, in_query.as_deref()].into_iter().flatten() {
        if canonical::parse_hex(stated.trim().as_bytes()) != Some(*body_hash) {
            return Err(AuthError::SignatureDoesNotMatch(
                "The provided 'x-amz-content-sha256' does not match what was computed; \
                 unsigned and streamed payloads are not accepted."
                    .to_owned(),
            ));
        }
    }
    Ok(())
}

fn unsigned(name: &str) -> AuthError {
    AuthError::SignatureDoesNotMatch(format!(
        "'{name}' must be a 'SignedHeader' in the AWS Authorization."
    ))
}

fn mismatch() -> AuthError {
    AuthError::SignatureDoesNotMatch(
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access \
         Key and signing method. Consult the service documentation for details."
            .to_owned(),
    )
}
