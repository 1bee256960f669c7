//! The server around the API: HTTP of both ports, limits, health, and the order of start and stop.
//!
//! [`serve`] runs one server until it is told to stop. The data plane (HTTP/1.1 of its own, one reactor on a small machine) and the
//! control plane (axum, a runtime of its own) share nothing but the broker and the metrics, so that a slow disk or a
//! flood of requests never hides the health of the process. What a request means is not known here (`sqs-api`).
//!
//! Start reading at `serve.rs`, then `data_plane.rs` and `exchange.rs`.

#![forbid(unsafe_code)]

mod admin;
mod cluster;
mod connection;
mod control_plane;
mod data_plane;
mod drain;
mod endpoints;
mod exchange;
mod faults;
mod health;
mod http1;
mod observer;
mod serve;
mod service;

pub use serve::{ServeError, serve};
