//! Which of the protocols a request speaks, and so its answer.

use auth::Headers;

use crate::Request;

/// The protocol of a request. Errors are answered in the same one, whatever is wrong with the rest of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// AWS JSON 1.0.
    Json,
    /// Query parameters or a form in, XML out.
    QueryXml,
    /// Query parameters or a form in, JSON out because the client asked for it.
    QueryJson,
}

const TARGET: &str = "x-amz-target";
const TARGET_PREFIX: &str = "AmazonSQS.";
const JSON_TYPE_PREFIX: &str = "application/x-amz-json-";
const FORM_TYPE: &str = "application/x-www-form-urlencoded";

impl Protocol {
    /// Tells the protocol from the head of a request.
    pub(crate) fn of(request: &Request<'_>) -> Self {
        let is_json = request.method == "POST"
            && (request.headers.contains(TARGET)
                || media_type(request.headers)
                    .is_some_and(|text| starts_with_ignoring_case(text, JSON_TYPE_PREFIX)));
        if is_json {
            Self::Json
        } else if accepts_json(request.headers) {
            Self::QueryJson
        } else {
            Self::QueryXml
        }
    }

    /// Returns the content type of an answer.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/x-amz-json-1.0",
            Self::QueryXml => "text/xml",
            Self::QueryJson => "application/json",
        }
    }

    /// Whether the request came as parameters.
    pub(crate) const fn is_query(self) -> bool {
        match self {
            Self::Json => false,
            Self::QueryXml | Self::QueryJson => true,
        }
    }

    /// Returns the name of the action that a JSON request names, as it is given; `None` if there is none.
    pub(crate) fn json_action(headers: Headers<'_>) -> Option<&str> {
        let target = headers.text(TARGET)?;
        Some(target.strip_prefix(TARGET_PREFIX).unwrap_or(target))
    }
}

/// Whether the body of a request holds parameters. Clients that send no type at all mean a form.
pub(crate) fn is_form(headers: Headers<'_>) -> bool {
    media_type(headers).is_none_or(|text| starts_with_ignoring_case(text, FORM_TYPE))
}

fn media_type(headers: Headers<'_>) -> Option<&str> {
    headers.text("content-type")
}

fn accepts_json(headers: Headers<'_>) -> bool {
    headers
        .values("accept")
        .filter_map(|value| str::from_utf8(value).ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|range| range.trim().eq_ignore_ascii_case("application/json"))
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use auth::Header;

    use super::*;

    fn check(method: &str, headers: &[(&str, &str)], expected: Protocol) {
        let list: Vec<_> = headers
            .iter()
            .map(|(name, value)| Header {
                name,
                value: value.as_bytes(),
            })
            .collect();
        let request = Request {
            method,
            path: "/",
            query: None,
            authority: None,
            headers: Headers(&list),
        };
        assert_eq!(Protocol::of(&request), expected, "{method} {headers:?}");
    }

    #[test]
    fn the_head_of_a_request_tells_its_protocol() {
        let form = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");
        check(
            "POST",
            &[("content-type", "application/x-amz-json-1.0")],
            Protocol::Json,
        );
        check(
            "POST",
            &[("Content-Type", "Application/X-Amz-JSON-1.0")],
            Protocol::Json,
        );
        check(
            "POST",
            &[("x-amz-target", "AmazonSQS.ListQueues")],
            Protocol::Json,
        );
        check("POST", &[form], Protocol::QueryXml);
        check("POST", &[], Protocol::QueryXml);
        check("GET", &[], Protocol::QueryXml);
        check("GET", &[("accept", "*/*")], Protocol::QueryXml);
        check(
            "GET",
            &[("accept", "text/html, application/json;q=0.9")],
            Protocol::QueryJson,
        );
        check(
            "POST",
            &[form, ("accept", "application/json")],
            Protocol::QueryJson,
        );
        // A browser's GET cannot speak JSON, whatever header it carries.
        check(
            "GET",
            &[("x-amz-target", "AmazonSQS.ListQueues")],
            Protocol::QueryXml,
        );
    }

    #[test]
    fn a_body_without_a_type_is_a_form() {
        for (value, expected) in [
            (None, true),
            (Some("application/x-www-form-urlencoded"), true),
            (Some("APPLICATION/x-www-form-urlencoded; charset=UTF-8"), true),
            (Some("application/json"), false),
            (Some("é"), true),
        ] {
            let list: Vec<_> = value
                .iter()
                .map(|value: &&str| Header {
                    name: "content-type",
                    value: value.as_bytes(),
                })
                .collect();
            assert_eq!(is_form(Headers(&list)), expected, "{value:?}");
        }
    }
}
