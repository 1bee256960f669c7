//! The API as its clients see it: whole requests in, whole answers out, over a real broker on a simulated disk.

mod answer;
mod bad_input;
mod cases;
mod endpoints;
mod flat;
mod limits;
mod world;
