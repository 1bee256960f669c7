//! The part that openraft sees: types, log, state machine, network.

pub(crate) mod codec;
pub(crate) mod incoming;
pub(crate) mod log_store;
pub(crate) mod machine;
pub(crate) mod network;
pub(crate) mod outgoing;
pub(crate) mod sync;
mod sync_codec;
pub(crate) mod types;
