//! How long and how often things are measured, and with how many messages.

use anyhow::{Result, bail};

/// What a run of the bench costs and how much its figures are worth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// How it is asked for on the command line.
    pub(super) flag: &'static str,
    /// Alternating runs of which the median is shown.
    pub(super) runs: usize,
    /// Length of a run.
    pub(super) seconds: u32,
    /// Requests of each kind in a run of one connection.
    pub(super) operations: u32,
    /// Messages of a deep backlog, of which 1,000 are compared with it.
    pub(super) deep: u32,
    /// The same for messages in flight.
    pub(super) in_flight: u32,
    /// Messages that a queue holds before it is drained.
    pub(super) drained: u32,
    /// Backlogs whose memory is weighed.
    pub(super) weighed: [u32; 2],
    /// Backlogs of 1 KiB to recover, and within how many seconds.
    pub(super) recovered: &'static [(u32, f64)],
    /// Messages that pass through while one stays.
    pub(super) passed: u32,
}

const STANDARD: Effort = Effort {
    flag: "",
    runs: 5,
    seconds: 3,
    operations: 1_000,
    deep: 1_000_000,
    in_flight: 120_000,
    drained: 100_000,
    weighed: [1_000_000, 5_000_000],
    recovered: &[(1_000_000, 5.0)],
    passed: 2_000_000,
};
/// For the record.
const FULL: Effort = Effort {
    flag: " --full",
    recovered: &[(1_000_000, 5.0), (5_000_000, 30.0)],
    passed: 10_000_000,
    ..STANDARD
};
/// For a look: a tenth of the messages, and what is left to chance is not evened out.
const QUICK: Effort = Effort {
    flag: " --quick",
    runs: 2,
    seconds: 1,
    operations: 200,
    deep: 100_000,
    in_flight: 20_000,
    drained: 20_000,
    weighed: [100_000, 500_000],
    recovered: &[(100_000, 0.5)],
    passed: 200_000,
};

/// What the command line asks for.
#[derive(Debug)]
pub(super) struct Options<'a> {
    pub(super) effort: Effort,
    /// A word that the names of the sections to run contain.
    pub(super) only: Option<&'a str>,
}

impl<'a> Options<'a> {
    pub(super) fn parse(mut arguments: &[&'a str]) -> Result<Self> {
        let mut options = Self {
            effort: STANDARD,
            only: None,
        };
        loop {
            arguments = match arguments {
                [] => return Ok(options),
                ["--quick", rest @ ..] => {
                    options.effort = QUICK;
                    rest
                }
                ["--full", rest @ ..] => {
                    options.effort = FULL;
                    rest
                }
                ["--only", word, rest @ ..] => {
                    options.only = Some(word);
                    rest
                }
                [unknown, ..] => bail!("bench knows --quick, --full and --only WORD, not {unknown}"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn the_command_line_is_read() {
        let options = Options::parse(&["--quick", "--only", "sends"]).unwrap();
        assert_eq!((options.effort.flag, options.only), (" --quick", Some("sends")));
        assert_eq!(Options::parse(&[]).unwrap().effort.flag, "");
        assert_eq!(Options::parse(&["--full"]).unwrap().effort.flag, " --full");
        assert!(Options::parse(&["--only"]).is_err());
        assert!(Options::parse(&["--fast"]).is_err());
    }
}
