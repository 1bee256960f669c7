//! Real clients and real processes against the `holdfast` binary of this build.
//!
//! `cargo xtask test` runs them: it builds the binary, installs the SDKs of other languages and says where they are.

mod addresses;
mod bad_input;
mod bench;
mod clients;
mod cluster;
mod cluster_admin;
mod cluster_metrics;
mod convert;
mod crash;
mod damage;
mod deploy;
#[cfg(test)]
mod faults;
mod full_disk;
mod lifecycle;
mod long_poll;
mod manifests;
mod queue_urls;
mod readme;
mod rust_sdk;
mod signatures;
mod stress;
mod unread_answers;
mod upgrade;
#[cfg(test)]
mod verbs;
mod workers;
