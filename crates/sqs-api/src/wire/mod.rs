//! The two protocols of SQS: reading a request into the typed form of its action, and writing a typed answer.
//!
//! AWS JSON 1.0 is read and written by serde directly. Query (forms in, XML out) goes through a serde reader over
//! flat parameters and a serde writer of XML, so that one pair of types serves both and an action never knows which
//! protocol was spoken. [`members`] holds the few names that differ. Nothing here knows an action's rules.

mod input;
mod members;
mod pairs;
mod protocol;
mod query;
mod query_json;
mod query_reader;
mod text;
mod written;
mod xml;

pub(crate) use input::Input;
pub(crate) use pairs::Pairs;
pub(crate) use protocol::Protocol;
pub(crate) use query::{Parameters, QueryError};
pub(crate) use text::Text;
pub(crate) use written::{error_body, result_body, unknown_operation_body};

#[cfg(test)]
mod equivalence_tests;
