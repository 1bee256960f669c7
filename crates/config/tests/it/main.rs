//! Options read from flags, a made-up environment and made-up files; and the reference page.
#![allow(clippy::unwrap_used, reason = "a helper of a test is part of the test")]

mod cluster;
mod precedence;
mod process;
mod reference;
mod refusals;
mod values;
