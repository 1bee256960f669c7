//! Numbers with units, read and written.

const DAY: f64 = 86_400.0;

/// Reads seconds, with or without an `s` behind.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('s').unwrap_or(text);
    match number.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= DAY => Ok(seconds),
        Ok(_) => Err("more than 0 and at most 86400 seconds (a day)".to_owned()),
        Err(_) => Err("seconds, such as 10 or 0.5".to_owned()),
    }
}

/// Reads a number of bytes, with or without KiB or MiB behind.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match (text.strip_suffix("KiB"), text.strip_suffix("MiB")) {
        (Some(number), _) => (number, 1 << 10),
        (_, Some(number)) => (number, 1 << 20),
        (None, None) => (text, 1),
    };
    let number = number.parse::<u64>().ok();
    let bytes = number.and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "bytes, such as 100, 4KiB or 1MiB".to_owned())
}

/// Writes a whole number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a rate as a whole number, a slow one with its fraction.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are small and not negative"
)]
pub(crate) fn rate(per_second: f64) -> String {
    if per_second < 100.0 {
        format!("{per_second:.1}")
    } else {
        grouped(per_second.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read() {
        for (text, expected) in [
            ("10", Some(10.0)),
            ("0.5", Some(0.5)),
            ("30s", Some(30.0)),
            ("0", None),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("1m", None),
            ("90000", None),
            ("", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text:?}");
        }
        for (text, expected) in [
            ("100", Some(100)),
            ("4KiB", Some(4_096)),
            ("1MiB", Some(1_048_576)),
            ("1KB", None),
            ("-1", None),
            ("1.5KiB", None),
            ("99999999999999MiB", None),
            ("", None),
        ] {
            assert_eq!(bytes(text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_written_for_people() {
        for (number, expected) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), expected);
        }
        assert_eq!(
            (rate(0.25), rate(12_345.6)),
            ("0.2".to_owned(), "12,346".to_owned())
        );
    }
}
