//! The rules of delivery, tested against a model of them.
#![allow(clippy::unwrap_used, reason = "a helper of a test is part of the test")]

mod agreement;
mod attempts;
mod bounds;
mod fair;
mod golden;
mod model;
mod mutant;
mod node;
mod planted;
mod play;
mod rng;
mod rules;
mod runner;
mod shrink;
mod steps;
mod tasks;
mod totality;
