//! How long a follower hears nothing of the leader before it stands for election.

use std::time::Duration;

use crate::duration::parse_duration;

const MIN: Duration = Duration::from_millis(500);
const MAX: Duration = Duration::from_secs(60);
/// What lies between the two ends at least: nodes that stand at the same moment split the votes.
const SPREAD_MIN: Duration = Duration::from_millis(100);
/// What the low end has at least over half of the high one. The election timeout is between the two
/// (`high / 2`, and `low - high / 2` at least), and one of less than two heartbeats would end reigns for nothing.
const OVER_HALF_MIN: Duration = Duration::from_millis(200);

/// The silence after which a follower stands for election: a random time between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElectionSilence {
    /// The shortest: at least 200 ms more than half of the longest.
    pub low: Duration,
    /// The longest: at least 100 ms more than the shortest.
    pub high: Duration,
}

impl ElectionSilence {
    /// What a text of it looks like.
    pub(crate) const FORM: &str = "two times from 500ms to 60s with a hyphen between them, such as \"0.9s-1.2s\" or \
                                   \"8s-12s\"; the second is 100ms or more above the first, and the first 200ms or \
                                   more above half of the second";

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (low, high) = text.split_once('-')?;
        let (low, high) = (parse_duration(low.trim())?, parse_duration(high.trim())?);
        let is_sane =
            low >= MIN && high <= MAX && high >= low + SPREAD_MIN && low >= high / 2 + OVER_HALF_MIN;
        is_sane.then_some(Self { low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_times_have_bounds() {
        for (text, milliseconds) in [
            ("0.9s-1.2s", Some((900, 1_200))),
            ("900ms-1200ms", Some((900, 1_200))),
            ("900ms - 1.2s", Some((900, 1_200))),
            ("8s-12s", Some((8_000, 12_000))),
            ("500ms-600ms", Some((500, 600))),
            ("40s-1m", Some((40_000, 60_000))),
            ("0.8s-1.2s", Some((800, 1_200))),
            ("", None),
            ("1s", None),
            ("-1s", None),
            ("1s-", None),
            ("0.9-1.2s", None),
            ("1s-2s-3s", None),
            ("1.2s-0.9s", None),
            ("1s-1s", None),
            ("1s-1.099s", None),
            ("499ms-600ms", None),
            ("40s-60.001s", None),
            ("0.799s-1.2s", None),
            ("1s-12s", None),
        ] {
            let expected = milliseconds.map(|(low, high)| ElectionSilence {
                low: Duration::from_millis(low),
                high: Duration::from_millis(high),
            });
            assert_eq!(ElectionSilence::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_form_names_the_bounds() {
        for bound in [MIN, MAX, SPREAD_MIN, OVER_HALF_MIN] {
            let text = crate::duration::duration_text(bound);
            let in_seconds = format!("{}s", bound.as_secs());
            assert!(
                ElectionSilence::FORM.contains(&text) || ElectionSilence::FORM.contains(&in_seconds),
                "{text}"
            );
        }
    }
}
