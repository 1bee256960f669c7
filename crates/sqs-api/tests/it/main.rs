//! The API as its clients see it: whole requests in, whole answers out, over a real broker on a simulated disk.
#![allow(clippy::unwrap_used, reason = "a helper of a test is part of the test")]

mod answer;
mod bad_input;
mod cases;
mod client;
mod endpoints;
mod errors;
mod facts;
mod field_libraries;
mod field_messages;
mod field_queues;
mod flat;
mod limits;
mod long_polls;
mod policies;
mod world;
