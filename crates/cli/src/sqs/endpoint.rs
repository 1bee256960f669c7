//! Where a server is.

use std::fmt;
use std::str::FromStr;

use http::uri::Scheme;
use http::{HeaderValue, Uri};

/// An `http://` address, with an optional path below which the API stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    text: String,
    /// Host and port as the client connects to them.
    pub(crate) address: (String, u16),
    /// The value of the `Host` header.
    pub(crate) host: HeaderValue,
    /// The path, `/` at least.
    pub(crate) path: String,
}

impl Endpoint {
    pub(crate) const DEFAULT: &'static str = "http://127.0.0.1:4100";

    /// Returns a path below that of the endpoint.
    pub(crate) fn below(&self, name: &str) -> String {
        format!("{}/{name}", self.path.trim_end_matches('/'))
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri: Uri = text.parse().map_err(|error| format!("no URL: {error}"))?;
        if uri.scheme() == Some(&Scheme::HTTPS) {
            return Err("only plain http:// is spoken; put TLS in front with a proxy of yours".to_owned());
        }
        let (Some(authority), true) = (uri.authority(), uri.scheme() == Some(&Scheme::HTTP)) else {
            return Err(format!("not a URL with a host, such as {}", Self::DEFAULT));
        };
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err("a URL with a user name or a query is no endpoint".to_owned());
        }
        // SigV4 encodes a path once more on top of its encoding; what needs none has only one form.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
        if !uri.path().chars().all(is_plain) || uri.path().split('/').any(|part| part == "." || part == "..")
        {
            return Err("the path may only have letters, digits and -._~".to_owned());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            text: text.trim_end_matches('/').to_owned(),
            address: (host.to_owned(), authority.port_u16().unwrap_or(80)),
            host: HeaderValue::from_str(authority.as_str()).map_err(|error| error.to_string())?,
            path: uri.path().to_owned(),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("http://127.0.0.1:4100", Some(("127.0.0.1", 4100, "/", "/ready"))),
            (
                "http://queue.example/",
                Some(("queue.example", 80, "/", "/ready")),
            ),
            ("http://[::1]:9/sqs/", Some(("::1", 9, "/sqs/", "/sqs/ready"))),
            ("https://127.0.0.1:4100", None),
            ("127.0.0.1:4100", None),
            ("/ready", None),
            ("http://a@b:1", None),
            ("http://a:1/?x=1", None),
            ("http://a:1/%20", None),
            ("http://a:1/../b", None),
            ("", None),
        ] {
            let endpoint = text.parse::<Endpoint>().ok();
            let found = endpoint.as_ref().map(|endpoint| {
                let (host, port) = &endpoint.address;
                (
                    host.as_str(),
                    *port,
                    endpoint.path.as_str(),
                    endpoint.below("ready"),
                )
            });
            let expected = expected.map(|(host, port, path, ready)| (host, port, path, ready.to_owned()));
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
