//! Counters, gauges and fixed facts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::declared::{Declared, Family, Page};

/// A number that only grows.
// On a cache line of its own, so that threads that count different things do not slow each other down.
#[derive(Debug)]
#[repr(align(64))]
pub struct Counter {
    value: AtomicU64,
    declared: &'static Declared,
}

impl Counter {
    pub(crate) const fn new(declared: &'static Declared) -> Self {
        Self {
            value: AtomicU64::new(0),
            declared,
        }
    }

    /// Counts one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Counts several.
    pub fn add(&self, count: u64) {
        self.value.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns what has been counted.
    pub fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

impl Family for Counter {
    fn declared(&self) -> &'static Declared {
        self.declared
    }

    fn samples(&self, page: &mut Page) {
        page.sample(self.declared.name, "", &[], self.get());
    }
}

/// A number that goes up and down.
#[derive(Debug)]
#[repr(align(64))]
pub struct Gauge {
    value: AtomicI64,
    declared: &'static Declared,
}

impl Gauge {
    pub(crate) const fn new(declared: &'static Declared) -> Self {
        Self {
            value: AtomicI64::new(0),
            declared,
        }
    }

    /// Sets the number.
    pub fn set(&self, value: i64) {
        self.value.store(value, Ordering::Relaxed);
    }

    /// Adds one.
    pub fn increment(&self) {
        self.value.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one away.
    pub fn decrement(&self) {
        self.value.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }
}

impl Family for Gauge {
    fn declared(&self) -> &'static Declared {
        self.declared
    }

    fn samples(&self, page: &mut Page) {
        page.sample(self.declared.name, "", &[], self.get());
    }
}

/// A gauge of something that not every process has: there is no sample before the first reading.
#[derive(Debug)]
pub struct Reading {
    value: Gauge,
    is_taken: AtomicBool,
}

impl Reading {
    pub(crate) const fn new(declared: &'static Declared) -> Self {
        Self {
            value: Gauge::new(declared),
            is_taken: AtomicBool::new(false),
        }
    }

    /// Takes a reading. What no sample can hold is shown as the most that one can.
    pub fn set(&self, value: u64) {
        self.value.set(i64::try_from(value).unwrap_or(i64::MAX));
        self.is_taken.store(true, Ordering::Release);
    }
}

impl Family for Reading {
    fn declared(&self) -> &'static Declared {
        self.value.declared
    }

    fn samples(&self, page: &mut Page) {
        if self.is_taken.load(Ordering::Acquire) {
            self.value.samples(page);
        }
    }
}

/// A fact that is set once: a sample of 1 whose label says it. There is no sample before.
#[derive(Debug)]
pub struct Info {
    text: OnceLock<String>,
    declared: &'static Declared,
}

impl Info {
    pub(crate) const fn new(declared: &'static Declared) -> Self {
        Self {
            text: OnceLock::new(),
            declared,
        }
    }

    /// States the fact; what was stated first stays.
    pub fn set(&self, text: &str) {
        self.text.get_or_init(|| text.to_owned());
    }
}

impl Family for Info {
    fn declared(&self) -> &'static Declared {
        self.declared
    }

    fn samples(&self, page: &mut Page) {
        if let Some(text) = self.text.get() {
            let labels: Vec<(&str, &str)> = self
                .declared
                .labels
                .iter()
                .map(|label| (*label, text.as_str()))
                .collect();
            page.sample(self.declared.name, "", &labels, 1);
        }
    }
}

/// The limit for which something was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// Too many commands wait for their commit.
    InboxFull,
    /// Too many bytes of request bodies are held.
    RequestBytes,
    /// Too many connections are open.
    Connections,
}

impl RefusalReason {
    const ALL: [Self; 3] = [Self::InboxFull, Self::RequestBytes, Self::Connections];

    const fn label(self) -> &'static str {
        match self {
            Self::InboxFull => "inbox",
            Self::RequestBytes => "request_bytes",
            Self::Connections => "connections",
        }
    }
}

/// Counts of refusals by reason.
#[derive(Debug)]
pub struct Refusals {
    counts: [AtomicU64; RefusalReason::ALL.len()],
    declared: &'static Declared,
}

impl Refusals {
    pub(crate) const fn new(declared: &'static Declared) -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; RefusalReason::ALL.len()],
            declared,
        }
    }

    /// Counts one refusal.
    pub fn increment(&self, reason: RefusalReason) {
        self.counts[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many were refused for a reason.
    pub fn get(&self, reason: RefusalReason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }
}

impl Family for Refusals {
    fn declared(&self) -> &'static Declared {
        self.declared
    }

    fn samples(&self, page: &mut Page) {
        for reason in RefusalReason::ALL {
            page.sample(
                self.declared.name,
                "",
                &[("reason", reason.label())],
                self.get(reason),
            );
        }
    }
}
