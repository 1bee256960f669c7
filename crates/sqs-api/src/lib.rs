//! The SQS API: both protocols in, one action each, both protocols out.
//!
//! [`Api::call`] takes a whole request and gives its [`Answer`]: authenticate, read, check what needs no state, ask
//! the [`Broker`](broker::Broker), write. Rules that need state are the state machine's (`queue-core`); this crate
//! knows neither journal nor cluster nor sockets. Wire codes live in `error.rs` and nowhere else.
//!
//! Start reading at `api.rs`, then `actions/mod.rs` and one action.

#![forbid(unsafe_code)]

mod access;
mod actions;
mod answer;
mod api;
mod attribute_values;
mod batch;
mod context;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod message;
mod move_tasks;
mod pages;
mod permissions;
mod queue_url;
mod redrive;
mod reference;
mod request;
mod request_id;
mod tags;
mod wire;

pub use actions::ACTIONS;
pub use answer::Answer;
pub use api::{Api, ApiOptions, Refusal, refusal};
pub use reference::reference;
pub use request::Request;

pub(crate) use access::Access;
pub(crate) use context::{Context, Reply};
pub(crate) use error::{ApiError, Code, Subject};
