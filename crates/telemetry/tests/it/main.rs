//! The page that Prometheus reads, read by a small parser of its format; and the reference page.
#![allow(clippy::unwrap_used, reason = "a helper of a test is part of the test")]

mod page;
mod reference;
mod rendering;
