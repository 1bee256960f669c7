//! The harness of the compatibility tests: a real `holdfast` process and small clients that see every byte.
//!
//! The tests in `tests/it` use it to start, kill and restart the binary that the test build made, to speak HTTP
//! on plain sockets, and to run the SDKs of other languages. It knows nothing of the crates inside the binary:
//! whatever is checked here is checked from the outside. Start reading at [`Server`].

mod clients;
mod http;
mod process;
mod random;
mod scratch;
mod server;
mod small_disk;
mod sqs;

pub use clients::{Client, aws_cli, check_manifests, run_client, run_example};
pub use http::{Connection, Reply};
pub use process::{interrupt, run_to_end, wait_for, wait_for_end};
pub use random::Random;
pub use scratch::Scratch;
pub use server::{ACCESS_KEY_ID, ACCOUNT, Launch, SECRET_ACCESS_KEY, Server, holdfast};
pub use sqs::{Refusal, Sqs, decode, post_json};
