//! What stands on the command line of `bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use types::QueueName;

use super::quantity::{bytes, seconds};
use crate::sqs::Endpoint;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verb {
    /// Every connection sends. Afterwards, untimed, everything is received and checked
    Send,
    /// Every connection receives and deletes, from a backlog that is sent before, untimed
    Receive,
    /// Half of the connections send, the other half receive by long polls and delete
    Roundtrip,
}

impl Verb {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Roundtrip => "roundtrip",
        }
    }
}

/// The arguments as they were given: each alone makes sense, together they may not.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// What to measure
    #[arg(value_enum, required_unless_present = "compare")]
    pub(crate) verb: Option<Verb>,

    /// The server, an http:// URL. Credentials are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION (or
    /// AWS_DEFAULT_REGION) of the environment; a server started with --dev takes any, and none
    #[arg(long, value_name = "URL", env = "HOLDFAST_ENDPOINT", default_value = Endpoint::DEFAULT)]
    pub(crate) endpoint: Endpoint,

    /// Messages per second to keep to (open loop): each request has an intended start, and its latency counts from
    /// there, so that a server that falls behind cannot hide it. A free connection takes the next request; one that
    /// no connection was free for waits. Without it each connection starts its next request when the last one is
    /// answered (closed loop)
    #[arg(long, value_name = "MESSAGES_PER_SECOND", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) rate: Option<u64>,

    /// Size of a message body: bytes, or a number with KiB or MiB. At least 50, which is what bench writes into each
    /// body to know it again; at most 1 MiB for all bodies of a batch
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = bytes)]
    pub(crate) size: u64,

    /// Connections, each with one request on its way. `roundtrip` needs two at least
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) connections: u16,

    /// Seconds to measure, such as 10 or 0.5. With --messages the measurement ends with whichever comes first
    /// [default: 10, or no limit with --messages or `receive`]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<f64>,

    /// Messages to measure [default: no limit; 20000 for `receive`, which sends as many before]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    pub(crate) messages: Option<u64>,

    /// Messages in a request, 1 to 10: of a send, and the most that a receive asks for and a delete names
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=10))]
    pub(crate) batch: u16,

    /// Measure a FIFO queue, and check the order within each message group
    #[arg(long)]
    pub(crate) fifo: bool,

    /// Message groups of --fifo [default: 100]. A group has one sender where there are enough of them
    #[arg(long, value_name = "N", requires = "fifo", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) groups: Option<u32>,

    /// Messages to send before, untimed, so that the queue has a backlog of as many while it is measured
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    pub(crate) depth: u64,

    /// A queue that exists and is empty; it stays. Whatever is in it at the end of the run is received, and what
    /// bench has sent is deleted [default: a new queue, deleted at the end, also after Ctrl-C]
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<QueueName>,

    /// Threads of the client. One is best on a small machine that is the server's too
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,

    /// Print one JSON document instead of text; errors too
    #[arg(long)]
    pub(crate) json: bool,

    /// Instead of measuring, print two earlier outputs of --json side by side, with B / A. They must be of the same
    /// scenario
    #[arg(long, value_names = ["A.json", "B.json"], num_args = 2, conflicts_with_all = [
        "verb", "rate", "size", "connections", "duration", "messages", "batch", "fifo", "groups", "depth", "queue",
        "threads",
    ])]
    pub(crate) compare: Option<Vec<PathBuf>>,
}
