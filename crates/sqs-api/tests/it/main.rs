//! The API as its clients see it: whole requests in, whole answers out, over a real broker on a simulated disk.
#![allow(clippy::unwrap_used, reason = "a helper of a test is part of the test")]

mod answer;
mod bad_input;
mod cases;
mod endpoints;
mod flat;
mod limits;
mod world;
