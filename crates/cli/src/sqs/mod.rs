//! A client of SQS over plain HTTP/1.1 with a small cost per call: one connection, the JSON protocol, SigV4 with a
//! cached signing key. It never retries and never hides an answer, because what it is used for is counting them.

mod action;
mod client;
mod connection;
mod credentials;
mod endpoint;
mod signer;

pub(crate) use action::Action;
pub(crate) use client::{CallError, Client};
pub(crate) use connection::Connection;
pub(crate) use credentials::Credentials;
pub(crate) use endpoint::Endpoint;
