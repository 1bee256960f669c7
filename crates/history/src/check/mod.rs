//! The rules, one file for what they are about, over an index that is built once.
//!
//! Everything is sorting, one pass and binary search: message ids are unique, so nothing has to be searched for an order
//! that explains the history. What makes a rule sound is said where it is.

mod coverage;
mod dead_letters;
mod deduplication;
mod index;
mod leases;
mod losses;
mod messages;
mod order;
mod purges;
mod range_max;

use crate::{History, Missing, Report, Verdict};
use index::Index;

/// Judges a history. `required` names the least that every counter has to be, so that a quiet run is no pass.
pub fn check(history: &History, required: &[(&str, u64)]) -> Report {
    let index = Index::new(history);
    let mut violations = Vec::new();
    messages::check(&index, &mut violations);
    leases::check(&index, &mut violations);
    losses::check(&index, &mut violations);
    dead_letters::check(&index, &mut violations);
    purges::check(&index, &mut violations);
    deduplication::check(&index, &mut violations);
    order::check(&index, &mut violations);
    let coverage = coverage::count(&index);
    let missing: Vec<Missing> = required
        .iter()
        .map(|(name, required)| Missing {
            name: (*name).to_owned(),
            required: *required,
            counted: coverage.get(*name).copied().unwrap_or_default(),
        })
        .filter(|missing| missing.counted < missing.required)
        .collect();
    let verdict = if !violations.is_empty() {
        Verdict::Fail(violations)
    } else if !missing.is_empty() {
        Verdict::Unknown(missing)
    } else {
        Verdict::Pass
    };
    Report { verdict, coverage }
}
