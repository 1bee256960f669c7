//! The checker against histories of a server that is right, and of servers with one planted bug each.
#![allow(clippy::unwrap_used, reason = "a helper of a test is part of the test")]

mod clients;
mod planted;
mod server;
mod setting;
