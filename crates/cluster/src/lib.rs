//! Several nodes as one: nothing that a quorum of them acknowledged is lost.
//!
//! openraft decides what is committed; nothing of it is visible outside this crate. Its log and vote lie in the journal's
//! segments, its messages travel over [`link`]s of our own, and its state machine hands committed entries, in order, to
//! the owner of the partition, which alone answers clients.

#![forbid(unsafe_code)]

mod admin;
mod agreement;
mod cluster;
mod counts;
mod driver;
mod forming;
mod founding;
pub mod link;
mod messages;
mod node;
mod raft;
mod room;
mod token;

pub use admin::{Change, ChangeError, Report, Surveyed};
pub use cluster::{Cluster, OpenError, Settings, World};
pub use counts::LinkCounts;
pub use driver::ClusterJournal;
pub use founding::{FirstNode, first_node};
pub use node::{ENTRIES_KEPT, ElectionSilence, Node, NodeError, NodeOptions, Role, View};
pub use raft::network::{CallError, Calling, Kind, Peers};
pub use token::{JoinAnswer, JoinQuestion, JoinToken, TOKEN_LIFE_MAX, TokenError};
