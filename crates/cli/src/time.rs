//! Times as people write them.

/// Reads a time in seconds: a whole number with a unit.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let unit = text.chars().last().and_then(|unit| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3_600),
        'd' => Some(86_400),
        _ => None,
    });
    let number = text.get(..text.len().saturating_sub(1));
    let number = number.and_then(|number| number.parse::<u64>().ok());
    let seconds = unit
        .zip(number)
        .and_then(|(unit, number)| number.checked_mul(unit));
    seconds.ok_or_else(|| "a time is a whole number with a unit, such as 30s, 5m, 1h or 2d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn a_time_has_a_unit() {
        for (text, expected) in [
            ("30s", Some(30)),
            ("0s", Some(0)),
            ("2d", Some(172_800)),
            ("30", None),
            ("s", None),
            ("", None),
            ("1.5h", None),
            ("-1s", None),
            ("9999999999999999999d", None),
            ("1ü", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text:?}");
        }
    }
}
