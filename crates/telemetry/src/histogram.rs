//! Counts of observations by size.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::declared::{Declared, Family, Page};

/// What a histogram's numbers are, and where its buckets end.
#[derive(Debug)]
pub(crate) struct Buckets {
    /// The largest observation of each bucket, growing; one bucket more takes what is larger.
    pub(crate) bounds: &'static [u64],
    /// How many of the numbers observed make one of the unit shown.
    pub(crate) per_unit: u64,
}

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// For requests: from the fastest answer to beyond the longest poll of 20 s.
pub(crate) static REQUEST_NANOS: Buckets = Buckets {
    bounds: &[
        100 * MICRO,
        250 * MICRO,
        500 * MICRO,
        MILLI,
        2_500 * MICRO,
        5 * MILLI,
        10 * MILLI,
        25 * MILLI,
        50 * MILLI,
        100 * MILLI,
        250 * MILLI,
        500 * MILLI,
        SECOND,
        5 * SECOND,
        10 * SECOND,
        25 * SECOND,
    ],
    per_unit: SECOND,
};

/// For syncs: from a disk with a protected cache to a stalled one.
pub(crate) static FSYNC_NANOS: Buckets = Buckets {
    bounds: &[
        50 * MICRO,
        100 * MICRO,
        200 * MICRO,
        500 * MICRO,
        MILLI,
        2 * MILLI,
        5 * MILLI,
        10 * MILLI,
        20 * MILLI,
        50 * MILLI,
        100 * MILLI,
        200 * MILLI,
        500 * MILLI,
        SECOND,
        5 * SECOND,
    ],
    per_unit: SECOND,
};

/// For work in the background.
pub(crate) static BACKGROUND_NANOS: Buckets = Buckets {
    bounds: &[
        10 * MILLI,
        50 * MILLI,
        100 * MILLI,
        500 * MILLI,
        SECOND,
        5 * SECOND,
        10 * SECOND,
        30 * SECOND,
        60 * SECOND,
        300 * SECOND,
    ],
    per_unit: SECOND,
};

/// For commands of a batch.
pub(crate) static COMMANDS: Buckets = Buckets {
    bounds: &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096],
    per_unit: 1,
};

/// Counts of observations by size.
#[derive(Debug)]
pub struct Histogram {
    distribution: Distribution,
    declared: &'static Declared,
}

/// The numbers of a histogram, without its name: also one of several that differ in a label.
#[derive(Debug)]
pub(crate) struct Distribution {
    buckets: &'static Buckets,
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    pub(crate) fn new(declared: &'static Declared, buckets: &'static Buckets) -> Self {
        Self {
            distribution: Distribution::new(buckets),
            declared,
        }
    }

    /// Takes in an observation: nanoseconds for a time, else the number itself.
    pub fn observe(&self, value: u64) {
        self.distribution.observe(value);
    }

    /// Takes in a time.
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns how many observations there were.
    pub fn count(&self) -> u64 {
        self.distribution.count()
    }
}

impl Family for Histogram {
    fn declared(&self) -> &'static Declared {
        self.declared
    }

    fn samples(&self, page: &mut Page) {
        self.distribution.samples(page, self.declared.name, &[]);
    }
}

impl Distribution {
    pub(crate) fn new(buckets: &'static Buckets) -> Self {
        Self {
            buckets,
            counts: (0..=buckets.bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    pub(crate) fn observe(&self, value: u64) {
        let bucket = self.buckets.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }

    /// Writes buckets, sum and count. The count is that of the last bucket, so the two agree at any moment.
    pub(crate) fn samples(&self, page: &mut Page, name: &str, labels: &[(&str, &str)]) {
        let mut count = 0;
        let bounds = self
            .buckets
            .bounds
            .iter()
            .map(|bound| self.in_units(*bound).to_string());
        let bounds = bounds.chain(["+Inf".to_owned()]);
        for (bound, in_bucket) in bounds.zip(&self.counts) {
            count += in_bucket.load(Ordering::Relaxed);
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            page.sample(name, "_bucket", &labels, count);
        }
        page.sample(
            name,
            "_sum",
            labels,
            self.in_units(self.sum.load(Ordering::Relaxed)),
        );
        page.sample(name, "_count", labels, count);
    }

    fn in_units(&self, value: u64) -> f64 {
        value as f64 / self.buckets.per_unit as f64
    }
}
