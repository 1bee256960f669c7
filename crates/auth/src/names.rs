//! The names of the headers that signatures are made of, parsed once and not with every request.

use http::HeaderName;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HOST, USER_AGENT};

pub(crate) static AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
pub(crate) static AMZ_TARGET: HeaderName = HeaderName::from_static("x-amz-target");
pub(crate) static AMZ_SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
pub(crate) static AMZ_CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");

/// Returns the parsed name of a header that clients usually sign.
pub(crate) fn known(name: &str) -> Option<&'static HeaderName> {
    Some(match name {
        "host" => &HOST,
        "x-amz-date" => &AMZ_DATE,
        "x-amz-target" => &AMZ_TARGET,
        "content-type" => &CONTENT_TYPE,
        "content-length" => &CONTENT_LENGTH,
        "x-amz-content-sha256" => &AMZ_CONTENT_SHA256,
        "x-amz-security-token" => &AMZ_SECURITY_TOKEN,
        "user-agent" => &USER_AGENT,
        "date" => &DATE,
        "authorization" => &AUTHORIZATION,
        _ => return None,
    })
}
