//! Who signed a request: SigV4 verification of the raw request, giving a [`Principal`].
//!
//! A request is verified before its body is decoded, from the bytes as they came over the wire. This crate does not
//! read the clock (the time is an argument), does not carry out what a policy decides, and does not know wire error
//! codes: [`AuthError`] says what happened, and the API layer maps it.
//!
//! Start reading at [`Verifier::verify`]; `presented` finds the signature in the header or the query, `canonical`
//! builds what was signed, `signing_key` keeps the derived keys.

#![forbid(unsafe_code)]

mod canonical;
mod error;
mod headers;
mod pieces;
mod policy;
mod presented;
mod secret;
mod sign_date;
mod signing_key;
mod verifier;

#[cfg(test)]
mod published_vectors;

pub use error::AuthError;
pub use headers::{Header, Headers};
pub use policy::{Decision, Policy, PolicyError};
pub use secret::{Key, Secret};
pub use verifier::{Mode, Principal, SignedRequest, Verifier};
