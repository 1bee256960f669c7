//! The verbs of the command line as a library. A verb speaks to a server over its public HTTP APIs only, so that it
//! works against any server and sees what any client sees; nothing of the server's inside is known here.
//!
//! [`bench_command`] and [`run_bench`] are `holdfast bench`, [`cluster_command`] and [`run_cluster`] `holdfast cluster`,
//! [`health_command`] and [`run_health`] `holdfast health`. Start reading at `bench/mod.rs`; `sqs` is the client.

#![forbid(unsafe_code)]

mod bench;
mod cluster;
mod control;
mod failure;
mod health;
mod message;
mod queue;
mod redrive;
mod session;
mod sqs;
mod table;
mod time;

pub use bench::{command as bench_command, run as run_bench};
pub use cluster::{JoinFailure, ask_to_join, command as cluster_command, run as run_cluster};
pub use health::{command as health_command, run as run_health};
pub use message::{commands as message_commands, run as run_message};
pub use queue::{command as queue_command, run as run_queue};
pub use redrive::{command as redrive_command, run as run_redrive};
