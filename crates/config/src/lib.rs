//! Every option, declared once: name, type, default, unit, range, variable, flag, text and version.
//!
//! [`OPTIONS`] is the table. From it come the flags of `serve` ([`arguments`]), the reading of file, environment and
//! flags with their origins, the checks, and the reference page ([`render_reference`]). [`load`] gives [`Options`],
//! in which everything is valid and typed; raw texts stay in this crate. It starts nothing and logs nothing: what
//! should be logged are [`Options::warnings`].

#![forbid(unsafe_code)]

mod cluster;
mod declared;
mod duration;
mod election_silence;
mod error;
mod file;
mod flags;
mod keys;
mod node_address;
mod node_file;
mod options;
mod origin;
mod raw;
mod reference;
mod secret;
mod table;

pub use cluster::{ClusterOptions, ClusterSecurity};
pub use declared::{Alias, Declared, Kind};
pub use election_silence::ElectionSilence;
pub use error::ConfigError;
pub use flags::{Flags, arguments};
pub use node_address::NodeAddress;
pub use node_file::{NODE_FILE, NodeFile};
pub use options::{
    AdminOptions, AuthOptions, BrokerOptions, Environment, Fsync, Limits, LogFormat, LogOptions, Options,
    ReadFile, ServerOptions, StoreOptions, load, load_from_process,
};
pub use origin::{Origin, Setting};
pub use reference::render_reference;
pub use secret::{AdminToken, ClusterSecret, read_secret};
pub use table::OPTIONS;
