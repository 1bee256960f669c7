//! The input of an action, in the protocol that the client spoke.

use serde::Deserialize;

use super::protocol::is_form;
use super::{Parameters, Protocol};
use crate::{ApiError, Request};

/// The undecoded input of an action.
#[derive(Debug)]
pub(crate) enum Input<'a> {
    /// A JSON text.
    Json(&'a [u8]),
    /// Parameters.
    Query(Parameters<'a>),
}

impl<'a> Input<'a> {
    /// Takes the parts of a request that hold its input. Parameters are split here, since they name the action; a
    /// JSON text is read by [`Input::decode`] alone, once.
    pub(crate) fn of(protocol: Protocol, request: &Request<'a>, body: &'a [u8]) -> Result<Self, ApiError> {
        if !protocol.is_query() {
            return Ok(Self::Json(body));
        }
        let form = if is_form(request.headers) { body } else { &[] };
        Ok(Self::Query(Parameters::read(request.query, form)?))
    }

    /// Returns the name of the action, if the request names one.
    pub(crate) fn action_name<'s>(&'s self, request: &Request<'s>) -> Option<&'s str> {
        match self {
            Self::Json(_) => Protocol::json_action(request.headers),
            Self::Query(parameters) => parameters.get("Action").filter(|name| !name.is_empty()),
        }
    }

    /// Reads the typed request.
    pub(crate) fn decode<'de, T: Deserialize<'de>>(&'de self) -> Result<T, ApiError> {
        match self {
            // Some clients send no body at all where every member is optional.
            Self::Json(b"") => Ok(serde_json::from_slice(b"{}")?),
            Self::Json(text) => {
                // The parser checks UTF-8 string by string; once for the whole text is quicker for small bodies, and
                // also refuses what stands between the strings.
                let text =
                    std::str::from_utf8(text).map_err(|_| ApiError::Serialization(NOT_UTF8.to_owned()))?;
                Ok(serde_json::from_str(text)?)
            }
            Self::Query(parameters) => Ok(parameters.to_request()?),
        }
    }
}

const NOT_UTF8: &str = "the body of the request is not valid UTF-8";
