//! The part that openraft sees: types, log, state machine, network.

pub(crate) mod codec;
pub(crate) mod log_store;
pub(crate) mod machine;
pub(crate) mod network;
pub(crate) mod sync;
pub(crate) mod types;
