//! Who may change how the server runs: whoever knows the token, or everybody under `--dev`.

use config::AdminToken;
use http::StatusCode;
use serde::Serialize;

use crate::health;

/// What stands before the token in the header `Authorization`.
const SCHEME: &str = "Bearer ";

/// The gate before everything that changes how the server runs.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) token: Option<AdminToken>,
    pub(crate) is_dev: bool,
}

/// An answer of the control API: JSON, on either port.
#[derive(Debug)]
pub(crate) struct AdminAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
    /// What the status needs beside the body.
    pub(crate) header: Option<(&'static str, &'static str)>,
}

/// Why something was not done, for a program and for whoever reads it.
#[derive(Debug, Serialize)]
pub(crate) struct AdminError {
    /// A word that programs may tell apart.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) cause: String,
    pub(crate) hint: String,
    /// Whether the same may succeed when it is tried again.
    pub(crate) retryable: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    error: &'a AdminError,
}

impl AdminAnswer {
    pub(crate) fn ok<T: Serialize>(value: &T) -> Self {
        Self {
            status: StatusCode::OK,
            body: health::json(value),
            header: None,
        }
    }

    pub(crate) fn refused(status: StatusCode, error: &AdminError) -> Self {
        Self {
            status,
            body: health::json(&Document { error }),
            header: None,
        }
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.header = Some((name, value));
        self
    }

    /// The path is there for another method only.
    pub(crate) fn method_not_allowed(allowed: &'static str) -> Self {
        let error = AdminError {
            code: "method_not_allowed",
            message: "the method is not allowed here".to_owned(),
            cause: format!("this path takes {allowed}"),
            hint: format!("use {allowed}"),
            retryable: false,
        };
        Self::refused(StatusCode::METHOD_NOT_ALLOWED, &error).with("allow", allowed)
    }
}

impl Admin {
    /// Lets a request pass, by its header `Authorization`, or says why not.
    pub(crate) fn check(&self, authorization: Option<&str>) -> Result<(), AdminAnswer> {
        if self.is_dev {
            return Ok(());
        }
        let Some(token) = &self.token else {
            let error = AdminError {
                code: "forbidden",
                message: "nobody may do this here".to_owned(),
                cause: "the server has no token for operators".to_owned(),
                hint: "set admin.token, by HOLDFAST_ADMIN_TOKEN or in the configuration file, and restart"
                    .to_owned(),
                retryable: false,
            };
            return Err(AdminAnswer::refused(StatusCode::FORBIDDEN, &error));
        };
        let given = authorization.and_then(|header| {
            let scheme = header.get(..SCHEME.len())?;
            (scheme.eq_ignore_ascii_case(SCHEME)).then(|| header[SCHEME.len()..].trim())
        });
        let cause = match given {
            Some(given) if token.is(given.as_bytes()) => return Ok(()),
            Some(_) => "the token is not that of the server",
            None => "the request has no header Authorization: Bearer TOKEN",
        };
        let error = AdminError {
            code: "unauthorized",
            message: "this needs the token of operators".to_owned(),
            cause: cause.to_owned(),
            hint: "send what the server was given as admin.token".to_owned(),
            retryable: false,
        };
        Err(AdminAnswer::refused(StatusCode::UNAUTHORIZED, &error).with("www-authenticate", "Bearer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_opens_and_only_dev_needs_none() {
        let options = |token: Option<&str>| {
            let mut flags = config::Flags::default();
            flags.set("data-dir", "unused");
            let environment = |name: &str| {
                let is_token = name == "HOLDFAST_ADMIN_TOKEN";
                is_token.then(|| token.map(str::to_owned)).flatten()
            };
            let read_file = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
            config::load(&flags, &environment, &read_file)
                .unwrap()
                .admin
                .token
        };
        let check = |token, is_dev, header| {
            let admin = Admin {
                token: options(token),
                is_dev,
            };
            admin.check(header).map_err(|answer| answer.status.as_u16())
        };
        assert_eq!(check(None, true, None), Ok(()));
        assert_eq!(check(None, false, Some("Bearer ")), Err(403));
        assert_eq!(check(Some("t0"), false, None), Err(401));
        for (header, expected) in [
            ("Bearer t0", Ok(())),
            ("bearer  t0 ", Ok(())),
            ("Bearer t1", Err(401)),
            ("Bearer t", Err(401)),
            ("Bearer", Err(401)),
            ("Basic t0", Err(401)),
            ("t0", Err(401)),
            ("", Err(401)),
        ] {
            assert_eq!(check(Some("t0"), false, Some(header)), expected, "{header:?}");
        }
    }
}
