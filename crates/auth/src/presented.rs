//! The signature as a request presents it: in the `Authorization` header, or in the query of a presigned URL.
//!
//! Only the form is checked here; whether the signature is the right one is the verifier's to say.

use std::borrow::Cow;

use crate::canonical::{GivenTwice, Query};
use crate::headers::ascii;
use crate::pieces::{cut, pieces};
use crate::sign_date::SignDate;
use crate::{AuthError, Headers};

pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
pub(crate) const TERMINATOR: &str = "aws4_request";
/// The query parameter that holds the signature, and is therefore not signed itself.
pub(crate) const SIGNATURE_PARAMETER: &str = "X-Amz-Signature";
/// Longest life of a presigned URL.
const EXPIRES_SECONDS_MAX: u32 = 604_800;

/// A signature with all that is needed to check it.
#[derive(Debug)]
pub(crate) struct Presented<'a> {
    /// Access key id, day, region, service and terminator, separated by slashes.
    pub(crate) credential: Cow<'a, str>,
    /// Header names, lower-case, sorted, each once, separated by semicolons.
    pub(crate) signed_headers: Cow<'a, str>,
    pub(crate) signature: Cow<'a, str>,
    pub(crate) date: SignDate,
    pub(crate) place: Place,
}

/// Where the signature was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the `Authorization` header; the date is in the header named here.
    Header { date_header: &'static str },
    /// In the query of a presigned URL, which is good for so long.
    Query { expires_seconds: u32 },
}

/// The parts of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Credential<'a> {
    pub(crate) access_key_id: &'a str,
    pub(crate) day: &'a str,
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
    pub(crate) terminator: &'a str,
}

impl<'a> Presented<'a> {
    /// Finds the signature of a request.
    pub(crate) fn find(headers: Headers<'a>, query: &'a Query) -> Result<Self, AuthError> {
        let authorization = single_header(headers, "authorization")?;
        let is_presigned = ["X-Amz-Algorithm", "X-Amz-Credential", SIGNATURE_PARAMETER]
            .into_iter()
            .any(|name| !matches!(query.find(name), Ok(None)));
        let presented = match (authorization, is_presigned) {
            (None, false) => return Err(AuthError::MissingAuthenticationToken),
            (Some(_), true) => {
                return Err(incomplete(
                    "A request is signed in the Authorization header or in the query, not in both.",
                ));
            }
            (Some(authorization), false) => Self::from_header(authorization, headers)?,
            (None, true) => Self::from_query(query)?,
        };
        check_signed_headers(&presented.signed_headers)?;
        Ok(presented)
    }

    fn from_header(authorization: &'a str, headers: Headers<'a>) -> Result<Self, AuthError> {
        let (algorithm, fields) = cut(authorization, b' ').unwrap_or((authorization, ""));
        if algorithm != ALGORITHM {
            return Err(incomplete(
                "Authorization header requires the algorithm 'AWS4-HMAC-SHA256'.",
            ));
        }
        let (mut credential, mut signed_headers, mut signature) = (None, None, None);
        for field in pieces(fields, b',') {
            let (name, value) = cut(field.trim(), b'=').unwrap_or_default();
            let slot = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed_headers,
                "Signature" => &mut signature,
                _ => {
                    return Err(incomplete(
                        "Authorization header has a field that is not 'name=value' of SigV4.",
                    ));
                }
            };
            if slot.replace(Cow::Borrowed(value)).is_some() {
                return Err(incomplete("Authorization header has a field twice."));
            }
        }
        let missing =
            |name| move || incomplete(&format!("Authorization header requires '{name}' parameter."));
        let credential = credential.ok_or_else(missing("Credential"))?;
        let signature = signature.ok_or_else(missing("Signature"))?;
        let signed_headers = signed_headers.ok_or_else(missing("SignedHeaders"))?;
        let (date_header, date) = date_of(headers)?;
        Ok(Self {
            credential,
            signed_headers,
            signature,
            date,
            place: Place::Header { date_header },
        })
    }

    fn from_query(query: &'a Query) -> Result<Self, AuthError> {
        if single_parameter(query, "X-Amz-Algorithm")? != ALGORITHM {
            return Err(incomplete("X-Amz-Algorithm must be 'AWS4-HMAC-SHA256'."));
        }
        let date = single_parameter(query, "X-Amz-Date")?;
        let date = SignDate::parse_basic(date.as_bytes()).ok_or_else(|| {
            incomplete("X-Amz-Date must be in the ISO 8601 basic format, such as 20150830T123600Z.")
        })?;
        let expires = single_parameter(query, "X-Amz-Expires")?;
        // `parse` alone would also take a plus sign.
        let expires_seconds = expires
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| expires.parse::<u32>().ok())
            .flatten()
            .filter(|seconds| (1..=EXPIRES_SECONDS_MAX).contains(seconds))
            .ok_or_else(|| incomplete("X-Amz-Expires must be a number of seconds from 1 to 604800."))?;
        Ok(Self {
            credential: single_parameter(query, "X-Amz-Credential")?,
            signed_headers: single_parameter(query, "X-Amz-SignedHeaders")?,
            signature: single_parameter(query, SIGNATURE_PARAMETER)?,
            date,
            place: Place::Query { expires_seconds },
        })
    }
}

