//! The page of metrics of a server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

const SYNC_SECONDS: &str = "holdfast_wal_fsync_seconds_sum";
const SYNCS: &str = "holdfast_wal_fsync_seconds_count";
const MESSAGES_SENT: &str = "holdfast_messages_sent_total";

/// What `/metrics` answered at one moment.
#[derive(Debug)]
pub(super) struct Page(String);

/// Counters of the journal at one moment, or what was added between two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syncs {
    messages: f64,
    count: f64,
    seconds: f64,
}

impl Page {
    pub(super) fn read(control: &str) -> Result<Self> {
        get(control, "/metrics").map(Self::new)
    }

    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// Adds up a metric over its labels.
    pub(super) fn sum(&self, name: &str) -> Result<f64> {
        let found = self
            .samples(name)
            .map(|(_, value)| value)
            .reduce(|sum, value| sum + value);
        found.with_context(|| format!("/metrics has no {name}"))
    }

    /// Returns the buckets of a histogram: the upper bound of each, and how many observations are at most that.
    pub(super) fn buckets(&self, name: &str) -> Vec<(String, f64)> {
        let bound = |labels: &str| {
            let (_, rest) = labels.split_once("le=\"")?;
            rest.split('"').next().map(str::to_owned)
        };
        self.samples(&format!("{name}_bucket"))
            .filter_map(|(labels, value)| Some((bound(labels)?, value)))
            .collect()
    }

    /// Returns what was added to the journal's counters since the start of the process.
    pub(super) fn syncs(&self) -> Result<Syncs> {
        Ok(Syncs {
            messages: self.sum(MESSAGES_SENT)?,
            count: self.sum(SYNCS)?,
            seconds: self.sum(SYNC_SECONDS)?,
        })
    }

    /// Returns the labels and the value of every sample of a metric.
    fn samples<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = rest.rsplit_once(' ')?;
            let is_this = labels.is_empty() || labels.starts_with('{');
            is_this.then(|| value.trim().parse().ok().map(|value| (labels, value)))?
        })
    }
}

impl Syncs {
    /// Returns what was added since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            messages: self.messages - before.messages,
            count: self.count - before.count,
            seconds: self.seconds - before.seconds,
        }
    }

    pub(super) fn messages_per_sync(self) -> f64 {
        self.messages / self.count
    }

    pub(super) fn mean_millis(self) -> f64 {
        self.seconds / self.count * 1e3
    }
}

/// Returns the answer of a page that must answer 200.
pub(super) fn get(base: &str, path: &str) -> Result<String> {
    let authority = base
        .strip_prefix("http://")
        .with_context(|| format!("{base} is not an http URL"))?;
    let mut stream = TcpStream::connect(authority)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(
        answer.starts_with("HTTP/1.1 200"),
        "{path} answered {:?}",
        answer.lines().next()
    );
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn a_metric_is_summed_over_its_labels() {
        let page = Page::new("# TYPE a counter\na{x=\"1\"} 2\na{x=\"2\"} 3.5\nab 7\nb 1\n".to_owned());
        assert!((page.sum("a").unwrap() - 5.5).abs() < 1e-9);
        assert!((page.sum("b").unwrap() - 1.0).abs() < 1e-9);
        assert!(page.sum("c").is_err());
    }

    #[test]
    fn buckets_have_their_bounds() {
        let page =
            Page::new("h_bucket{le=\"0.001\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 1\nh_count 3\n".to_owned());
        let expected = [("0.001".to_owned(), 2.0), ("+Inf".to_owned(), 3.0)];
        assert_eq!(page.buckets("h"), expected);
        assert!(page.buckets("g").is_empty());
    }
}
