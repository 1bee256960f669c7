//! A disk that fails on purpose, for tests of everything that must survive it.
//!
//! Everything here is deterministic: the same seed and the same calls give the same failures. There is no server and
//! no scenario here; those who test bring them.

#![forbid(unsafe_code)]

mod disk;
mod random;

pub use disk::{DiskCounters, Fault, SimDisk};
pub use random::Random;
