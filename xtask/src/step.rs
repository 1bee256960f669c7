//! One named step of a verb, with its duration.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Runs `work`, and says when it starts, how it ends and how long it took.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("==> {name}");
    let started = Instant::now();
    let done = work();
    let took = Took(started.elapsed());
    match &done {
        Ok(_) => eprintln!("<== {name}: ok in {took}"),
        Err(error) => eprintln!("<== {name}: FAILED after {took}: {error:#}"),
    }
    done
}

/// Shows a duration as people say it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took(pub(crate) Duration);

impl fmt::Display for Took {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if seconds < 60 {
            return write!(formatter, "{:.1}s", self.0.as_secs_f64());
        }
        write!(formatter, "{}m{:02}s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let shown = |millis| Took(Duration::from_millis(millis)).to_string();
        assert_eq!(shown(1_240), "1.2s");
        assert_eq!(shown(59_900), "59.9s");
        assert_eq!(shown(751_000), "12m31s");
        assert_eq!(shown(3_605_000), "60m05s");
    }
}
