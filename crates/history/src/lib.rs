//! What clients did and saw, and the rules that such a history must keep.
//!
//! A test that breaks things while clients work writes every call down with a [`Recorder`], and afterwards asks
//! [`check()`] whether the server kept its promises. Times are arguments, so the same rules judge real processes and a
//! simulated clock. The rules are sound: they count only what is certain from outside (a call takes effect at some
//! instant between its start and its end), so a violation is a bug of the server, or a harness that recorded something
//! that did not happen.
//!
//! It knows nothing of the server, sends nothing, and has no clock. Start reading at [`operation`], then `check/mod.rs`.

#![forbid(unsafe_code)]

mod check;
pub mod coverage;
pub mod operation;
mod record;
mod recorder;
mod verdict;

pub use check::check;
pub use operation::{Call, Delivery, Operation, Reply};
pub use record::{DeadLetters, Fault, History, Queue};
pub use recorder::{Recorder, Ticket};
pub use verdict::{Missing, Report, Rule, Verdict, Violation};
