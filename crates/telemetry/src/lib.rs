//! What operators see: metrics, declared in one table, and the log.
//!
//! [`METRICS`] is the table; [`Metrics`] holds one handle for each line of it, made once and shared by all threads.
//! Counting takes no lock and allocates nothing; [`Metrics::render`] writes the text that Prometheus scrapes. Labels
//! are bounded: never a queue, a message or anything else that a client makes up. Nothing here listens on a socket.
//!
//! Message bodies, attribute values and secrets never go into a log field; [`init_log`] cannot filter them out.

#![forbid(unsafe_code)]

mod declared;
mod histogram;
mod log;
mod metrics;
mod reference;
mod requests;
mod table;
mod value;

pub use declared::{Declared, Kind};
pub use histogram::Histogram;
pub use log::{LogError, LogFormat, init_log};
pub use metrics::Metrics;
pub use reference::render_reference;
pub use requests::{ActionLabel, OK, Requests};
pub use table::METRICS;
pub use value::{Counter, Gauge, Info, Reading, RefusalReason, Refusals};
