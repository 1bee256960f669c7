//! Requests by action and error code. Both labels are bounded: actions by the list given at the start, codes by the
//! number of places there are for them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::declared::{Declared, Family, Page};
use crate::histogram::{Distribution, REQUEST_NANOS};
use crate::table;

/// The code of a request that succeeded.
pub const OK: &str = "ok";
/// The action of a request that named none of the list.
const UNKNOWN_ACTION: &str = "unknown";
/// The code for all codes that came after the places were taken.
const OTHER_CODE: &str = "other";
/// How many codes are told apart: more than the API has.
const CODES_MAX: usize = 64;

/// An action, found once by name; counting then needs no search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionLabel(usize);

/// Counts and durations of requests.
#[derive(Debug)]
pub struct Requests {
    actions: Vec<&'static str>,
    codes: Codes,
    /// For each action a row of codes.
    counts: Box<[AtomicU64]>,
    durations: Box<[Distribution]>,
}

/// The codes seen so far. A code is a word of this program, so there are few; the first is `ok`, the last `other`.
#[derive(Debug)]
struct Codes([OnceLock<&'static str>; CODES_MAX]);

impl Requests {
    pub(crate) fn new(actions: &'static [&'static str]) -> Self {
        let actions: Vec<&'static str> = actions.iter().copied().chain([UNKNOWN_ACTION]).collect();
        Self {
            codes: Codes::new(),
            counts: (0..actions.len() * CODES_MAX)
                .map(|_| AtomicU64::new(0))
                .collect(),
            durations: actions
                .iter()
                .map(|_| Distribution::new(&REQUEST_NANOS))
                .collect(),
            actions,
        }
    }

    /// Returns the label of an action; one that is not in the list is counted as `unknown`.
    pub fn action(&self, name: &str) -> ActionLabel {
        let unknown = self.actions.len() - 1;
        ActionLabel(
            self.actions
                .iter()
                .position(|action| *action == name)
                .unwrap_or(unknown),
        )
    }

    /// Counts a request that was answered: its error code, or [`OK`], and how long it took.
    pub fn observe(&self, action: ActionLabel, code: &'static str, nanos: u64) {
        self.counts[action.0 * CODES_MAX + self.codes.place_of(code)].fetch_add(1, Ordering::Relaxed);
        self.durations[action.0].observe(nanos);
    }

    /// Returns how many requests were answered so.
    pub fn count(&self, action: ActionLabel, code: &'static str) -> u64 {
        self.counts[action.0 * CODES_MAX + self.codes.place_of(code)].load(Ordering::Relaxed)
    }

    pub(crate) fn counts(&self) -> Counts<'_> {
        Counts(self)
    }

    pub(crate) fn durations(&self) -> Durations<'_> {
        Durations(self)
    }
}

impl Codes {
    const OTHER: usize = CODES_MAX - 1;

    fn new() -> Self {
        let codes = Self([const { OnceLock::new() }; CODES_MAX]);
        codes.0[0].get_or_init(|| OK);
        codes.0[Self::OTHER].get_or_init(|| OTHER_CODE);
        codes
    }

    /// Returns the place of a code, taking the next free one for a new code.
    fn place_of(&self, code: &'static str) -> usize {
        self.0
            .iter()
            .position(|place| *place.get_or_init(|| code) == code)
            .unwrap_or(Self::OTHER)
    }
}

/// The family of counts.
#[derive(Debug)]
pub(crate) struct Counts<'a>(&'a Requests);

impl Family for Counts<'_> {
    fn declared(&self) -> &'static Declared {
        &table::REQUESTS
    }

    fn samples(&self, page: &mut Page) {
        for (action, row) in self.0.actions.iter().zip(self.0.counts.chunks(CODES_MAX)) {
            for (code, count) in self.0.codes.0.iter().zip(row) {
                let count = count.load(Ordering::Relaxed);
                // A pair that never came has no sample; the pairs that can come are many more than those that do.
                if let Some(code) = code.get().filter(|_| count > 0) {
                    page.sample(
                        table::REQUESTS.name,
                        "",
                        &[("action", action), ("code", code)],
                        count,
                    );
                }
            }
        }
    }
}

/// The family of durations.
#[derive(Debug)]
pub(crate) struct Durations<'a>(&'a Requests);

impl Family for Durations<'_> {
    fn declared(&self) -> &'static Declared {
        &table::REQUEST_DURATION
    }

    fn samples(&self, page: &mut Page) {
        for (action, distribution) in self.0.actions.iter().zip(&self.0.durations) {
            if distribution.count() > 0 {
                distribution.samples(page, table::REQUEST_DURATION.name, &[("action", action)]);
            }
        }
    }
}
