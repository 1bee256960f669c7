//! What the table says of a metric, and how a family of samples is written.

use std::fmt::{self, Write};

/// A metric as it is declared, once.
#[derive(Debug)]
pub struct Declared {
    /// The metric's name, with its unit.
    pub name: &'static str,
    /// What kind of metric it is.
    pub kind: Kind,
    /// What is counted or measured.
    pub unit: &'static str,
    /// What it means, in one sentence or two.
    pub meaning: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The version that the metric came with.
    pub since: &'static str,
}

/// The kinds of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from 0 at the start of the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations by size.
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

/// All samples of one metric.
pub(crate) trait Family {
    /// Returns the metric's line in the table.
    fn declared(&self) -> &'static Declared;
    /// Writes the samples.
    fn samples(&self, page: &mut Page);
}

/// A page in Prometheus's text format, version 0.0.4.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    pub(crate) fn family(&mut self, family: &dyn Family) {
        let declared = family.declared();
        self.push(format_args!("# HELP {} {}\n", declared.name, declared.meaning));
        self.push(format_args!("# TYPE {} {}\n", declared.name, declared.kind));
        family.samples(self);
    }

    /// Writes a sample. Label values are escaped; names come from the table and need no escaping.
    pub(crate) fn sample(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &[(&str, &str)],
        value: impl fmt::Display,
    ) {
        self.push(format_args!("{name}{suffix}"));
        for (i, (label, text)) in labels.iter().enumerate() {
            let before = if i == 0 { '{' } else { ',' };
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            self.push(format_args!("{before}{label}=\"{text}\""));
        }
        if !labels.is_empty() {
            self.push(format_args!("}}"));
        }
        self.push(format_args!(" {value}\n"));
    }

    fn push(&mut self, text: fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("a String takes any text");
    }
}
