//! Signatures made by clients and by a second, slower implementation, against the verifier.
#![allow(clippy::unwrap_used, reason = "a helper of a test is part of the test")]

mod clients;
mod dev;
mod mutations;
mod negatives;
mod request;
mod signer;
mod slow_verifier;
