//! Crashes: the state machine and the journal together, on a disk that fails on purpose.
#![allow(clippy::unwrap_used, reason = "a helper of a test is part of the test")]

mod crashes;
mod lying_disk;
mod node;
mod planted;
mod world;

// The model of the rules of delivery and its sequences: what holds without a crash must hold across one.
#[allow(
    dead_code,
    reason = "shared with the tests of queue-core, which use all of it"
)]
#[path = "../../../queue-core/tests/it/model.rs"]
mod model;
#[allow(
    dead_code,
    reason = "shared with the tests of queue-core, which use all of it"
)]
#[path = "../../../queue-core/tests/it/play.rs"]
mod play;
#[allow(
    dead_code,
    reason = "shared with the tests of queue-core, which use all of it"
)]
#[path = "../../../queue-core/tests/it/rng.rs"]
mod rng;
#[path = "../../../queue-core/tests/it/shrink.rs"]
mod shrink;
#[path = "../../../queue-core/tests/it/steps.rs"]
mod steps;