impl<'a> Credential<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, AuthError> {
        let mut parts = pieces(text, b'/');
        let mut part = || parts.next();
        if let (Some(access_key_id), Some(day), Some(region), Some(service), Some(terminator), None) =
            (part(), part(), part(), part(), part(), part())
            && !access_key_id.is_empty()
        {
            Ok(Self {
                access_key_id,
                day,
                region,
                service,
                terminator,
            })
        } else {
            Err(incomplete(
                "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/aws4_request.",
            ))
        }
    }
}

/// Returns the access key id of a request that nobody verifies, in whatever state the rest of its signature is.
pub(crate) fn claimed_access_key_id<'a>(headers: Headers<'a>, query: &'a Query) -> Option<Cow<'a, str>> {
    let authorization = headers.text("authorization");
    let credential = match authorization.and_then(|text| text.split_once("Credential=")) {
        Some((_, credential)) => Cow::Borrowed(credential),
        None => query.find("X-Amz-Credential").ok().flatten()?,
    };
    let end = credential.find(['/', ',', ' ']).unwrap_or(credential.len());
    Some(match credential {
        Cow::Borrowed(credential) => Cow::Borrowed(&credential[..end]),
        Cow::Owned(mut credential) => {
            credential.truncate(end);
            Cow::Owned(credential)
        }
    })
}

/// Returns a header's value, refusing a header that is there twice: two readers of it could take different ones.
pub(crate) fn single_header<'a>(headers: Headers<'a>, name: &str) -> Result<Option<&'a str>, AuthError> {
    let mut values = headers.values(name);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(incomplete(&format!("The header '{name}' is given twice."))),
        (Some(value), None) => match ascii(value) {
            Some(text) => Ok(Some(text)),
            None => Err(incomplete(&format!("The header '{name}' is not plain ASCII."))),
        },
    }
}

fn single_parameter<'a>(query: &'a Query, name: &str) -> Result<Cow<'a, str>, AuthError> {
    match query.find(name) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(incomplete(&format!(
            "AWS query-string parameters must include '{name}'."
        ))),
        Err(GivenTwice) => Err(incomplete(&format!(
            "The query parameter '{name}' is given twice."
        ))),
    }
}

fn date_of(headers: Headers<'_>) -> Result<(&'static str, SignDate), AuthError> {
    if let Some(text) = single_header(headers, "x-amz-date")? {
        return match SignDate::parse_basic(text.trim().as_bytes()) {
            Some(date) => Ok(("x-amz-date", date)),
            None => Err(incomplete(
                "X-Amz-Date must be in the ISO 8601 basic format, such as 20150830T123600Z.",
            )),
        };
    }
    match single_header(headers, "date")?.map(|text| SignDate::parse_header(text.trim())) {
        Some(Some(date)) => Ok(("date", date)),
        Some(None) => Err(incomplete(
            "Date must be an HTTP date or in the ISO 8601 basic format.",
        )),
        None => Err(incomplete(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.",
        )),
    }
}

fn check_signed_headers(list: &str) -> Result<(), AuthError> {
    let is_sorted = pieces(list, b';').is_sorted_by(|a, b| a < b);
    // An upper-case letter would make one header have two names.
    let is_lower_case = !list.bytes().any(|byte| byte.is_ascii_uppercase());
    // Sorted, so that an empty name could only be the first.
    let has_empty = list.is_empty() || list.starts_with(';');
    if is_sorted && is_lower_case && !has_empty {
        Ok(())
    } else {
        Err(incomplete(
            "SignedHeaders must be lower-case header names, sorted, each given once, separated by semicolons.",
        ))
    }
}

fn incomplete(text: &str) -> AuthError {
    AuthError::IncompleteSignature(text.to_owned())
}
